"""tcgen05 instructions as rows: products into tensor memory, and loads from there.

Sources: PTX ISA, "tcgen05.mma" (kinds, types), "Matrix shape" (M, N, K), "Instruction descriptor",
"Tensor Memory" (128 lanes, 512 columns of 32 bits, allocated by powers of two from 32 on), "Data
path layout" (where rows of an accumulator lie), "Data Movement Shape" (what a thread loads).
"""

from __future__ import annotations

from dataclasses import dataclass

from tileiras.codegen.atoms.shared_operands import WIDE_ATOM_BYTES
from tileiras.codegen.target.features import Feature
from tileiras.dialects.layout.shared import ATOM_BYTES
from tileiras.errors import InternalError

LEAST_COLUMNS = 32
"""The smallest allocation; others are powers of two."""
WARP_LANES = 32
"""Lanes that a warp reaches; warp number w reaches lanes 32 (w % 4) to 32 (w % 4) + 31."""
HALF_LANES = 16
"""Lanes that a 16x256b load reads, and those of a warp that hold rows where M is 64."""
K_BYTES = 32
"""Every instruction multiplies 32 bytes of K (dense kinds; elements of 8 bits and more)."""
ROWS = (128, 64)
"""M of one CTA's instructions, the larger first."""
MOST_N = 256
LEAST_N = 16
PAIR_ROWS = (256, 128)
"""M of the instructions of two CTAs (`.cta_group::2`), each of which has half of the rows."""
PAIR_N = 32
"""Their N is a multiple of this: each CTA has the half of B."""
PADDED = (("e2m3.p32", 3), ("e3m2.p32", 4), ("e2m1.p64", 5))
"""Operands of less than 8 bits as kinds of 8 bits read them: 16 elements in 16 bytes, the rest of
which is padding (PTX ISA, "Packing formats used in Shared Memory", b6x16_p32 and b4x16_p64).
"""

Accumulator = str
"""PTX's name of an accumulator's type."""

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
_ACCUMULATOR_CODES = {"f16": 0, "f32": 1, "s32": 2}


@dataclass(frozen=True)
class Tcgen05Kind:
    """A `.kind` with the accumulator: codes of its operand types in the instruction descriptor.

    `transposes`: operands in shared memory may be MN-major, under every swizzle. `atom`: bytes that
    the swizzle of such operands keeps together; those of 32 TMA alone writes.
    """

    name: str
    accumulator: Accumulator
    codes: tuple[tuple[str, int], ...]
    transposes: bool = False
    atom: int = ATOM_BYTES
    feature: Feature = Feature.TCGEN05
    """What a target needs for it."""

    @property
    def operand_bits(self) -> int:
        """Bits of an operand's element."""
        return _BITS[self.codes[0][0]]

    @property
    def k(self) -> int:
        """K of one instruction."""
        return K_BYTES * 8 // self.operand_bits

    def has(self, operand: str) -> bool:
        """Whether operands may have this type."""
        return operand in dict(self.codes)

    def holds(self, m: int, n: int, ctas: int = 1) -> bool:
        """Whether there is an instruction of so many CTAs for `m` rows and `n` columns.

        N is a multiple of 16 where M is 128, of 8 where M is 64 (i8: 8, 16, 24, 32, 48 and on).
        """
        rows, unit = (PAIR_ROWS, PAIR_N) if ctas == 2 else (ROWS, LEAST_N)
        return m in rows and unit <= n <= MOST_N and n % unit == 0

    def descriptor(
        self,
        a: str,
        b: str,
        m: int,
        n: int,
        *,
        transposed: tuple[bool, bool] = (False, False),
        ctas: int = 1,
    ) -> int:
        """The instruction descriptor; `transposed`: A, B are MN-major."""
        codes = dict(self.codes)
        if not self.holds(m, n, ctas) or a not in codes or b not in codes:
            raise InternalError(f"no tcgen05.mma {self.name} of {m}x{n}, {a}, {b}", where="atoms")
        fields = (
            (_ACCUMULATOR_CODES[self.accumulator], 4),
            (codes[a], 7),
            (codes[b], 10),
            (int(transposed[0]), 15),
            (int(transposed[1]), 16),
            (n >> 3, 17),
            (m >> 4, 24),
        )
        return sum(value << at for value, at in fields)


TCGEN05_KINDS = (
    Tcgen05Kind("f16", "f32", (("f16", 0), ("bf16", 1)), transposes=True),
    Tcgen05Kind("tf32", "f32", (("tf32", 2),), transposes=True, atom=WIDE_ATOM_BYTES),
    Tcgen05Kind("f8f6f4", "f32", (("e4m3", 0), ("e5m2", 1), *PADDED), transposes=True),
    Tcgen05Kind("i8", "s32", (("u8", 0), ("s8", 1)), transposes=True, feature=Feature.TCGEN05_I8),
)
"""The kinds that products use. Operands of kind f16 have one type in both places here."""


def find_tcgen05_kind(accumulator: str | None, a: str | None, b: str | None) -> Tcgen05Kind | None:
    """The kind for these PTX types, None if there is none."""
    for kind in TCGEN05_KINDS:
        known = a is not None and b is not None and kind.has(a) and kind.has(b)
        if known and kind.accumulator == accumulator and (a == b or kind.operand_bits < 16):
            return kind
    return None


def get_tcgen05_kind(name: str) -> Tcgen05Kind:
    """The row of a `.kind`."""
    for kind in TCGEN05_KINDS:
        if kind.name == name:
            return kind
    raise InternalError(f"no tcgen05 kind '{name}'", where="atoms")


def allocated_columns(columns: int) -> int:
    """Columns that have to be allocated for so many."""
    allocated = LEAST_COLUMNS
    while allocated < columns:
        allocated *= 2
    return allocated


def load_registers(shape: str, repeats: int) -> int:
    """Registers of a thread that a load of this shape and number of repeats writes."""
    return repeats * {"16x256b": 4, "32x32b": 1}[shape]
