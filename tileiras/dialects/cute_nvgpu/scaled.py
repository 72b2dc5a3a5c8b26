"""Products with block scales: elements along K share a factor, in registers or tensor memory.

Of `mma.sync` a thread has the scales of its rows, (V, M, K) as other fragments. Those of
`tcgen05.mma` come from shared memory to tensor memory: chunks of 128 rows and four blocks along K,
a tensor (rows, blocks) whose layout for 128 rows is `((32,4),4):((16,4),1)`.
"""

from __future__ import annotations

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import Leaf
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.tensors import check_fragments, check_same_size, check_writable
from tileiras.dialects.cute.tiled import Scales
from tileiras.dialects.cute.values import CODES, Tensor, TiledMma, plain_layout
from tileiras.dialects.cute_nvgpu.products import check_group, check_operands
from tileiras.dialects.cute_nvgpu.rows import effect
from tileiras.dialects.layout.mma import Operand
from tileiras.dialects.layout.scale_factors import scale_offset


def _check_scaled(mma: TiledMma, kind: str) -> None:
    if mma.atom.family != kind:
        raise AlgebraError(f"expected an atom of kind {kind}, found {mma.atom.kind}")
    if not mma.atom.scale:
        raise AlgebraError(f"the products of {mma.atom} have no scales")


def _gemm(
    mma: TiledMma, d: Tensor, a: Tensor, scales_a: Tensor, b: Tensor, scales_b: Tensor, c: Tensor
) -> None:
    """Fragments of one thread, as those of `cute.gemm`."""
    _check_scaled(mma, "warp")
    parts: dict[Operand | Scales, Tensor] = {
        "A": a,
        "B": b,
        "C": c,
        "SFA": scales_a,
        "SFB": scales_b,
    }
    check_fragments(mma.atom, parts)
    check_same_size(c, d)
    check_writable(d)


def scale_shape(tensor: Tensor) -> tuple[int, int]:
    """(rows, blocks) of scales in shared memory; AlgebraError where they do not lie in chunks."""
    layout = plain_layout(tensor)
    if tensor.engine.space != "smem" or layout.rank != 2 or layout is not tensor.layout:
        raise AlgebraError(f"scales are a plain matrix in smem, found {tensor}")
    if tensor.engine.element not in CODES:
        raise AlgebraError(f"scales have 8 bits, found {tensor.engine.element}")
    rows, blocks = (mode.static_size for mode in layout.modes)
    wanted = [scale_offset(row, block, rows) for block in range(blocks) for row in range(rows)]
    if layout.indices != wanted:
        raise AlgebraError(
            f"{layout} is not in chunks of 32 rows of 16 bytes: of 128 rows and 4 blocks those are "
            "((32,4),4):((16,4),1)"
        )
    return rows, blocks


def _copy(tmem: Leaf, scales: Tensor, ctas: int = 1) -> None:
    scale_shape(scales)
    check_group(ctas)


def _mma(mma: TiledMma, tmem: Leaf, scales_a: Leaf, scales_b: Leaf, a: Tensor, b: Tensor) -> None:
    _check_scaled(mma, "tcgen05")
    m, n, _ = check_operands(mma, "tcgen05", a, b)
    if (m, n) != mma.atom.shape[:2]:
        raise AlgebraError(f"a product of {m} x {n}, the atom is {mma.atom}")


OPERATIONS: tuple[type[CuteOp], ...] = (
    effect(
        "gemm_block_scaled",
        "tiled_mma, tensor, tensor, tensor, tensor, tensor, tensor",
        _gemm,
        "D, A, SFA, B, SFB, C: `D(m, n) := sum over k A(m, k) SFA(m, k / v) B(n, k) SFB(n, k / v)"
        " + C(m, n)`.",
    ),
    effect(
        "tcgen05_cp",
        "int, tensor",
        _copy,
        "Scales to tensor memory, before products that follow, with 2 in both CTAs of a pair: "
        "`tmem(c)(r, b) := S(r, b)`.",
        statics=range(2),
    ),
    effect(
        "tcgen05_mma_block_scaled",
        "tiled_mma, int, int, int, tensor, tensor",
        _mma,
        "D, SFA, SFB in tensor memory: `D(m, n) := sum over k A(m, k) SFA(m, k / v) B(n, k) "
        "SFB(n, k / v) + D(m, n)`.",
    ),
)
"""The operations of this chapter."""
