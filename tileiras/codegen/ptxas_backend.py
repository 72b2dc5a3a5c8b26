"""PTX text to a cubin, through ptxas in a process of its own."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tileiras.codegen.check_cubin import check_cubin
from tileiras.codegen.ptxas_log import (
    KernelResources,
    advisories,
    first_error,
    kernel_resources,
    locate_error,
)
from tileiras.codegen.ptxas_process import TemporaryFolder, arguments_of, find_ptxas, spawn, take
from tileiras.codegen.target import GpuTarget
from tileiras.errors import CompileError, InternalError, TargetError
from tileiras.options import CompileOptions
from tileiras.termination import CRASHES, wait_for_process

_REQUESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECONDS_TO_BE_ENDED = 0.2
"""A terminal sends its signals to us as well: within this time they have ended us."""


@dataclass(frozen=True)
class PtxasResult:
    """What ptxas made. `advice` are its warnings and performance remarks, one line each."""

    cubin: bytes
    log: str
    kernels: tuple[KernelResources, ...] = field(default=())
    advice: tuple[str, ...] = field(default=())

    @property
    def registers(self) -> int:
        """Registers per thread of the hungriest kernel."""
        return max((kernel.registers for kernel in self.kernels), default=0)

    @property
    def spills(self) -> int:
        """Bytes spilled (stores and loads) over all kernels."""
        return sum(kernel.spill_stores + kernel.spill_loads for kernel in self.kernels)


def ptx_to_cubin(ptx: str, target: GpuTarget, options: CompileOptions) -> PtxasResult:
    """Assembles PTX for `target`, again while a kernel spills with registers to spare.

    Raises CompileError with ptxas's own words, at the source line where `.loc` tells it, and
    TargetError if ptxas is missing or too old.
    """
    result = _assemble(ptx, target, options)
    while result.spills:
        from tileiras.codegen.spilled_registers import with_more_registers

        wider = with_more_registers(ptx, result.kernels, target)
        again = _assemble(wider, target, options) if wider is not None else None
        if wider is None or again is None or again.spills >= result.spills:
            break
        ptx, result = wider, again
    return result


def _assemble(ptx: str, target: GpuTarget, options: CompileOptions) -> PtxasResult:
    """One run of ptxas."""
    ptxas = find_ptxas(options.knobs)
    arguments = arguments_of(target, options)
    started = take(ptxas, arguments, options.knobs)
    with started.folder if started is not None else TemporaryFolder(options.knobs) as folder:
        source, cubin, log = folder.files()
        status = started.finish(ptx.encode()) if started is not None else None
        if status != 0:  # told again without a head start: whatever went wrong is found there
            try:
                with open(source, "wb") as stream:
                    stream.write(ptx.encode())
            except OSError as error:
                raise _cannot_write(source, error.strerror) from error
            process = spawn(ptxas, [*arguments, "-o", cubin, source], options.knobs, log)
            status = wait_for_process(process)
        text = _read(log).decode(errors="replace")
        if status != 0:
            _raise_failure(ptxas, text, ptx, status, options.knobs, folder.path, target)
        data = _read(cubin)
        try:
            check_cubin(data, target, ptx)
        except CompileError as error:
            if _is_full(folder.path):
                raise _cannot_write(cubin, os.strerror(errno.ENOSPC)) from error
            raise
    return PtxasResult(data, text, kernel_resources(text), advisories(text))


def _read(path: str) -> bytes:
    """The content of a file; empty where there is none."""
    try:
        with open(path, "rb") as stream:
            return stream.read()
    except FileNotFoundError:
        return b""


def ptxas_release(ptxas: str, knobs: Mapping[str, str]) -> tuple[int, int] | None:
    """The release that `ptxas --version` says, such as (13, 5); None if it says nothing."""
    with TemporaryFolder(knobs) as folder:
        return _release(ptxas, knobs, folder.path)


def _release(ptxas: str, knobs: Mapping[str, str], folder: str) -> tuple[int, int] | None:
    log = os.path.join(folder, "version")
    wait_for_process(spawn(ptxas, ["--version"], knobs, log))
    after = _read(log).decode(errors="replace").partition("release ")[2]
    parts = after.partition(",")[0].split(".")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        return None
    return int(parts[0]), int(parts[1])


def _raise_failure(
    ptxas: str,
    log: str,
    ptx: str,
    status: int,
    knobs: Mapping[str, str],
    folder: str,
    target: GpuTarget,
) -> None:
    """Says why ptxas failed. Its release is only asked for now, since asking costs 5 ms."""
    if status < 0:
        _raise_killed(-status, folder)
    release = _release(ptxas, knobs, folder)
    if release is not None and release < target.ptxas_release:
        found, wanted = (".".join(map(str, pair)) for pair in (release, target.ptxas_release))
        raise TargetError(
            f"{ptxas} is release {found}, expected {wanted} or newer for {target.name}"
        )
    if _is_full(folder):
        raise _cannot_write(folder, os.strerror(errno.ENOSPC))
    message = first_error(log) or f"it ended with status {status} and no message"
    raise CompileError(f"ptxas rejected the generated code: {message}", locate_error(log, ptx))


def _raise_killed(number: int, folder: str) -> None:
    """Says which signal ended ptxas, and whose fault that is."""
    if number in _REQUESTS:
        time.sleep(_SECONDS_TO_BE_ENDED)
    if number == signal.SIGXFSZ:
        raise _cannot_write(folder, os.strerror(errno.EFBIG))
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if number in CRASHES and not _is_full(folder):
        raise InternalError(f"ptxas was killed by {name}", where="ptxas")
    if _is_full(folder):
        raise _cannot_write(folder, os.strerror(errno.ENOSPC))
    error = CompileError(f"ptxas was killed by {name}")
    if number == signal.SIGKILL:
        error.notes.append("the system does this when memory runs out")
    raise error


def _is_full(folder: str) -> bool:
    """Whether the file system of the folder has no room left for us."""
    return os.statvfs(folder).f_bavail == 0


def _cannot_write(path: str, reason: str | None) -> TargetError:
    return TargetError(f"unable to write temporary file '{path}': {reason}")
