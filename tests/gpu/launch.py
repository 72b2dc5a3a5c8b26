"""Launches cubins through the CUDA driver on numpy arguments, as Tile IR clients do.

Every array is copied to the device between guard bytes, and back after the launch; a kernel that
writes outside an array is an error even where the result is right. Needs a GPU and the package
cuda-bindings (part of cuda-python).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

GUARD_BYTES = 4096
GUARD_VALUE = 0xA5

Scalar = np.generic
"""Scalars are numpy scalars, so that their size is known: `np.int32(3)`, `np.float16(1)`."""


class LaunchError(Exception):
    """The driver refused, or the kernel wrote where it may not."""


def check(result: tuple[Any, ...], what: str) -> Any:
    """The value of a driver call that returns (status, value...)."""
    from cuda.bindings import driver

    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        _, name = driver.cuGetErrorName(status)
        raise LaunchError(f"{what}: {name.decode() if name else status}")
    return values[0] if values else None


@cache
def primary_context() -> Any:
    """Makes device 0's primary context current (shared with torch in this process)."""
    from cuda.bindings import driver

    check(driver.cuInit(0), "cuInit")
    device = check(driver.cuDeviceGet(0), "cuDeviceGet")
    return check(driver.cuDevicePrimaryCtxRetain(device), "cuDevicePrimaryCtxRetain")


def gpu_name() -> str:
    """The name of device 0's architecture as `--gpu-name` takes it."""
    from cuda.bindings import driver

    check(driver.cuInit(0), "cuInit")
    device = check(driver.cuDeviceGet(0), "cuDeviceGet")
    attribute = driver.CUdevice_attribute
    major, minor = (
        check(driver.cuDeviceGetAttribute(which, device), "cuDeviceGetAttribute")
        for which in (
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    return f"sm_{major}{minor}"


@dataclass
class _DeviceArray:
    """A device copy of a host array, between two guards."""

    host: np.ndarray
    base: int

    @classmethod
    def upload(cls, host: np.ndarray) -> _DeviceArray:
        from cuda.bindings import driver

        if not host.flags.c_contiguous:
            raise LaunchError("array arguments must be contiguous")
        size = host.nbytes + 2 * GUARD_BYTES
        base = int(check(driver.cuMemAlloc(size), "cuMemAlloc"))
        array = cls(host, base)
        image = np.full(size, GUARD_VALUE, dtype=np.uint8)
        image[GUARD_BYTES : GUARD_BYTES + host.nbytes] = host.reshape(-1).view(np.uint8)
        check(driver.cuMemcpyHtoD(base, image.ctypes.data, size), "cuMemcpyHtoD")
        return array

    @property
    def address(self) -> int:
        """Where the array's first element lies on the device."""
        return self.base + GUARD_BYTES

    def download(self, position: int) -> None:
        """Copies back into the host array; raises LaunchError where a guard was overwritten."""
        from cuda.bindings import driver

        image = np.empty(self.host.nbytes + 2 * GUARD_BYTES, dtype=np.uint8)
        check(driver.cuMemcpyDtoH(image.ctypes.data, self.base, image.size), "cuMemcpyDtoH")
        end = GUARD_BYTES + self.host.nbytes
        for name, guard in (("before", image[:GUARD_BYTES]), ("behind", image[end:])):
            touched = np.flatnonzero(guard != GUARD_VALUE)
            if touched.size:
                raise LaunchError(f"{touched.size} bytes {name} argument {position} were written")
        self.host.reshape(-1).view(np.uint8)[:] = image[GUARD_BYTES:end]

    def free(self) -> None:
        """Gives the memory back."""
        from cuda.bindings import driver

        driver.cuMemFree(self.base)


def launch_cubin(
    cubin: bytes,
    entry: str,
    args: Sequence[np.ndarray | Scalar],
    grid: tuple[int, int, int],
    block: tuple[int, int, int] = (1, 1, 1),
    shared: int = 0,
) -> None:
    """Loads a cubin, launches an entry on arrays (updated in place) and scalars, and waits.

    `shared`: bytes of shared memory beside what the kernel declares.
    """
    from cuda.bindings import driver

    check(driver.cuCtxSetCurrent(primary_context()), "cuCtxSetCurrent")
    arrays = {
        position: _DeviceArray.upload(arg)
        for position, arg in enumerate(args)
        if isinstance(arg, np.ndarray)
    }
    values = [
        np.array([arrays[position].address], np.uint64) if position in arrays else np.array([arg])
        for position, arg in enumerate(args)
    ]
    pointers = np.array([value.ctypes.data for value in values] or [0], dtype=np.uint64)
    module = check(driver.cuModuleLoadData(cubin), "cuModuleLoadData")
    try:
        function = check(driver.cuModuleGetFunction(module, entry.encode()), "cuModuleGetFunction")
        if shared:
            most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(driver.cuFuncSetAttribute(function, most, shared), "cuFuncSetAttribute")
        launch = (*grid, *block, shared, 0, pointers.ctypes.data, 0)
        check(driver.cuLaunchKernel(function, *launch), "cuLaunchKernel")
        check(driver.cuCtxSynchronize(), "cuCtxSynchronize")
        for position, array in arrays.items():
            array.download(position)
    finally:
        for array in arrays.values():
            array.free()
        driver.cuModuleUnload(module)


def launch_repeatedly(
    cubin: bytes,
    entry: str,
    args: Sequence[np.ndarray | Scalar],
    grid: tuple[int, int, int],
    result: int,
    times: int,
) -> Iterator[np.ndarray]:
    """Loads a cubin once and launches an entry `times` times; yields one argument's copies.

    That argument is put back before every launch; the others must not be written.
    """
    from cuda.bindings import driver

    check(driver.cuCtxSetCurrent(primary_context()), "cuCtxSetCurrent")
    arrays = {
        position: _DeviceArray.upload(arg.copy())
        for position, arg in enumerate(args)
        if isinstance(arg, np.ndarray)
    }
    values = [
        np.array([arrays[position].address], np.uint64) if position in arrays else np.array([arg])
        for position, arg in enumerate(args)
    ]
    pointers = np.array([value.ctypes.data for value in values], dtype=np.uint64)
    before, place = np.ascontiguousarray(args[result]), arrays[result]
    module = check(driver.cuModuleLoadData(cubin), "cuModuleLoadData")
    try:
        function = check(driver.cuModuleGetFunction(module, entry.encode()), "cuModuleGetFunction")
        for _ in range(times):
            check(driver.cuMemcpyHtoD(place.address, before.ctypes.data, before.nbytes), "copy")
            launched = driver.cuLaunchKernel(
                function, *grid, 1, 1, 1, 0, 0, pointers.ctypes.data, 0
            )
            check(launched, "cuLaunchKernel")
            check(driver.cuCtxSynchronize(), "cuCtxSynchronize")
            place.download(result)
            yield place.host.copy()
    finally:
        for array in arrays.values():
            array.free()
        driver.cuModuleUnload(module)


def compile_for_this_gpu(source: bytes) -> bytes:
    """The cubin of bytecode or text for device 0, by the compiler under test."""
    from tileiras.driver import compile_module, with_environment
    from tileiras.options import CompileOptions

    options = with_environment(CompileOptions(gpu_name=gpu_name()))
    return compile_module(source, options).output


def launch_exactly(
    cubin: bytes,
    entry: str,
    args: Sequence[np.ndarray | Scalar],
    grid: tuple[int, int, int],
) -> None:
    """Launches on arrays in allocations of exactly their size, and forgets the results.

    There are no guards here: this is for tools that watch every access.
    """
    from cuda.bindings import driver

    check(driver.cuCtxSetCurrent(primary_context()), "cuCtxSetCurrent")
    module = check(driver.cuModuleLoadData(cubin), "cuModuleLoadData")
    allocations: list[int] = []
    values = []
    try:
        for arg in args:
            if not isinstance(arg, np.ndarray):
                values.append(np.array([arg]))
                continue
            data = np.ascontiguousarray(arg)
            address = int(check(driver.cuMemAlloc(max(data.nbytes, 1)), "cuMemAlloc"))
            allocations.append(address)
            check(driver.cuMemcpyHtoD(address, data.ctypes.data, data.nbytes), "cuMemcpyHtoD")
            values.append(np.array([address], np.uint64))
        pointers = np.array([value.ctypes.data for value in values] or [0], dtype=np.uint64)
        function = check(driver.cuModuleGetFunction(module, entry.encode()), "cuModuleGetFunction")
        launched = driver.cuLaunchKernel(function, *grid, 1, 1, 1, 0, 0, pointers.ctypes.data, 0)
        check(launched, "cuLaunchKernel")
        check(driver.cuCtxSynchronize(), "cuCtxSynchronize")
    finally:
        for address in allocations:
            driver.cuMemFree(address)
        driver.cuModuleUnload(module)
