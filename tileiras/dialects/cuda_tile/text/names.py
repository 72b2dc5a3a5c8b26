"""Names of values in the text form: `%cst_1_i32`, `%tile`, `%iterArg0`, else numbers.

The scheme is MLIR's printer's. All values of a block are named before those of nested regions,
which go on counting where the block ended. A name that is taken gets `_0`, `_1`, .. from one
counter.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.element_names import element_text
from tileiras.dialects.cuda_tile.element_types import FLOAT_FORMATS, storage_bytes
from tileiras.dialects.cuda_tile.text.floats import decode_float, is_infinity

RESULT_NAMES: dict[str, tuple[str, ...]] = {
    "cuda_tile.make_tensor_view": ("tview",),
    "cuda_tile.make_partition_view": ("pview",),
    "cuda_tile.make_strided_view": ("sview",),
    "cuda_tile.make_gather_scatter_view": ("gsview",),
    "cuda_tile.broadcast": ("bcast",),
    "cuda_tile.reshape": ("reshape",),
    "cuda_tile.for": ("for",),
    "cuda_tile.reduce": ("reduce",),
    "cuda_tile.get_tile_block_id": ("blockId_x", "blockId_y", "blockId_z"),
    "cuda_tile.get_num_tile_blocks": ("gridSize_x", "gridSize_y", "gridSize_z"),
    "cuda_tile.load_view_tko": ("tile", "result_token"),
    "cuda_tile.load_ptr_tko": ("result", "result_token"),
    "cuda_tile.atomic_cas_tko": ("result", "result_token"),
    "cuda_tile.atomic_rmw_tko": ("result", "result_token"),
    "cuda_tile.multimem_load_reduce_view_tko": ("reduced_values", "result_token"),
}
"""Names of results; a group of results beyond the last name shares that name."""

SELF_NUMBERING = frozenset({"cuda_tile.if", "cuda_tile.loop", "cuda_tile.scan"})
"""Operations that could name their results and leave them numbered."""


def constant_name(value: DenseAttr) -> str:
    """`cst_1_i32`, `true`, `cst_0_f32` (whole and not negative), else `cst_f32`."""
    element = value.type.element_type
    text = element_text(element)
    size = storage_bytes(element)
    raw = value.raw.data
    if raw[:size] * (len(raw) // size) != raw:
        return f"cst_{text}"
    bits = int.from_bytes(raw[:size], "little")
    if text == "i1":
        return "true" if bits else "false"
    form = FLOAT_FORMATS.get(type(element))
    if form is None:
        return f"cst_{int.from_bytes(raw[:size], 'little', signed=True)}_{text}"
    negative, magnitude = decode_float(bits, form)
    if magnitude is None and not is_infinity(bits, form):
        return f"cst_NaN_{text}"
    if negative or magnitude is None or magnitude.denominator != 1 or magnitude >= 1 << 64:
        return f"cst_{text}"
    return f"cst_{magnitude.numerator}_{text}"


def _base_names(op: Operation) -> tuple[str, ...]:
    name = op.name
    if name == "cuda_tile.constant":
        value = op.properties.get("value")
        return (constant_name(value),) if isinstance(value, DenseAttr) else ()
    if name == "cuda_tile.assume":
        return (_assume_name(op),)
    return RESULT_NAMES.get(name, ())


def _assume_name(op: Operation) -> str:
    """`assume_` and the name of the value; assumptions on assumptions add up.

    A result that its operation leaves unnamed gives `assume_`, values of all other operations and
    block arguments `assume`.
    """
    prefixes = []
    value: SSAValue = op.results[0]
    while isinstance(value, OpResult) and value.op.name == "cuda_tile.assume":
        prefixes.append("assume")
        value = value.op.operands[0]
    if isinstance(value, OpResult):
        name = value.op.name
        if name == "cuda_tile.constant":
            prefixes.extend(_base_names(value.op))
        elif name in RESULT_NAMES:
            prefixes.append("".join(RESULT_NAMES[name][value.index : value.index + 1]))
        elif name in SELF_NUMBERING:
            prefixes.append("")
    return "_".join(prefixes)


def argument_names(op: Operation | None, block: Block) -> tuple[str, ...]:
    """Names of the arguments of an operation's block; empty for numbered ones."""
    if op is None:
        return ()
    count = len(block.args)
    if op.name == "cuda_tile.for":
        return ("loopIdx", *(f"iterArg{index}" for index in range(count - 1)))[:count]
    if op.name == "cuda_tile.reduce":
        if count <= 2:
            return ("reduce_lhs", "reduce_rhs")[:count]
        return tuple(
            f"reduce_{'lhs' if index % 2 == 0 else 'rhs'}{index // 2}" for index in range(count)
        )
    return ()


@dataclass
class ValueNames:
    """The names of all values under an operation.

    `groups` has the operations whose results are named one by one; a use of another result than the
    first of all others is written `%name#1`.
    """

    generic: bool = False
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    groups: set[Operation] = field(default_factory=set[Operation])

    def number(self, op: Operation) -> None:
        """Names the values in the regions of an operation (a module, an entry)."""
        stack = [
            (block, 0, 0, 0, _Scope(None))
            for region in reversed(op.regions)
            for block in region.blocks
        ]
        while stack:
            block, values, arguments, conflicts, parent = stack.pop()
            counters = _Counters(values, arguments, conflicts, _Scope(parent))
            self._number_block(block, counters)
            nested = [
                inner_block
                for inner in block.ops
                for region in inner.regions
                for inner_block in region.blocks
            ]
            stack.extend(
                (inner, counters.values, counters.arguments, counters.conflicts, counters.scope)
                for inner in nested
            )

    def _number_block(self, block: Block, counters: _Counters) -> None:
        names = () if self.generic else argument_names(block.parent_op(), block)
        for index, argument in enumerate(block.args):
            if index < len(names):
                self.names[argument] = counters.unique(names[index])
        for argument in block.args:
            if argument not in self.names:
                self.names[argument] = counters.unique(f"arg{counters.arguments}")
                counters.arguments += 1
        for op in block.ops:
            if op.results:
                self._number_results(op, counters)

    def _number_results(self, op: Operation, counters: _Counters) -> None:
        bases = () if self.generic else _base_names(op)
        for result, base in zip(op.results, bases):
            self.names[result] = counters.unique(base)
        if len(bases) > 1:
            self.groups.add(op)
        elif not bases:
            self.names[op.results[0]] = str(counters.values)
            counters.values += 1

    def use(self, value: SSAValue) -> str:
        """A value as an operand: `%0`, `%for#1`."""
        name = self.names.get(value)
        if isinstance(value, OpResult) and value.op not in self.groups:
            results = value.op.results
            name = self.names.get(results[0])
            if len(results) > 1 and name is not None:
                name = f"{name}#{value.index}"
        return f"%{name}" if name is not None else "%<unknown>"

    def results(self, op: Operation) -> str:
        """The left side of an operation: `%0 = `, `%tile, %result_token = `, `%for:3 = `."""
        results = op.results
        if not results:
            return ""
        if op in self.groups:
            return ", ".join(f"%{self.names[result]}" for result in results) + " = "
        count = len(results)
        return f"%{self.names[results[0]]}{f':{count}' if count > 1 else ''} = "


@dataclass
class _Scope:
    """Names taken in a region; those of the regions around it are taken too."""

    parent: _Scope | None
    taken: set[str] = field(default_factory=set[str])

    def has(self, name: str) -> bool:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.taken:
                return True
            scope = scope.parent
        return False


@dataclass
class _Counters:
    values: int
    arguments: int
    conflicts: int
    scope: _Scope

    def unique(self, name: str) -> str:
        """The name, with a number if it is taken."""
        candidate = name
        while self.scope.has(candidate):
            candidate = f"{name}_{self.conflicts}"
            self.conflicts += 1
        self.scope.taken.add(candidate)
        return candidate
