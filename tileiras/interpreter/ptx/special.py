"""Special registers (PTX ISA, "Special Registers")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tileiras.interpreter.ptx.state import Cta

_ENVIRONMENT = tuple(f"envreg{number}" for number in range(32))
_COUNTERS = ("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi")
_FIXED = [
    "laneid",
    "warpid",
    "nwarpid",
    "smid",
    "nsmid",
    "gridid",
    "lanemask_eq",
    "lanemask_lt",
    "lanemask_le",
    "lanemask_gt",
    "lanemask_ge",
    "cluster_ctarank",
    "cluster_nctarank",
    "is_explicit_cluster",
    "dynamic_smem_size",
    "total_smem_size",
    "reserved_smem_offset_begin",
    "reserved_smem_offset_end",
    "reserved_smem_offset_cap",
]
_TRIPLES = [
    "tid",
    "ntid",
    "ctaid",
    "nctaid",
    "clusterid",
    "nclusterid",
    "cluster_ctaid",
    "cluster_nctaid",
]


def special_register(name: str) -> Callable[[Cta], np.ndarray] | None:
    """What reads a special register, one value per thread; None for an unknown name.

    Clocks count instructions of the CTA: they grow, and say nothing about time.
    """
    stem, _, axis = name.partition(".")
    if name in _FIXED or (stem in _TRIPLES and axis in ("x", "y", "z")):
        return lambda cta: cta.special[name]
    if name in _COUNTERS:
        shift = 32 if name.endswith("_hi") else 0
        return lambda cta: np.full(cta.threads, cta.clock >> shift, np.uint64)
    if name in _ENVIRONMENT:
        return lambda cta: np.zeros(cta.threads, np.uint32)
    return None
