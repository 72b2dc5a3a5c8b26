"""Products by tcgen05: one thread issues them, their sums lie in tensor memory.

    %sum = create_accumulator {stages = 2, ...} : memdesc<128x256xf32, #tmem, tmem>
    product_warp { accumulator_acquire %sum
                    for { %a, %b = consumer_wait %p; tcgen05_dot %sum, %a, %b; consumer_release %p }
                    accumulator_commit %sum }
    agent_switch { ..., consumer { %x = accumulator_load %sum, %any; ... } }

An accumulator is a pipeline whose stages are in tensor memory: with two of them the consumers read
one tile while the products of the next one are computed.

A left operand that consumers compute goes the other way round, through tensor memory, too:

    %left = create_left_operand {column = 192, ...} : memdesc<128x64xf16, #tmem, tmem>
    product_warp { ... left_operand_wait %left; tcgen05_dot %sum, %left, %b;
                    left_operand_release %left ... }
    agent_switch { ..., consumer { ...; left_operand_store %left, %x; ... } }

Scales of block-scaled products go through stages, as operands do:

    scales_load %p, %view[%x, %i]                      (the producer's threads)
    %a, %b, %sa, %sb = consumer_wait %p
    tcgen05_dot_scaled %a by %sa, %b by %sb into %sum  (the warp that issues products)

A tile of scales lies in chunks there (`#nv_tileas.scale_chunks`), without a swizzle.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.attributes import SignednessAttr
from tileiras.dialects.layout.tmem import BLOCK_ROWS, TMEM_COLUMNS
from tileiras.dialects.nv_tileas.memdesc import (
    IN_SMEM,
    IN_TMEM,
    MemDescType,
    PairSharedAttr,
    is_in_tmem,
)
from tileiras.dialects.operations import operations_in

LOAD_SHAPES = ("16x256b", "32x32b")


@irdl_op_definition
class CreateAccumulatorOp(IRDLOperation):
    """Sums of products in tensor memory, `stages` of them, from column `column` on.

    A stage takes `columns`; consumers of `readers` warps hand it back. A `scaled` one, of one
    stage, is given to them before the first product and behind each, to be scaled where it lies.
    Of a `pair` of CTAs each has its rows, and both make and hand back a stage together.
    One of `blocks` is filled and handed back in so many blocks of rows, each by itself: operations
    of the warp that issues products say which `block`, consumers have the one of their warpgroup.
    Sums of one that is `filled` do not start from zero: consumers store what they start from, and
    hand the stage back by that.
    """

    name = "nv_tileas.create_accumulator"
    scaled = opt_prop_def(UnitAttr)
    filled = opt_prop_def(UnitAttr)
    pair = opt_prop_def(UnitAttr)
    blocks = opt_prop_def(IntAttr)
    stages = prop_def(IntAttr)
    column = prop_def(IntAttr)
    columns = prop_def(IntAttr)
    readers = prop_def(IntAttr)
    result = result_def(IN_TMEM)

    def verify_(self) -> None:
        """The stages lie in tensor memory, and a stage has room for a tile."""
        end = self.column.data + self.stages.data * self.columns.data
        if min(self.stages.data, self.columns.data, self.readers.data) < 1 or end > TMEM_COLUMNS:
            raise VerifyException(
                f"{self.name}: {self.stages.data} stages of {self.columns.data} columns from "
                f"{self.column.data} on, expected at least one, of {TMEM_COLUMNS} columns together"
            )
        type = self.result.type
        if is_in_tmem(type) and type.tmem_columns > self.columns.data:
            raise VerifyException(
                f"{self.name}: stages of {self.columns.data} columns, expected at least "
                f"{type.tmem_columns} for a tile of {list(type.shape)}"
            )


@irdl_op_definition
class ProductWarpOp(IRDLOperation):
    """The program of the warp that issues products, which runs beside those of `agent_switch`."""

    name = "nv_tileas.product_warp"
    body = region_def()
    traits = traits_def(NoTerminator())


@irdl_op_definition
class AccumulatorAcquireOp(IRDLOperation):
    """Waits until the next stage has been read: its sums start from zero, or has been filled."""

    name = "nv_tileas.accumulator_acquire"
    accumulator = operand_def(IN_TMEM)
    block = opt_prop_def(IntAttr)


@irdl_op_definition
class Tcgen05DotOp(IRDLOperation):
    """`accumulator += lhs @ rhs` of two tiles in stages of pipelines, without waiting for it.

    The left one may be in tensor memory (`create_left_operand`). `kind` names a row of
    `codegen.atoms.tcgen05`. The signedness properties are present for integer operands only.
    A `pair` of CTAs multiplies together: the first one issues, for the rows of both, and columns
    come from both.
    """

    name = "nv_tileas.tcgen05_dot"
    accumulator = operand_def(IN_TMEM)
    lhs = operand_def(MemDescType)
    rhs = operand_def(IN_SMEM)
    kind = prop_def(StringAttr)
    block = opt_prop_def(IntAttr)
    signedness_lhs = opt_prop_def(SignednessAttr)
    signedness_rhs = opt_prop_def(SignednessAttr)
    pair = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        """The shapes are those of a product."""
        _check_pair(self)
        accumulator, lhs, rhs = map(_shape, (self.accumulator, self.lhs, self.rhs))
        is_product = len(lhs) == len(rhs) == 2 and lhs[1] == rhs[0]
        if not is_product or accumulator != (lhs[0], rhs[1]):
            raise VerifyException(f"{self.name}: {lhs} @ {rhs} is not {accumulator}")


@irdl_op_definition
class StageReleaseOp(IRDLOperation):
    """Hands the newest stage of a pipeline back once all products issued so far have read it.

    Of a pair of CTAs the first one does so for both, and the second one tells it here that its own
    stage is full, for which the first one waits with its own.
    """

    name = "nv_tileas.stage_release"
    pipeline = operand_def()


@irdl_op_definition
class AccumulatorCommitOp(IRDLOperation):
    """Gives the stage to the consumers once its products are done."""

    name = "nv_tileas.accumulator_commit"
    accumulator = operand_def(IN_TMEM)
    block = opt_prop_def(IntAttr)


@irdl_op_definition
class AccumulatorLoadOp(IRDLOperation):
    """Waits for the sums of the next stage, loads them, and hands the stage back.

    Zeros where `any` (i1) does not hold: then there were no products. `shape` is that of the
    `tcgen05.ld`, which the layout of the result follows.
    """

    name = "nv_tileas.accumulator_load"
    accumulator = operand_def(IN_TMEM)
    any = operand_def(IntegerType(1))
    shape = prop_def(StringAttr)
    result = result_def()

    def verify_(self) -> None:
        """A known shape of the instruction; the tile of the accumulator."""
        _check_shape(self, self.shape)
        _check_tile(self, self.result.type, self.accumulator.type, "does not give")


@irdl_op_definition
class AccumulatorFillOp(IRDLOperation):
    """Stores what the sums of the next stage start from, and gives it to the products.

    Consumers have loaded what was there, each warp its part. `shape`: as of `accumulator_load`.
    """

    name = "nv_tileas.accumulator_fill"
    accumulator = operand_def(IN_TMEM)
    value = operand_def()
    shape = prop_def(StringAttr)

    def verify_(self) -> None:
        """A known shape of the instruction; the tile of the accumulator."""
        _check_shape(self, self.shape)
        _check_tile(self, self.value.type, self.accumulator.type, "is not filled by")


@irdl_op_definition
class AccumulatorClearOp(IRDLOperation):
    """Waits until the sum is the consumers', and stores zeros there: in front of the first loop
    that scales it. The first `accumulator_scale` waits for the same again, and so not at all.
    """

    name = "nv_tileas.accumulator_clear"
    accumulator = operand_def(IN_TMEM)


@irdl_op_definition
class AccumulatorScaleOp(IRDLOperation):
    """Waits for the sum so far, and multiplies it with `factors` where it lies.

    The next product is added when a left operand has been stored behind that.
    """

    name = "nv_tileas.accumulator_scale"
    accumulator = operand_def(IN_TMEM)
    factors = operand_def()
    flush_to_zero = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        """The shape of the accumulator."""
        _check_tile(self, self.factors.type, self.accumulator.type, "is not scaled by")


@irdl_op_definition
class CreateLeftOperandOp(IRDLOperation):
    """A left operand in tensor memory, from column `column` on, that `writers` warps store.

    Blocks of 128 rows begin `stride` columns apart, where they do not lie side by side. `blocks`:
    as of `create_accumulator`.
    """

    name = "nv_tileas.create_left_operand"
    column = prop_def(IntAttr)
    writers = prop_def(IntAttr)
    stride = opt_prop_def(IntAttr)
    blocks = opt_prop_def(IntAttr)
    result = result_def(IN_TMEM)

    def verify_(self) -> None:
        """The operand lies in tensor memory, and somebody stores it."""
        type = self.result.type
        size = type.tmem_columns if is_in_tmem(type) else 0
        if self.stride is not None and is_in_tmem(type):
            others = type.shape[0] // BLOCK_ROWS - 1
            size = others * self.stride.data + size // (others + 1)
        if self.writers.data < 1 or self.column.data + size > TMEM_COLUMNS:
            raise VerifyException(
                f"{self.name}: {size} columns from {self.column.data} on by {self.writers.data} "
                f"warps, expected at least one, and {TMEM_COLUMNS} columns at most"
            )


@irdl_op_definition
class LeftOperandStoreOp(IRDLOperation):
    """Waits until products have read the operand of before, stores a tile, and gives it to them.

    Each thread stores whole rows, by `tcgen05.st.32x32b`, which the layout of the tile follows.
    """

    name = "nv_tileas.left_operand_store"
    left = operand_def(IN_TMEM)
    tile = operand_def()

    def verify_(self) -> None:
        """The tile of the operand."""
        type, target = self.tile.type, self.left.type
        if (
            not isinstance(type, TensorType)
            or not is_in_tmem(target)
            or type.get_shape() != target.shape
            or type.element_type != target.element_type
        ):
            raise VerifyException(f"{self.name}: {type} is not stored to {target}")


@irdl_op_definition
class LeftOperandWaitOp(IRDLOperation):
    """Waits until consumers have stored the next operand."""

    name = "nv_tileas.left_operand_wait"
    left = operand_def(IN_TMEM)
    block = opt_prop_def(IntAttr)


@irdl_op_definition
class LeftOperandReleaseOp(IRDLOperation):
    """Hands the operand's place back once all products issued so far have read it."""

    name = "nv_tileas.left_operand_release"
    left = operand_def(IN_TMEM)
    block = opt_prop_def(IntAttr)


def _check_shape(op: IRDLOperation, shape: StringAttr) -> None:
    """Raises for an unknown shape of the instruction."""
    if shape.data not in LOAD_SHAPES:
        raise VerifyException(f"{op.name}: unknown shape '{shape.data}'")


def _check_tile(op: IRDLOperation, type: Attribute, place: Attribute, what: str) -> None:
    """Raises unless a tile in registers is one of an accumulator."""
    if (
        not isinstance(type, TensorType)
        or not is_in_tmem(place)
        or type.get_shape() != place.shape
        or type.element_type != place.element_type
    ):
        raise VerifyException(f"{op.name}: {place} {what} {type}")


def _check_pair(op: Tcgen05DotOp | Tcgen05DotScaledOp) -> None:
    """Raises unless a pair of CTAs has columns of the right operand each, and nobody else has."""
    type = op.rhs.type
    encoding = type.encoding if isinstance(type, MemDescType) else None
    halved = encoding.halved.data if isinstance(encoding, PairSharedAttr) else None
    if halved != (None if op.pair is None else 1):
        wanted = "whole" if op.pair is None else "halved along dim 1"
        raise VerifyException(f"{op.name}: a right operand {type}, expected a {wanted} one")


def _shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tile in a stage or of a sum."""
    type = value.type
    return type.shape if isinstance(type, MemDescType) else ()


TCGEN05_OPS = operations_in(vars())

F4_PER_BYTE = 2


@irdl_op_definition
class ScalesLoadOp(IRDLOperation):
    """Copies one tile of scales of a view into the current stage at byte `offset`.

    `axis` is the dim of the tile along K, `rows` the other one that counts. The producer's threads
    copy `vector` scales along K at a time, by cp.async if these are 4 bytes. What is out of bounds
    becomes zero. `inbounds` promises per dim that nothing is.
    """

    name = "nv_tileas.async.scales_load"
    pipeline = operand_def()
    view = operand_def()
    indices = var_operand_def()
    axis = prop_def(IntAttr)
    rows = prop_def(IntAttr)
    offset = prop_def(IntAttr)
    vector = prop_def(IntAttr)
    inbounds = prop_def(DenseArrayBase[IntegerType])


@irdl_op_definition
class Tcgen05DotScaledOp(IRDLOperation):
    """`accumulator += (lhs * lhs_scale) @ (rhs * rhs_scale)`, without waiting for it.

    All operands are tiles in stages; scales are copied to tensor memory, those of the left operand
    to column `column` and on, those of the right one behind them. `kind` names a row of
    `codegen.atoms.tcgen05_scaled`. `packed`: operands are i8, a byte is two f4 along K. `pair` as
    for `tcgen05_dot`; each CTA has the scales of its rows, and those of all columns. `lhs_ready`,
    `rhs_ready`: a product before has put the scales of that operand in order, and moved their
    signs. `in_turn`: the left operand is that of the product right before, whose copy of its scales
    serves both, and a step of K of one comes behind that of the other, so that the left operand is
    read once. Where the `condition` (i1) does not hold nothing is added.
    """

    name = "nv_tileas.tcgen05_dot_scaled"
    accumulator = operand_def(IN_TMEM)
    lhs = operand_def(IN_SMEM)
    rhs = operand_def(IN_SMEM)
    lhs_scale = operand_def(IN_SMEM)
    rhs_scale = operand_def(IN_SMEM)
    condition = opt_operand_def(IntegerType(1))
    kind = prop_def(StringAttr)
    column = prop_def(IntAttr)
    packed = opt_prop_def(UnitAttr)
    pair = opt_prop_def(UnitAttr)
    lhs_ready = opt_prop_def(UnitAttr)
    rhs_ready = opt_prop_def(UnitAttr)
    in_turn = opt_prop_def(UnitAttr)

    @property
    def depth(self) -> int:
        """Elements along K."""
        return _shape(self.lhs)[-1] * (1 if self.packed is None else F4_PER_BYTE)

    def verify_(self) -> None:
        """The shapes are those of a product, with as many scales along K on both sides."""
        _check_pair(self)
        lhs, rhs = _shape(self.lhs), _shape(self.rhs)
        is_product = len(lhs) == len(rhs) == 2 and lhs[1] == rhs[0]
        if not is_product or _shape(self.accumulator) != (lhs[0], rhs[1]):
            raise VerifyException(f"{self.name}: {lhs} @ {rhs} is not {_shape(self.accumulator)}")
        left, right = _shape(self.lhs_scale), _shape(self.rhs_scale)
        are_scales = len(left) == len(right) == 2 and left[1] == right[0]
        if not are_scales or (left[0], right[1]) != (lhs[0], rhs[1]) or self.depth % left[1]:
            raise VerifyException(f"{self.name}: scales {left} and {right} of {lhs} @ {rhs}")
        before = self.prev_op
        if self.in_turn is not None and not (
            isinstance(before, Tcgen05DotScaledOp)
            and self.lhs_ready is not None
            and (before.lhs, before.lhs_scale) == (self.lhs, self.lhs_scale)
        ):
            raise VerifyException(f"{self.name}: in turn with no product of the same left operand")
