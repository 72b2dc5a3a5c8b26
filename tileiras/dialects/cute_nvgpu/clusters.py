"""CTAs of a cluster, and registers that warpgroups hand to each other.

A kernel says how large its clusters are: `cute.func @k(..) threads 128 cluster (2,1,1) { .. }`. The
same name is the same place in the shared memory of each CTA: `mapa` is the pointer to that of
another one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import UNKNOWN, Dynamic, Leaf
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.values import Tensor, element_bits, plain_layout
from tileiras.dialects.cute_nvgpu.barriers import check_barrier, check_rank, nothing
from tileiras.dialects.cute_nvgpu.rows import effect, row

REGISTERS = range(24, 257, 8)
"""Registers of a thread that `setmaxnreg` takes (PTX ISA)."""
AXES = 3


def _number(axis: int) -> Dynamic:
    if not 0 <= axis < AXES:
        raise AlgebraError(f"axes are 0, 1 and 2, found {axis}")
    return Dynamic.symbol(UNKNOWN)


def _rank() -> Dynamic:
    return Dynamic.symbol(UNKNOWN)


def _mapa(pointer: Any, rank: Leaf) -> Any:
    """The pointer in the other CTA's memory."""
    if pointer.space != "smem":
        raise AlgebraError(f"smem of another CTA is mapped, found {pointer.space}")
    check_rank(rank)
    return replace(pointer, space="dsmem")


def _store_async(words: Tensor, pointer: Any, barrier: Any, rank: Leaf) -> None:
    check_barrier(barrier)
    check_rank(rank)
    bits = element_bits(words.engine.element)
    count = plain_layout(words).size
    if words.engine.space != "rmem" or bits != 32 or count not in (1, 2, 4):
        raise AlgebraError(f"1, 2 or 4 words of 32 bits in rmem are stored, found {words}")
    if pointer.space != "smem" or element_bits(pointer.element) != bits:
        raise AlgebraError(f"words go to smem, found {pointer.element} in {pointer.space}")
    if pointer.alignment < bits // 8 * count:
        raise AlgebraError(f"{count} words go to an aligned place, found align {pointer.alignment}")


def _registers(count: int) -> None:
    """A number that the instruction takes."""
    if count not in REGISTERS:
        first, last, step = REGISTERS[0], REGISTERS[-1], REGISTERS.step
        raise AlgebraError(f"{first} to {last} registers in steps of {step}, found {count}")


OPERATIONS: tuple[type[CuteOp], ...] = (
    row("block_idx_in_cluster", "-> int", _rank, "The CTA's number: `rank in the cluster`."),
    row(
        "block_in_cluster_idx",
        "-> int",
        _number,
        "The CTA in its cluster along an axis: `block_idx<a>() mod block_in_cluster_dim<a>()`.",
        statics=1,
    ),
    row(
        "block_in_cluster_dim",
        "-> int",
        _number,
        "CTAs of a cluster along an axis: `dim<0>() * dim<1>() * dim<2>() = CTAs`.",
        statics=1,
    ),
    row(
        "cluster_idx",
        "-> int",
        _number,
        "The cluster in the grid: `block_idx<a>() / block_in_cluster_dim<a>()`.",
        statics=1,
    ),
    row(
        "cluster_dim",
        "-> int",
        _number,
        "Clusters of the grid: `grid_dim<a>() / block_in_cluster_dim<a>()`.",
        statics=1,
    ),
    effect(
        "cluster_arrive",
        "",
        nothing,
        "Arrives at the cluster's barrier: `writes before < reads after cluster_wait`.",
    ),
    effect(
        "cluster_arrive_relaxed",
        "",
        nothing,
        "Arrives, and orders no memory: `arrival < cluster_wait`.",
    ),
    effect("cluster_wait", "", nothing, "Until all have arrived: `arrivals = threads`."),
    row(
        "mapa",
        "ptr, int -> ptr",
        _mapa,
        "The same place in another CTA's shared memory: `mapa(p, r)[i] = p[i] of CTA r`.",
    ),
    effect(
        "store_async",
        "tensor, ptr, ptr, int",
        _store_async,
        "Words into another CTA, counted at its barrier: `p[i] of CTA r := R(i)`.",
    ),
    effect(
        "warpgroup_reg_alloc",
        "",
        _registers,
        "Raises the registers of a warpgroup's threads: `registers := n`, when they are free.",
        statics=1,
    ),
    effect(
        "warpgroup_reg_dealloc",
        "",
        _registers,
        "Gives registers of a warpgroup's threads back: `registers := n`.",
        statics=1,
    ),
)
"""The operations of this chapter."""
