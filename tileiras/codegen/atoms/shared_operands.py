"""Operands in swizzled shared memory, as TMA writes them and wgmma reads them.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout" and "Matrix Descriptor
Format"; tcgen05: "Shared memory layout and swizzling", "Shared memory descriptor".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tileiras.codegen.atoms.wgmma import K_BYTES
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.shared import ATOM_BYTES, swizzled_panels
from tileiras.errors import InternalError

SWIZZLE_BYTES = 128
"""The widest swizzle, free of bank conflicts for wgmma and TMA: one row of a panel."""
SWIZZLE_SPANS = (128, 64, 32)
"""All swizzles that TMA writes and wgmma reads, the widest first."""
PATTERN_BYTES = 8 * SWIZZLE_BYTES
"""Where the pattern of the widest swizzle starts again; those of the others do so, too."""

WIDE_ATOM_BYTES = 32
"""What stays together under the swizzle of 32-bit operands that are MN-major: tcgen05 reads them so
alone, with a span of 128 bytes (PTX ISA, "tcgen05.mma", "Major-ness supported by strides"; CUTLASS,
`UMMA::LayoutType::SWIZZLE_128B_BASE32B`).
"""

Major = Literal["k", "mn"]
"""Which dim of an operand is contiguous in shared memory."""


def widest_swizzle(row_bytes: int) -> int | None:
    """The widest swizzle whose span divides a contiguous extent in bytes; None if none does."""
    return next((span for span in SWIZZLE_SPANS if row_bytes and row_bytes % span == 0), None)


@dataclass(frozen=True)
class SharedOperand:
    """An operand of `extent` (M or N) by `k` elements in swizzled shared memory, as TMA writes it.

    It is cut into panels whose contiguous dim is one swizzle span long: along K for a K-major
    operand, along M or N for an MN-major one. A panel is a box of `box` elements, contiguous dim
    first; panels lie one behind the other. Descriptors need the start aligned to 1024 bytes (8
    swizzle rows of 128 bytes; 512, 256 for the smaller spans). `atom`: bytes that stay together.
    """

    major: Major
    extent: int
    k: int
    element_bits: int
    swizzle: int = SWIZZLE_BYTES
    atom: int = ATOM_BYTES

    def __post_init__(self) -> None:
        """Whole panels, and a span that wgmma knows."""
        span = self.span
        along = self.k if self.major == "k" else self.extent
        across = self.extent if self.major == "k" else self.k
        if self.swizzle not in SWIZZLE_SPANS or along % span or across % 8:
            raise InternalError(f"{self} is not made of whole panels", where="atoms")
        if self.is_wide != (self.major == "mn" and self.element_bits > 16):
            raise InternalError(f"{self}: no instruction reads such atoms", where="atoms")
        if self.is_wide and self.swizzle != SWIZZLE_BYTES:
            raise InternalError(f"{self}: larger atoms are of other spans", where="atoms")

    @property
    def is_wide(self) -> bool:
        """Whether the swizzle keeps 32 bytes together."""
        return self.atom == WIDE_ATOM_BYTES

    @property
    def span(self) -> int:
        """Elements of one swizzle row."""
        return self.swizzle * 8 // self.element_bits

    @property
    def panels(self) -> int:
        """Number of panels."""
        return (self.k if self.major == "k" else self.extent) // self.span

    @property
    def box(self) -> tuple[int, int]:
        """Elements of a panel along (contiguous dim, other dim)."""
        return (self.span, self.extent if self.major == "k" else self.k)

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel."""
        return self.swizzle * self.box[1]

    @property
    def bytes(self) -> int:
        """Bytes of the operand."""
        return self.panels * self.panel_bytes

    @property
    def leading_bytes(self) -> int:
        """The descriptor's leading byte offset: the next panel along M or N; unused if K-major."""
        return 16 if self.major == "k" else self.panel_bytes

    @property
    def stride_bytes(self) -> int:
        """The descriptor's stride byte offset: where the pattern of rows starts again."""
        return SWIZZLE_BYTES // self.atom * self.swizzle

    @property
    def k_offsets(self) -> tuple[int, ...]:
        """Bytes from the start of the operand to each K step of an instruction."""
        step = K_BYTES * 8 // self.element_bits
        if self.major == "mn":
            return tuple(k * self.swizzle for k in range(0, self.k, step))
        row = self.swizzle
        starts = range(0, self.k * self.element_bits // 8, K_BYTES)
        return tuple(start // row * self.panel_bytes + start % row for start in starts)

    def extent_offset(self, index: int) -> int:
        """Bytes from the start of the operand to element `index` along M or N.

        `index` is a multiple of 8 (K-major) or of a panel (MN-major).
        """
        unit = 8 if self.major == "k" else self.span
        if index % unit:
            raise InternalError(f"{self}: element {index} starts no descriptor", where="atoms")
        if self.major == "k":
            return index * self.swizzle
        return index // self.span * self.panel_bytes

    def layout(self, k_dim: int = 1) -> LinearLayout:
        """ "offset" in elements -> coordinates of the tile, whose dim `k_dim` (0 or 1) is K."""
        fast = k_dim if self.major == "k" else 1 - k_dim
        shape = (self.k, self.extent) if k_dim == 0 else (self.extent, self.k)
        return swizzled_panels(shape, fast, self.element_bits, self.swizzle, self.atom)
