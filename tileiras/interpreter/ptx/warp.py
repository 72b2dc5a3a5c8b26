"""What threads of a warp do together (PTX ISA, "shfl.sync", "vote.sync", "match.sync",
"redux.sync", "elect.sync", "activemask", "bar.warp.sync")."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interpreter.ptx.decoding import Decoder, Execute, Members, spread
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import WARP, Active, Cta
from tileiras.interpreter.ptx.types import B32, PRED, TYPES, bits_type


def named_lanes(d: Decoder, operand: Any) -> Members:
    """The lanes that a membermask operand names, per thread."""
    read = d.src(operand, B32)
    return lambda cta, on: spread(read(cta), cta)


@rule("bar.warp")
def warp_barrier(d: Decoder) -> Execute:
    """`bar.warp.sync mask`: the threads meet, nothing else."""
    if not d.flag("sync"):
        d.error("expected .sync")
    d.count(1)
    d.meet(named_lanes(d, 0))
    return lambda cta, on: None


@rule("shfl")
def shuffle(d: Decoder) -> Execute:
    """`shfl.sync.mode d|p, a, b, c, mask`: a value from another lane of the segment.

    A source lane that does not take part gives an undefined value: here zero.
    """
    d.type()
    if d.flag("sync"):
        d.meet(named_lanes(d, 4))
    mode = d.choice("up", "down", "bfly", "idx")
    result, flag = d.pair(0)
    read, b, c = d.src(1, B32), d.src(2, B32), d.src(3, B32)
    write, write_flag = d.dst(result, B32), d.dst(flag, PRED)
    if mode is None:
        d.error("expected .up, .down, .bfly or .idx")

    def run(cta: Cta, on: Active) -> None:
        lane = cta.special["laneid"].astype(np.int64)
        by = spread(b(cta), cta).astype(np.int64) & 31
        clamp = spread(c(cta), cta).astype(np.int64)
        segment = clamp >> 8 & 31
        limit = (lane & segment) | (clamp & 31 & ~segment)
        first = lane & segment
        match mode:
            case "up":
                source = lane - by
                inside = source >= limit
            case "down":
                source = lane + by
                inside = source <= limit
            case "bfly":
                source = lane ^ by
                inside = source <= limit
            case _:
                source = first | (by & ~segment)
                inside = source <= limit
        chosen = np.where(inside, source, lane)
        values = np.where(on.mask, spread(read(cta), cta), np.uint32(0))
        write(cta, on, values[np.arange(cta.threads) - lane + chosen])
        write_flag(cta, on, inside)

    return run


def ballots(flags: np.ndarray) -> np.ndarray:
    """Per warp, the flags of its lanes as a word; repeated for every thread."""
    by_warp = flags.reshape(-1, WARP)
    words = (by_warp.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(axis=1)
    return np.repeat(words.astype(np.uint32), WARP)


@rule("vote")
def vote(d: Decoder) -> Execute:
    """`vote.sync.{all,any,uni,ballot}`."""
    type_ = d.type()
    if d.flag("sync"):
        d.meet(named_lanes(d, 2))
    mode = d.choice("all", "any", "uni", "ballot")
    read, write = d.src(1, PRED), d.dst(0, type_)

    def run(cta: Cta, on: Active) -> None:
        flags = spread(read(cta), cta)
        yes, everyone = ballots(flags & on.mask), ballots(on.mask)
        match mode:
            case "all":
                write(cta, on, yes == everyone)
            case "any":
                write(cta, on, yes != 0)
            case "uni":
                write(cta, on, (yes == 0) | (yes == everyone))
            case _:
                write(cta, on, yes)

    return run


@rule("activemask")
def active_mask(d: Decoder) -> Execute:
    """The lanes that execute this instruction now."""
    type_ = d.type()
    write = d.dst(0, type_)
    return lambda cta, on: write(cta, on, ballots(on.mask))


@rule("match")
def match_values(d: Decoder) -> Execute:
    """`match.{any,all}.sync`: which lanes hold the same value."""
    type_ = d.type()
    if not d.flag("sync"):
        d.error("expected .sync")
    d.meet(named_lanes(d, 2))
    is_all = d.choice("any", "all") == "all"
    result, flag = d.pair(0)
    read = d.src(1, bits_type(type_.bits))
    write, write_flag = d.dst(result, B32), d.dst(flag, PRED)

    def run(cta: Cta, on: Active) -> None:
        values = spread(read(cta), cta).reshape(-1, WARP)
        here = on.mask.reshape(-1, WARP)
        same = (values[:, :, None] == values[:, None, :]) & here[:, None, :]
        words = (same.astype(np.uint64) << np.arange(WARP, dtype=np.uint64)).sum(axis=2)
        words = words.astype(np.uint32).reshape(-1)
        if is_all:
            agreed = words == ballots(on.mask)
            everyone = ballots(~agreed & on.mask) == 0
            write(cta, on, np.where(everyone, words, np.uint32(0)))
            write_flag(cta, on, everyone)
            return
        write(cta, on, words)

    return run


@rule("redux")
def reduce_in_warp(d: Decoder) -> Execute:
    """`redux.sync.op`: the named lanes' values combined."""
    type_ = d.type()
    if not d.flag("sync"):
        d.error("expected .sync")
    d.meet(named_lanes(d, 2))
    magnitude, keeps_nan = d.flag("abs"), d.flag("NaN")
    name = d.choice("add", "min", "max", "and", "or", "xor")
    read, write = d.src(1, type_), d.dst(0, type_)
    functions = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    if name is None:
        d.error("expected an operation")
    function: Any = functions[name]
    if type_.name == "f32" and not keeps_nan:
        function = np.fmin if name == "min" else np.fmax

    def run(cta: Cta, on: Active) -> None:
        values = spread(read(cta), cta).reshape(-1, WARP).copy()
        here = on.mask.reshape(-1, WARP)
        if magnitude:
            values = np.abs(values)
        result = np.zeros(values.shape, type_.seen)
        for warp in on.warps:
            result[warp] = function.reduce(values[warp][here[warp]], dtype=type_.seen)
        write(cta, on, result.reshape(-1))

    return run


@rule("elect")
def elect(d: Decoder) -> Execute:
    """`elect.sync d|p, mask`: true in one thread, here the lowest named."""
    if not d.flag("sync"):
        d.error("expected .sync")
    d.meet(named_lanes(d, 1))
    result, flag = d.pair(0)
    write, write_flag = d.dst(result, B32), d.dst(flag, PRED)

    def run(cta: Cta, on: Active) -> None:
        here = on.mask.reshape(-1, WARP)
        leader = np.repeat(here.argmax(axis=1), WARP)
        write(cta, on, leader.astype(np.uint32))
        write_flag(cta, on, cta.special["laneid"] == leader)

    return run


S32 = TYPES["s32"]
