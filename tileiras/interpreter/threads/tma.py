"""The tensor memory accelerator: loads that land at any time, stores by groups.

A store is read as late as a wait allows, from bytes that nobody may write meanwhile and that their
writers have shown to the asynchronous proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.nvvm import tma
from tileiras.interpreter.errors import InterpreterError, UnknownOperationError
from tileiras.interpreter.threads.barriers import chosen, mbarrier_at, number_at
from tileiras.interpreter.threads.schedule import Wait
from tileiras.interpreter.threads.shared import FIRST_ADDRESS
from tileiras.interpreter.threads.state import BulkCopy, Cta, Lockstep, Rule
from tileiras.interpreter.threads.tensor_maps import TensorMap

_NUMBERS: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "s32": np.int32,
    "s64": np.int64,
    "u32": np.uint32,
    "u64": np.uint64,
}
"""Elements that a reduction works on as numbers."""
_REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _map_at(run: Lockstep, address: int) -> TensorMap:
    found = run.cta.launch.maps.get(address)
    if found is None:
        raise InterpreterError(f"nobody has published a tensor map at {address:#x}")
    return found


def _load(run: Lockstep, op: tma.TmaLoadOp) -> Wait:
    for row in chosen(run, op.predicate):
        box = _map_at(run, int(run.values[op.map][row]))
        coordinates = [number_at(run, value, row) for value in op.coordinates]
        places = box.places(int(run.values[op.target][row]) - FIRST_ADDRESS)
        barrier = int(run.values[op.barrier][row])
        ctas = [run.cta]
        if op.multicast is not None:
            mask = int(run.values[op.multicast][row])
            ctas = [cta for cta in run.cta.cluster.ctas if mask >> cta.rank & 1]
        for cta in ctas:
            cta.shared.forget(places)
            run.schedule.land_later(_landing(cta, box, coordinates, places, barrier))
    return Wait()


def _landing(
    cta: Cta, box: TensorMap, coordinates: Sequence[int], places: np.ndarray, barrier: int
) -> Callable[[], None]:
    """A box on its way to the shared memory of a CTA."""

    def land() -> None:
        addresses, inside = box.elements(coordinates)
        data = np.full(addresses.shape, box.outside, box.storage)
        data[inside] = cta.launch.memory.gather(addresses[inside], box.storage)
        cta.shared.place(places, data.view(np.uint8).reshape(places.shape))
        found = mbarrier_at(cta, barrier)
        found.bytes -= places.size
        found.settle()

    return land


def _store(run: Lockstep, op: tma.TmaStoreOp) -> Wait:
    for row in chosen(run, op.predicate):
        box = _map_at(run, int(run.values[op.map][row]))
        coordinates = [number_at(run, value, row) for value in op.coordinates]
        places = box.places(int(run.values[op.source][row]) - FIRST_ADDRESS)
        run.shared.start_copy(places)
        kind = op.reduction.data if op.reduction is not None else None
        if kind is not None and (kind not in _REDUCTIONS or box.element not in _NUMBERS):
            raise UnknownOperationError(f"the interpreter has no reduction {kind}.{box.element}")
        _open_group(run).append(_store_under_way(run.cta, box, coordinates, places, kind))
    return Wait()


def _open_group(run: Lockstep) -> list[BulkCopy]:
    """The copies of this program that no commit has closed yet."""
    groups = run.program.bulk_groups
    if not groups:
        groups.append([])
    return groups[-1]


def _store_under_way(
    cta: Cta, box: TensorMap, coordinates: Sequence[int], places: np.ndarray, kind: str | None
) -> BulkCopy:
    """Read once when it must have been, written when it must be complete."""
    read: list[np.ndarray] = []

    def act(is_complete: bool) -> None:
        if not read:
            read.append(cta.shared.end_copy(places))
        if not is_complete:
            return
        addresses, inside = box.elements(coordinates)
        data, memory = read[0].reshape(-1).view(box.storage)[inside], cta.launch.memory
        if kind is not None:
            number = _NUMBERS[box.element]
            before = memory.gather(addresses[inside], box.storage).view(number)
            combined = _REDUCTIONS[kind](before, data.view(number)).astype(number)
            data = combined.view(box.storage)
        memory.scatter(addresses[inside], data)

    return act


def _commit(run: Lockstep, op: tma.TmaStoreCommitOp) -> None:
    _open_group(run)
    run.program.bulk_groups.append([])


def _wait(run: Lockstep, op: tma.TmaStoreWaitOp) -> Wait:
    """A group that must have been read is read, and one that must be complete is forgotten."""
    _open_group(run)
    groups = run.program.bulk_groups
    older = groups[: max(0, len(groups) - 1 - op.pending.data)]
    for group in older:
        for copy in group:
            copy(op.read is None)
    run.program.bulk_read = max(run.program.bulk_read, len(older))
    if op.read is None:
        del groups[: len(older)]
        run.program.bulk_read -= len(older)
        if groups == [[]]:
            groups.clear()
    return Wait()


def _nothing(run: Lockstep, op: Operation) -> None:
    """Maps are known once they are published."""


RULES: dict[type[Operation], Rule] = {
    tma.PrefetchTensorMapOp: _nothing,
    tma.AcquireTensorMapOp: _nothing,
    tma.TmaLoadOp: _load,
    tma.TmaStoreOp: _store,
    tma.TmaStoreCommitOp: _commit,
    tma.TmaStoreWaitOp: _wait,
}
"""Operations of TMA."""
