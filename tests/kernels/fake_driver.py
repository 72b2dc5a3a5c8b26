"""A CUDA driver in Python, for launches without a GPU."""

from __future__ import annotations

import ctypes
import struct
import types
from typing import Any

import pytest

from tileiras.runtime import cuda_driver


class FakeDriver:
    """A driver whose GPU is this process's memory and whose one kernel adds two f32 arrays."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.memory: dict[int, Any] = {}
        self.failing: dict[str, int] = {}
        self.sizes: tuple[int, ...] = (8, 8, 8, 4)
        self.arguments: list[bytes] = []
        self.noise = 0.0
        names = (
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
            "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR",
        )
        self.CUdevice_attribute = types.SimpleNamespace(**{names[0]: 9, names[1]: 0})
        large = "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"
        self.CUfunction_attribute = types.SimpleNamespace(**{large: 14})
        self.CUevent_flags = types.SimpleNamespace(CU_EVENT_DEFAULT=0)
        self.CUstream_flags = types.SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
        self.CUstreamCaptureMode = types.SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        body = getattr(self, f"_{name}", lambda *_: (77,))

        def function(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            if name in self.failing:
                return (self.failing[name], *([None] if name != "cuInit" else []))
            return (0, *body(*arguments))

        return function

    def names(self) -> list[str]:
        """The functions called, without those that every call of ours begins with."""
        return [call[0] for call in self.calls if call[0] != "cuCtxSetCurrent"]

    def _cuGetErrorName(self, status: int) -> tuple[bytes]:
        return (f"CUDA_ERROR_{status}".encode(),)

    def _cuDeviceGetAttribute(self, which: int, _: object) -> tuple[int]:
        return (which,)

    def _cuMemAlloc(self, size: int) -> tuple[int]:
        buffer = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(buffer)] = buffer
        return (ctypes.addressof(buffer),)

    def _cuMemFree(self, address: int) -> tuple[()]:
        del self.memory[address]
        return ()

    def _cuMemcpyHtoD(self, to: int, source: int, size: int) -> tuple[()]:
        ctypes.memmove(to, source, size)
        return ()

    def _cuMemcpyDtoH(self, to: int, source: int, size: int) -> tuple[()]:
        ctypes.memmove(to, source, size)
        return ()

    def _cuEventElapsedTime(self, *_: object) -> tuple[float]:
        return (0.25,)

    def _cuLaunchKernel(self, function: object, *rest: Any) -> tuple[()]:
        pointers = (ctypes.c_void_p * len(self.sizes)).from_address(rest[-2])
        self.arguments = [ctypes.string_at(p, n) for p, n in zip(pointers, self.sizes)]
        if self.sizes == (8, 8, 8, 4):
            a, b, c, n = struct.unpack("<QQQi", b"".join(self.arguments))
            arrays = [(ctypes.c_float * n).from_address(place) for place in (a, b, c)]
            for i in range(n):
                arrays[2][i] = arrays[0][i] + arrays[1][i] + self.noise
        return ()


def use(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """The stand-in in the place of cuda-python's driver, not yet initialised."""
    monkeypatch.setattr(cuda_driver, "_bindings", lambda: driver)
    monkeypatch.setattr(cuda_driver._Loaded, "driver", None)
    monkeypatch.setattr(cuda_driver._Loaded, "context", None)
    return driver
