"""Products of nv_tileas in CuTe's notation: the tiled MMA, where operands and sums are.

A is (M,K), B is (N,K), D is (M,N), as CuTe has them: the right operand of a tile product is B
transposed. Where instructions compute the transposed product, A is what was right.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.atoms.mma import get_mma_atom
from tileiras.codegen.atoms.tcgen05 import MOST_N
from tileiras.codegen.atoms.wgmma import K_BYTES, ROWS
from tileiras.codegen.cute_notation.kernel import Shown
from tileiras.codegen.cute_notation.layouts import smem_tensor
from tileiras.dialects.layout.tmem import BLOCK_ROWS
from tileiras.dialects.nv_tileaa.storage import storage_bits
from tileiras.dialects.nv_tileas.dot import FmaDotOp, MmaDotOp, MmaScaledDotOp
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.memdesc import MemDescType, is_in_smem
from tileiras.dialects.nv_tileas.pipeline import stage_offset
from tileiras.dialects.nv_tileas.tcgen05 import Tcgen05DotOp, Tcgen05DotScaledOp
from tileiras.dialects.nv_tileas.wgmma import WgmmaDotOp, WgmmaDotsOp

WARPS = 4
"""Of a warpgroup."""


def _tiled_mma(kind: str, shape: Sequence[int], elements: Sequence[object], layout: str) -> str:
    """The type of a tiled MMA."""
    extents = ",".join(map(str, shape))
    return f"!cute.tiled_mma<{kind}, ({extents}), {', '.join(map(str, elements))}, {layout}>"


def _groups(first: int, second: int = 1) -> str:
    """The layout (M,N,K) of groups of threads, those along M next to each other."""
    return f"({first},{second},1):({int(first > 1)},{first if second > 1 else 0},0)"


def _element(value: SSAValue) -> Attribute:
    return value.type.element_type  # pyright: ignore[reportAttributeAccessIssue]


def _operand(shown: Shown, name: str, value: SSAValue, transposed: bool) -> str:
    """A line for an operand: a tile in shared memory, or fragments in registers."""
    if is_in_smem(value.type):
        tensor = smem_tensor(value.type, stage_offset(value) or 0, transposed=transposed)
        return f"  {name} = {shown.use(value)} : {tensor}"
    layout = layout_of(value.type)
    if layout is None:
        return f"  {name} = {shown.use(value)}"
    note = "  // transposed" if transposed else ""
    return f"  {name} = {shown.use(value)} : {_element(value)}, rmem, {shown.alias(layout)}{note}"


def _sum(shown: Shown, value: SSAValue, transposed: bool) -> str:
    layout = layout_of(value.type)
    note = "  // of the transposed tile" if transposed else ""
    where = shown.alias(layout) if layout is not None else ""
    return f"  D = {shown.use(value)} : {_element(value)}, rmem, {where}{note}"


def _warpgroups(shown: Shown) -> int:
    return max(1, shown.warps // WARPS)


def warpgroup_mma(shown: Shown, op: Operation) -> list[str]:
    """wgmma, of one tile or of several that lie behind each other."""
    assert isinstance(op, WgmmaDotOp | WgmmaDotsOp)
    if isinstance(op, WgmmaDotsOp):
        pairs, sums, fragments = [op.operands_of(n) for n in range(len(op.tiles))], op.sums, ""
        columns_at_once = len(op.tiles)
    else:
        pairs, sums, columns_at_once = [(op.lhs, op.rhs)], (op.result,), 1
        fragments = op.fragments.data if op.fragments is not None else ""
    transposed = op.transposed is not None or fragments == "rhs"
    lhs, rhs = pairs[0]
    extent = _shape(lhs)[0] if transposed else _shape(rhs)[1]
    k = K_BYTES * 8 // storage_bits(_element(rhs))
    names = [_element(rhs), _element(lhs)] if transposed else [_element(lhs), _element(rhs)]
    shape = (ROWS, extent * columns_at_once, k)
    mma = _tiled_mma("warpgroup", shape, [*names, _element(sums[0])], _groups(_warpgroups(shown)))
    lines = [f"{shown.results(op)}cute_nvgpu.warpgroup_mma({mma}){_notes(op, fragments)}"]
    for (left, right), total in zip(pairs, sums, strict=True):
        first, second = (right, left) if transposed else (left, right)
        lines.append(_operand(shown, "A", first, transposed=transposed))
        lines.append(_operand(shown, "B", second, transposed=not transposed))
        lines.append(_sum(shown, total, transposed))
    return lines


def _notes(op: Operation, fragments: str) -> str:
    """What the operation does beside the product."""
    notes = []
    if fragments:
        which = {"both": "A, in the order of a transposed B"}.get(fragments, "A")
        notes.append(f"threads read {which} into registers")
    if isinstance(op.properties.get("two_level"), UnitAttr):
        notes.append("partial sums of 128 along K are added by threads")
    pending = op.properties.get("pending")
    if pending is not None:
        notes.append(f"then warpgroup_wait<{getattr(pending, 'data', 0)}>")
    return f"  // {'; '.join(notes)}" if notes else ""


def _shape(value: SSAValue) -> tuple[int, ...]:
    type = value.type
    return type.shape if isinstance(type, MemDescType) else tuple(type.get_shape())  # pyright: ignore


def warp_mma(shown: Shown, op: Operation) -> list[str]:
    """mma.sync, with scales or without."""
    assert isinstance(op, MmaDotOp | MmaScaledDotOp)
    row = get_mma_atom(op.atom.data)
    elements = (_element(op.lhs), _element(op.rhs), _element(op.result))
    groups = _groups(op.warps_m.data, op.warps_n.data)
    mma = _tiled_mma("warp", (row.m, row.n, row.k), elements, groups)
    scaled = isinstance(op, MmaScaledDotOp)
    note = f"  // {row.mnemonic}" if scaled else ""
    return [
        f"{shown.results(op)}cute.gemm({mma}){note}",
        _operand(shown, "A", op.lhs, transposed=False),
        _operand(shown, "B", op.rhs, transposed=True),
        _sum(shown, op.result, transposed=False),
        *(
            [
                _operand(shown, "SFA", op.lhs_scale, False),
                _operand(shown, "SFB", op.rhs_scale, True),
            ]
            if isinstance(op, MmaScaledDotOp)
            else []
        ),
    ]


def universal_mma(shown: Shown, op: Operation) -> list[str]:
    """Multiply-adds of threads."""
    assert isinstance(op, FmaDotOp)
    elements = (_element(op.lhs), _element(op.rhs), _element(op.result))
    mma = f"!cute.mma_atom<universal, (1,1,1), {', '.join(map(str, elements))}>"
    return [
        f"{shown.results(op)}cute.gemm({mma})",
        _operand(shown, "A", op.lhs, transposed=False),
        _operand(shown, "B", op.rhs, transposed=True),
        _sum(shown, op.result, transposed=False),
    ]


def tensor_memory_mma(shown: Shown, op: Operation) -> list[str]:
    """tcgen05, with scales or without."""
    assert isinstance(op, Tcgen05DotOp | Tcgen05DotScaledOp)
    m, n = min(_shape(op.lhs)[0], BLOCK_ROWS), min(_shape(op.rhs)[1], MOST_N)
    elements = (_element(op.lhs), _element(op.rhs), _element(op.accumulator))
    k = K_BYTES * 8 // storage_bits(_element(op.lhs))
    if isinstance(op, Tcgen05DotScaledOp) and op.packed is not None:
        k *= 2
    mma = _tiled_mma("tcgen05", (m, n, k), elements, _groups(1))
    lines = [
        f"cute_nvgpu.tcgen05_mma({mma})  // kind {op.kind.data}",
        _operand(shown, "A", op.lhs, transposed=False),
        _operand(shown, "B", op.rhs, transposed=True),
        f"  D = {shown.use(op.accumulator)}",
    ]
    if isinstance(op, Tcgen05DotScaledOp):
        lines += [
            _operand(shown, "SFA", op.lhs_scale, transposed=False),
            _operand(shown, "SFB", op.rhs_scale, transposed=True),
        ]
    return lines
