"""What a kernel's warp roles, or their absence, mean for its launch."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr

from tileiras.codegen.lowering.spin_loops import ctas_that_wait
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas import pipeline as pl


def role_threads(func: aa.FuncOp) -> int:
    """Threads beside the consumers, if the kernel is specialised."""
    switch = agent_switch(func)
    return 32 * switch.producer_warps.data if switch is not None else 0


def wanted_ctas(func: aa.FuncOp) -> int | None:
    """How many CTAs of the kernel shall fit an SM; None if that is open.

    Kernels without warp specialization have a say in it where tile blocks wait for each other, or
    where products read loaded tiles in their stages.
    """
    switch = agent_switch(func)
    if switch is not None:
        return switch.ctas.data
    pipelines = [
        op.ctas.data for op in func.walk() if isinstance(op, tas.AllocTensorOp) and op.ctas
    ]
    return ctas_that_wait(func) or min(pipelines, default=None)


def register_limit(func: aa.FuncOp) -> int | None:
    """Registers that a thread may have; None if that is open, or for warp roles to divide."""
    limit = func.max_registers
    if agent_switch(func) is not None or not isinstance(limit, IntegerAttr):
        return None
    return limit.value.data


def agent_switch(func: aa.FuncOp) -> pl.AgentSwitchOp | None:
    """The warp roles of a specialised kernel."""
    switches = (op for op in func.body.block.ops if isinstance(op, pl.AgentSwitchOp))
    return next(switches, None)
