"""Products: which instruction of the tensor core computes each, or that none does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.mma import get_mma_atom
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.memdesc import MemDescType, is_in_smem, is_in_tmem
from tileiras.passes.nv_tileas.explain.telling import Teller, shape_text, type_text
from tileiras.remarks import RemarkCategory, RemarkKind

OPTIMIZED = "MMA operation successfully optimized to use Tensor Cores"
NOT_OPTIMIZED = (
    "MMA operation failed to optimize to use Tensor Cores, it is using FMA instructions instead"
)
"""NVIDIA's words, for those who look for them."""
FMA = "FMA"
WGMMA_ROWS = 64
MOST_COLUMNS = 256
K_BITS = 256
"""Fixed: wgmma and dense tcgen05 multiply 32 bytes of K (PTX ISA)."""


def explain_product(teller: Teller, op: Operation) -> None:
    """A remark if the operation is a product."""
    match op:
        case tas.MmaDotOp() | tas.MmaScaledDotOp():
            _tell_mma_sync(teller, op)
        case tas.FmaDotOp():
            _tell_fma(teller, op)
        case wg.WgmmaDotOp():
            _tell_wgmma(teller, op, (op.lhs, op.rhs), _columns(op), op.fragments is not None)
        case wg.WgmmaDotsOp():
            pairs = [op.operands_of(number) for number in range(len(op.tiles))]
            side = 1 if op.transposed is None else 0
            columns = sum(_shape(tile)[side] for tile in op.tiles)
            _tell_wgmma(teller, op, pairs[0], columns, False, len(pairs))
        case tc.Tcgen05DotOp() | tc.Tcgen05DotScaledOp():
            _tell_tcgen05(teller, op)


def _columns(op: wg.WgmmaDotOp) -> int:
    """N of the instructions: rows of the result where they compute it transposed."""
    shape = _shape(op.result)
    is_transposed = op.transposed is not None
    fragments = op.fragments.data if op.fragments is not None else ""
    return shape[0] if is_transposed or fragments == "rhs" else shape[1]


def _shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tile in a stage or in registers."""
    type = value.type
    if is_in_smem(type):
        return type.shape
    return type.get_shape() if isinstance(type, TensorType) else (0, 0)


def _bits(value: SSAValue) -> int:
    """Bits of an element of a tile in a stage or in registers."""
    type = value.type
    is_tile = isinstance(type, MemDescType | TensorType)
    return storage_bits(type.element_type) if is_tile else 16


def _operand(value: SSAValue) -> str:
    """Where an operand lies."""
    return "shared memory" if is_in_smem(value.type) else "registers"


def _places(places: Sequence[str]) -> str:
    """Where both operands of a product come from, in words."""
    first, second = places
    return f"both operands in {first}" if first == second else f"operands in {first} and {second}"


def _tell(
    teller: Teller, op: Operation, unit: str, shape: Sequence[int], ptx: str, why: str
) -> None:
    teller.tell(
        op,
        RemarkKind.PASSED,
        RemarkCategory.TENSOR_CORE,
        "RemarkTensorCoreMMA",
        f"{OPTIMIZED}: {why}",
        Instruction=unit,
        Shape=shape_text(shape),
        Ptx=ptx,
    )


def _tell_mma_sync(teller: Teller, op: tas.MmaDotOp | tas.MmaScaledDotOp) -> None:
    atom = op.atom.data
    numbers = re.match(r"m(\d+)n(\d+)k(\d+)", atom)
    shape = tuple(map(int, numbers.groups())) if numbers else ()
    places = _places([_operand(op.lhs), _operand(op.rhs)])
    scaled = ", with block scales" if isinstance(op, tas.MmaScaledDotOp) else ""
    warps = f"{op.warps_m.data}x{op.warps_n.data} warps"
    if parts := get_mma_atom(atom).parts:
        scaled, atom = ", six for the parts of f32", parts
    why = f"mma.sync {atom}{scaled} by {warps}, each of which waits for its own; {places}"
    _tell(teller, op, "Tensor-core SM80", shape, f"mma.sync {atom}", why)


def _tell_wgmma(
    teller: Teller,
    op: Operation,
    operands: tuple[SSAValue, SSAValue],
    columns: int,
    moved: bool,
    products: int = 1,
) -> None:
    bits = _bits(operands[1])
    n, k = min(columns, MOST_COLUMNS), K_BITS // max(bits, 8)
    places = [_operand(value) for value in operands]
    several = f"{products} products that share an operand, " if products > 1 else ""
    why = f"wgmma.m{WGMMA_ROWS}n{n}k{k} by a warpgroup, {several}{_places(places)}"
    if moved:
        why += "; threads bring one into the order that wgmma reads: K is not contiguous"
    pending = op.properties.get("pending")
    if pending is not None:
        why += "; waited for after the next products are issued"
    shape = (WGMMA_ROWS, n, k)
    _tell(teller, op, "Tensor-core SM90", shape, f"wgmma.mma_async m{WGMMA_ROWS}n{n}k{k}", why)


def _tell_tcgen05(teller: Teller, op: tc.Tcgen05DotOp | tc.Tcgen05DotScaledOp) -> None:
    type = op.accumulator.type
    rows, columns = type.shape if is_in_tmem(type) else (0, 0)
    bits = _bits(op.lhs)
    shape = (min(rows, 128), min(columns, MOST_COLUMNS), K_BITS // max(bits, 8))
    scaled = ", with block scales" if isinstance(op, tc.Tcgen05DotScaledOp) else ""
    kind = op.kind.data
    places = "sums lie in tensor memory, operands in stages"
    if is_in_tmem(op.lhs.type):
        places = "sums and the left operand lie in tensor memory, the right one in stages"
    why = f"tcgen05.mma {kind}{scaled} by one thread; {places}"
    _tell(teller, op, "Tensor-core SM100", shape, f"tcgen05.mma kind::{kind}", why)


def _tell_fma(teller: Teller, op: tas.FmaDotOp) -> None:
    lhs, rhs, result = (type_text(value.type) for value in (op.lhs, op.rhs, op.result))
    missing = f"{teller.target.name} has no instruction for {lhs} by {rhs} into {result}"
    teller.tell(
        op,
        RemarkKind.FAILED,
        RemarkCategory.TENSOR_CORE,
        "RemarkTensorCoreMMA",
        f"{NOT_OPTIMIZED}: {missing}",
        Instruction=FMA,
        Shape="[1, 1, 1]",
        Change="multiply f16, bf16, tf32, f8, i8 or f64, in tiles of 16x16x16 or more",
    )
