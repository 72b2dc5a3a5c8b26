"""`cute-fold`: what the algebra knows of a program without running it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import Pure

from tileiras.dialects.cute.construction import StaticOp
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.structure import FuncOp
from tileiras.dialects.cute.types import CopyAtomType, MmaAtomType, TiledCopyType, TiledMmaType
from tileiras.ir_pass import CompileContext, IrPass

INSTRUCTIONS = (CopyAtomType, MmaAtomType, TiledCopyType, TiledMmaType)
"""Types of values that are instructions: which target has them is asked where they are made."""


@dataclass(frozen=True)
class FoldPass(IrPass):
    """Writes layouts, shapes, coordinates and numbers that are static as such.

    Before   %l = cute.make_layout(%shape, %stride), %d = cute.logical_divide(%l, %tile)
    After    %d = cute.static() : () -> !cute.layout<..>, once in a function; what nobody uses is
             gone
    Requires cute, cute_nvgpu or cutlass, verified
    Leaves   operations whose result is known at run time, acts on memory or is an instruction
    """

    name = "cute-fold"
    title: ClassVar[str] = "Fold static values of CuTe's dialects"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Folds all functions of the module."""
        for func in op.body.block.ops:
            if isinstance(func, FuncOp):
                _fold(func)
                _drop_unused(func.body.block)


def _fold(func: FuncOp) -> None:
    """Replaces each static result by the first value of its type at the top of the function."""
    block = func.body.block
    known: dict[Attribute, SSAValue] = {}
    for op in list(func.walk()):
        if not isinstance(op, CuteOp) or not op.has_trait(Pure):
            continue
        kind = op.folded()
        if kind is None or isinstance(kind, INSTRUCTIONS):
            continue
        value = known.get(kind)
        if value is None:
            if isinstance(op, StaticOp) and op.parent is block:
                known[kind] = op.outputs[0]
                continue
            made = StaticOp.create(result_types=[kind])
            made.location = op.location
            _insert(block, made, op)
            value = known[kind] = made.outputs[0]
        value.name_hint = value.name_hint or op.outputs[0].name_hint
        op.outputs[0].replace_all_uses_with(value)
        op.detach()
        op.erase()


def _insert(block: Block, made: Operation, op: Operation) -> None:
    """In front of the operation of the function's own block that `op` is or stands in."""
    while op.parent is not block:
        outer = op.parent_op()
        assert outer is not None
        op = outer
    block.insert_op_before(made, op)


def _drop_unused(block: Block) -> None:
    """Removes operations without effect whose results nobody uses, the last ones first."""
    for op in reversed(list(block.ops)):
        for region in op.regions:
            for inner in region.blocks:
                _drop_unused(inner)
        is_used = any(result.first_use is not None for result in op.results)
        if not is_used and isinstance(op, CuteOp) and op.has_trait(Pure) and not _asks(op):
            op.detach()
            op.erase()


def _asks(op: CuteOp) -> bool:
    """Whether the target must have something for an operation, also where nobody uses it."""
    if isinstance(op, StaticOp):
        return False
    return not op.name.startswith("cute.") or isinstance(op.outputs[0].type, INSTRUCTIONS)
