"""Asynchronous products of a warpgroup (PTX ISA, "Asynchronous Warpgroup Level Matrix
Instructions").

A product reads its operands, and changes its accumulator, when a warp waits for it: so whatever
overwrites an operand too early spoils the result, and registers of an unfinished product cannot
be used. Every warp computes its 16 rows by itself.
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
from tileiras.interpreter.ptx.state import WARP, Active, Cta
from tileiras.interpreter.ptx.syntax import Immediate, Vector
from tileiras.interpreter.ptx.types import B64, PRED

ROWS = 16
"""Rows of the 64 that one warp computes."""


@dataclass
class Issued:
    """A product under way: for which warps, in which group of each warp."""

    product: Wgmma
    left: np.ndarray
    group: np.ndarray
    values: tuple[np.ndarray, ...]
    starts: Any = None


@dataclass
class Pipeline:
    """The products of a CTA; `committed` counts the groups of each warp."""

    committed: np.ndarray
    under_way: list[Issued] = field(default_factory=list)
    unfenced: dict[int, np.ndarray] = field(default_factory=dict)


def pipeline_of(cta: Cta) -> Pipeline:
    """The CTA's products."""
    if cta.wgmma is None:
        cta.wgmma = Pipeline(np.zeros(cta.threads // WARP, np.int64))
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
            return _wait(_constant(d, 0, 0))
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
        issued = Issued(product, warps, pipeline.committed.copy(), values)
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


def _wait(allowed: int) -> Execute:
    def run(cta: Cta, on: Active) -> None:
        pipeline = pipeline_of(cta)
        warps = np.zeros(cta.threads // WARP, np.bool_)
        warps[on.warps] = True
        done: list[int] = []
        for issued in pipeline.under_way:
            now = warps & issued.left & (issued.group < pipeline.committed - allowed)
            if now.any():
                _finish(cta, issued, np.flatnonzero(now))
                issued.left = issued.left & ~now
                done.extend(issued.product.results)
        pipeline.under_way = [issued for issued in pipeline.under_way if issued.left.any()]
        _mark_unfinished(cta, pipeline, tuple(dict.fromkeys(done)))

    return run


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
                cta.shadow.join(int(warp) * WARP, start)
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
