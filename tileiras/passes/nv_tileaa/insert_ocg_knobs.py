"""The pass `tileas-insert-OCG-knobs`: what hints ask of ptxas becomes attributes.

ptxas takes directives for a kernel and pragmas for a loop (PTX ISA, "Performance-Tuning
Directives" and "Descriptions of .pragma Strings"). The lowering writes them where the attributes
are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i32

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.planning.hints import forbids_unrolling, integer_hint

FEWEST_REGISTERS = 24
"""Policy: of a thread; with fewer ptxas cannot call a routine of libdevice."""


@dataclass(frozen=True)
class InsertOcgKnobsPass(IrPass):
    """Hands hints on to ptxas: how many registers a thread gets, which loops it must not unroll.

    Before   func {hints = {max_registers = 64, unroll = false}}: for ...
    After    func {max_registers = 64}: for {no_unroll} ...        `.maxnreg 64`, "nounroll"
    Requires loops that no pass rebuilds any more
    Leaves   kernels without such hints. `unroll = false` at a load or store is for the innermost
             loop around it. Where warps have roles, their registers are not a hint's to say: there
             the lowering does not write `.maxnreg`
    """

    name = "tileas-insert-OCG-knobs"
    title: ClassVar[str] = "Hand hints for ptxas on"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Looks at all functions."""
        most = ctx.require_target().max_registers_per_thread
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                _limit_registers(func, most)
                _keep_loops(func)


def _limit_registers(func: aa.FuncOp, most: int) -> None:
    wanted = integer_hint(func, "max_registers")
    if wanted is not None and FEWEST_REGISTERS <= wanted <= most:
        func.max_registers = IntegerAttr(wanted, i32)


def _keep_loops(func: aa.FuncOp) -> None:
    everywhere = forbids_unrolling(func)
    for op in func.walk():
        if everywhere and isinstance(op, aa.ForOp | aa.LoopOp):
            op.no_unroll = UnitAttr()
        elif op is not func and forbids_unrolling(op) and (loop := aa.loop_around(op)) is not None:
            loop.no_unroll = UnitAttr()
