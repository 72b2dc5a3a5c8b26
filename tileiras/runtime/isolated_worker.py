"""The process of `tileiras.runtime.isolated`: launches kernels as it is told.

python -m tileiras.runtime.isolated_worker serve
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

from tileiras.runtime.batches import time_batches
from tileiras.runtime.child_process import serve
from tileiras.runtime.cuda_driver import call, current_target
from tileiras.runtime.launching import Module
from tileiras.runtime.streams import Stream


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
    cluster_size: int


@dataclass(frozen=True)
class _DeviceArray:
    """Bytes on the GPU for those of a file, as an argument that every pointer takes."""

    address: int
    size: int

    @classmethod
    def allocate(cls, path: str) -> _DeviceArray:
        """Memory for a file."""
        size = os.path.getsize(path)
        return cls(int(call("cuMemAlloc", max(size, 1))), size)

    def upload(self, path: str) -> None:
        """Copies the file to the GPU."""
        if not self.size:
            return
        with open(path, "rb") as stream:
            view = mmap.mmap(stream.fileno(), self.size, access=mmap.ACCESS_COPY)
        place = ctypes.addressof(ctypes.c_char.from_buffer(view))
        call("cuMemcpyHtoD", self.address, place, self.size)

    def download(self, before: str, path: str) -> bool:
        """Copies into a file, unless the bytes are those of the file `before`: then False."""
        if not self.size:
            return False
        view = mmap.mmap(-1, self.size)
        place = ctypes.addressof(ctypes.c_char.from_buffer(view))
        call("cuMemcpyDtoH", place, self.address, self.size)
        with open(before, "rb") as stream:
            known = mmap.mmap(stream.fileno(), self.size, access=mmap.ACCESS_READ)
        if memoryview(view).cast("B") == memoryview(known).cast("B"):
            return False
        with open(path, "wb") as stream:
            stream.write(view)
        return True

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface of bytes at the address."""
        return {"data": (self.address, False), "shape": (self.size,), "typestr": "|u1"}


class _Loaded:
    """A kernel that is loaded, with its arguments on the GPU."""

    def __init__(self, job: dict[str, Any], arrays: dict[str, _DeviceArray]):
        with open(job["cubin"], "rb") as stream:
            cubin = stream.read()
        parameters = tuple(_Parameter(kind) for kind in job["types"])
        size = job["cluster_size"]
        known = [_Information(job["entry"], tuple(job["block"]), parameters, size)]
        self._module = Module(cubin, known if parameters else ())
        self._kernel = self._module.kernel(job["entry"])
        self._grid, self._told = tuple(job["grid"]), job["arguments"]
        self._arguments: list[Any] = []
        for one in self._told:
            if "array" in one:
                path = one["array"]
                if path not in arrays:
                    arrays[path] = _DeviceArray.allocate(path)
                arrays[path].upload(path)
                self._arguments.append(arrays[path])
            else:
                self._arguments.append(one["value"])

    def launch(self, stream: Stream | None = None) -> None:
        """Enqueues it."""
        self._kernel.launch(self._grid, self._arguments, stream)

    def write_results(self) -> list[int]:
        """Waits, and writes the arrays that are not as before; their places."""
        call("cuCtxSynchronize")
        return [
            place
            for place, (one, value) in enumerate(zip(self._told, self._arguments))
            if isinstance(value, _DeviceArray) and value.download(one["array"], one["result"])
        ]

    def unload(self) -> None:
        """Gives the module back."""
        self._module.unload()


def launch_as_told(say: Callable[..., None], hear: Callable[[], dict[str, Any]]) -> None:
    """Says what its GPU is, and when it could begin; then loads, launches, times, forgets kernels.

    Kernels share their arrays, which have the bytes of their files again before each first launch.
    """
    tell_device(say, hear)
    call("cuCtxSynchronize")  # makes the context, while the first kernel is compiled
    say(ready=True)
    arrays: dict[str, _DeviceArray] = {}
    kernels: list[_Loaded] = []
    while True:
        told = hear()
        if "load" in told:
            with open(told["load"]) as stream:
                kernels.append(_Loaded(json.load(stream), arrays))
            kernels[-1].launch()
            say(changed=kernels[-1].write_results())
        elif "repeats" in told:
            works = [kernel.launch for kernel in kernels]
            say(times=time_batches(works, told["repeats"], told["enough"]))
        else:
            while kernels:
                kernels.pop().unload()
            say(forgotten=True)


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
    serve(launch_as_told)


if __name__ == "__main__":
    main(sys.argv[1])
