"""Runs conversion plans on data: registers are arrays [warp, lane, register]."""

from __future__ import annotations

import numpy as np

from tileiras.dialects.layout.conversion import ConversionPlan
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.offsets import (
    offset_terms,
    owner_mask,
    register_groups,
    register_representatives,
)
from tileiras.dialects.layout.plans import (
    Identity,
    RegisterPermutation,
    SharedMemory,
    WarpShuffle,
)

NEVER_WRITTEN = -1


def run_plan(
    plan: ConversionPlan, src: LinearLayout, dst: LinearLayout, data: np.ndarray
) -> np.ndarray:
    """The registers after the conversion, from the registers `data` before it."""
    match plan:
        case Identity():
            return data
        case RegisterPermutation(sources):
            return data[:, :, list(sources)]
        case WarpShuffle():
            return _run_shuffle(plan, data)
        case SharedMemory():
            return _load(plan, dst, _store(plan, src, data))


def _swap_groups(groups: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """`result[w, l, j] = groups[w, l, j ^ distance[w, l]]` (the last axis is within a group)."""
    index = np.arange(groups.shape[2])[None, None, :] ^ distance[:, :, None]
    return np.take_along_axis(groups, index[..., None], axis=2)


def _run_shuffle(plan: WarpShuffle, data: np.ndarray) -> np.ndarray:
    """Offers, rounds and placement, as the docstring of `WarpShuffle` states them."""
    warps, lanes, registers = data.shape
    groups = data.reshape(warps, lanes, registers // plan.pack, plan.pack)
    everyone = [(w, lane) for w in range(warps) for lane in range(lanes)]
    before = np.array([plan.before(lane, w) for w, lane in everyone]).reshape(warps, lanes)
    offered = _swap_groups(groups, before)
    base = np.array([plan.source_lane(lane, w) for w, lane in everyone]).reshape(warps, lanes)
    arrived = []
    for exchange in plan.rounds:
        sender = base ^ exchange.lane_xor
        if plan.is_local(exchange):
            assert (sender == np.arange(lanes)).all()
        arrived.append(np.take_along_axis(offered[:, :, exchange.send], sender[..., None], axis=1))
    received = np.stack([arrived[r] for r in plan.arrival], axis=2)
    after = np.array([plan.after(lane) for _, lane in everyone]).reshape(warps, lanes)
    return _swap_groups(received, after).reshape(warps, lanes, -1)


def _store(plan: SharedMemory, src: LinearLayout, data: np.ndarray) -> np.ndarray:
    """The owners store vectors; no element is stored twice and none is left out."""
    memory = np.full(src.size, NEVER_WRITTEN, dtype=data.dtype)
    terms = offset_terms(src, plan.shared)
    lane_mask, warp_mask = owner_mask(src)
    for warp, lane in np.ndindex(data.shape[:2]):
        if warp & warp_mask or lane & lane_mask:
            continue
        for group in register_groups(src, plan.shared, plan.store_vector):
            start = terms.base(lane, warp) ^ group.offset
            assert start % plan.store_vector == 0
            assert len(group.registers) == plan.store_vector
            for k, register in enumerate(group.registers):
                assert memory[start + k] == NEVER_WRITTEN
                memory[start + k] = data[warp, lane, register]
    assert NEVER_WRITTEN not in memory
    return memory


def _load(plan: SharedMemory, dst: LinearLayout, memory: np.ndarray) -> np.ndarray:
    """Every thread loads the vectors of its distinct registers and copies the rest."""
    shape = tuple(dst.in_size(name) for name in ("warp", "lane", "register"))
    data = np.full(shape, NEVER_WRITTEN, dtype=memory.dtype)
    terms = offset_terms(dst, plan.shared)
    for warp, lane in np.ndindex(shape[:2]):
        for group in register_groups(dst, plan.shared, plan.load_vector):
            start = terms.base(lane, warp) ^ group.offset
            assert start % plan.load_vector == 0
            for k, register in enumerate(group.registers):
                data[warp, lane, register] = memory[start + k]
    return data[:, :, list(register_representatives(dst))]


def count_conflicts(
    layout: LinearLayout, plan: SharedMemory, element_bytes: int, vector: int
) -> int:
    """The wavefronts of the worst phase of an access, counted word by word."""
    terms = offset_terms(layout, plan.shared)
    phase = min(32, 128 // max(4, element_bytes * vector))
    worst = 0
    for first in range(0, 32, phase):
        words: dict[int, set[int]] = {}
        for lane in range(first, first + phase):
            start = terms.base(lane, 0) * element_bytes
            for byte in range(start, start + element_bytes * vector):
                words.setdefault(byte // 4 % 32, set()).add(byte // 4)
        worst = max(worst, *(len(addresses) for addresses in words.values()))
    return worst
