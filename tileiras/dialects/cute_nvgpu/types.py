"""The type of this dialect: what a TMA instruction moves.

    !cute_nvgpu.tma_atom<f16, (64,128), 128>

Elements, the box and the bytes of a swizzle row; the box begins with the dim that is contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.irdl import irdl_attr_definition

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.expressions import evaluate
from tileiras.dialects.cute.algebra.int_tuples import text_of
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import static
from tileiras.dialects.cute.algebra.swizzles import ComposedLayout, Swizzle
from tileiras.dialects.cute.operation import add_kind
from tileiras.dialects.cute.types import CuteType, SpelledType, split_parameters
from tileiras.dialects.cute.values import CONTAINERS, Tensor, element_bits, plain_layout

SWIZZLE_SPANS = (0, 32, 64, 128)
"""Bytes of a swizzle row (PTX ISA, "Swizzling Modes"); 0 is none."""
MAX_RANK = 5
MOST_EXTENT = 256
"""Of a box along one dim (PTX ISA, "Tensor size, dimension, stride and bounding box")."""
CHUNK_BYTES = 16
"""What a swizzle moves as a whole."""


@dataclass(frozen=True)
class TmaAtom:
    """A box of a mapped tensor: elements, extents with the contiguous dim first, span."""

    element: str
    box: tuple[int, ...]
    span: int

    def __post_init__(self) -> None:
        if not 1 <= len(self.box) <= MAX_RANK:
            raise AlgebraError(f"a box has 1 to {MAX_RANK} dims, found {text_of(self.box)}")
        if any(not 1 <= extent <= MOST_EXTENT for extent in self.box):
            raise AlgebraError(f"a box has extents 1 to {MOST_EXTENT}, found {text_of(self.box)}")
        if self.span not in SWIZZLE_SPANS:
            raise AlgebraError(f"a swizzle row has 0, 32, 64 or 128 bytes, found {self.span}")
        if self.element in CONTAINERS and (self.box[0], self.span) != (128, 128):
            raise AlgebraError(
                f"boxes of {self.element} have rows of 128 elements and a swizzle row of 128 "
                f"bytes, found {self.box[0]} and {self.span}"
            )
        row = self.box[0] * element_bits(self.element) // 8
        if row % CHUNK_BYTES or (self.span and row > self.span):
            raise AlgebraError(
                f"a row of {row} bytes is no multiple of {CHUNK_BYTES} or longer than the "
                f"swizzle row of {self.span}"
            )

    @property
    def bytes(self) -> int:
        """Bytes of the box."""
        return prod(self.box) * element_bits(self.element) // 8

    @property
    def swizzle(self) -> Swizzle | None:
        """The swizzle of offsets in elements, for a span."""
        if not self.span:
            return None
        chunk = CHUNK_BYTES * 8 // element_bits(self.element)
        return Swizzle((self.span // CHUNK_BYTES).bit_length() - 1, chunk.bit_length() - 1, 3)

    def check_tensor(self, tensor: Tensor) -> None:
        """AlgebraError unless the tensor is this box in shared memory as TMA writes it."""
        if tensor.engine.space != "smem":
            raise AlgebraError(f"a box lies in smem, found {tensor.engine.space}")
        if tensor.engine.element != self.element:
            raise AlgebraError(f"elements {tensor.engine.element} face {self.element} of the box")
        layout = tensor.layout
        inner = layout.inner if isinstance(layout, ComposedLayout) else None
        if inner != self.swizzle:
            raise AlgebraError(f"{layout} has another swizzle than the box: {self.swizzle}")
        pairs = [pair for pair in plain_layout(tensor).pairs if pair[0] != 1]
        modes = sorted((static(d, "a stride"), static(s, "an extent")) for s, d in pairs)
        step, wanted = 1, [extent for extent in self.box if extent != 1]
        for stride, extent in modes:
            if stride != step:
                raise AlgebraError(f"{layout} is not compact, a box is")
            step *= extent
        if not _refines([extent for _, extent in modes], wanted):
            raise AlgebraError(f"{layout} is no box {text_of(self.box)}")

    def __str__(self) -> str:
        return f"{self.element}, {text_of(self.box)}, {self.span}"


def _refines(extents: list[int], box: list[int]) -> bool:
    """Whether consecutive extents multiply to those of the box."""
    done = 0
    for wanted in box:
        size = 1
        while size < wanted and done < len(extents):
            size *= extents[done]
            done += 1
        if size != wanted:
            return False
    return done == len(extents)


@irdl_attr_definition
class TmaAtomType(SpelledType):
    """A box of a tensor with a tensor map: `!cute_nvgpu.tma_atom<f16, (64,128), 128>`."""

    name = "cute_nvgpu.tma_atom"
    title = "a TMA atom"

    @classmethod
    def read(cls, text: str) -> TmaAtom:
        """`element, box, span`."""
        parts = split_parameters(text)
        box = evaluate(parts[1]) if len(parts) == 3 else None
        numbers = isinstance(box, tuple) and all(isinstance(each, int) for each in box)
        if not isinstance(box, tuple) or not numbers or not parts[2].isdigit():
            raise AlgebraError(f"expected 'element, (box), bytes', found '{text}'")
        return TmaAtom(parts[0], box, int(parts[2]))


TYPES: tuple[type[CuteType], ...] = (TmaAtomType,)
"""All types of the dialect."""

add_kind("tma", TmaAtomType)


def panels(tensor: Tensor) -> Layout:
    """The plain layout of a matrix in shared memory; AlgebraError for other tensors."""
    layout = plain_layout(tensor)
    if tensor.engine.space != "smem" or layout.rank != 2:
        raise AlgebraError(f"an operand is a matrix in smem, found {tensor}")
    return layout
