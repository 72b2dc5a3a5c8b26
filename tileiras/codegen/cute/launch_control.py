"""Clusters that are taken over before they start, as operations of nvvm.

Rules are as in `instructions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from tileiras.codegen.cute.kernel import Kernel
from tileiras.codegen.cute.targets import need
from tileiras.codegen.target import Feature
from tileiras.dialects.cute.algebra.leaves import Leaf
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.values import Tensor
from tileiras.dialects.cute_nvgpu.launch_control import ANSWER_WORDS

_Rule = Callable[[Kernel, CuteOp, Sequence[Any]], None]


def ask(kernel: Kernel, answer: SSAValue, barrier: SSAValue, everyone: bool) -> None:
    """Asks for a cluster; the answer comes to the same place in all CTAs where `everyone`."""
    kernel.thread.try_cancel(answer, barrier, kernel.thread.i1(True), everyone)


def read_answer(kernel: Kernel, answer: SSAValue) -> tuple[Leaf, ...]:
    """x, y, z, and whether there was a cluster."""
    words = kernel.thread.query_cancel(answer)
    wide = IntegerType(64)
    found, *place = (
        kernel.symbol(kernel.thread.zext(kernel.thread.extract(words, number), wide))
        for number in range(ANSWER_WORDS)
    )
    return (*place, found)


def _query(everyone: bool) -> _Rule:
    def rule(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
        need(kernel.target, Feature.CLUSTER_LAUNCH_CONTROL, op.name.partition(".")[2])
        answer, barrier = operands
        ask(kernel, kernel.pointer(answer, 0), kernel.address_of(barrier), everyone)

    return rule


def _response(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.CLUSTER_LAUNCH_CONTROL, "clc_response")
    answer: Tensor = operands[0]
    kernel.values[op.outputs[0]] = read_answer(kernel, kernel.pointer(answer, 0))


LAUNCH_CONTROL: dict[str, _Rule] = {
    "cute_nvgpu.issue_clc_query": _query(False),
    "cute_nvgpu.issue_clc_query_multicast": _query(True),
    "cute_nvgpu.clc_response": _response,
}
"""The rule of each operation."""
