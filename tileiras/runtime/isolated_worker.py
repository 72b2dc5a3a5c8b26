"""The process of `tileiras.runtime.isolated`: launches one kernel as it is told.

python -m tileiras.runtime.isolated_worker FOLDER      # which has job.json
python -m tileiras.runtime.isolated_worker device
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tileiras.runtime.child_process import serve
from tileiras.runtime.cuda_driver import call, current_target, enumerator
from tileiras.runtime.launching import Kernel, Module
from tileiras.runtime.streams import time_calls

FEW = 3
"""Policy: launches after which a kernel that is too slow is given up."""


@dataclass(frozen=True)
class _Parameter:
    """A parameter of a kernel."""

    type: str


@dataclass(frozen=True)
class _Information:
    """What a launch must know of a kernel."""

    name: str
    block: tuple[int, int, int]
    parameters: tuple[_Parameter, ...]


@dataclass(frozen=True)
class _DeviceArray:
    """The bytes of a file on the GPU, as an argument that every pointer parameter takes."""

    address: int
    size: int

    @classmethod
    def upload(cls, path: str) -> _DeviceArray:
        """Copies a file to the GPU."""
        size = os.path.getsize(path)
        address = int(call("cuMemAlloc", max(size, 1)))
        if size:
            with open(path, "rb") as stream:
                view = mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_COPY)
            call("cuMemcpyHtoD", address, ctypes.addressof(ctypes.c_char.from_buffer(view)), size)
        return cls(address, size)

    def download(self, path: str) -> None:
        """Copies into a file."""
        with open(path, "wb+") as stream:
            if not self.size:
                return
            stream.truncate(self.size)
            view = mmap.mmap(stream.fileno(), self.size)
        place = ctypes.addressof(ctypes.c_char.from_buffer(view))
        call("cuMemcpyDtoH", place, self.address, self.size)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface of bytes at the address."""
        return {"data": (self.address, False), "shape": (self.size,), "typestr": "|u1"}


def launch_as_told(
    folder: str, say: Callable[..., None], hear: Callable[[], dict[str, Any]]
) -> None:
    """One job: says when it could begin, launches when told, times when told."""
    with open(os.path.join(folder, "job.json")) as stream:
        job = json.load(stream)
    enumerator("CUevent_flags", "CU_EVENT_DEFAULT")  # imports the driver's library
    say(ready=True)
    hear()
    kernel, arguments = _load(job)
    grid = tuple(job["grid"])

    def launch() -> None:
        kernel.launch(grid, arguments)

    launch()
    call("cuCtxSynchronize")
    for one, value in zip(job["arguments"], arguments):
        if isinstance(value, _DeviceArray):
            value.download(one["result"])
    say(launched=True)
    while True:
        told = hear()
        say(times=_times(launch, told["repeats"], told["warm_up"], told["enough"]))


def _load(job: dict[str, Any]) -> tuple[Kernel, list[Any]]:
    """The kernel, and its arguments on the GPU."""
    with open(job["cubin"], "rb") as stream:
        cubin = stream.read()
    parameters = tuple(_Parameter(kind) for kind in job["types"])
    known = [_Information(job["entry"], tuple(job["block"]), parameters)]
    kernel = Module(cubin, known if parameters else ()).kernel(job["entry"])
    arguments = [
        _DeviceArray.upload(one["array"]) if "array" in one else one["value"]
        for one in job["arguments"]
    ]
    return kernel, arguments


def _times(
    launch: Callable[[], None], repeats: int, warm_up: int, enough: float | None
) -> list[float]:
    """The milliseconds of launches, of a few only where they take longer than is enough."""
    first = time_calls(launch, repeats=min(FEW, repeats), warm_up=warm_up)
    if repeats <= FEW or (enough is not None and min(first) > enough):
        return first
    return first + time_calls(launch, repeats=repeats - FEW, warm_up=0)


def tell_device(say: Callable[..., None], _: Callable[[], dict[str, Any]]) -> None:
    """What this machine's GPU is."""
    target = current_target()
    name = call("cuDeviceGetName", 128, call("cuDeviceGet", 0))
    say(
        target=target,
        name=bytes(name).split(b"\0")[0].decode(errors="replace"),
        driver=str(call("cuDriverGetVersion")),
    )


def main(argument: str) -> None:
    """Does what the command line says. Ends the process."""
    if argument == "device":
        serve(tell_device)
    serve(lambda say, hear: launch_as_told(argument, say, hear))


if __name__ == "__main__":
    main(sys.argv[1])
