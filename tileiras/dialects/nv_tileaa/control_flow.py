"""Functions, structured control flow, reductions: operations with regions, and program ids.

Control flow keeps the structure of cuda_tile (break, continue and return may leave nested ifs); it
becomes branches only in the last stage. Conditions are scalars, hence the same in all threads of a
tile block.
"""

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.nv_tileaa.schedule import check_schedule


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A kernel. `hints` are the entry's optimization hints that hold for the target.

    `cluster` CTAs (one where it is absent) run the program together: it is a tile block's, whose
    work they divide by `get_cluster_rank`; or, if `clustered`, that of as many tile blocks as there
    are CTAs, and the clusters beyond those that all tile blocks need have nothing to do. These are
    neighbours along the first axis of the grid, or along `cluster_axis`; or they lie `in_rows`
    along an axis, as `get_cluster_place` says, and a row shares loads. `pair`: two CTAs multiply
    together, each its own rows with right operands of which it has loaded one half (`halved`).
    `static_tile_scheduler`: as many tile blocks as there are SMs do the work of all that are
    launched. They are numbered along one axis (`get_program_id 0` of `get_num_programs 0`),
    whatever the grid is. With `tile_queue` each draws the next number from a queue when it is done
    with one (`for` with `takes_over`), a number for so many tiles. `dynamic_tile_scheduler`: all
    that are launched are numbered along one
    axis, too; each goes on with one that has not started (`for` with `takes_over`), which then
    never starts; with `tiles_at_once` it computes so many neighbours in one loop over K, where the
    grid is large. `max_registers`: those that a thread may have, where warps have no roles.
    `two_tiles`: a tile block computes two neighbouring tiles at once, in "rounds" of a loop over
    tiles, or "blocks": those of two tile blocks, of which the other one ends; or as one tile of
    twice the "rows". `lock_sharers`: the tile blocks that one CTA may run side by side, as they
    take the same lock. `sharer_ctas`: so many of these CTAs an SM holds, and all tile blocks are
    shared out among those that all SMs hold. `apart`: each CTA has an SM for itself, so that those
    of a cluster do not share one.
    """

    name = "nv_tileaa.func"
    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    hints = opt_prop_def(DictionaryAttr)
    num_warps = opt_prop_def(IntegerAttr)
    cluster = opt_prop_def(IntegerAttr)
    clustered = opt_prop_def(UnitAttr)
    cluster_axis = opt_prop_def(IntegerAttr)
    in_rows = opt_prop_def(IntegerAttr)
    pair = opt_prop_def(UnitAttr)
    static_tile_scheduler = opt_prop_def(UnitAttr)
    tile_queue = opt_prop_def(IntegerAttr)
    dynamic_tile_scheduler = opt_prop_def(UnitAttr)
    tiles_at_once = opt_prop_def(IntAttr)
    two_tiles = opt_prop_def(StringAttr)
    max_registers = opt_prop_def(IntegerAttr)
    lock_sharers = opt_prop_def(IntegerAttr)
    sharer_ctas = opt_prop_def(IntegerAttr)
    apart = opt_prop_def(UnitAttr)
    body = region_def()

    @property
    def cluster_size(self) -> int:
        """CTAs of a cluster."""
        return self.cluster.value.data if isinstance(self.cluster, IntegerAttr) else 1

    @property
    def tiles_drawn(self) -> int:
        """Tiles that a number of the queue is for."""
        return self.tile_queue.value.data if isinstance(self.tile_queue, IntegerAttr) else 1

    @property
    def row_axis(self) -> int | None:
        """The axis of the grid along which the CTAs of a cluster lie in rows, if they do."""
        return self.in_rows.value.data if isinstance(self.in_rows, IntegerAttr) else None

    @property
    def shared_axis(self) -> int | None:
        """The axis of the grid along which the CTAs of a cluster have a tile block each, if one."""
        if self.clustered is None or self.in_rows is not None:
            return None
        return self.cluster_axis.value.data if isinstance(self.cluster_axis, IntegerAttr) else 0


@irdl_op_definition
class ForOp(IRDLOperation):
    """`for iv in [lower, upper) step`: body args are iv, then carried values; ends in continue.

    It may have a schedule (`nv_tileaa.schedule`), which then is one that can be run. With
    `no_unroll` neither LLVM nor ptxas unrolls it.

    With `takes_over` it counts tile blocks: the next `iv` is not one `step` on, but the number of a
    tile block that has not started and that this one does the work of, as often as there is one.
    The step is as large as the grid: a tile block that takes over none ends after its own. Under a
    `tile_queue` the next `iv` is drawn, and the step is that of a schedule without a queue.
    """

    name = "nv_tileaa.for"
    lower_bound = operand_def()
    upper_bound = operand_def()
    step = operand_def()
    init_values = var_operand_def()
    unsigned_cmp = opt_prop_def(UnitAttr)
    no_unroll = opt_prop_def(UnitAttr)
    takes_over = opt_prop_def(UnitAttr)
    results_ = var_result_def()
    body = region_def()

    def verify_(self) -> None:
        """The schedule, if there is one."""
        check_schedule(self, self.body.block)


@irdl_op_definition
class LoopOp(IRDLOperation):
    """Repeats until a break, whose operands are the results; `no_unroll` as for `for`."""

    name = "nv_tileaa.loop"
    init_values = var_operand_def()
    no_unroll = opt_prop_def(UnitAttr)
    results_ = var_result_def()
    body = region_def()


@irdl_op_definition
class IfOp(IRDLOperation):
    """Two regions; an else region without blocks is empty."""

    name = "nv_tileaa.if"
    condition = operand_def()
    results_ = var_result_def()
    then_region = region_def()
    else_region = region_def()


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends a branch of an if, or the body of a reduce or scan."""

    name = "nv_tileaa.yield"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())


@irdl_op_definition
class ContinueOp(IRDLOperation):
    """Next iteration of the innermost loop around."""

    name = "nv_tileaa.continue"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())


@irdl_op_definition
class BreakOp(IRDLOperation):
    """Leaves the innermost `loop` around."""

    name = "nv_tileaa.break"
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends the tile block."""

    name = "nv_tileaa.return"
    traits = traits_def(IsTerminator())


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Combines the elements along `dim` with the body, in any order.

    Body args are (element, accumulator) pairs of scalars, one per operand; it yields accumulators.
    """

    name = "nv_tileaa.reduce"
    arguments = var_operand_def()
    dim = prop_def(IntegerAttr)
    identities = prop_def(ArrayAttr)
    results_ = var_result_def()
    body = region_def()


@irdl_op_definition
class ScanOp(IRDLOperation):
    """Inclusive prefix along `dim` with the body (from the end when `reverse`)."""

    name = "nv_tileaa.scan"
    arguments = var_operand_def()
    dim = prop_def(IntegerAttr)
    reverse = prop_def(IntegerAttr)
    identities = prop_def(ArrayAttr)
    results_ = var_result_def()
    body = region_def()


@irdl_op_definition
class GetProgramIdOp(IRDLOperation):
    """Number along `axis` (0, 1, 2), i32, of what runs the program: a tile block or its cluster."""

    name = "nv_tileaa.get_program_id"
    axis = prop_def(IntegerAttr)
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class GetClusterRankOp(IRDLOperation):
    """Number of the CTA in its cluster, i32; or its number along one of the dims that they lie in.

    `result = rank / stride % count`. Both are powers of two; without them it is the rank.
    """

    name = "nv_tileaa.get_cluster_rank"
    stride = opt_prop_def(IntAttr)
    count = opt_prop_def(IntAttr)
    result = result_def()
    traits = traits_def(Pure())

    @property
    def bits(self) -> int:
        """The bits of the rank that say what the result is; all of them where it is the rank."""
        if self.stride is None or self.count is None:
            return -1
        return (self.count.data - 1) * self.stride.data

    def verify_(self) -> None:
        """A stride has a count, and both are powers of two."""
        numbers = [number.data for number in (self.stride, self.count) if number is not None]
        if len(numbers) == 1 or any(n < 1 or n & (n - 1) for n in numbers):
            raise VerifyException(f"{self.name}: expected powers of two as stride and count")


@irdl_op_definition
class GetClusterPlaceOp(IRDLOperation):
    """Where the CTA lies, i32, if those of a cluster lie in rows of `size` (i32).

    `row = rank / size`, its place in the row `column = rank % size`. The size is a power of two,
    the same in all CTAs.
    """

    name = "nv_tileaa.get_cluster_place"
    size = operand_def()
    row = result_def()
    column = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class GetGridSizeOp(IRDLOperation):
    """Number of tile blocks along `axis` (0, 1, 2) that are launched, i32, however they work."""

    name = "nv_tileaa.get_grid_size"
    axis = prop_def(IntegerAttr)
    result = result_def()
    traits = traits_def(Pure())


@irdl_op_definition
class GetNumProgramsOp(IRDLOperation):
    """Number of tile blocks along `axis` (0, 1, 2), i32."""

    name = "nv_tileaa.get_num_programs"
    axis = prop_def(IntegerAttr)
    result = result_def()
    traits = traits_def(Pure())


def loop_around(op: Operation) -> ForOp | LoopOp | None:
    """The innermost loop around an operation, ifs aside."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, ForOp | LoopOp):
        parent = parent.parent_op()
    return parent
