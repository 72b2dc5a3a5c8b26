"""Products by wgmma of tiles in the stages of pipelines, in flight until they are waited for."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, StringAttr, UnitAttr, i1, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.attributes import SignednessAttr
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.tensors import is_zero
from tileiras.dialects.nv_tileas.memdesc import IN_SMEM, is_in_smem
from tileiras.dialects.nv_tileas.pipeline import (
    ConsumerReleaseOp,
    ConsumerWaitOp,
    PipelineType,
    stage_offset,
)
from tileiras.dialects.operations import SegmentedOp, operations_in

ROWS_PER_WARP = 16
"""Fixed: four warps compute 64 rows by one wgmma (PTX ISA, "wgmma.mma_async", shapes)."""


@irdl_op_definition
class WgmmaDotOp(SegmentedOp):
    """`lhs @ rhs + acc` by wgmma from shared memory, issued without waiting for it.

    With `pending` it then waits until at most so many products are unfinished. Nothing may read
    the result of an unfinished product, but the next product into it. A `two_level`
    product is summed up by itself, 128 of K at most at a time, and added to `acc` by the threads.
    The signedness properties are present for integer operands only. `fragments` is "lhs" or "rhs"
    where the threads read that tile, whose K is not contiguous, into registers; with "both" they
    read `lhs` in the order of K of a transposed `rhs`. With "rhs", or where `transposed` says so,
    the instructions compute the transposed product. With `from_zero` the instructions take no
    accumulator: `acc` is zeros, and nothing of it is in registers. Where the `condition` (i1) does
    not hold nothing is issued: the result is `acc`, and a group without instructions counts in its
    place. All threads of the consumers have the same condition. Where `adds_if` (i1) is false
    nothing is added to, whatever `acc` is: the product alone is the result. So one leaves out the
    product, by a branch around its instructions, and the other the accumulator, by an operand of
    theirs (scale-d); neither can say what the other does. One that is `put_off` is still to be
    issued an iteration late.
    """

    name = "nv_tileas.wgmma_dot"
    lhs = operand_def()
    rhs = operand_def(IN_SMEM)
    acc = operand_def()
    condition = opt_operand_def()
    adds_if = opt_operand_def()
    put_off = opt_prop_def(UnitAttr)
    pending = opt_prop_def(IntAttr)
    two_level = opt_prop_def(UnitAttr)
    fragments = opt_prop_def(StringAttr)
    transposed = opt_prop_def(UnitAttr)
    from_zero = opt_prop_def(UnitAttr)
    signedness_lhs = opt_prop_def(SignednessAttr)
    signedness_rhs = opt_prop_def(SignednessAttr)
    result = result_def()

    @property
    def is_transposed(self) -> bool:
        """Whether the instructions compute the transposed product."""
        is_read = self.fragments is not None and self.fragments.data == "rhs"
        return is_read or self.transposed is not None

    @property
    def may_start_from_zero(self) -> bool:
        """Whether `from_zero` is true and known: `acc` is zeros, no fragments are read, one sum."""
        is_plain = self.fragments is None and self.two_level is None and self.condition is None
        return is_plain and is_zero(self.acc)

    def verify_(self) -> None:
        """Nothing but zeros is left out."""
        if self.adds_if is not None and (self.fragments or self.two_level or self.from_zero):
            raise VerifyException(f"{self.name}: adds_if is for operands that threads do not read")
        if self.from_zero is not None and not self.may_start_from_zero:
            raise VerifyException(
                f"{self.name}: from_zero needs an accumulator of zeros, always added to at once, "
                "and operands that threads do not read from shared memory"
            )


def dot_segments(*, condition: bool = False, adds_if: bool = False) -> dict[str, Attribute]:
    """The property that says which of its optional operands a `wgmma_dot` has."""
    sizes = [1, 1, 1, int(condition), int(adds_if)]
    return {"operandSegmentSizes": DenseArrayBase.from_list(i32, sizes)}


def is_behind(before: SSAValue, tile: SSAValue) -> bool:
    """Whether a tile lies right behind another one of its type, in the same stage."""
    type, start = before.type, stage_offset(before)
    if start is None or not is_in_smem(type) or (type, before.owner) != (tile.type, tile.owner):
        return False
    return stage_offset(tile) == start + prod(type.shape) * storage_bytes(type.element_type)


@irdl_op_definition
class WgmmaDotsOp(SegmentedOp):
    """Several products that read one tile in `common`, by instructions for all of them at once.

    `common @ tiles[i] + accs[i]`, or with `transposed` `tiles[i] @ common + accs[i]`, computed as
    the transposed products. The other tiles lie one behind the other in their stage, in panels that
    continue each other. With `fragments` the threads read the common tile, whose K is not
    contiguous, into registers. Where the `condition` (i1) does not hold the last sum is its `acc`.
    For the rest see `wgmma_dot`.
    """

    name = "nv_tileas.wgmma_dots"
    common = operand_def(IN_SMEM)
    tiles = var_operand_def(IN_SMEM)
    accs = var_operand_def()
    condition = opt_operand_def()
    pending = prop_def(IntAttr)
    fragments = opt_prop_def(UnitAttr)
    transposed = opt_prop_def(UnitAttr)
    signedness_lhs = opt_prop_def(SignednessAttr)
    signedness_rhs = opt_prop_def(SignednessAttr)
    sums = var_result_def()

    def operands_of(self, number: int) -> tuple[SSAValue, SSAValue]:
        """The left and the right operand of one of the products."""
        tile = self.tiles[number]
        return (self.common, tile) if self.transposed is None else (tile, self.common)

    def verify_(self) -> None:
        """A sum for each tile; tiles of one type, each behind the one before in their stage."""
        if not len(self.tiles) == len(self.accs) == len(self.sums) > 1:
            raise VerifyException(f"{self.name}: needs several tiles and a sum for each")
        for number, (before, tile) in enumerate(pairwise(self.tiles), 1):
            if not is_behind(before, tile):
                raise VerifyException(
                    f"{self.name}: tile {number} is not behind the one before, or of another type"
                )


@irdl_op_definition
class SmemTransposeOp(IRDLOperation):
    """A tile of 8- or 32-bit elements with its other dim contiguous, which the threads write anew.

    The stage has been read after it. The product of the transposed tile before is finished before
    it, or, of 32-bit elements, while it is at work: then that sum is `running`, and `finished`
    after.
    """

    name = "nv_tileas.smem_transpose"
    tile = operand_def(IN_SMEM)
    running = opt_operand_def()
    result = result_def(IN_SMEM)
    finished = opt_result_def()


@irdl_op_definition
class TransposeWarpsOp(IRDLOperation):
    """The program of `warps` warps that transpose, which runs beside those of `agent_switch`."""

    name = "nv_tileas.transpose_warps"
    warps = prop_def(IntAttr)
    body = region_def()
    traits = traits_def(NoTerminator())


@irdl_op_definition
class TransposeTileOp(IRDLOperation):
    """Writes a tile of 8-bit elements to the acquired stage of a pipeline, transposed.

    Its other dim is contiguous there, in rows of `swizzle` bytes. The asynchronous proxy may read
    the stage once it is committed.
    """

    name = "nv_tileas.transpose_tile"
    tile = operand_def(IN_SMEM)
    pipeline = operand_def(PipelineType)
    swizzle = prop_def(IntAttr)


@irdl_op_definition
class DotWaitOp(IRDLOperation):
    """The accumulator once at most `pending` products are unfinished, those issued last.

    `kept` are registers that the product reads: nothing else may be in them before the wait.
    `moved`: the result is in other registers, for it meets those of another product.
    """

    name = "nv_tileas.dot_wait"
    acc = operand_def()
    kept = var_operand_def()
    pending = prop_def(IntAttr)
    moved = opt_prop_def(UnitAttr)
    result = result_def()


@irdl_op_definition
class AwaitFirstOp(IRDLOperation):
    """The warpgroups but the first wait here until that has come to `start_others`."""

    name = "nv_tileas.await_first"


@irdl_op_definition
class StartOthersOp(IRDLOperation):
    """The first warpgroup lets the others go on from `await_first`.

    Nobody waits here. Where there is an `after`, the first warpgroup has it by then.
    """

    name = "nv_tileas.start_others"
    after = opt_operand_def()


@irdl_op_definition
class HasRowsOp(IRDLOperation):
    """i1: whether this warpgroup has rows of its tile block.

    Those of the first half of the rows always do, the others where `both` (i1) holds. Whoever looks
    at whole tiles is told that all do.
    """

    name = "nv_tileas.has_rows"
    both = operand_def(i1)
    result = result_def(i1)


@irdl_op_definition
class LeavePipelinesOp(IRDLOperation):
    """This warpgroup takes no stage of the pipelines: each is handed back without it from now on.

    It has taken none before.
    """

    name = "nv_tileas.async.pipeline.leave_pipelines"
    pipelines = var_operand_def(PipelineType)


WGMMA_OPS = operations_in(vars())

CONSUMER_OPS = (ConsumerWaitOp, ConsumerReleaseOp, *WGMMA_OPS)
"""What the consumers do with stages and what products in flight read."""
