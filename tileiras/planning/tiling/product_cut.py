"""Which values are cut where matrix products are computed in parts, loops around them included.

Unlike the cut of `slicing`, which goes backwards from one store or reduction, this one holds for
everything that is made from a product, so that no product is computed twice:

    product (seed)   its operands along the cut, and all that its result flows into
    loop, branch     result <-> carried value <-> what continues hand on <-> initial value
    store            ends the cut: each part stores its own
    reduction along  ends the cut: partial results are combined

A value that no product flows into (a load, a range, a mask) may be cut in several ways beside being
used whole: each is made where it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue, Use
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.nesting import enclosing
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.errors import InternalError
from tileiras.planning.tiling.slicing import operand_dims

STRUCTURED = (aa.ForOp, aa.LoopOp, aa.IfOp)
TERMINATORS = (aa.ContinueOp, aa.BreakOp, aa.YieldOp)
Structured = aa.ForOp | aa.LoopOp | aa.IfOp
Seed = tuple[SSAValue, int]


class CannotCutError(Exception):
    """The cut that is being tried is not possible; never leaves the passes that try cuts."""


@dataclass
class ProductCut:
    """The cut of `block` into parts that follows from cutting the seeds."""

    block: Block
    parts: int
    can_combine: Callable[[aa.ReduceOp], bool]
    dims: dict[SSAValue, list[int]] = field(default_factory=dict[SSAValue, list[int]])
    """How each value is cut; what a product flows into, in one way only."""
    flowing: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    """What products flow into, and what leaves loops and branches."""
    sinks: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """Stores, and reductions along the cut, with the dim of what they consume."""
    _to_source: list[Seed] = field(default_factory=list[Seed])
    _to_users: list[SSAValue] = field(default_factory=list[SSAValue])

    def cut(self, seeds: Sequence[Seed]) -> None:
        """Cuts the seeds and what follows; raises CannotCutError."""
        for value, dim in seeds:
            self._need(value, dim)
            self._flow(value)
        while self._to_source or self._to_users:
            if self._to_source:
                self._source(*self._to_source.pop())
            else:
                value = self._to_users.pop()
                for use in list(value.uses):
                    self._user(value, self.dims[value][0], use)

    def dim_of(self, value: SSAValue) -> int | None:
        """The dim along which a value of structured control flow is cut."""
        return self.dims[value][0] if value in self.dims else None

    def has_cut(self, op: Operation) -> bool:
        """Whether anything in an operation, or made by it, is cut."""
        return any(
            inner in self.sinks
            or any(result in self.dims for result in inner.results)
            or any(arg in self.dims for region in inner.regions for arg in _args(region.blocks))
            for inner in op.walk()
        )

    def dims_of(self, op: Operation) -> list[int]:
        """How an operation is cut."""
        if op in self.sinks:
            return [self.sinks[op]]
        return next((self.dims[result] for result in op.results if result in self.dims), [])

    def end_dims(self, op: Operation) -> list[int | None]:
        """How the operands of a terminator are cut."""
        target = target_of(op)
        if isinstance(op, aa.ContinueOp):
            args = target.regions[0].block.args[first_carried(target) :]
            return [self.dim_of(arg) for arg in args]
        return [self.dim_of(result) for result in target.results]

    def is_used_whole(self, op: Operation) -> bool:
        """Whether anything needs more of a tensor that an operation makes than parts."""
        if op in self.sinks or any(result in self.flowing for result in op.results):
            return False
        return any(
            self._takes_whole(use.operation, use.index)
            for result in op.results
            if isinstance(result.type, TensorType)
            for use in result.uses
        )

    def _takes_whole(self, op: Operation, index: int) -> bool:
        """Whether a user takes the whole of its operand."""
        match op:
            case aa.ContinueOp() | aa.BreakOp() | aa.YieldOp():
                return self.end_dims(op)[index] is None
            case aa.ForOp() | aa.LoopOp():
                position = index - (len(op.operands) - len(op.init_values))
                args = op.body.block.args[first_carried(op) :]
                return position < 0 or args[position] not in self.dims
            case _:
                operands = [operand_dims(op, dim, self.parts) for dim in self.dims_of(op)]
                if not operands or any(dims is None or dims[index] is None for dims in operands):
                    return True
                return self.is_used_whole(op)

    # values

    def _need(self, value: SSAValue, dim: int) -> None:
        """Notes that a value is cut."""
        if not isinstance(value.type, TensorType):
            raise CannotCutError(f"a value of type {value.type}")
        known = self.dims.setdefault(value, [])
        if dim in known:
            return
        if shape_of(value)[dim] % self.parts or (known and value in self.flowing):
            raise CannotCutError(f"{value.type} along dim {dim}, beside {known}")
        known.append(dim)
        self._to_source.append((value, dim))

    def _flow(self, value: SSAValue) -> None:
        """Notes that all users of a value must take its parts."""
        if value in self.flowing:
            return
        if len(self.dims[value]) != 1:
            raise CannotCutError("a product flows into a value that is cut in two ways")
        self.flowing[value] = None
        self._to_users.append(value)

    def _also(self, value: SSAValue, dim: int) -> None:
        """Notes a value that control flow ties to one that is cut."""
        self._need(value, dim)
        self._flow(value)

    # from results to operands

    def _source(self, value: SSAValue, dim: int) -> None:
        """Cuts what a value is made from."""
        if isinstance(value, BlockArgument):
            self._argument(value, dim)
            return
        if not isinstance(value, OpResult):
            raise CannotCutError("a value that is no result")
        op = value.op
        if not self._is_inside(op) and not _is_pure(op):
            raise CannotCutError(f"'{op.name}' around the block")
        match op:
            case aa.ForOp():
                self._also(op.body.block.args[value.index + 1], dim)
            case aa.LoopOp() | aa.IfOp():
                self._flow(value)
                kind = aa.BreakOp if isinstance(op, aa.LoopOp) else aa.YieldOp
                for end in ends_of(op, kind):
                    self._need(end.operands[value.index], dim)
            case _:
                self._operands(op, dim)
                for result in op.results:
                    if isinstance(result.type, TensorType):
                        self._need(result, dim)
                if isinstance(op, aa.ProductOp):
                    self._flow(value)

    def _operands(self, op: Operation, dim: int) -> None:
        """Cuts the operands of an operation whose result is cut."""
        dims = operand_dims(op, dim, self.parts)
        if dims is None:
            raise CannotCutError(f"'{op.name}' along dim {dim}")
        for operand, at in zip(op.operands, dims, strict=True):
            if at is not None:
                self._need(operand, at)

    def _argument(self, value: BlockArgument, dim: int) -> None:
        """A carried value: the initial one and what continues hand on."""
        loop = value.block.parent_op()
        if not isinstance(loop, aa.ForOp | aa.LoopOp) or not self._is_inside(loop):
            raise CannotCutError("an argument of something around the block")
        position = value.index - first_carried(loop)
        if position < 0:
            raise CannotCutError("the number of an iteration")
        self._flow(value)
        self._need(loop.init_values[position], dim)
        for end in ends_of(loop, aa.ContinueOp):
            self._need(end.operands[position], dim)
        if isinstance(loop, aa.ForOp):
            self._also(loop.results[position], dim)

    # from values to users

    def _user(self, value: SSAValue, dim: int, use: Use) -> None:
        """Cuts what a user of a cut value makes."""
        op = use.operation
        match op:
            case aa.ContinueOp() | aa.BreakOp() | aa.YieldOp():
                self._end(op, dim, use.index)
            case aa.ForOp() | aa.LoopOp():
                position = use.index - (len(op.operands) - len(op.init_values))
                self._also(op.body.block.args[position + first_carried(op)], dim)
            case aa.TiledStoreOp() | aa.StoreOp():
                self._sink(op, dim)
            case aa.ReduceOp() if op.dim.value.data == dim:
                if op.parent_block() is not self.block or not self.can_combine(op):
                    raise CannotCutError("a reduction along the cut, needed within a part")
                self.sinks[op] = dim
                for operand in op.arguments:
                    self._need(operand, dim)
            case _:
                self._result(op, value, dim)

    def _result(self, op: Operation, value: SSAValue, dim: int) -> None:
        """Finds the dim of the results that takes `value` along `dim`."""
        uses = [index for index, operand in enumerate(op.operands) if operand is value]
        tensors = [r for r in op.results if isinstance(r.type, TensorType)]
        for at, size in enumerate(shape_of(tensors[0]) if tensors else ()):
            dims = None if size % self.parts else operand_dims(op, at, self.parts)
            if dims is not None and all(dims[index] == dim for index in uses):
                for result in tensors:
                    self._also(result, at)
                return
        raise CannotCutError(f"'{op.name}' of a part")

    def _end(self, op: Operation, dim: int, position: int) -> None:
        """A value that ends an iteration, a loop or a branch."""
        target = target_of(op)
        if not self._is_inside(target):
            raise CannotCutError("a part leaves the block")
        if isinstance(op, aa.ContinueOp):
            self._also(target.regions[0].block.args[position + first_carried(target)], dim)
        else:
            self._also(target.results[position], dim)

    def _sink(self, op: aa.TiledStoreOp | aa.StoreOp, dim: int) -> None:
        """A store in the block, or in branches of it."""
        parent: Operation | None = op
        while parent is not None and parent.parent_block() is not self.block:
            parent = parent.parent_op()
            if not isinstance(parent, aa.IfOp):
                raise CannotCutError("a store in a loop")
        if self.sinks.setdefault(op, dim) != dim:
            raise CannotCutError("a store that is cut in two ways")
        self._operands(op, dim)

    def _is_inside(self, op: Operation) -> bool:
        """Whether an operation stands in the block, however deep."""
        return top_of(op, self.block) is not None


def top_of(op: Operation, block: Block) -> Operation | None:
    """The operation of `block` that is or contains `op`; None if it is outside."""
    current: Operation | None = op
    while current is not None and current.parent_block() is not block:
        current = current.parent_op()
    return current


def target_of(op: Operation) -> Structured:
    """What a terminator ends: an iteration or loop, or a branch."""
    match op:
        case aa.ContinueOp():
            target = enclosing(op, aa.ForOp, aa.LoopOp)
        case aa.BreakOp():
            target = enclosing(op, aa.LoopOp)
        case _:
            target = op.parent_op()
    if not isinstance(target, STRUCTURED):
        raise InternalError(f"'{op.name}' ends nothing")
    return target


def ends_of(op: Operation, kind: type[Operation]) -> list[Operation]:
    """The terminators of one kind that end `op`."""
    return [
        inner
        for inner in op.walk()
        if isinstance(inner, kind) and _ends_structure(inner) and target_of(inner) is op
    ]


def sources_of(value: SSAValue) -> list[SSAValue]:
    """What a value is made from or, in structured control flow, may be."""
    if isinstance(value, BlockArgument):
        loop = value.block.parent_op()
        is_loop = isinstance(loop, aa.ForOp | aa.LoopOp)
        return _carried(loop, value.index - first_carried(loop)) if is_loop else []
    if not isinstance(value, OpResult):
        return []
    match value.op:
        case aa.ForOp() as loop:
            return _carried(loop, value.index)
        case aa.LoopOp() | aa.IfOp() as op:
            kind = aa.BreakOp if isinstance(op, aa.LoopOp) else aa.YieldOp
            return [end.operands[value.index] for end in ends_of(op, kind)]
        case op:
            return list(op.operands)


def _carried(loop: aa.ForOp | aa.LoopOp, position: int) -> list[SSAValue]:
    """What a carried value may be."""
    if position < 0:
        return []
    ends = [end.operands[position] for end in ends_of(loop, aa.ContinueOp)]
    return [loop.init_values[position], *ends]


def first_carried(loop: Operation) -> int:
    """The number of the first carried value among the arguments of a loop's body."""
    return 1 if isinstance(loop, aa.ForOp) else 0


def _ends_structure(op: Operation) -> bool:
    """Not the yield of a reduction or scan."""
    return not isinstance(op.parent_op(), aa.ReduceOp | aa.ScanOp)


def _args(blocks: Sequence[Block]) -> list[SSAValue]:
    return [arg for block in blocks for arg in block.args]


def _is_pure(op: Operation) -> bool:
    """What can be made again anywhere: no access to memory, no region."""
    return not op.regions and is_pure(op)


def is_pure(op: Operation) -> bool:
    """Whether an operation only computes."""
    return op.has_trait(Pure) or isinstance(op, aa.ReduceOp | aa.ScanOp)
