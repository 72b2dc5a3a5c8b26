"""Launch arguments as the driver takes them: the bytes of each parameter.

A pointer parameter takes a numpy array (copied to the GPU and back), anything on the GPU that has
DLPack or the CUDA array interface (torch, cupy, ...), or an address. A scalar takes a number.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from dataclasses import dataclass
from typing import Any

from tileiras.runtime.cuda_driver import GpuError, call

_CUDA_DEVICES = (2, 13)
"""DLPack's kinds of device that a kernel can read: CUDA memory, managed memory."""
_INTEGER_BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
_FLOAT_CODES = {"f16": "<e", "f32": "<f", "tf32": "<f", "f64": "<d"}


class _DlTensor(ctypes.Structure):
    """`DLTensor` of DLPack, the head of what a capsule points to."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint32),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


def is_host_array(value: object) -> bool:
    """Whether the value is an array of numpy, which must be copied to the GPU."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_numpy_scalar(value: object) -> bool:
    """Whether the value is a number of numpy, whose size is known."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


@dataclass
class HostCopy:
    """A numpy array and its copy on the GPU at `address`."""

    host: Any
    address: int

    @classmethod
    def upload(cls, host: Any, where: str) -> HostCopy:
        """Copies an array to the GPU; raises GpuError for one that is not contiguous."""
        if not host.flags.c_contiguous:
            raise GpuError(f"{where} is a numpy array with gaps, expected a contiguous one")
        address = int(call("cuMemAlloc", max(host.nbytes, 1)))
        copy = cls(host, address)
        try:
            if host.nbytes:
                call("cuMemcpyHtoD", address, host.ctypes.data, host.nbytes)
        except GpuError:
            copy.free()
            raise
        return copy

    def download(self) -> None:
        """Copies back into the array, unless it is read-only."""
        if self.host.flags.writeable and self.host.nbytes:
            call("cuMemcpyDtoH", self.host.ctypes.data, self.address, self.host.nbytes)

    def free(self) -> None:
        """Gives the memory on the GPU back."""
        call("cuMemFree", self.address)


def device_address(value: Any, where: str, stream: int = 0) -> int | None:
    """The address of an array on the GPU; None for a value that is none.

    What another library still does to the array is ordered before `stream`. Raises GpuError for
    memory that is not on the GPU.
    """
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack_address(value, where, stream)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        return None
    producer = interface.get("stream")
    if producer is not None and int(producer) != (stream or 1):
        call("cuStreamSynchronize", int(producer))
    return int(interface["data"][0])


def _dlpack_address(value: Any, where: str, stream: int) -> int:
    """The address of an array that has DLPack."""
    device, _ = value.__dlpack_device__()
    if int(device) not in _CUDA_DEVICES:
        raise GpuError(f"{where} lies in memory that is not the GPU's: move it there first")
    try:
        capsule = value.__dlpack__(stream=stream or 1)  # 1 is the legacy default stream
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise GpuError(f"{where} cannot be exported through DLPack: {error}") from error
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DlTensor.from_address(pointer(capsule, b"dltensor"))
    return int(tensor.data or 0) + int(tensor.byte_offset)


def pack_scalar(value: Any, kind: str, where: str = "the argument") -> bytes:
    """The bytes of a number for a parameter of type `kind` (`i32`, `f16`, `ptr<f32>`, ...).

    Integers take signed and unsigned numbers that fit; floats are rounded to nearest even. A numpy
    number must have the parameter's size; formats that Python has no number for take one by its
    bits. `kind` is empty where the type is not known: then only numpy numbers have a size. Raises
    GpuError for what does not fit.
    """
    if is_numpy_scalar(value):
        return _pack_numpy(value, kind, where)
    if not isinstance(value, int | float):
        raise GpuError(f"{where} is a {type(value).__name__}, expected {_expected(kind)}")
    if not kind:
        raise GpuError(f"{where} has no known type: pass a numpy number, such as numpy.int32(3)")
    if kind.startswith("ptr<") or kind in _INTEGER_BYTES:
        size = _INTEGER_BYTES.get(kind, 8)
        if not isinstance(value, int):
            raise GpuError(f"{where} is a float, expected {_expected(kind)}")
        bits = 1 if kind == "i1" else 8 * size
        low = 0 if kind.startswith("ptr<") or kind == "i1" else -(1 << (bits - 1))
        if not low <= value < 1 << bits:
            raise GpuError(f"{where} is {value}, which does not fit into {kind}")
        return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
    return _pack_float(float(value), kind, where)


def _pack_float(value: float, kind: str, where: str) -> bytes:
    """A number in a floating-point format."""
    try:
        if kind == "bf16":
            (bits,) = struct.unpack("<I", struct.pack("<f", value))
            if value != value:
                return struct.pack("<H", 0x7FC0)
            return struct.pack("<H", min(bits + 0x7FFF + (bits >> 16 & 1), 0xFFFFFFFF) >> 16)
        if kind in _FLOAT_CODES:
            return struct.pack(_FLOAT_CODES[kind], value)
    except OverflowError as error:
        raise GpuError(f"{where} is {value}, which does not fit into {kind}") from error
    raise GpuError(f"{where} is of type {kind}: pass its bits as a numpy number of one byte")


def _pack_numpy(value: Any, kind: str, where: str) -> bytes:
    """A number of numpy, as it is."""
    data = bytes(value.tobytes())
    size = size_of(kind)
    is_float = value.dtype.kind in "fV"
    wants_integer = kind in _INTEGER_BYTES or kind.startswith("ptr<")
    if kind and (len(data) != size or (is_float and wants_integer)):
        raise GpuError(f"{where} is a numpy {value.dtype}, expected {_expected(kind)}")
    if kind in (*_FLOAT_CODES, "bf16") and value.dtype.kind in "iub":
        raise GpuError(f"{where} is a numpy {value.dtype}, expected {_expected(kind)}")
    return data


def size_of(kind: str) -> int:
    """The bytes of a parameter of this type."""
    if kind.startswith("ptr<"):
        return 8
    if kind in _FLOAT_CODES:
        return struct.calcsize(_FLOAT_CODES[kind])
    return _INTEGER_BYTES.get(kind, 2 if kind == "bf16" else 1)


def _expected(kind: str) -> str:
    """What a parameter takes, in words."""
    if kind.startswith("ptr<"):
        return f"an array or an address for '{kind}'"
    return f"a number for '{kind}'" if kind else "an array or a numpy number"
