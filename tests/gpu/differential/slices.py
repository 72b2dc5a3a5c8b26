"""Parts of a random program that still compute one of its outputs: what does a compiler do wrong?

The first is the program without what the output does not need. Each other one loads one of the
tiles that the output is computed from instead of computing it: where the output is wrong in the
first and right in such a one, the mistake is in what computes that tile, or in how it is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from xdsl.dialects.builtin import FunctionType, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tests.gpu.differential.programs import Loose, make_wide_program
from tileiras.dialects.cuda_tile.types import PointerType, TileType

_WRITES = re.compile(r"cuda_tile\.(?:store|atomic|reduce_view|memory)")
_READS = re.compile(r"cuda_tile\.(?:load|atomic|get_|alloca|constant|iota)")
_GUARDED = re.compile(r"cuda_tile\.(?:div|rem|sh[lr])")
"""Operations that are not defined for all operands: the program computes theirs with care."""


def slices(seed: int, output: int) -> Iterator[tuple[str, Loose]]:
    """Names and programs; names begin with that of the program."""
    name = f"p{seed}_o{output}"
    yield name, _reduced(seed, output, None)
    for number, found in enumerate(_tiles(make_wide_program(seed), output)):
        producer = found.owner
        assert isinstance(producer, Operation)
        what = producer.name.removeprefix("cuda_tile.")
        yield f"{name}_{number}_{what}", _reduced(seed, output, number)


def _reduced(seed: int, output: int, loaded: int | None) -> Loose:
    """The part for an output; the tile of number `loaded` comes from an input of its own."""
    program = make_wide_program(seed)
    inputs = program.inputs
    kept = _writes(program, output)
    if loaded is not None:
        inputs = (*inputs, _load_instead(program, _tiles(program, output)[loaded]))
    block = program.kernel.block
    needed = _needed(kept, block)
    for op in reversed(list(block.ops)):
        if op not in needed and op is not block.last_op:
            op.detach()
            op.erase()
    types = [argument.type for argument in block.args]
    program.kernel.entry.properties["function_type"] = FunctionType.from_lists(types, [])
    return Loose(program.kernel, inputs, program.outputs, seed, dict(program.ulps), program.flushed)


def _writes(program: Loose, output: int) -> list[Operation]:
    """What writes an output, at the top of the kernel."""
    waiting: list[SSAValue] = [program.kernel.args[len(program.inputs) + output]]
    found: dict[Operation, None] = {}
    while waiting:
        for use in list(waiting.pop().uses):
            op = _at_top(use.operation, program.kernel.block)
            writes = any(_WRITES.match(inner.name) for inner in op.walk())
            if op not in found and writes:
                found[op] = None
            elif not writes:
                waiting.extend(op.results)
    return list(found)


def _at_top(op: Operation, block: Block) -> Operation:
    """The operation of the kernel's own block in which one stands."""
    while op.parent_block() is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def _needed(writes: list[Operation], block: Block) -> set[Operation]:
    """These operations and all that they are computed from."""
    needed: set[Operation] = set()
    waiting = list(writes)
    while waiting:
        op = waiting.pop()
        if op in needed:
            continue
        needed.add(op)
        for inner in op.walk():
            for value in inner.operands:
                producer = value.owner
                if isinstance(producer, Operation) and not _is_inside(producer, op):
                    waiting.append(_at_top(producer, block))
    return needed


def _is_inside(op: Operation, outer: Operation) -> bool:
    parent: Operation | None = op
    while parent is not None and parent is not outer:
        parent = parent.parent_op()
    return parent is outer


def _tiles(program: Loose, output: int) -> list[SSAValue]:
    """Tiles that an output is computed from and that may have any elements, nearest first."""
    block = program.kernel.block
    waiting = [
        value
        for op in _writes(program, output)
        if op.name in ("cuda_tile.store_ptr_tko", "cuda_tile.store_view_tko")
        for value in op.operands
        if isinstance(value.type, TileType) and value is _stored(op)
    ]
    found: dict[SSAValue, None] = {}
    while waiting:
        value = waiting.pop(0)
        producer = value.owner
        if value in found or not isinstance(producer, Operation) or _READS.match(producer.name):
            continue
        type = value.type
        if not isinstance(type, TileType) or isinstance(type.element_type, PointerType):
            continue
        if producer.parent_block() is not block or producer.regions and len(producer.results) > 1:
            continue
        guarded = any(_GUARDED.match(use.operation.name) for use in value.uses)
        if type.element_type != i1 and prod(type.shape) > 1 and not guarded:
            found[value] = None
        waiting.extend(producer.operands)
    return list(found)


def _stored(op: Operation) -> SSAValue:
    """The tile that a store writes."""
    return op.operands[1] if op.name == "cuda_tile.store_ptr_tko" else op.operands[0]


def _load_instead(program: Loose, value: SSAValue) -> tuple[Attribute, int]:
    """Uses of a tile become uses of one that is loaded from a new input, which is returned."""
    kernel, type = program.kernel, value.type
    assert isinstance(type, TileType)
    block = kernel.block
    pointer = block.insert_arg(TileType(PointerType(type.element_type)), len(program.inputs))
    last, first = block.last_op, block.first_op
    assert last is not None and first is not None
    loaded = kernel.load(pointer, type.shape)
    made: list[Operation] = []
    while (op := last.next_op) is not None:
        op.detach()
        made.append(op)
    Rewriter.insert_op(made, InsertPoint.before(first))
    value.replace_all_uses_with(loaded)
    return type.element_type, prod(type.shape)
