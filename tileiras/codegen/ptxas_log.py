"""Reads what ptxas says: resources per kernel, advice, and where an error comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tileiras.errors import SourceLocation

_KERNEL = re.compile(r"Compiling entry function '([^']*)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_ERROR = re.compile(r"^ptxas .*?(?:line (\d+); )?(error|fatal)\s*: (.*)$", re.MULTILINE)
_ADVICE = re.compile(r"^ptxas .*?(?:warning|advisory)\s*: ?(.*)$", re.MULTILINE)
_PERFORMANCE_LOSS = re.compile(r"\(C75\d\d\).*")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")


@dataclass(frozen=True)
class KernelResources:
    """What one kernel needs: registers per thread; stack, spills and shared memory in bytes."""

    name: str
    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


def kernel_resources(log: str) -> tuple[KernelResources, ...]:
    """One record per kernel in the order of the log (`ptxas -v`)."""
    parts = _KERNEL.split(log)
    return tuple(
        _resources(name, text) for name, text in zip(parts[1::2], parts[2::2], strict=True)
    )


def _resources(name: str, text: str) -> KernelResources:
    spills, used, shared = _SPILLS.search(text), _USED.search(text), _SHARED.search(text)
    stack, stores, loads = (int(part) for part in spills.groups()) if spills else (0, 0, 0)
    return KernelResources(
        name,
        int(used.group(1)) if used else 0,
        stack,
        stores,
        loads,
        int(shared.group(1)) if shared else 0,
    )


def advisories(log: str) -> tuple[str, ...]:
    """Warnings and performance remarks, such as serialised wgmma (C7510), each once."""
    found = [match.group(1).strip() for match in _ADVICE.finditer(log)]
    found += [
        match.group(0).strip()
        for match in _PERFORMANCE_LOSS.finditer(log)
        if not any(match.group(0).strip() in line for line in found)
    ]
    return tuple(dict.fromkeys(line for line in found if line))


def first_error(log: str) -> str:
    """The first error message, without position and file name; empty if there is none."""
    match = _ERROR.search(log)
    return match.group(3).strip() if match else log.strip().partition("\n")[0]


def locate_error(log: str, ptx: str) -> SourceLocation | None:
    """The source position of the first error: the last `.loc` before its PTX line."""
    match = _ERROR.search(log)
    if match is None or match.group(1) is None:
        return None
    files = {int(number): name for number, name in _FILE.findall(ptx)}
    for line in reversed(ptx.splitlines()[: int(match.group(1))]):
        found = _LOC.match(line)
        if found:
            number, row, column = (int(part) for part in found.groups())
            return SourceLocation(files.get(number, "<unknown>"), row, column)
        if ".entry" in line or ".func" in line:
            break
    return None
