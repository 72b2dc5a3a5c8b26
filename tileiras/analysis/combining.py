"""Bodies of reductions and scans: whether they commute, and which of them is one instruction."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type, IntegerType
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileiras.analysis.choosing_body import chooses_alike
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import Signedness, SignednessAttr
from tileiras.errors import InternalError

_COMMUTATIVE = (
    *(aa.AddFOp, aa.AddIOp, aa.MulFOp, aa.MulIOp, aa.MaxFOp, aa.MinFOp, aa.MaxIOp, aa.MinIOp),
    *(aa.AndIOp, aa.OrIOp, aa.XOrIOp),
)
_PACKED = (aa.AddFOp, aa.MulFOp)
"""What packed arithmetic computes for two f32 at once (PTX ISA, `add.f32x2`, `mul.f32x2`)."""
_REDUX_KINDS: dict[type[Operation], str] = {
    aa.AddIOp: "add",
    aa.MaxIOp: "max",
    aa.MinIOp: "min",
    aa.AndIOp: "and",
    aa.OrIOp: "or",
    aa.XOrIOp: "xor",
}


def yielded_by(block: Block) -> Sequence[SSAValue]:
    """What a body leaves, one accumulator per operand.

    InternalError where it has no end.
    """
    last = block.last_op
    if not isinstance(last, aa.YieldOp):
        raise InternalError("the body of a reduction has no yield")
    return last.operands


def is_commutative(block: Block) -> bool:
    """Whether the order of two elements does not matter to a body.

    Each operand is combined by itself with an operation that is known to commute, or one of the
    two elements is chosen, whichever comes first.
    """
    own = (_own_op(block, index, _COMMUTATIVE) for index in range(len(yielded_by(block))))
    return all(op is not None for op in own) or chooses_alike(block)


def is_packed(block: Block) -> bool:
    """Whether one instruction of packed arithmetic combines two pairs of neighbouring elements."""
    own = [_own_op(block, index, _PACKED) for index in range(len(yielded_by(block)))]
    return all(op is not None and isinstance(op.results[0].type, Float32Type) for op in own)


def combining_class(block: Block) -> type[Operation] | None:
    """The operation that is all of a body on one operand, if it commutes; None for other bodies."""
    if len(yielded_by(block)) != 1:
        return None
    op = _own_op(block, 0, _COMMUTATIVE)
    return None if op is None else type(op)


def redux_kind(block: Block) -> str | None:
    """The kind of `redux.sync` that does the same as a body on i32, or None."""
    values = yielded_by(block)
    if len(values) != 1 or values[0].type != IntegerType(32):
        return None
    op = _own_op(block, 0, tuple(_REDUX_KINDS))
    if op is None:
        return None
    kind = _REDUX_KINDS[type(op)]
    signedness = op.properties.get("signedness")
    is_unsigned = isinstance(signedness, SignednessAttr) and signedness.data is Signedness.UNSIGNED
    return f"u{kind}" if is_unsigned and kind in ("min", "max") else kind


def _own_op(block: Block, index: int, classes: tuple[type[Operation], ...]) -> Operation | None:
    """The operation of one of the classes that combines operand `index` alone, if it does."""
    value = yielded_by(block)[index]
    if not isinstance(value, OpResult) or not isinstance(value.op, classes):
        return None
    pair = block.args[2 * index : 2 * index + 2]
    lhs, rhs = value.op.operands
    is_own = (lhs is pair[0] and rhs is pair[1]) or (lhs is pair[1] and rhs is pair[0])
    return value.op if is_own else None
