"""Kernels that ptxas lets spill although it gives their threads fewer registers than there are.

Where values do not fit into 255 registers, ptxas may settle for 64, as if four CTAs were to share
an SM, and spill thousands of bytes. `.minnctapersm 1` says that one is enough. Where many CTAs are
asked for on an SM, one less leaves more registers to each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod

from tileiras.codegen.ptxas_log import KernelResources
from tileiras.codegen.target import GpuTarget

_HEAD = re.compile(r"\.entry\s+([\w$.]+)\s*\([^)]*\)([^{]*)\{")
_THREADS = re.compile(r"^\.reqntid\s+([\d, ]+)$", re.MULTILINE)
_CTAS = re.compile(r"^\.minnctapersm\s+(\d+)$", re.MULTILINE)
COUNTED_ON = 3
"""CTAs on an SM that specialised kernels count on; more are a preference."""


def with_more_registers(ptx: str, used: Iterable[KernelResources], target: GpuTarget) -> str | None:
    """The PTX with spilling kernels allowed more registers; None if none of them can have more."""
    used = list(used)
    return with_fewer_ctas(ptx, used) or with_all_registers(ptx, used, target)


def with_fewer_ctas(ptx: str, used: Iterable[KernelResources]) -> str | None:
    """The PTX with a CTA less on an SM for spilling kernels that ask for many; None without."""
    spilling = {kernel.name for kernel in used if kernel.spill_stores + kernel.spill_loads}
    changed = ptx
    for match in reversed([m for m in _HEAD.finditer(ptx) if m[1] in spilling]):
        asked = _CTAS.search(match[2])
        if asked is not None and int(asked[1]) > COUNTED_ON:
            start, end = (match.start(2) + place for place in asked.span(1))
            changed = f"{changed[:start]}{int(asked[1]) - 1}{changed[end:]}"
    return changed if changed != ptx else None


_LIMITS = (".minnctapersm", ".maxnreg")


def with_all_registers(ptx: str, used: Iterable[KernelResources], target: GpuTarget) -> str | None:
    """The PTX with spilling kernels allowed all registers; None if none of them wants more."""
    spilling = {kernel.name: kernel for kernel in used if kernel.spill_stores + kernel.spill_loads}
    places = [
        match.end(2)
        for match in (_HEAD.finditer(ptx) if spilling else ())
        if match[1] in spilling and _is_short(match[2], spilling[match[1]].registers, target)
    ]
    for place in reversed(places):
        ptx = f"{ptx[:place]}.minnctapersm 1\n{ptx[place:]}"
    return ptx if places else None


def _is_short(directives: str, registers: int, target: GpuTarget) -> bool:
    """Whether the threads of a kernel could have more registers and no directive forbids it."""
    threads = _THREADS.search(directives)
    if threads is None or any(limit in directives for limit in _LIMITS):
        return False
    share = target.registers_per_sm // prod(int(count) for count in threads[1].split(","))
    return registers < min(target.max_registers_per_thread, target.whole_units(share))
