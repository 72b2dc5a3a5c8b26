"""All rule files: what fills the table of instructions."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from tileiras.interpreter.ptx.decoding import Step
from tileiras.interpreter.ptx.program import Kernel
from tileiras.interpreter.ptx.rules import decode

FAMILIES = (
    "access",
    "barriers",
    "bulk",
    "cluster_launch",
    "control",
    "conversions",
    "copies",
    "floating",
    "integer",
    "matrix",
    "moving",
    "tensor_maps",
    "tma",
    "tcgen05",
    "tmem",
    "tmem_allocation",
    "warp",
    "wgmma",
)


@cache
def load_families() -> None:
    """Imports every family once; importing registers its rules."""
    for name in FAMILIES:
        import_module(f"tileiras.interpreter.ptx.{name}")


def decode_kernel(kernel: Kernel) -> list[Step]:
    """A kernel's instructions, decoded by the rules of every family."""
    load_families()
    steps = decode(kernel)
    from tileiras.interpreter.ptx.wgmma import watch_registers

    watch_registers(steps)
    return steps
