"""A program whose results are exact: its kernel, its memory, and how results are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import bf16, f16, f32, f64
from xdsl.ir import Attribute

from tests.kernels.kernel_builder import Kernel
from tileiras.interpreter.formats import format_of, to_bits

EXACT_UP_TO = {bf16: 2**8, f16: 2**11, f32: 2**24, f64: 2**53}
"""Float types, and the size up to which they hold every whole number."""

INPUT_SIZE = 5
"""The largest float in memory."""

BLOCKS = 2


@dataclass(frozen=True)
class Held:
    """A tile in the program: its value, and how large its floats can be (0: integers)."""

    value: Any
    size: int

    @property
    def element(self) -> Attribute:
        """The element type."""
        return self.value.type.element_type

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims."""
        return tuple(self.value.type.shape)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return self.element in EXACT_UP_TO


@dataclass(frozen=True)
class Program:
    """A finished kernel and how to call it."""

    kernel: Kernel
    inputs: tuple[tuple[Attribute, int], ...]
    outputs: tuple[tuple[Attribute, int], ...]
    seed: int

    @property
    def grid(self) -> tuple[int, int, int]:
        """The tile blocks; each has its own part of every array."""
        return (BLOCKS, 1, 1)

    def arguments(self) -> list[np.ndarray]:
        """Fresh memory: random integers, small whole floats, outputs full of ones."""
        rng = np.random.default_rng(self.seed)
        arrays = []
        for element, count in self.inputs:
            fmt = format_of(element)
            if element in EXACT_UP_TO:
                values = rng.integers(-INPUT_SIZE, INPUT_SIZE + 1, count).astype(fmt.dtype)
                arrays.append(np.ascontiguousarray(to_bits(values, fmt)))
            else:
                data = rng.integers(0, 256, count * np.dtype(fmt.storage).itemsize, dtype=np.uint8)
                arrays.append(data.view(fmt.storage))
        arrays += [np.ones(count, format_of(element).storage) for element, count in self.outputs]
        return arrays


def differences(program: Program, found: Sequence[Any], wanted: Sequence[Any]) -> list[str]:
    """What differs in the outputs; zeros of either sign are alike."""
    texts = []
    first = len(program.inputs)
    for number, (element, _) in enumerate(program.outputs):
        fmt = format_of(element)
        got, want = found[first + number], wanted[first + number]
        bad = got != want
        if element in EXACT_UP_TO:
            sign = np.array(1, fmt.storage) << np.array(8 * got.itemsize - 1, fmt.storage)
            bad &= ((got | want) & ~sign) != 0
        if bad.any():
            place = int(np.flatnonzero(bad)[0])
            texts.append(
                f"output {number} ({element}): {int(bad.sum())} of {bad.size} differ, first at "
                f"{place}: bits {int(got[place]):#x} instead of {int(want[place]):#x}"
            )
    return texts
