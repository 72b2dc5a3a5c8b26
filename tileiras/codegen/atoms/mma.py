"""mma.sync instructions as rows. Source: PTX ISA, "Multiply-and-Accumulate Instruction: mma".

A row is named by its shape, accumulator and operand types: `m16n8k16_f32_bf16`. Adding an
instruction is adding a row; the constructor checks that registers and shape agree. Of the rows for
a pair of types, a product takes the first one that the target has and that fits into its tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tileiras.codegen.target.features import Feature
from tileiras.errors import InternalError

_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "f32": 32,
    "f64": 64,
    "s32": 32,
    "s8": 8,
    "u8": 8,
    "e4m3": 8,
    "e5m2": 8,
    "e3m2": 8,
    "e2m3": 8,
    "e2m1": 8,
}
"""Bits of an element in a register; those of 6 and 4 bits take 8, and two packed ones do."""
_WARP = 32


@dataclass(frozen=True)
class Scaling:
    """Block scaling of an instruction: `.kind`, `.scale_vec_size`, type of scales, in PTX's names.

    `vector` scales along K, each for K / `vector` elements. PTX ISA, "Block Scaling for mma.sync".
    `packed`: two elements of 4 bits share a byte; otherwise each has one.
    """

    kind: str
    vector: int
    type: str
    packed: bool = False


@dataclass(frozen=True)
class MmaAtom:
    """One warp-wide instruction `D[m,n] = A[m,k] * B[k,n] + C[m,n]`.

    Types are PTX's names. A, B in `.row`, `.col` order. Fragments are `*_elements` elements per
    thread, packed into `*_registers` registers of class `operand_class`/`accumulator_class` (LLVM
    letters).

    `parts`: the name of the row by which the parts of operands are multiplied, where operands are
    wider than those of any instruction (`lowering/products_of_parts.py`).
    """

    m: int
    n: int
    k: int
    accumulator: str
    a_type: str
    b_type: str
    feature: Feature
    scaling: Scaling | None = None
    parts: str = ""

    def __post_init__(self) -> None:
        """Checks that every fragment fills whole registers."""
        for elements, type in (
            (self.a_elements, self.a_type),
            (self.b_elements, self.b_type),
            (self.c_elements, self.accumulator),
        ):
            if elements == 0 or elements * _BITS[type] % 32:
                raise InternalError(f"atom {self.name}: fragments do not fill registers")

    @property
    def name(self) -> str:
        """The row's name."""
        operands = self.a_type if self.a_type == self.b_type else f"{self.a_type}_{self.b_type}"
        scales = "" if self.scaling is None else f"_{self.scaling.vector}x_{self.scaling.type}"
        return f"m{self.m}n{self.n}k{self.k}_{self.accumulator}_{operands}{scales}"

    @property
    def depth(self) -> int:
        """K in elements of operands as they lie in registers: of packed ones, bytes."""
        return self.k // 2 if self.scaling is not None and self.scaling.packed else self.k

    @property
    def a_elements(self) -> int:
        """Elements of A in one thread; of packed ones, bytes."""
        return self.m * self.depth // _WARP

    @property
    def b_elements(self) -> int:
        """Elements of B in one thread; of packed ones, bytes."""
        return self.depth * self.n // _WARP

    @property
    def c_elements(self) -> int:
        """Elements of C and D in one thread."""
        return self.m * self.n // _WARP

    @property
    def operand_register_bits(self) -> int:
        """Width of an operand register: 64 for f64, else 32."""
        return max(32, _BITS[self.a_type])

    @property
    def a_registers(self) -> int:
        """Registers of A in one thread."""
        return self.a_elements * _BITS[self.a_type] // self.operand_register_bits

    @property
    def b_registers(self) -> int:
        """Registers of B in one thread."""
        return self.b_elements * _BITS[self.b_type] // self.operand_register_bits

    @property
    def c_registers(self) -> int:
        """Registers of C in one thread."""
        return self.c_elements * _BITS[self.accumulator] // max(32, _BITS[self.accumulator])

    @property
    def operand_class(self) -> str:
        """LLVM's constraint letter of an operand register."""
        return "d" if self.a_type == "f64" else "r"

    @property
    def accumulator_class(self) -> str:
        """LLVM's constraint letter of an accumulator register (f16 accumulators are packed)."""
        return {"f32": "f", "f64": "d", "s32": "r", "f16": "r"}[self.accumulator]

    @property
    def mnemonic(self) -> str:
        """The PTX instruction."""
        shape = f"m{self.m}n{self.n}k{self.k}"
        types = f"{self.accumulator}.{self.a_type}.{self.b_type}.{self.accumulator}"
        if self.scaling is None:
            return f"mma.sync.aligned.{shape}.row.col.{types}"
        scaled = f"kind::{self.scaling.kind}.block_scale.scale_vec::{self.scaling.vector}X"
        return f"mma.sync.aligned.{shape}.row.col.{scaled}.{types}.{self.scaling.type}"

    def layouts(self) -> Any:
        """Fragment layouts of A, B and C: those of `dialects.layout.mma`, imported late."""
        fragments = import_module("tileiras.dialects.layout.mma").mma_fragments
        whole = MMA_ATOMS[self.parts] if self.parts else self
        return fragments(self.m, self.n, self.depth, _BITS[whole.a_type])


def _rows() -> tuple[MmaAtom, ...]:
    sync, fp8, f64 = Feature.MMA_SYNC, Feature.FP8_MMA, Feature.F64_MMA
    integers = [(a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
    floats8 = [(a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
    return (
        MmaAtom(16, 8, 16, "f32", "f16", "f16", sync),
        MmaAtom(16, 8, 16, "f16", "f16", "f16", sync),
        MmaAtom(16, 8, 16, "f32", "bf16", "bf16", sync),
        MmaAtom(16, 8, 8, "f32", "tf32", "tf32", sync),
        MmaAtom(16, 8, 16, "f32", "f32", "f32", Feature.F32_BY_BF16, parts="m16n8k16_f32_bf16"),
        MmaAtom(8, 8, 4, "f64", "f64", "f64", f64),
        *(MmaAtom(16, 8, 32, "s32", a, b, sync) for a, b in integers),
        *(MmaAtom(16, 8, 32, "f32", a, b, fp8) for a, b in floats8),
        *(MmaAtom(16, 8, 32, "f16", a, b, fp8) for a, b in floats8),
        *_scaled_rows(),
    )


def _scaled_rows() -> Iterator[MmaAtom]:
    """Block-scaled instructions. PTX ISA, "mma", "Valid combinations of .kind, .stype and
    .scale_vec_size"; ue8m0 with `scale_vec::4X` is left out, which ptxas takes from PTX 9.1 on.
    """
    scaled = Feature.BLOCK_SCALED_MMA
    types = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
    mxf8f6f4 = Scaling("mxf8f6f4", 1, "ue8m0")
    for a in types:
        for b in types:
            yield MmaAtom(16, 8, 32, "f32", a, b, scaled, mxf8f6f4)
    for scaling in (
        Scaling("mxf4", 2, "ue8m0", packed=True),
        Scaling("mxf4nvf4", 4, "ue4m3", packed=True),
    ):
        yield MmaAtom(16, 8, 64, "f32", "e2m1", "e2m1", scaled, scaling)


MMA_ATOMS: dict[str, MmaAtom] = {atom.name: atom for atom in _rows()}
"""Every mma.sync row by name."""


def mma_atoms_of(a_type: str, b_type: str, accumulator: str) -> tuple[MmaAtom, ...]:
    """The unscaled rows for these types, by PTX's names, in the order of the table: best first."""
    wanted = (a_type, b_type, accumulator)
    return tuple(
        atom
        for atom in MMA_ATOMS.values()
        if (atom.a_type, atom.b_type, atom.accumulator) == wanted and atom.scaling is None
    )


def get_mma_atom(name: str) -> MmaAtom:
    """The row of that name; an unknown one is our own mistake."""
    atom = MMA_ATOMS.get(name)
    if atom is None:
        raise InternalError(f"no mma.sync atom '{name}'", where="atoms")
    return atom
