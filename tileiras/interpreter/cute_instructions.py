"""What the operations of `cute_nvgpu` mean, one CTA at a time.

What is asynchronous on a GPU is done where it is issued: of the orders that a GPU may take this is
the first. A program without the waits that it needs may be right here; the PTX machine tells.
Threads that act together (a warp, a warpgroup) meet, then one rule acts for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.tiled import atom_layout, places_of, tile_of
from tileiras.dialects.cute.values import (
    MATRIX_ROW,
    CopyAtom,
    Tensor,
    TiledMma,
    index_of,
    plain_layout,
)
from tileiras.dialects.cute_nvgpu.bulk_copies import coordinates_of
from tileiras.dialects.cute_nvgpu.launch_control import ANSWER_BYTES, ANSWER_WORDS
from tileiras.dialects.cute_nvgpu.products import check_operands
from tileiras.dialects.cute_nvgpu.scaled import scale_shape
from tileiras.dialects.layout.scale_factors import (
    CHUNK_BYTES,
    CHUNK_COLUMNS,
    CHUNK_ROWS,
    WORD_BLOCKS,
    chunk_number,
    chunks,
    scale_columns,
)
from tileiras.interpreter.cute_state import (
    LANES,
    WARP,
    WARPGROUP,
    Cta,
    MappedTensor,
    Pointer,
    box_places,
    factors,
    number_type,
    places,
    read,
    write,
)
from tileiras.interpreter.errors import InterpreterError

Rule = Callable[[Cta, int, CuteOp, list[Any]], Any]
"""(CTA, number of the thread, operation, operands) -> result."""
GroupRule = Callable[[Cta, range, CuteOp, Sequence[list[Any]]], None]
"""(CTA, numbers of the threads, operation, operands by thread)."""


# One thread -----------------------------------------------------------------------------------


def _nothing(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    """What is done where it is issued needs no order."""


def _init(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    cta.make_barrier(operands[0], op.statics[0])


def _arrive(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    barrier = operands[0]
    if len(operands) > 1:
        cta, barrier = cta.peer(operands[1]), cta.in_peer(barrier, operands[1])
    cta.barrier(barrier).arrive(1, op.statics[0] if op.statics else 0)


def is_over(cta: Cta, operands: list[Any]) -> bool:
    """Whether the phase of a parity that `mbarrier_wait` waits for is over."""
    return cta.barrier(operands[0]).phase % 2 != int(operands[1])


def _tma_load(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    """Elements outside of the mapped tensor are 0."""
    mapped, target, barrier, coordinate = operands
    corner = _corner(mapped, coordinate)
    box = np.zeros(tuple(reversed(mapped.atom.box)), mapped.array.dtype)
    inside, outside = _overlap(mapped, corner)
    box[inside] = mapped.array[outside]
    memory = target.engine.memory
    memory[box_places(target, box.size)] = box.reshape(-1).astype(memory.dtype)
    if op.statics == [2]:
        first = cta.group(2)[0]
        barrier = cta.in_peer(barrier, first.rank)
        cta = first
    cta.barrier(barrier).arrive(0, -mapped.atom.bytes)


def _tma_store(combine: Callable[[Any, Any], Any]) -> Rule:
    """What lies outside of the mapped tensor is not written."""

    def rule(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
        mapped, source, coordinate = operands
        inside, outside = _overlap(mapped, _corner(mapped, coordinate))
        extents = tuple(reversed(mapped.atom.box))
        box = source.engine.memory[box_places(source, int(np.prod(extents)))].reshape(extents)
        mapped.array[outside] = combine(mapped.array[outside], box[inside])

    return rule


def _corner(mapped: Any, coordinate: Any) -> tuple[int, ...]:
    """Where a box begins, in the order of the array's dims; InterpreterError for another rank."""
    corner = tuple(int(str(part)) for part in reversed(coordinates_of(coordinate)))
    if not isinstance(mapped, MappedTensor) or mapped.array.ndim != len(corner):
        raise InterpreterError(f"a TMA atom is run with an array of {len(corner)} dims")
    return corner


def _overlap(
    mapped: MappedTensor, corner: tuple[int, ...]
) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The part of a box that is in the tensor: in the box, and in the tensor."""
    inside: list[slice] = []
    outside: list[slice] = []
    extents = reversed(mapped.atom.box)
    for start, extent, size in zip(corner, extents, mapped.array.shape, strict=True):
        low, high = min(max(start, 0), size), min(max(start + extent, 0), size)
        outside.append(slice(low, high))
        inside.append(slice(low - start, high - start) if low < high else slice(0, 0))
    return tuple(inside), tuple(outside)


def _multicast(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    """The same place and barrier of each CTA in the mask."""
    mapped, target, barrier, coordinate, mask = operands
    for rank in range(int(mask).bit_length()):
        if int(mask) >> rank & 1:
            there = replace(target, engine=cta.in_peer(target.engine, rank))
            other = cta.in_peer(barrier, rank)
            _tma_load(cta.peer(rank), thread, op, [mapped, there, other, coordinate])


def _cluster_arrive(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    cta.cluster.arrive(cta.rank, thread)


def _of_cluster(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> int:
    """Numbers of the launch along an axis."""
    axis, shape = op.statics[0], cta.cluster.shape
    match op.name.partition(".")[2]:
        case "block_in_cluster_idx":
            return cta.block[axis] % shape[axis]
        case "block_in_cluster_dim":
            return shape[axis]
        case "cluster_idx":
            return cta.block[axis] // shape[axis]
        case _:
            return cta.grid[axis] // shape[axis]


def _mapa(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> Pointer:
    pointer, rank = operands
    return replace(cta.in_peer(pointer, rank), space="dsmem")


def _store_async(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    """The words are there at once, and counted."""
    tensor, pointer, barrier, rank = operands
    words, there = read(tensor), cta.in_peer(pointer, rank)
    for number, word in enumerate(words):
        there.memory[there.at(number)] = word.view(there.memory.dtype)
    cta.peer(rank).barrier(cta.in_peer(barrier, rank)).arrive(0, -4 * len(words))


def answer_all(cta: Cta, answer: Pointer, barrier: Pointer, everyone: bool = True) -> None:
    """Takes a cluster over and says so at this place, in all CTAs of the cluster or here."""
    taken = cta.cluster.take_over()
    words = (*taken, 1) if taken is not None else (0,) * ANSWER_WORDS
    for other in cta.cluster.ctas if everyone else [cta]:
        there = answer if other is cta else cta.in_peer(answer, other.rank)
        for number, word in enumerate(words):
            there.memory[there.at(number)] = word
        counts = barrier if other is cta else cta.in_peer(barrier, other.rank)
        other.barrier(counts).arrive(0, -ANSWER_BYTES)


def answer_at(answer: Pointer) -> tuple[int, ...]:
    """x, y, z of the cluster's first CTA, and whether there was one."""
    return tuple(int(answer.memory[answer.at(number)]) for number in range(ANSWER_WORDS))


def _issue_query(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    answer, barrier = operands
    answer_all(cta, answer.engine, barrier, op.name.endswith("multicast"))


def _commit_multicast(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    """The barrier of this place in each CTA of the mask."""
    barrier, mask = operands
    for rank in range(int(mask).bit_length()):
        if int(mask) >> rank & 1:
            cta.peer(rank).barrier(cta.in_peer(barrier, rank)).arrive()


def _tcgen05_mma(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    mma, address, a, b = operands
    m, n, _ = check_operands(mma, "tcgen05", a, b)
    if mma.atom.elements[2] != "f32":
        raise InterpreterError(f"sums of {mma.atom.elements[2]} in tensor memory are not computed")
    group = cta.group(mma.atom.ctas)
    right = np.concatenate([_matrix(_of_peer(cta, b, each)) for each in group])
    for each in group:
        left = _matrix(_of_peer(cta, a, each))
        _accumulate(each, mma, int(address), (m, n), left @ right.T)


def _of_peer(cta: Cta, tensor: Tensor, other: Cta) -> Tensor:
    """The tensor of this place in another CTA."""
    if other is cta:
        return tensor
    return replace(tensor, engine=cta.in_peer(tensor.engine, other.rank))


def _accumulate(
    cta: Cta, mma: TiledMma, address: int, shape: tuple[int, int], total: np.ndarray[Any, Any]
) -> None:
    """A CTA's rows of a sum (M,N) into its tensor memory.

    Of a pair's 128 rows a CTA has 64: the right half of the columns lies in lanes 64 on.
    """
    m, n = shape
    rows = m // mma.atom.ctas
    folded = mma.atom.ctas == 2 and rows < LANES
    if folded:
        total = np.concatenate(np.split(total, 2, axis=1))
    lane, columns = cta.in_tensor_memory(address, n // 2 if folded else n)
    held = cta.tensor_memory[lane : lane + len(total), columns]
    held[:] = total + (held if _accumulates(mma) else 0)


def _copy_scales(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    """In each CTA of the group."""
    address, scales = operands
    for each in cta.group(op.statics[0] if op.statics else 1):
        _copy_chunks(each, address, _of_peer(cta, scales, each))


def _copy_chunks(cta: Cta, address: int, scales: Tensor) -> None:
    """Bytes of 32 rows a chunk; each quarter of the lanes gets them."""
    count = chunks(*scale_shape(scales))
    _, columns = cta.in_tensor_memory(int(address), count * CHUNK_COLUMNS)
    bits = cta.tensor_memory.view(np.uint32)
    memory = scales.engine.memory.view(np.uint8)
    start = scales.engine.at(0)
    for number in range(count):
        at = start + number * CHUNK_BYTES
        # Rows that the last chunk lacks are not there to be copied.
        chunk = np.zeros(CHUNK_BYTES, np.uint8)
        held = memory[at : at + CHUNK_BYTES]
        chunk[: len(held)] = held
        first = columns.start + number * CHUNK_COLUMNS
        words = chunk.view(np.uint32).reshape(WARP, CHUNK_COLUMNS)
        bits[:, first : first + CHUNK_COLUMNS] = np.tile(words, (LANES // WARP, 1))


def _scales(cta: Cta, address: int, rows: int, blocks: int, element: str) -> np.ndarray[Any, Any]:
    """(rows, blocks) of scales in tensor memory."""
    _, columns = cta.in_tensor_memory(address, scale_columns(rows, blocks))
    held = np.ascontiguousarray(cta.tensor_memory.view(np.uint32)[:WARP, columns]).view(np.uint8)
    found = np.zeros((rows, blocks), np.uint8)
    for row, block in np.ndindex(rows, blocks):
        column = chunk_number(row, block, rows) * CHUNK_COLUMNS + row % CHUNK_ROWS // WARP
        found[row, block] = held[row % WARP, column * 4 + block % WORD_BLOCKS]
    return found.view(number_type(element)).astype(np.float32)


def _tcgen05_mma_scaled(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    mma, address, scales_a, scales_b, a, b = operands
    m, n, k = check_operands(mma, "tcgen05", a, b)
    group = cta.group(mma.atom.ctas)
    right = np.concatenate([_matrix(_of_peer(cta, b, each)) for each in group])

    def scaled(other: Cta, found: np.ndarray[Any, Any], scales: Any) -> np.ndarray[Any, Any]:
        given = _scales(other, int(scales), len(found), k // mma.atom.block, mma.atom.scale)
        return found * np.repeat(given, found.shape[1] // given.shape[1], axis=1)

    for each in group:
        left = scaled(each, _matrix(_of_peer(cta, a, each)), scales_a)
        _accumulate(each, mma, int(address), (m, n), left @ scaled(each, right, scales_b).T)


def _tcgen05_load(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    address, target = operands
    lane, columns = cta.in_tensor_memory(int(address), target.layout.static_size)
    write(target, cta.tensor_memory[lane + thread % LANES, columns])


def _tcgen05_store(cta: Cta, thread: int, op: CuteOp, operands: list[Any]) -> None:
    source, address = operands
    lane, columns = cta.in_tensor_memory(int(address), source.layout.static_size)
    cta.tensor_memory[lane + thread % LANES, columns] = read(source)


RULES: dict[str, Rule] = {
    "elect_sync": lambda cta, thread, op, operands: thread % WARP == 0,
    "warp_idx": lambda cta, thread, op, operands: thread // WARP,
    "lane_idx": lambda cta, thread, op, operands: thread % WARP,
    "atom_set_value": lambda cta, thread, op, operands: op.apply(
        [operands[0], int(bool(operands[1]))]
    ),
    "mbarrier_init": _init,
    "mbarrier_init_fence": _nothing,
    "mbarrier_arrive": _arrive,
    "mbarrier_arrive_and_expect_tx": _arrive,
    "mbarrier_try_wait": lambda cta, thread, op, operands: is_over(cta, operands),
    "mbarrier_arrive_copies": _arrive,
    "block_idx_in_cluster": lambda cta, thread, op, operands: cta.rank,
    "block_in_cluster_idx": _of_cluster,
    "block_in_cluster_dim": _of_cluster,
    "cluster_idx": _of_cluster,
    "cluster_dim": _of_cluster,
    "cluster_arrive": _cluster_arrive,
    "cluster_arrive_relaxed": _cluster_arrive,
    "mapa": _mapa,
    "store_async": _store_async,
    "issue_clc_query": _issue_query,
    "issue_clc_query_multicast": _issue_query,
    "clc_response": lambda cta, thread, op, operands: answer_at(operands[0].engine),
    "fence_proxy_async": _nothing,
    "cp_async_commit_group": _nothing,
    "cp_async_wait_group": _nothing,
    "prefetch_tma_desc": _nothing,
    "tma_load": _tma_load,
    "tma_load_multicast": _multicast,
    "tma_store": _tma_store(lambda old, new: new),
    "tma_reduce_add": _tma_store(np.add),
    "tma_reduce_min": _tma_store(np.minimum),
    "tma_reduce_max": _tma_store(np.maximum),
    "tma_reduce_and": _tma_store(np.bitwise_and),
    "tma_reduce_or": _tma_store(np.bitwise_or),
    "tma_reduce_xor": _tma_store(np.bitwise_xor),
    "tma_store_commit": _nothing,
    "tma_store_wait": _nothing,
    "tma_store_wait_read": _nothing,
    "warpgroup_arrive": _nothing,
    "warpgroup_commit_batch": _nothing,
    "warpgroup_wait": _nothing,
    "tmem_address": lambda cta, thread, op, operands: int(read(operands[0])[0]),
    "tcgen05_mma": _tcgen05_mma,
    "tcgen05_cp": _copy_scales,
    "tcgen05_mma_block_scaled": _tcgen05_mma_scaled,
    "tcgen05_commit": lambda cta, thread, op, operands: cta.barrier(operands[0]).arrive(),
    "tcgen05_commit_multicast": _commit_multicast,
    "tcgen05_load": _tcgen05_load,
    "tcgen05_store": _tcgen05_store,
    "tcgen05_fence_before": _nothing,
    "tcgen05_fence_after": _nothing,
}
"""Operations that a thread does alone; those that make atoms are functions of the algebra."""


# A warp, a warpgroup --------------------------------------------------------------------------


def copy_matrices(cta: Cta, threads: range, op: CuteOp, operands: Sequence[list[Any]]) -> None:
    """ldmatrix and stmatrix: lane 8 i + r addresses row r of matrix i, lane 4 r + c / 2 has words.

    PTX ISA, "ldmatrix": a word of lane l is elements 2 (l % 4) and the next of row l / 4, or of
    column l / 4 if transposed.
    """
    first = operands[0][0]
    atom: CopyAtom = getattr(first, "atom", first)
    loads, transposed = atom.kind.startswith("ld"), atom.kind.endswith("_trans")
    sources, targets = ([line[which] for line in operands] for which in (1, 2))
    rows, held = (sources, targets) if loads else (targets, sources)
    row_places, held_places = ([places(t) for t in tensors] for tensors in (rows, held))
    for number in range(len(held_places[0]) // atom.held):
        for lane in range(WARP):
            for value in range(atom.held):
                line, place = lane // 4, 2 * (lane % 4) + value % 2
                if transposed:
                    line, place = place, line
                owner = value // 2 * MATRIX_ROW + line
                there = row_places[owner][number * MATRIX_ROW + place]
                here = held_places[lane][number * atom.held + value]
                if loads:
                    held[lane].engine.memory[here] = rows[owner].engine.memory[there]
                else:
                    rows[owner].engine.memory[there] = held[lane].engine.memory[here]


def _warpgroup_mma(cta: Cta, threads: range, op: CuteOp, operands: Sequence[list[Any]]) -> None:
    """Warpgroup w of the CTA has the blocks of group w of the tiled MMA."""
    mma, _, a, b = operands[0]
    m, n, _ = check_operands(mma, "warpgroup", a, b)
    groups = places_of(mma, "C")
    group = threads.start // WARPGROUP
    if group >= len(groups):
        raise InterpreterError(f"warpgroup {group} is none of the {len(groups)} of the product", op)
    total = _matrix(a) @ _matrix(b).T
    layout, tile = atom_layout(mma.atom, "C"), tile_of(mma, "C")
    lanes, count = (mode.static_size for mode in layout.modes)
    indices = [int(str(index)) for index in layout.indices]
    rows, columns = mma.atom.shape[:2]
    accumulates = _accumulates(mma)
    for i in range(m // tile[0]):
        for j in range(n // tile[1]):
            top = i * tile[0] + groups[group][0] * rows
            left = j * tile[1] + groups[group][1] * columns
            for lane in range(lanes):
                d: Tensor = operands[lane][1]
                for value in range(count):
                    index = indices[lane + value * lanes]
                    found = total[top + index % rows, left + index // rows]
                    at = d.engine.at(int(str(index_of(d, (value, i, j)))))
                    d.engine.memory[at] = found + (d.engine.memory[at] if accumulates else 0)


def _matrix(tensor: Tensor) -> np.ndarray[Any, Any]:
    """An operand in shared memory as a matrix, in f32 for sums; integers stay."""
    rows, columns = (mode.static_size for mode in plain_layout(tensor).modes)
    found = read(tensor).reshape(columns, rows).T
    sums = np.int32 if found.dtype.kind == "i" else np.float32
    return factors(found, tensor.engine.element, sums)


def _accumulates(mma: TiledMma) -> bool:
    """Whether what the accumulator holds is added to."""
    return bool(int(mma.atom.accumulate))


def _alloc(cta: Cta, threads: range, op: CuteOp, operands: Sequence[list[Any]]) -> None:
    tensor = operands[0][0]
    tensor.engine.memory[tensor.engine.at(0)] = cta.allocate_columns(op.statics[0])


def _dealloc(cta: Cta, threads: range, op: CuteOp, operands: Sequence[list[Any]]) -> None:
    cta.free_columns(int(operands[0][0]), op.statics[0])


def _meet(cta: Cta, threads: range, op: CuteOp, operands: Sequence[list[Any]]) -> None:
    """Nothing but the meeting."""


GROUP_RULES: dict[str, tuple[int, GroupRule]] = {
    "sync_warp": (WARP, _meet),
    "warpgroup_mma": (WARPGROUP, _warpgroup_mma),
    "warpgroup_reg_alloc": (WARPGROUP, _meet),
    "warpgroup_reg_dealloc": (WARPGROUP, _meet),
    "tmem_alloc": (WARP, _alloc),
    "tmem_dealloc": (WARP, _dealloc),
}
"""Operations of so many threads together."""
