"""Block-scaled tcgen05 instructions as rows: operands whose scales lie in tensor memory.

Sources: PTX ISA, "tcgen05.mma" (".kind", ".scale_vec"), "Matrix shape" (M is 128, N a multiple of
8), "Instruction descriptor" (its tables for `.kind::mxf8f6f4` and for `.kind::mxf4`,
`.kind::mxf4nvf4`), "Block scaling" (bytes of a word that an instruction reads).
"""

from __future__ import annotations

from dataclasses import dataclass

from tileiras.codegen.atoms.tcgen05 import K_BYTES, LEAST_N, MOST_N, PADDED, PAIR_N
from tileiras.codegen.target.features import Feature
from tileiras.dialects.layout.scale_factors import WORD_BLOCKS
from tileiras.errors import InternalError

SCALED_ROWS = 128
"""M of the instructions of one CTA."""
_SCALE_CODES = {"ue4m3": 0, "ue8m0": 1}


@dataclass(frozen=True)
class ScaledKind:
    """A `.kind` with `.block_scale`: `vector` scales of `scale` for a row of one instruction.

    `codes` are those of its operand types in the instruction descriptor. `transposes`: operands in
    shared memory may be MN-major.
    """

    name: str
    vector: int
    scale: str
    codes: tuple[tuple[str, int], ...]
    operand_bits: int
    transposes: bool = False
    feature: Feature = Feature.TCGEN05_SCALED
    """What a target needs for it."""

    @property
    def k(self) -> int:
        """K of one instruction, in elements."""
        return K_BYTES * 8 // self.operand_bits

    @property
    def block(self) -> int:
        """Elements along K that share a scale."""
        return self.k // self.vector

    @property
    def has_signs(self) -> bool:
        """Whether nothing is lost of a scale: those of type ue8m0 have no sign to begin with."""
        return self.scale == "ue8m0"

    def holds(self, m: int, n: int, ctas: int = 1) -> bool:
        """Whether there is an instruction of so many CTAs for `m` rows and `n` columns."""
        unit = PAIR_N if ctas == 2 else LEAST_N
        return m == SCALED_ROWS * ctas and unit <= n <= MOST_N and n % unit == 0

    def scale_place(self, step: int) -> tuple[int, int]:
        """The word along K with the scales of a step of K, and its byte with the first of them."""
        return divmod(step * self.vector, WORD_BLOCKS)

    def descriptor(
        self,
        a: str,
        b: str,
        m: int,
        n: int,
        byte: int,
        *,
        transposed: tuple[bool, bool] = (False, False),
        ctas: int = 1,
    ) -> int:
        """The instruction descriptor; both operands' scales begin with this `byte` of a word."""
        codes = dict(self.codes)
        if not self.holds(m, n, ctas) or a not in codes or b not in codes:
            raise InternalError(f"no tcgen05.mma {self.name} of {m}x{n}, {a}, {b}", where="atoms")
        if byte % self.vector or not 0 <= byte < WORD_BLOCKS or (any(transposed) > self.transposes):
            raise InternalError(f"{self.name} reads no scales from byte {byte}", where="atoms")
        fields = (
            (byte, 4),
            (codes[a], 7),
            (codes[b], 10),
            (int(transposed[0]), 15),
            (int(transposed[1]), 16),
            (n >> 3, 17),
            (_SCALE_CODES[self.scale], 23),
            (m >> 7, 27),
            (byte, 29),
        )
        return sum(value << at for value, at in fields)


SCALED_KINDS = (
    ScaledKind("mxf8f6f4", 1, "ue8m0", (("e4m3", 0), ("e5m2", 1), *PADDED), 8, transposes=True),
    ScaledKind("mxf4", 2, "ue8m0", (("e2m1", 1),), 4),
    ScaledKind("mxf4nvf4", 4, "ue4m3", (("e2m1", 1),), 4),
)
"""The kinds that products with scales use. Operands of 6 bits Tile IR does not have."""


def find_scaled_kind(
    a: str | None, b: str | None, scale: str | None, block: int
) -> ScaledKind | None:
    """The kind for these PTX types, and elements that share a scale; None if there is none."""
    for kind in SCALED_KINDS:
        codes = dict(kind.codes)
        if a in codes and b in codes and (kind.scale, kind.block) == (scale, block):
            return kind
    return None


def get_scaled_kind(name: str) -> ScaledKind:
    """The row of a `.kind`."""
    for kind in SCALED_KINDS:
        if kind.name == name:
            return kind
    raise InternalError(f"no block-scaled tcgen05 kind '{name}'", where="atoms")
