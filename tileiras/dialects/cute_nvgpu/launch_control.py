"""Taking over clusters of the grid that have not started: a cluster that is asked for never starts.

An answer is 16 bytes in shared memory, `!cute.tensor<i32, smem, align<16>, 4:1>`, and is read by
`clc_response` alone. After an answer that there is none nobody asks again (PTX ISA,
"clusterlaunchcontrol.try_cancel").
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Dynamic, Leaf
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.values import Tensor, plain_layout
from tileiras.dialects.cute_nvgpu.barriers import check_barrier
from tileiras.dialects.cute_nvgpu.rows import effect

ANSWER_WORDS = 4
"""Words of an answer (PTX ISA: 16 bytes)."""
ANSWER_BYTES = 16


def check_answers(tensor: Tensor, count: int = 1) -> None:
    """AlgebraError unless there is room for so many answers, one behind the other."""
    engine, layout = tensor.engine, plain_layout(tensor)
    if (engine.element, engine.space) != ("i32", "smem") or engine.alignment < ANSWER_BYTES:
        raise AlgebraError(f"an answer is 4 words of i32 in smem, aligned to 16, found {tensor}")
    if layout is not tensor.layout or layout.indices != list(range(ANSWER_WORDS * count)):
        raise AlgebraError(f"{count} answers of 4 words lie side by side, found {tensor.layout}")


def _query(answer: Tensor, barrier: Any) -> None:
    check_answers(answer)
    check_barrier(barrier)


def _response(answer: Tensor) -> tuple[Leaf, ...]:
    """x, y, z and whether there is one."""
    check_answers(answer)
    return (Dynamic.symbol(UNKNOWN),) * ANSWER_WORDS


OPERATIONS: tuple[type[CuteOp], ...] = (
    effect(
        "issue_clc_query",
        "tensor, ptr",
        _query,
        "Asks for a cluster that has not started, the answer's 16 bytes arrive at the barrier: "
        "`A := next cluster, or none`.",
    ),
    effect(
        "issue_clc_query_multicast",
        "tensor, ptr",
        _query,
        "... for all CTAs of this cluster: `A_r := next cluster, or none, for each CTA r`.",
    ),
    effect(
        "clc_response",
        "tensor -> coord",
        _response,
        "The first CTA of a cluster that was taken over, and 1, or else 0: "
        "`clc_response(A) = (x, y, z, valid)`.",
    ),
)
"""The operations of this chapter."""
