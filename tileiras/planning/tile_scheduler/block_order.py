"""Which tile block a CTA of a persistent kernel computes, so that neighbours share operands.

A grid that is launched as clusters is dealt out to the GPCs in turn, CTA by CTA: of the first wave
those that run in one GPC are about 8 apart. Tile blocks with neighbouring numbers mostly read the
same operands, and a GPC asks L2 once for what several of its SMs want at the same time. So within
each window of 128 CTAs those of one GPC take tile blocks that follow each other: CTA q * 8 + r
computes block r * 16 + q. Only kernels that share out work among the blocks of the grid gain by it:
they are launched with one block an SM. The others' later blocks go wherever an SM has become free.

On one H100, f16 8192^3, TFLOP/s without and with it: persistent 128x256 671, 719; persistent
128x128 515, 538; one tile a block, 128x128, 642, 559. The persistent 128x128 code launched without
clusters, whose CTAs fill one GPC after the other: 628.
"""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.analysis.persistent import is_persistent
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.memory import LoadBase, StoreBase, TiledLoadBase, TiledStoreBase

GPCS = 8
"""GPCs of an H100 or H200, the one with few SMs aside."""
SMS_OF_GPC = 16
"""SMs of a GPC, as far as all have them."""
BLOCK_ORDER = (GPCS, SMS_OF_GPC)

_SHARED = (
    aa.AtomicCASOp,
    aa.AtomicRMWOp,
    aa.TiledAtomicRedOp,
    aa.MultimemReduceOp,
    aa.MultimemStoreOp,
    aa.GridDependencyOp,
)


def block_order(func: aa.FuncOp) -> tuple[int, int] | None:
    """The window's GPCs and CTAs of each; None where the order of the grid is better or needed.

    Tile blocks that wait for each other may count on lower numbers being started first.
    """
    if any(may_talk(op) for op in func.walk()):
        return None
    return BLOCK_ORDER if is_persistent(func) else None


def may_talk(op: Operation) -> bool:
    """Whether the operation is one that tile blocks of a grid tell each other something by."""
    if isinstance(op, LoadBase | StoreBase | TiledLoadBase | TiledStoreBase):
        return op.ordering.data != MemoryOrdering.WEAK
    return isinstance(op, _SHARED)
