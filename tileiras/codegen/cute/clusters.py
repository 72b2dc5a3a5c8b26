"""Operations on clusters, and on registers of warpgroups, as operations of nvvm.

Rules are as in `instructions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import i32

from tileiras.codegen.cute.kernel import Kernel
from tileiras.codegen.cute.memory import Address, vectors_of
from tileiras.codegen.cute.targets import need
from tileiras.codegen.target import Feature
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.operation import CuteOp

_Rule = Callable[[Kernel, CuteOp, Sequence[Any]], None]
_AXES = "xyz"
_WARPGROUP = 128


def _register(name: str) -> _Rule:
    """A number of the launch; with an axis where the operation has one."""

    def rule(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
        need(kernel.target, Feature.CLUSTER_LAUNCH, op.name.partition(".")[2])
        axis = f".{_AXES[op.statics[0]]}" if op.statics else ""
        kernel.values[op.outputs[0]] = kernel.special_register(name + axis)

    return rule


def _arrive(relaxed: bool) -> _Rule:
    def rule(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
        need(kernel.target, Feature.CLUSTER_LAUNCH, op.name.partition(".")[2])
        kernel.thread.cluster_arrive(relaxed=relaxed)

    return rule


def _wait(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.CLUSTER_LAUNCH, "cluster_wait")
    kernel.thread.cluster_wait()


def _mapa(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.CLUSTER_LAUNCH, "mapa")
    pointer, rank = operands
    base = kernel.thread.mapa(kernel.address_of(pointer), kernel.rank(rank))
    kernel.values[op.outputs[0]] = Address(base, pointer.element, "dsmem")


def _store_async(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.CLUSTER_LAUNCH, "store_async")
    tensor, pointer, barrier, rank = operands
    values = [kernel.read(tensor, index)[0] for index in vectors_of(tensor, 1)]
    words = [kernel.thread.bitcast(value, i32) for value in values]
    target, counted = kernel.address_of(pointer), kernel.address_of(barrier)
    kernel.thread.store_async(target, kernel.rank(rank), words, counted)


def _registers(action: str) -> _Rule:
    """All warps of a warpgroup change their registers together."""

    def rule(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
        need(kernel.target, Feature.SETMAXNREG, op.name.partition(".")[2])
        if kernel.func.threads.data % _WARPGROUP:
            found = kernel.func.threads.data
            raise AlgebraError(f"a kernel of {found} threads is not made of whole warpgroups")
        kernel.thread.setmaxnreg(op.statics[0], action)

    return rule


CLUSTERS: dict[str, _Rule] = {
    "cute_nvgpu.block_idx_in_cluster": _register("cluster.ctarank"),
    "cute_nvgpu.block_in_cluster_idx": _register("cluster.ctaid"),
    "cute_nvgpu.block_in_cluster_dim": _register("cluster.nctaid"),
    "cute_nvgpu.cluster_idx": _register("clusterid"),
    "cute_nvgpu.cluster_dim": _register("nclusterid"),
    "cute_nvgpu.cluster_arrive": _arrive(False),
    "cute_nvgpu.cluster_arrive_relaxed": _arrive(True),
    "cute_nvgpu.cluster_wait": _wait,
    "cute_nvgpu.mapa": _mapa,
    "cute_nvgpu.store_async": _store_async,
    "cute_nvgpu.warpgroup_reg_alloc": _registers("inc"),
    "cute_nvgpu.warpgroup_reg_dealloc": _registers("dec"),
}
"""The rule of each operation."""
