"""A program as it travels to the machine with the GPU: no compiler and no interpreter is there."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

STORAGE = {
    "i8": np.uint8,
    "i16": np.uint16,
    "i32": np.uint32,
    "i64": np.uint64,
    "f16": np.uint16,
    "bf16": np.uint16,
    "f32": np.uint32,
    "f64": np.uint64,
    "f8E4M3FN": np.uint8,
    "f8E5M2": np.uint8,
}
"""How elements lie in memory, by the names of the interpreter's formats."""
_EXPONENTS = {
    "f16": 0x7C00,
    "bf16": 0x7F80,
    "f32": 0x7F800000,
    "f64": 0x7FF0000000000000,
    "f8E5M2": 0x7C,
    "f8E4M3FN": 0x7F,
}
"""The bits of an infinity: what is larger, less the sign, is a NaN. f8E4M3FN: of its only NaN."""


@dataclass(frozen=True)
class Array:
    """An argument: an input of random integers or of whole floats up to `limit`, or an output.

    `flushes`: an atomic addition wrote it, which takes subnormal numbers of f32 for zeros (PTX ISA,
    "atom").
    """

    element: str
    count: int
    limit: int = 0
    is_output: bool = False
    ulps: float = 0.0
    flushes: bool = False

    def make(self, rng: np.random.Generator) -> np.ndarray:
        """Fresh memory, as `exact_program.Program.arguments` makes it."""
        storage = STORAGE[self.element]
        if self.is_output:
            return np.ones(self.count, storage)
        if not self.limit:
            return rng.integers(
                0, 256, self.count * np.dtype(storage).itemsize, dtype=np.uint8
            ).view(storage)
        numbers = rng.integers(-self.limit, self.limit + 1, self.count)
        if self.element == "bf16":
            return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        float_type = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[self.element]
        return numbers.astype(float_type).view(storage)


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments, and of each output a digest, or its elements where `ulps` allow."""

    name: str
    seed: int
    grid: tuple[int, int, int]
    arrays: list[Array]
    wanted: list[str]

    def to_json(self) -> dict[str, Any]:
        """As it is written."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Case:
        """As it was written."""
        arrays = [Array(**array) for array in data["arrays"]]
        return cls(data["name"], data["seed"], tuple(data["grid"]), arrays, data["wanted"])

    def arguments(self) -> list[np.ndarray]:
        """Fresh memory."""
        rng = np.random.default_rng(self.seed)
        return [array.make(rng) for array in self.arrays]

    def differences(self, found: list[np.ndarray]) -> list[str]:
        """What differs in the outputs."""
        texts = []
        first = sum(not array.is_output for array in self.arrays)
        for number, wanted in enumerate(self.wanted):
            array, got = self.arrays[first + number], found[first + number]
            if not array.ulps:
                if digest(flushed(got) if array.flushes else got, array.element) != wanted:
                    texts.append(f"output {number} ({array.element}): other bits")
                continue
            want = np.frombuffer(bytes.fromhex(wanted), STORAGE[array.element])
            away = ulps_between(got, want, array.element)
            if away.max(initial=0) > array.ulps:
                at = int(np.argmax(away))
                texts.append(
                    f"output {number} ({array.element}): {float(away[at]):.0f} ulps, expected "
                    f"{array.ulps}, at {at}: {int(got[at]):#x} instead of {int(want[at]):#x}"
                )
        return texts


def canonical(bits: np.ndarray, element: str) -> np.ndarray:
    """All NaNs alike, and zeros of either sign: no operation of the language tells them apart."""
    if element not in _EXPONENTS:
        return bits
    kind = bits.dtype.type
    sign = kind(1) << kind(8 * bits.itemsize - 1)
    magnitude, infinity = bits & ~sign, kind(_EXPONENTS[element])
    is_nan = magnitude == infinity if element == "f8E4M3FN" else magnitude > infinity
    result = np.where(magnitude == 0, kind(0), bits)
    return np.where(is_nan, ~kind(0), result).astype(bits.dtype)


def flushed(bits: np.ndarray) -> np.ndarray:
    """Numbers of f32 with zeros in the place of subnormal ones."""
    is_subnormal = (bits & np.uint32(0x7F800000)) == 0
    return np.where(is_subnormal, np.uint32(0), bits)


def digest(bits: np.ndarray, element: str) -> str:
    """Sixteen digits that say whether two outputs are the same."""
    return hashlib.blake2b(canonical(bits, element).tobytes(), digest_size=8).hexdigest()


def ulps_between(got: np.ndarray, want: np.ndarray, element: str) -> np.ndarray:
    """How many numbers of the format lie between; a NaN is far from all but NaNs."""
    got, want = canonical(got, element), canonical(want, element)
    sign = 1 << (8 * got.itemsize - 1)

    def ordered(bits: np.ndarray) -> np.ndarray:
        values = bits.astype(object)
        return np.where((values & sign) != 0, -(values & (sign - 1)), values)

    away = np.abs(ordered(got) - ordered(want)).astype(np.float64)
    nan = ~got.dtype.type(0)
    return np.where((got == nan) != (want == nan), np.inf, away)
