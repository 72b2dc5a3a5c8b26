"""`convert-cute-to-llvm`: the lowering of CuTe's dialects as a pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.codegen.cute.lowering import lower_module
from tileiras.dialects.cute.structure import FuncOp
from tileiras.dialects.locations import place_of
from tileiras.errors import CompileError
from tileiras.ir_pass import CompileContext, IrPass


@dataclass(frozen=True)
class ConvertCuteToLLVMPass(IrPass):
    """Writes every kernel of CuTe's dialects as the program of one thread.

    Before   cute.func: tensors are pointers with layouts, pipelines have stages
    After    llvm.func: offsets are sums, pipelines are mbarriers; llvm.global for shared memory
    Requires cute, cute_nvgpu or cutlass; a target that has the instructions of the atoms
    Leaves   nothing of them
    """

    name = "convert-cute-to-llvm"
    title: ClassVar[str] = "Convert CuTe's dialects to llvm and nvvm"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Lowers all functions; CompileError with the place of what cannot be compiled."""
        for item in op.body.block.ops:
            if not isinstance(item, FuncOp):
                what = f"'{item.name}' op is no kernel of CuTe's dialects"
                raise CompileError(what, place_of(item))
        lowered = lower_module(op, ctx.require_target())
        for item in list(op.body.block.ops):
            item.detach()
        for item in list(lowered.body.block.ops):
            item.detach()
            op.body.block.add_op(item)
