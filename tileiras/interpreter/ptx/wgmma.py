"""Asynchronous products of a warpgroup (PTX ISA, "Asynchronous Warpgroup Level Matrix
Instructions").

A product reads its operands, and changes its accumulator, when the first warp of its warpgroup
waits for it: so whatever overwrites an operand too early spoils the result. It is one operation of
four warps, so that a warp that has waited knows that all four rows of warps have been read, and
one thread may say for all that a stage is free; and no wait ends before all four have issued it.
Registers of a product cannot be used by a warp that has not waited itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.decoding import Decoder, Execute, Read, Step, spread
from tileiras.interpreter.ptx.descriptors import read_matrix, wgmma_descriptor
from tileiras.interpreter.ptx.elements import (
    BITS,
    INTEGERS,
    element_values,
    integer_words,
    rounded_words,
    split_words,
)
from tileiras.interpreter.ptx.matrix import operand_places
from tileiras.interpreter.ptx.program import Reg
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import WARP, Active, Cta, Waiter
from tileiras.interpreter.ptx.syntax import Immediate, Vector
from tileiras.interpreter.ptx.types import B64, PRED

ROWS = 16
"""Rows of the 64 that one warp computes."""

GROUP = 4
"""Warps of a warpgroup."""


@dataclass
class Issued:
    """A product under way: warps that have not waited, warps whose rows are not computed, and per
    warp its group and its number.
    """

    product: Wgmma
    left: np.ndarray
    due: np.ndarray
    group: np.ndarray
    number: np.ndarray
    values: tuple[np.ndarray, ...]
    starts: Any = None


@dataclass
class Pipeline:
    """The products of a CTA; `committed` counts the groups of each warp, `issued` its products.
    `epochs`: per warpgroup, what the race detector calls the end of each finished product.
    """

    committed: np.ndarray
    issued: np.ndarray
    epochs: dict[int, list[int]] = field(default_factory=dict)
    under_way: list[Issued] = field(default_factory=list)
    unfenced: dict[int, np.ndarray] = field(default_factory=dict)


def pipeline_of(cta: Cta) -> Pipeline:
    """The CTA's products."""
    if cta.wgmma is None:
        warps = cta.threads // WARP
        cta.wgmma = Pipeline(np.zeros(warps, np.int64), np.zeros(warps, np.int64))
    return cta.wgmma


def watch_registers(steps: list[Step]) -> None:
    """Makes instructions that write registers of a wgmma say so, until the next fence.

    PTX ISA, "wgmma.fence": it must stand between such a write and the wgmma.
    """
    slots = frozenset(slot for step in steps if step.is_accumulating for slot in step.slots)
    if not slots:
        return
    for step in steps:
        changed = tuple(slot for slot in step.written if slot in slots)
        if changed:
            step.run = _noting(step.run, changed)


def _noting(run: Execute, slots: tuple[int, ...]) -> Execute:
    def run_and_note(cta: Cta, on: Active) -> None:
        run(cta, on)
        unfenced = pipeline_of(cta).unfenced
        for slot in slots:
            known = unfenced.get(slot)
            if known is None:
                unfenced[slot] = on.mask.copy()
            else:
                known |= on.mask

    return run_and_note


@dataclass(frozen=True)
class Wgmma:
    """A decoded product."""

    n: int
    k: int
    d: str
    a: str
    b: str
    results: tuple[int, ...]
    a_registers: tuple[int, ...]
    read_a: Read | None
    read_b: Read
    read_scale: Read
    signs: tuple[int, int]
    transposed: tuple[bool, bool]
    saturates: bool
    line: int


def _constant(d: Decoder, number: int, default: int) -> int:
    if number >= len(d.operands):
        return default
    operand = d.operands[number]
    if not isinstance(operand, Immediate) or not isinstance(operand.value, int):
        d.error(f"operand {number} is no constant")
    return operand.value


def _slots(d: Decoder, operand: Any) -> tuple[int, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    for item in items:
        if not isinstance(item, Reg) or item.type.bits != 32:
            d.error("expected registers of 32 bits")
    return tuple(item.slot for item in items)


def _decoded(d: Decoder) -> Wgmma:
    shape = re.fullmatch(r"m64n(\d+)k(\d+)", d.modifiers.pop(0))
    if shape is None:
        d.error("unknown shape")
    saturates = d.flag("satfinite")
    if d.flag("and") or d.flag("sp"):
        d.error("not supported")
    if len(d.modifiers) != 3:
        d.error("expected three types")
    result, a, b = d.modifiers
    d.modifiers = []
    if a not in BITS or b not in BITS or result not in ("f16", "f32", "s32"):
        d.error("unknown types")
    n, k = int(shape[1]), int(shape[2])
    if n % 8 or not 8 <= n <= 256 or k * BITS[a] != 256:
        d.error("no such shape for these types")
    results = _slots(d, d.operands[0])
    if len(results) != (n // 4 if result == "f16" else n // 2):
        d.error(f"{len(results)} registers of d")
    source = d.operands[1]
    from_registers = isinstance(source, Vector)
    a_registers = _slots(d, source) if from_registers else ()
    if from_registers and len(a_registers) != 4:
        d.error(f"{len(a_registers)} registers of a, expected 4")
    has_trans = BITS[a] == 16
    trans_at = 6 if from_registers else 7
    transposed = (
        bool(_constant(d, 6, 0)) if has_trans and not from_registers else False,
        bool(_constant(d, trans_at, 0)) if has_trans else False,
    )
    return Wgmma(
        n,
        k,
        result,
        a,
        b,
        results,
        a_registers,
        None if from_registers else d.src(1, B64),
        d.src(2, B64),
        d.src(3, PRED),
        (_constant(d, 4, 1), _constant(d, 5, 1)),
        transposed,
        saturates,
        d.line,
    )


@rule("wgmma")
def wgmma(d: Decoder) -> Execute:
    """`wgmma.{fence,mma_async,commit_group,wait_group}`."""
    what = d.choice("fence", "mma_async", "commit_group", "wait_group")
    if not (d.flag("sync") and d.flag("aligned")):
        d.error("expected .sync.aligned")
    d.meet()
    match what:
        case "fence":
            return _fence
        case "commit_group":
            return _commit
        case "wait_group":
            return _wait(_constant(d, 0, 0), d.line)
        case "mma_async":
            return _issue(_decoded(d), d)
    return d.error("unknown instruction")


def _fence(cta: Cta, on: Active) -> None:
    for mask in pipeline_of(cta).unfenced.values():
        mask &= ~on.mask


def _commit(cta: Cta, on: Active) -> None:
    pipeline_of(cta).committed[on.warps] += 1


def _issue(product: Wgmma, d: Decoder) -> Execute:
    d.is_accumulating = True

    def run(cta: Cta, on: Active) -> None:
        pipeline = pipeline_of(cta)
        for slot in (*product.results, *product.a_registers):
            unfenced = pipeline.unfenced.get(slot)
            if unfenced is not None and (unfenced & on.mask).any():
                cta.fault(product.line, "no wgmma.fence since its registers changed", on.first)
        reads = (product.read_a, product.read_b, product.read_scale)
        values = tuple(
            np.zeros(cta.threads // WARP, np.uint64)
            if read is None
            else spread(read(cta), cta)[::WARP].copy()
            for read in reads
        )
        warps = np.zeros(cta.threads // WARP, np.bool_)
        warps[on.warps] = True
        groups, numbers = pipeline.committed.copy(), pipeline.issued.copy()
        issued = Issued(product, warps, warps.copy(), groups, numbers, values)
        pipeline.issued[on.warps] += 1
        if cta.shadow is not None:
            issued.starts = {int(w): cta.shadow.issue(int(w) * WARP) for w in on.warps}
        pipeline.under_way.append(issued)
        _mark_unfinished(cta, pipeline, product.results)

    return run


def _mark_unfinished(cta: Cta, pipeline: Pipeline, slots: tuple[int, ...]) -> None:
    """Registers of products under way cannot be used."""
    by_slot: dict[int, np.ndarray] = {}
    for issued in pipeline.under_way:
        for slot in issued.product.results:
            known = by_slot.get(slot)
            by_slot[slot] = issued.left if known is None else known | issued.left
    for slot in slots:
        if slot in by_slot:
            cta.unfinished[slot] = np.repeat(by_slot[slot], WARP)
        else:
            cta.unfinished.pop(slot, None)


def _wait(allowed: int, line: int) -> Execute:
    def run(cta: Cta, on: Active) -> None:
        by_group: dict[int, list[int]] = {}
        for warp in on.warps:
            by_group.setdefault(int(warp) // GROUP, []).append(int(warp))
        for warps in by_group.values():
            _wait_together(cta, np.array(warps), allowed, line)

    return run


def _wait_together(cta: Cta, warps: np.ndarray, allowed: int, line: int) -> None:
    """Warps of one warpgroup wait: until the others have issued the same products, too."""
    pipeline = pipeline_of(cta)
    waiting = np.zeros(cta.threads // WARP, np.bool_)
    waiting[warps] = True
    first = int(warps[0]) // GROUP * GROUP
    together = np.zeros_like(waiting)
    together[first : first + GROUP] = True
    ended = [
        (issued, issued.left & waiting & (issued.group < pipeline.committed - allowed))
        for issued in pipeline.under_way
    ]
    ended = [(issued, now) for issued, now in ended if now.any()]
    needed = max((int(issued.number[now].max()) + 1 for issued, now in ended), default=0)

    def poll() -> bool:
        return not (together & (pipeline.issued < needed)).any()

    def resume() -> None:
        _finish_until(cta, pipeline, together, needed)
        done: list[int] = []
        for issued, now in ended:
            issued.left = issued.left & ~now
            done.extend(issued.product.results)
        if cta.shadow is not None and ended:
            cta.shadow.learn_end(warps, pipeline.epochs[first][needed - 1])
        pipeline.under_way = [issued for issued in pipeline.under_way if issued.left.any()]
        _mark_unfinished(cta, pipeline, tuple(dict.fromkeys(done)))

    if poll():
        resume()
        return
    mask = np.repeat(waiting, WARP) & cta.live()
    what = "wgmma.wait_group: the other warps of the warpgroup do not issue the product"
    cta.block(mask, Waiter(mask, poll, resume, line, what))


def _finish_until(cta: Cta, pipeline: Pipeline, together: np.ndarray, needed: int) -> None:
    """Computes a warpgroup's products below a number that are not computed yet."""
    epochs = pipeline.epochs.setdefault(int(together.argmax()), [])
    for issued in pipeline.under_way:
        now = np.flatnonzero(issued.due & together & (issued.number < needed))
        if not len(now):
            continue
        _finish(cta, issued, now)
        issued.due[now] = False
        if issued.starts is None:
            continue
        for warp in now:
            epoch = max(issued.starts[int(warp)].epoch, epochs[-1] if epochs else 0)
            number = int(issued.number[warp])
            if number == len(epochs):
                epochs.append(epoch)
            else:
                epochs[number] = max(epochs[number], epoch)


def _finish(cta: Cta, issued: Issued, warps: np.ndarray) -> None:
    """Computes the product for some warps."""
    keys = np.stack([issued.values[0][warps], issued.values[1][warps]], axis=1)
    for key in np.unique(keys, axis=0):
        chosen = warps[(keys == key).all(axis=1)]
        _compute(cta, issued, chosen, int(key[0]), int(key[1]))


def _compute(cta: Cta, issued: Issued, warps: np.ndarray, word_a: int, word_b: int) -> None:
    product = issued.product
    try:
        b, b_at = read_matrix(
            cta.shared,
            wgmma_descriptor(word_b),
            product.n,
            product.k,
            product.b,
            product.transposed[1],
            False,
        )
        used = [b_at]
        if product.read_a is None:
            a = _register_operand(cta, product, warps)
        else:
            whole, a_at = read_matrix(
                cta.shared,
                wgmma_descriptor(word_a),
                64,
                product.k,
                product.a,
                product.transposed[0],
                False,
            )
            used.append(a_at)
            a = whole.reshape(4, ROWS, product.k)[warps % 4]
    except ValueError as error:
        cta.fault(product.line, str(error), int(warps[0]) * WARP)
    except IndexError:
        cta.fault(product.line, "an operand lies outside of shared memory", int(warps[0]) * WARP)
    if cta.shadow is not None:
        for warp in warps:
            for at in used:
                start = issued.starts[int(warp)]
                cta.shadow.async_read(cta, start, at, product.line)
    total = (a @ b.T) * (product.signs[0] * product.signs[1])
    _write_result(cta, product, warps, total, issued.values[2][warps])


def _register_operand(cta: Cta, product: Wgmma, warps: np.ndarray) -> np.ndarray:
    words = np.stack([cta.regs[slot].reshape(-1, WARP)[warps] for slot in product.a_registers], 2)
    bits = BITS[product.a]
    codes = split_words(words, bits).reshape(len(warps), WARP, 4, -1)
    result = np.empty((len(warps), ROWS, product.k))
    row, at = operand_places(ROWS, product.k, bits, True)
    result[:, row, at] = element_values(codes, product.a)
    return result


def _write_result(
    cta: Cta, product: Wgmma, warps: np.ndarray, total: np.ndarray, scales: np.ndarray
) -> None:
    """Adds the accumulator where the scale says so, rounds, and writes the registers."""
    lane, i = np.arange(WARP)[:, None], np.arange(product.n // 2)[None, :]
    row, column = lane // 4 + 8 * (i >> 1 & 1), i // 4 * 8 + lane % 4 * 2 + (i & 1)
    rows = [cta.regs[slot].reshape(-1, WARP) for slot in product.results]
    before = np.stack([register[warps] for register in rows], axis=2)
    if product.d == "f16":
        old = element_values(split_words(before, 16), "f16")
    else:
        kind = np.int32 if product.d == "s32" else np.float32
        old = before.view(kind).astype(np.float64)
    keep = scales.astype(np.bool_)[:, None, None]
    value = total[:, row, column] + np.where(keep, old, 0.0)
    if product.a in INTEGERS:
        words = integer_words(value, product.saturates)
    else:
        words = rounded_words(value, product.d)
    if product.d == "f16":
        words = np.ascontiguousarray(words).view(np.uint32)
    for number, register in enumerate(rows):
        register[warps] = words[:, :, number]
