"""What a kernel's warp roles, or their absence, mean for its launch."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr

from tileiras.codegen.atoms.mma import get_mma_atom
from tileiras.codegen.lowering.spin_loops import ctas_that_wait
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas.encoding import layout_of

WARPS_OF_PARTS, MOST_SUMS_OF_PARTS = 8, 64
"""Policy: warps of a CTA and registers of a thread for sums with which two CTAs fit an SM, if ptxas
is told so. 4096x4096x4096 f32 in tiles of 128x128x16, us on one H200, with 134 registers and 128:
3552 and 2321; b by columns 3551 and 2443; 64x128x64 3252 and 2490 (decision 0083).
"""


def role_threads(func: aa.FuncOp) -> int:
    """Threads beside the consumers, if the kernel is specialised."""
    switch = agent_switch(func)
    return 32 * switch.producer_warps.data if switch is not None else 0


def wanted_ctas(func: aa.FuncOp) -> int | None:
    """How many CTAs of the kernel shall fit an SM; None if that is open.

    Kernels without warp specialization have a say in it where tile blocks wait for each other,
    where products read loaded tiles in their stages, or where they multiply parts of f32 in loops.
    """
    switch = agent_switch(func)
    if switch is not None:
        return switch.ctas.data
    pipelines = [
        op.ctas.data for op in func.walk() if isinstance(op, tas.AllocTensorOp) and op.ctas
    ]
    return ctas_that_wait(func) or min(pipelines, default=None) or _ctas_of_parts(func)


def _ctas_of_parts(func: aa.FuncOp) -> int | None:
    """Two CTAs where eight warps multiply parts of f32 in a loop, and sums leave room for that.

    Tiles that are brought ahead take shared memory for one CTA.
    """
    if any(isinstance(op, tas.AllocTensorOp) for op in func.walk()):
        return None
    products = [
        op
        for op in func.walk()
        if isinstance(op, tas.MmaDotOp)
        and get_mma_atom(op.atom.data).parts
        and isinstance(op.parent_op(), aa.ForOp)
    ]
    layouts = [layout_of(op.result.type) for op in products]
    sums = [layout.in_size("register") for layout in layouts if layout is not None]
    warps = func.num_warps
    is_known = isinstance(warps, IntegerAttr) and warps.value.data == WARPS_OF_PARTS
    return 2 if is_known and sums and max(sums) <= MOST_SUMS_OF_PARTS else None


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
