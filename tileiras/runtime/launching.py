"""Modules and kernels on the GPU: loaded from cubins, launched over grids of tile blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

from tileiras.runtime.arguments import (
    HostCopy,
    device_address,
    is_host_array,
    is_numpy_scalar,
    pack_scalar,
)
from tileiras.runtime.cuda_driver import GpuError, call, enumerator
from tileiras.runtime.streams import is_capturing, stream_number

Grid = tuple[int, int, int]
PORTABLE_CLUSTER = 8
"""Fixed: CTAs of the largest cluster that a launch need not allow (CUDA Programming Guide)."""


class Parameter(Protocol):
    """What a launch must know of a parameter: its type as the launch information has it."""

    @property
    def type(self) -> str:
        """Such as `ptr<f32>` or `i32`."""
        ...


class LaunchInformation(Protocol):
    """What a launch must know of a kernel of ours: `tileiras.launch_info.KernelLaunch` has it."""

    @property
    def name(self) -> str:
        """The entry."""
        ...

    @property
    def block(self) -> tuple[int, int, int]:
        """The block to launch with, in threads."""
        ...

    @property
    def cluster_size(self) -> int:
        """CTAs of a cluster."""
        ...

    @property
    def parameters(self) -> Sequence[Parameter]:
        """The parameters in order."""
        ...


class Module:
    """A cubin on device 0. `with` unloads it at the end.

    `kernels` is the launch information of what it holds: with it Python numbers are converted to
    the types of the parameters. A cubin of another compiler has none.
    """

    def __init__(self, cubin: bytes, kernels: Sequence[LaunchInformation] = ()):
        if not cubin.startswith(b"\x7fELF"):
            raise GpuError("what shall be loaded is no cubin: it does not begin as an ELF file")
        self._kernels = {kernel.name: kernel for kernel in kernels}
        self._module: Any = call("cuModuleLoadData", cubin)

    def kernel(self, name: str) -> Kernel:
        """An entry of the module; raises GpuError where there is none of this name."""
        if self._module is None:
            raise GpuError("the module was unloaded")
        if self._kernels and name not in self._kernels:
            raise GpuError(f"no kernel '{name}', found: {', '.join(self._kernels)}")
        function = call("cuModuleGetFunction", self._module, name.encode())
        information = self._kernels.get(name)
        if information is not None and information.cluster_size > PORTABLE_CLUSTER:
            allowed = "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"
            attribute = enumerator("CUfunction_attribute", allowed)
            call("cuFuncSetAttribute", function, attribute, 1)
        return Kernel(name, function, information)

    def unload(self) -> None:
        """Gives the module back; its kernels must not be launched any more."""
        if self._module is not None:
            module, self._module = self._module, None
            call("cuModuleUnload", module)

    def __enter__(self) -> Module:
        """The module itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Unloads it."""
        self.unload()


class Kernel:
    """An entry of a loaded module."""

    def __init__(self, name: str, function: Any, information: LaunchInformation | None):
        self.name = name
        self._function = function
        self._information = information

    def launch(
        self,
        grid: Grid,
        args: Sequence[Any],
        stream: object = None,
        block: tuple[int, int, int] | None = None,
    ) -> None:
        """Launches `grid` tile blocks on `args`, one for each parameter.

        numpy arrays are copied to the GPU, the launch is waited for, and they are copied back.
        Without any the launch is asynchronous, ordered in `stream` (ours, torch's, cupy's, a
        number; None: the default stream). `block` in threads is that of the launch information, or
        one thread. Raises GpuError for a grid or arguments that do not fit, and for what the driver
        refuses.
        """
        _check_sizes("grid", grid)
        if block is None:
            block = self._information.block if self._information is not None else (1, 1, 1)
        _check_sizes("block", block)
        kinds = self._types(len(args))
        number = stream_number(stream)
        copies: dict[int, HostCopy] = {}
        try:
            packed = [
                self._pack(position, value, kind, number, copies)
                for position, (value, kind) in enumerate(zip(args, kinds))
            ]
            self._enqueue(grid, block, number, packed)
            if copies:
                call("cuStreamSynchronize", number)
                for copy in copies.values():
                    copy.download()
        finally:
            for copy in copies.values():
                copy.free()

    def _types(self, count: int) -> list[str]:
        """The types of the parameters, empty ones where nobody knows."""
        if self._information is None:
            return [""] * count
        kinds = [parameter.type for parameter in self._information.parameters]
        if len(kinds) != count:
            raise GpuError(f"kernel '{self.name}' takes {len(kinds)} arguments, got {count}")
        return kinds

    def _pack(
        self, position: int, value: Any, kind: str, stream: int, copies: dict[int, HostCopy]
    ) -> bytes:
        """The bytes of one argument; copies of numpy arrays are added to `copies`, one an array."""
        where = f"argument {position} of '{self.name}'"
        if is_host_array(value):
            _check_pointer(kind, where)
            if is_capturing(stream):
                raise GpuError(f"{where} is a numpy array, whose copies cannot be captured")
            if id(value) not in copies:
                copies[id(value)] = HostCopy.upload(value, where)
            return copies[id(value)].address.to_bytes(8, "little")
        if not is_numpy_scalar(value):
            address = device_address(value, where, stream)
            if address is not None:
                _check_pointer(kind, where)
                return address.to_bytes(8, "little")
        return pack_scalar(value, kind, where)

    def _enqueue(self, grid: Grid, block: Grid, stream: int, packed: Sequence[bytes]) -> None:
        """Calls the driver, which copies the arguments before it returns."""
        buffers = [ctypes.create_string_buffer(data, len(data)) for data in packed]
        pointers = (ctypes.c_void_p * max(len(buffers), 1))(*map(ctypes.addressof, buffers))
        where = ctypes.addressof(pointers)
        call("cuLaunchKernel", self._function, *grid, *block, 0, stream, where, 0)


def _check_pointer(kind: str, where: str) -> None:
    """Raises GpuError for an array where a number is expected."""
    if kind and not kind.startswith("ptr<"):
        raise GpuError(f"{where} is an array, expected a number for '{kind}'")


def _check_sizes(what: str, sizes: Sequence[int]) -> None:
    """Raises GpuError for anything but three positive numbers."""
    if len(sizes) != 3 or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise GpuError(f"the {what} is {tuple(sizes)}, expected three positive numbers")
