"""Tensor maps: made in shared memory, published to slots of global memory, kept for later CTAs."""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation, SSAValue

from tileiras.dialects.nvvm import tma
from tileiras.interpreter.errors import InterpreterError, UnknownOperationError
from tileiras.interpreter.threads.barriers import chosen, number_at
from tileiras.interpreter.threads.schedule import Wait
from tileiras.interpreter.threads.state import Lockstep, Rule
from tileiras.interpreter.threads.tensor_maps import TensorMap
from tileiras.interpreter.threads.values import Value, same_everywhere

_IS_THERE = np.uint64(1 << 32)
"""The one above a word that somebody has kept."""
_WORD = np.dtype(np.uint32)
_KEPT_WORD = np.dtype(np.uint64)


def _alike(run: Lockstep, value: SSAValue) -> int:
    """An address that all threads have alike."""
    held = run.values[value]
    if (held != held[0]).any():
        raise InterpreterError("threads disagree about an address that they share")
    return int(held[0])


def _fill_maps(run: Lockstep, op: tma.FillTensorMapsOp) -> None:
    if op.atom is not None:
        raise UnknownOperationError("the interpreter knows swizzles of 16 bytes")
    scratch = _alike(run, op.scratch)
    for lane in range(op.count.data):
        run.cta.map_drafts[scratch + tma.TENSOR_MAP_BYTES * lane] = TensorMap(
            int(run.values[op.base][lane]),
            tuple(number_at(run, value, lane) for value in op.sizes),
            tuple(int(run.values[value][lane]) for value in op.strides),
            tuple(number_at(run, value, lane) for value in op.box),
            op.element.data,
            op.swizzle.data,
            op.fill.data == "nan",
        )


def _publish_maps(run: Lockstep, op: tma.PublishTensorMapsOp | tma.KeepTensorMapsOp) -> None:
    scratch, target = _alike(run, op.scratch), _alike(run, op.target)
    for at in range(0, tma.TENSOR_MAP_BYTES * op.count.data, tma.TENSOR_MAP_BYTES):
        draft = run.cta.map_drafts.get(scratch + at)
        if draft is None:
            raise InterpreterError(f"there is no tensor map at {scratch + at:#x}")
        run.cta.launch.maps[target + at] = draft


def _kept_words(run: Lockstep, op: tma.FindTensorMapsOp | tma.KeepTensorMapsOp) -> np.ndarray:
    """The words of each lane as they are kept, (threads, words)."""
    return np.stack([word | _IS_THERE for word in run.operands(op.words)], axis=1)


def _key_places(run: Lockstep, key: SSAValue, words: int) -> np.ndarray:
    """Where each lane's words are kept."""
    return run.values[key].astype(np.int64)[:, None] + _KEPT_WORD.itemsize * np.arange(words)


def _find_kept(run: Lockstep, op: tma.FindTensorMapsOp) -> Value:
    wanted = _kept_words(run, op)
    found = run.memory.gather(_key_places(run, op.key, wanted.shape[1]), _KEPT_WORD)
    return np.full(run.count, int((found == wanted).all()), np.uint64)


def _keep(run: Lockstep, op: tma.KeepTensorMapsOp) -> None:
    """The first who comes keeps maps, and the words of as many lanes."""
    taken = np.array([_alike(run, op.taken)], np.int64)
    if run.memory.gather(taken, _WORD)[0]:
        return
    run.memory.scatter(taken, np.ones(1, _WORD))
    _publish_maps(run, op)
    words, lanes = _kept_words(run, op), slice(op.count.data)
    places = _key_places(run, op.key, words.shape[1])
    run.memory.scatter(places[lanes], np.ascontiguousarray(words[lanes]))


def _set_bit(run: Lockstep, busy: int, slot: int) -> int:
    """Takes slot `slot` of the mask at `busy`, if it is free; returns what was there."""
    place = np.array([busy], np.int64)
    before = int(run.memory.gather(place, np.dtype(np.uint32))[0])
    run.memory.scatter(place, np.array([before | 1 << slot], np.uint32))
    return before


def _try_claim(run: Lockstep, op: tma.TryClaimSlotOp) -> None:
    """The first slot."""
    before = _set_bit(run, _alike(run, op.busy), 0)
    run.values[op.before] = same_everywhere(run.count, before, op.before.type)
    run.values[op.slot] = same_everywhere(run.count, 0, op.slot.type)


def _claim(run: Lockstep, op: tma.ClaimSlotOp) -> Wait:
    busy, tried = _alike(run, op.busy), list(op.tried)

    def free() -> list[int]:
        mask = int(run.memory.gather(np.array([busy], np.int64), np.dtype(np.uint32))[0])
        return [slot for slot in range(op.slots.data) if not mask >> slot & 1]

    def taken(slot: int) -> Value:
        return same_everywhere(run.count, slot, op.result.type)

    if tried:
        before, slot = (int(run.values[value][0]) for value in tried)
        if not before >> slot & 1:
            return Wait(then=lambda: taken(slot))

    def take() -> Value:
        slot = free()[0]
        _set_bit(run, busy, slot)
        return taken(slot)

    return Wait(lambda: bool(free()), "a free slot for tensor maps", take)


def _release(run: Lockstep, op: tma.ReleaseSlotOp) -> None:
    for row in chosen(run, op.predicate):
        place = run.values[op.busy][row : row + 1].astype(np.int64)
        before = int(run.memory.gather(place, np.dtype(np.uint32))[0])
        after = before & ~(1 << number_at(run, op.slot, row))
        run.memory.scatter(place, np.array([after], np.uint32))


RULES: dict[type[Operation], Rule] = {
    tma.FillTensorMapsOp: _fill_maps,
    tma.PublishTensorMapsOp: _publish_maps,
    tma.FindTensorMapsOp: _find_kept,
    tma.KeepTensorMapsOp: _keep,
    tma.TryClaimSlotOp: _try_claim,
    tma.ClaimSlotOp: _claim,
    tma.ReleaseSlotOp: _release,
}
"""Operations that make tensor maps and give them places."""
