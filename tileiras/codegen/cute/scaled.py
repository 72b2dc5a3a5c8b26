"""Products with block scales as operations of nvvm. Rules are as in `instructions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import SSAValue

from tileiras.codegen.cute.instructions import (
    accumulates,
    check_containers,
    check_majors,
    shared_operand,
)
from tileiras.codegen.cute.kernel import Kernel
from tileiras.codegen.cute.memory import index_in
from tileiras.codegen.cute.targets import PTX_ELEMENTS, need, row_of
from tileiras.codegen.llvmir.tcgen05_builder import ScaledStep
from tileiras.codegen.target import Feature
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.values import Tensor, plain_layout
from tileiras.dialects.cute_nvgpu.products import check_operands
from tileiras.dialects.cute_nvgpu.scaled import scale_shape
from tileiras.dialects.layout.scale_factors import (
    CHUNK_BYTES,
    CHUNK_COLUMNS,
    GROUP_BYTES,
    WORD_BLOCKS,
    chunk_number,
    chunks,
)

_Rule = Callable[[Kernel, CuteOp, Sequence[Any]], None]


def _gemm(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    """An mma.sync for each atom of the fragments; a register has all scales of a thread."""
    mma, d, a, scales_a, b, scales_b, c = operands
    row = row_of(mma.atom, kernel.target)
    m, k = (mode.static_size for mode in plain_layout(a).modes[1:])
    n = plain_layout(b)[1].static_size
    blocks = mma.atom.shape[2] // mma.atom.block
    for j in range(n):
        for i in range(m):
            total = kernel.fragment(c, i, j)
            for step in range(k):
                total = kernel.thread.mma_scaled_tile(
                    row.name,
                    (kernel.fragment(a, i, step), kernel.fragment(b, j, step), total),
                    (_word(kernel, scales_a, i, step), _word(kernel, scales_b, j, step)),
                    (1, 1, 1),
                    blocks,
                    0,
                )
            kernel.scatter(d, i, j, total)


def _word(kernel: Kernel, scales: Tensor, i: int, j: int) -> SSAValue:
    """The scales of an atom in one word, the first one lowest; bytes that are not read are 0."""
    count = plain_layout(scales)[0].static_size
    values = [kernel.read(scales, index_in(scales, (v, i, j)))[0] for v in range(count)]
    byte = IntegerType(8)
    values += [kernel.constant(0, byte)] * (WORD_BLOCKS - count)
    return kernel.thread.bitcast(kernel.vector(values, byte), i32)


def _copy(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.TCGEN05_SCALED, "tcgen05_cp")
    tmem, scales = operands
    count = chunks(*scale_shape(scales))
    source = kernel.thread.tcgen05_chunk_descriptor(kernel.pointer(scales, 0), GROUP_BYTES)
    kernel.thread.tcgen05_cp(
        kernel.word(tmem),
        source,
        [number * CHUNK_BYTES for number in range(count)],
        [number * CHUNK_COLUMNS for number in range(count)],
        pair=kernel.is_pair(op.statics[0] if op.statics else 1),
    )


def _mma(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    mma, tmem, scales_a, scales_b, a, b = operands
    row = row_of(mma.atom, kernel.target)
    m, n, _ = check_operands(mma, "tcgen05", a, b)
    left, right = shared_operand(a), shared_operand(b)
    check_majors(row.name, row.transposes, left, right)
    check_containers(mma, left, right)
    behind = scales_b + scales_a * -1
    if not isinstance(behind, int):
        raise AlgebraError("the scales of B are no known number of columns behind those of A")
    names = [PTX_ELEMENTS[element] for element in mma.atom.elements[:2]]
    flags, ctas = (left.major == "mn", right.major == "mn"), mma.atom.ctas
    steps: list[ScaledStep] = []
    for step, (to_a, to_b) in enumerate(zip(left.k_offsets, right.k_offsets, strict=True)):
        word, byte = row.scale_place(step)
        # Of a pair each CTA has the scales of its rows of A, and of all columns.
        columns = [
            chunk_number(0, word * WORD_BLOCKS, rows) * CHUNK_COLUMNS for rows in (m // ctas, n)
        ]
        descriptor = row.descriptor(names[0], names[1], m, n, byte, transposed=flags, ctas=ctas)
        steps.append(ScaledStep(descriptor, to_a, to_b, columns[0], behind + columns[1]))
    scale, thread = accumulates(kernel, mma), kernel.thread
    thread.tcgen05_mma_scaled(
        row.name,
        row.vector,
        kernel.word(tmem),
        thread.tcgen05_descriptor(kernel.pointer(a, 0), left),
        thread.tcgen05_descriptor(kernel.pointer(b, 0), right),
        kernel.word(scales_a),
        thread.i1(scale) if isinstance(scale, bool) else scale,
        steps,
        pair=kernel.is_pair(ctas),
    )


SCALED: dict[str, _Rule] = {
    "cute_nvgpu.gemm_block_scaled": _gemm,
    "cute_nvgpu.tcgen05_cp": _copy,
    "cute_nvgpu.tcgen05_mma_block_scaled": _mma,
}
"""The rule of each operation."""
