"""wgmma instructions as rows.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate": tables of shapes and of
operand majorness. A family is a row; an atom is a family with an N: `m64n256k16_f32_f16`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tileiras.codegen.target.features import Feature
from tileiras.errors import InternalError

WARPGROUP = 128
ROWS = 64
K_BYTES = 32
"""Every instruction multiplies 32 bytes of K."""
PARTIAL_K = 128
"""Elements of K in one partial sum of an f8 product."""
PARTIAL_REGISTERS = 64
"""Registers of a thread for all partial sums of f8 products that are in flight."""
FRAGMENTS_AT_ONCE = 8
"""Fragments, of 64 rows and a step of K, of a whole tile for which a thread has registers."""

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
_ANY_N = tuple(range(8, 257, 8))
_INTEGER_N = (8, 16, 24, *range(32, 257, 16))


@dataclass(frozen=True)
class WgmmaFamily:
    """Instructions that differ in N only. Types are PTX's names.

    `transposes`: operands in shared memory may be MN-major. `sizes_n`: the legal N.
    """

    accumulator: str
    a_type: str
    b_type: str
    sizes_n: tuple[int, ...] = _ANY_N

    def __post_init__(self) -> None:
        """Both operands are equally wide."""
        if _BITS[self.a_type] != _BITS[self.b_type]:
            raise InternalError(f"wgmma of {self.a_type} and {self.b_type}", where="atoms")

    @property
    def k(self) -> int:
        """K of one instruction."""
        return K_BYTES * 8 // self.operand_bits

    @property
    def operand_bits(self) -> int:
        """Bits of an operand's element."""
        return _BITS[self.a_type]

    @property
    def transposes(self) -> bool:
        """May an operand in shared memory be MN-major? Only 16-bit ones may."""
        return self.operand_bits == 16

    @property
    def is_integer(self) -> bool:
        """Are the operands integers? Those instructions have no scale operands."""
        return self.accumulator == "s32"


@dataclass(frozen=True)
class WgmmaAtom:
    """One instruction `D[64,n] = A[64,k] * B[k,n] + D[64,n]` of a warpgroup."""

    family: WgmmaFamily
    n: int

    def __post_init__(self) -> None:
        """N must be one of the family's."""
        if self.n not in self.family.sizes_n:
            raise InternalError(f"no wgmma of {self.family} with n = {self.n}", where="atoms")

    @property
    def feature(self) -> Feature:
        """What a target needs for it."""
        return Feature.WGMMA

    @property
    def name(self) -> str:
        """The row's name."""
        family = self.family
        operands = family.a_type
        if family.a_type != family.b_type:
            operands += f"_{family.b_type}"
        return f"m{ROWS}n{self.n}k{family.k}_{family.accumulator}_{operands}"

    @property
    def accumulator_elements(self) -> int:
        """Elements of the accumulator in one thread."""
        return ROWS * self.n // WARPGROUP

    @property
    def accumulator_registers(self) -> int:
        """Registers of the accumulator in one thread; f16 is packed in pairs."""
        return self.accumulator_elements // (2 if self.family.accumulator == "f16" else 1)

    @property
    def accumulator_class(self) -> str:
        """LLVM's constraint letter of an accumulator register."""
        return "f" if self.family.accumulator == "f32" else "r"

    @property
    def a_registers(self) -> int:
        """Registers of A in one thread, where A comes from registers."""
        return ROWS * K_BYTES // (4 * WARPGROUP)

    @property
    def mnemonic(self) -> str:
        """The PTX instruction."""
        family = self.family
        shape = f"m{ROWS}n{self.n}k{family.k}"
        types = f"{family.accumulator}.{family.a_type}.{family.b_type}"
        return f"wgmma.mma_async.sync.aligned.{shape}.{types}"


def _families() -> tuple[WgmmaFamily, ...]:
    floats8 = [(a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
    integers = [(a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
    return (
        WgmmaFamily("f32", "f16", "f16"),
        WgmmaFamily("f16", "f16", "f16"),
        WgmmaFamily("f32", "bf16", "bf16"),
        WgmmaFamily("f32", "tf32", "tf32"),
        *(WgmmaFamily(d, a, b) for d in ("f32", "f16") for a, b in floats8),
        *(WgmmaFamily("s32", a, b, _INTEGER_N) for a, b in integers),
    )


WGMMA_FAMILIES = _families()
"""Every family."""


@cache
def _by_name() -> dict[str, WgmmaAtom]:
    atoms = (WgmmaAtom(family, n) for family in WGMMA_FAMILIES for n in family.sizes_n)
    return {atom.name: atom for atom in atoms}


def get_wgmma_atom(name: str) -> WgmmaAtom:
    """The row of that name; an unknown one is our own mistake."""
    atom = _by_name().get(name)
    if atom is None:
        raise InternalError(f"no wgmma atom '{name}'", where="atoms")
    return atom


def find_wgmma_family(
    accumulator: str | None, a_type: str | None, b_type: str | None
) -> WgmmaFamily | None:
    """The instructions for these PTX types, or None if the hardware has none."""
    for family in WGMMA_FAMILIES:
        if (family.accumulator, family.a_type, family.b_type) == (accumulator, a_type, b_type):
            return family
    return None


def find_wgmma_atom(accumulator: str, a_type: str, b_type: str, n: int) -> WgmmaAtom | None:
    """The atom for these PTX types and N, or None if the hardware has none."""
    family = find_wgmma_family(accumulator, a_type, b_type)
    return WgmmaAtom(family, n) if family is not None and n in family.sizes_n else None
