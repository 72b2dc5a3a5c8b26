"""`cp.async` (PTX ISA, "Data Movement and Conversion Instructions: Non-bulk copy").

A copy is done when its thread waits for it, no earlier: until then the bytes in shared memory are
unfinished, and reading them is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.access import locate
from tileiras.interpreter.ptx.barriers import arrive, find_mbarrier
from tileiras.interpreter.ptx.decoding import Decoder, Execute, spread
from tileiras.interpreter.ptx.program import Reg
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import Active, Cta
from tileiras.interpreter.ptx.syntax import Immediate, Negated
from tileiras.interpreter.ptx.types import PRED, U32


@dataclass
class Copy:
    """One `cp.async` of many threads; `left` marks threads whose copy is not done."""

    left: np.ndarray
    group: np.ndarray
    source: np.ndarray
    target: np.ndarray
    size: int
    kept: np.ndarray
    line: int
    space: str


@dataclass
class Copies:
    """The copies of a CTA's threads; `committed` counts the groups of each thread."""

    committed: np.ndarray
    under_way: list[Copy] = field(default_factory=list)


def copies_of(cta: Cta) -> Copies:
    """The CTA's copies."""
    if cta.copies is None:
        cta.copies = Copies(np.zeros(cta.threads, np.int64))
    return cta.copies


@rule("cp.async")
def copy_async(d: Decoder) -> Execute:
    """`cp.async.{ca,cg}.shared.global [d], [s], size{, kept bytes or ignore}`."""
    if d.flag("commit_group"):
        return _commit
    if d.flag("wait_group"):
        return _wait(d, 0)
    if d.flag("wait_all"):
        return _wait(d, None)
    if d.flag("mbarrier"):
        return _arrive_later(d)
    d.choice("ca", "cg")
    d.choice("shared", "shared::cta")
    if not d.flag("global"):
        d.error("expected .global")
    while d.starting("L2::"):
        pass
    target, source, line = d.address(0), d.address(1), d.line
    size = _constant(d, 2)
    if size not in (4, 8, 16):
        d.error(f"{size} bytes, expected 4, 8 or 16")
    kept = ignore = None
    if len(d.operands) > 3:
        operand = d.operands[3]
        is_predicate = isinstance(operand, Negated) or (
            isinstance(operand, Reg) and operand.type is PRED
        )
        if is_predicate:
            ignore = d.src(3, PRED)
        elif not (isinstance(operand, Reg) and operand.type.bits == 64):  # a cache policy
            kept = d.src(3, U32)

    def run(cta: Cta, on: Active) -> None:
        copies = copies_of(cta)
        bytes_ = np.full(cta.threads, size, np.int64)
        if kept:
            bytes_ = np.minimum(spread(kept(cta), cta).astype(np.int64), size)
        if ignore:
            bytes_ = np.where(spread(ignore(cta), cta), 0, size)
        made = Copy(
            on.mask.copy(),
            copies.committed.copy(),
            spread(source(cta), cta).copy(),
            spread(target(cta), cta).copy(),
            size,
            bytes_,
            line,
            "global",
        )
        copies.under_way.append(made)
        if cta.shadow is not None:
            for place in locate(cta, on.index, "shared", made.target[on.index], size, line):
                cta.shadow.start_copy(cta, on.index[place.rows], place.at, size, line)

    return run


def _constant(d: Decoder, number: int) -> int:
    operand = d.operands[number]
    if not isinstance(operand, Immediate) or not isinstance(operand.value, int):
        d.error(f"operand {number} is no integer constant")
    return operand.value


def _commit(cta: Cta, on: Active) -> None:
    copies_of(cta).committed[on.mask] += 1


def _wait(d: Decoder, groups: int | None) -> Execute:
    allowed = 0 if groups is None else _constant(d, 0)

    def run(cta: Cta, on: Active) -> None:
        copies = copies_of(cta)
        if groups is None:
            copies.committed[on.mask] += 1
        done = copies.committed - allowed
        for copy in copies.under_way:
            _finish(cta, copy, on.mask & copy.left & (copy.group < done))
        copies.under_way = [copy for copy in copies.under_way if copy.left.any()]

    return run


def _finish(cta: Cta, copy: Copy, mask: np.ndarray) -> None:
    """Performs the copy for some threads."""
    if not mask.any():
        return
    copy.left &= ~mask
    index = np.flatnonzero(mask)
    data = np.zeros((len(index), copy.size), np.uint8)
    rows = np.flatnonzero(copy.kept[index] > 0)
    if len(rows):
        threads = index[rows]
        where = copy.source[threads]
        whole = copy.kept[threads] == copy.size
        size = copy.size if whole.all() else 1
        for place in locate(cta, threads, "global", where, size, copy.line):
            width = size if size < 16 else 8
            if size > 1:
                words = place.bytes.gather(place.at, width, size // width)
                data[rows] = np.ascontiguousarray(words).view(np.uint8)
            else:
                for row, thread, at in zip(rows, threads, place.at):
                    count = int(copy.kept[thread])
                    data[row, :count] = place.bytes.data[at : at + count]
    for place in locate(cta, index, "shared", copy.target[index], copy.size, copy.line):
        width = min(copy.size, 8)
        words = np.ascontiguousarray(data[place.rows]).view(place.bytes.views[width].dtype)
        if cta.shadow is not None:
            cta.shadow.finish_copy(index[place.rows], place.at, copy.size, copy.line)
        place.bytes.scatter(place.at, words)


def _arrive_later(d: Decoder) -> Execute:
    """`cp.async.mbarrier.arrive{.noinc}`: an arrival when the thread's copies are done."""
    if not d.flag("arrive"):
        d.error("expected .arrive")
    is_counted = d.flag("noinc")
    d.choice("shared", "shared::cta")
    d.type()
    address, line = d.address(0), d.line

    def run(cta: Cta, on: Active) -> None:
        copies = copies_of(cta)
        where = spread(address(cta), cta)
        before = list(copies.under_way)
        for value in np.unique(where[on.index]):
            mask = on.mask & (where == value)
            barrier = find_mbarrier(cta, int(value), line, on.first)
            count = int(mask.sum())
            if not is_counted:
                barrier.pending += count

            def finish(mask: Any = mask, barrier: Any = barrier, count: int = count) -> None:
                for copy in before:
                    _finish(cta, copy, mask & copy.left)
                clock = None
                if cta.shadow is not None:
                    clock = cta.shadow.release_into(mask, None)
                arrive(cta, barrier, count, line, clock)
                copies.under_way = [copy for copy in copies.under_way if copy.left.any()]

            cta.cluster.later(finish, line, "cp.async")

    return run
