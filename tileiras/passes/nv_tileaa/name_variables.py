"""The pass `tileaa-name-variables`: says which value a variable of the source has, and from where.

Names come from the program (`loc("n"(...))`) or, where it has places only, from its Python source.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import (
    IntAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.debug_info import DINameLoc, enclosing_subprogram, inline_frames
from tileiras.dialects.nv_tileaa.types import MemRefType, PointerType
from tileiras.ir_pass import BrokenPromise, CompileContext, IrPass
from tileiras.passes.nv_tileaa.source_names import FunctionNames, SourceFiles

MAX_ELEMENTS = 4096
"""Policy: elements of the largest tile that is a variable. What a debugger shows must be stored."""

_OF_GRID = (aa.GetProgramIdOp, aa.GetNumProgramsOp)


@dataclass(frozen=True)
class NameVariablesPass(IrPass):
    """Marks the values that variables of the source have, for a debugger.

    Before   %0 = subi %n, %m     loc of the right side of `rest = n - m`
    After    %0 = subi %n, %m;  debug_value "rest", %0
    Requires nv_tileaa, as the conversion leaves it; -g
    Leaves   values without a name: of a source that cannot be read or has changed since, of
             functions that are inlined; variables that are copies somewhere (`a = b`), which no
             operation makes; tiles of more than 4096 elements
    """

    name = "tileaa-name-variables"
    title: ClassVar[str] = "Name the variables of the source"
    settles: ClassVar[bool] = False

    def verify_left(self, ctx: CompileContext, op: ModuleOp) -> None:
        """No mark stands twice, and none is of a tile that is too large."""
        seen: dict[tuple[SSAValue, Attribute], None] = {}
        for mark in op.walk():
            if isinstance(mark, aa.DebugValueOp):
                key = (mark.value, mark.variable)
                if key in seen or not _is_shown(mark.value.type):
                    raise BrokenPromise("marks a value again, or one that is too large", mark)
                seen[key] = None

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Looks at all functions."""
        sources = SourceFiles()
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                _Namer(func, _source_of(func, sources)).run()


def _source_of(func: aa.FuncOp, sources: SourceFiles) -> FunctionNames | None:
    """What the source says of a kernel; None where there is none."""
    frame = next(inline_frames(func.location), None)
    function = enclosing_subprogram(frame.scope) if frame and frame.scope else None
    if function is None:
        return None
    return sources.function(function.file.path, function.sub_name.data, function.line.data)


class _Namer:
    """Marks the values of one function."""

    def __init__(self, func: aa.FuncOp, source: FunctionNames | None):
        self._func = func
        self._source = source

    def run(self) -> None:
        """Parameters first, then what is computed."""
        body = self._func.body.block
        self._name_blocks(body)
        self._name_parameters(body)

    def _name_parameters(self, entry: Block) -> None:
        source = self._source or FunctionNames(())
        found = parameter_names(entry, source.parameters)
        named = {argument: name for argument, name in found if name not in source.hidden}
        first = entry.first_op
        for number, argument in enumerate(entry.args, 1):
            name = _given_name(argument.location) or named.get(argument)
            if name is not None and first is not None:
                entry.insert_op_before(_mark(argument, name, self._func.location, number), first)

    def _name_blocks(self, block: Block) -> None:
        for op in list(block.ops):
            for region in op.regions:
                if isinstance(op, aa.ReduceOp | aa.ScanOp):
                    continue
                for inner in region.blocks:
                    self._name_blocks(inner)
            if isinstance(op, aa.ForOp):
                self._name_loop(op)
        self._name_results(block)

    def _name_loop(self, op: aa.ForOp) -> None:
        """The variable that a loop counts with."""
        place = _place(op)
        body = op.body.block
        counter = body.args[0]
        name = _given_name(counter.location)
        if name is None and self._source is not None and place is not None:
            name = self._source.loops.get(place)
        if name is not None and body.first_op is not None:
            body.insert_op_before(_mark(counter, name, op.location), body.first_op)

    def _name_results(self, block: Block) -> None:
        """Of the operations that one expression made the last one makes its value."""
        last: dict[tuple[Attribute, str], Operation] = {}
        for op in block.ops:
            if all(isinstance(result.type, aa.MemTokenType) for result in op.results):
                continue
            name = _given_name(op.location) or self._assigned_name(op)
            if name is not None:
                last[op.location, name] = op
        for (_, name), op in last.items():
            value = _value_of(op)
            if value is not None:
                block.insert_op_after(_mark(value, name, op.location), op)

    def _assigned_name(self, op: Operation) -> str | None:
        """The variable that the source assigns the expression of the operation to."""
        place = _place(op)
        variable = self._source.assigned.get(place) if self._source and place else None
        if variable is None:
            return None
        is_other_axis = isinstance(op, _OF_GRID) and op.axis.value.data != variable.axis
        return None if is_other_axis else variable.name


def parameter_names(entry: Block, names: tuple[str, ...]) -> Iterator[tuple[BlockArgument, str]]:
    """The names of a kernel's arguments; none where they cannot be told apart.

    A client passes an array as a pointer, its sizes and its strides. How many there are, the views
    of the pointer say.
    """
    ranks = {
        op.base: len(op.result.type.shape)
        for op in entry.walk()
        if isinstance(op, aa.MakeMemRefOp) and isinstance(op.result.type, MemRefType)
    }
    found: list[tuple[BlockArgument, str]] = []
    place = 0
    for name in names:
        if place >= len(entry.args):
            return
        base = entry.args[place]
        found.append((base, name))
        place += 1
        if not isinstance(base.type, PointerType):
            continue
        rank = ranks.get(base, 0)
        parts = entry.args[place : place + 2 * rank]
        if len(parts) < 2 * rank or not all(isinstance(part.type, IntegerType) for part in parts):
            return
        kinds = [f"{name}_{kind}_{axis}" for kind in ("shape", "stride") for axis in range(rank)]
        found += zip(parts, kinds, strict=True)
        place += 2 * rank
    if place == len(entry.args):
        yield from found


def _value_of(op: Operation) -> SSAValue | None:
    """The scalar or tile that an operation makes, if it is one."""
    values = [result for result in op.results if _is_shown(result.type)]
    return values[0] if len(values) == 1 else None


def _is_shown(type: Attribute) -> bool:
    if isinstance(type, TensorType):
        count = 1
        for size in type.get_shape():
            count *= size
        return count <= MAX_ELEMENTS
    return not isinstance(type, aa.MemTokenType | MemRefType | aa.TiledViewType)


def _given_name(location: Attribute) -> str | None:
    """The name that the program itself gives to a value."""
    return location.desc.data if isinstance(location, NameLoc | DINameLoc) else None


def _place(op: Operation) -> tuple[int, int] | None:
    """Line and column of an operation of the kernel itself, of none that was inlined."""
    frames = list(inline_frames(op.location))
    return (frames[0].location.line, frames[0].location.column) if len(frames) == 1 else None


def _mark(value: SSAValue, name: str, location: LocationAttr, parameter: int = 0) -> Operation:
    """The operation that gives the value to the variable."""
    mark = aa.DebugValueOp.create(
        operands=[value],
        properties={"variable": StringAttr(name), "parameter": IntAttr(parameter)},
    )
    mark.location = location
    return mark
