"""Conversions within a warp: register renames, selects and shuffles, from linear equations.

Let S and D be the two layouts. Destination (r, l, w) needs a source register r' and lane l' with
S(r', l', w) = D(r, l, w). Solving this for each bit of (r, l, w) gives linear maps

    r' = Rr r + Rl l + Rw w        l' = Lr r + Ll l + Lw w

One shuffle serves every lane at once, but a lane offers one register only, so round i must fetch,
in lane l, a destination register r = i + A l such that lanes reading the same lane want the same
register: with P = Lr A + Ll and Q = Rr A + Rl there must be a G with G P = Q. Then the register
that lane l' offers in round i is (Rr + G Lr) i + G l' + (Rw + G Lw) w, which depends on its own
index only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tileiras.dialects.layout.blocked import LANE_BITS
from tileiras.dialects.layout.gf2 import Basis, matmul, matvec
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.plans import RegisterPermutation, ShuffleRound, WarpShuffle

Columns = tuple[int, ...]

_OWN_LANE: Columns = tuple(1 << b for b in range(LANE_BITS))
# A 32-bit register moves per shuffle (PTX ISA, shfl.sync).
_SHUFFLE_BITS = 32


@dataclass(frozen=True)
class _Sources:
    """The maps r' and l' of the module's docstring, as columns per bit of r, l and w."""

    register_by_register: Columns
    register_by_lane: Columns
    register_by_warp: Columns
    lane_by_register: Columns
    lane_by_lane: Columns
    lane_by_warp: Columns


@lru_cache(maxsize=4096)
def plan_in_warp(
    src: LinearLayout, dst: LinearLayout, element_bits: int
) -> RegisterPermutation | WarpShuffle | None:
    """A plan that moves nothing between warps, or None if there is none of this form."""
    sources = _find_sources(src, dst)
    if sources is None:
        return None
    stays = sources.lane_by_lane == _OWN_LANE and not any(
        sources.lane_by_register + sources.lane_by_warp
    )
    if stays and not any(sources.register_by_lane + sources.register_by_warp):
        columns = sources.register_by_register
        return RegisterPermutation(tuple(matvec(columns, r) for r in range(1 << len(columns))))
    placement = _place_rounds(sources)
    if placement is None:
        return None
    return _shuffle(sources, placement, element_bits)


def _find_sources(src: LinearLayout, dst: LinearLayout) -> _Sources | None:
    """Solves for source registers and lanes, preferring the own lane, then low registers."""
    registers = src.vectors("register")
    own = Basis(registers)
    warp_wide = Basis(registers + src.vectors("lane"))
    by_register = [warp_wide.solve(wanted) for wanted in dst.vectors("register")]
    by_lane: list[int | None] = []
    pairs = zip(dst.vectors("lane"), src.vectors("lane"), strict=True)
    for bit, (wanted, held) in enumerate(pairs):
        local = own.solve(wanted ^ held)
        if local is None:
            by_lane.append(warp_wide.solve(wanted))
        else:
            by_lane.append(local | 1 << (len(registers) + bit))
    pairs = zip(dst.vectors("warp"), src.vectors("warp"), strict=True)
    by_warp = [warp_wide.solve(wanted ^ held) for wanted, held in pairs]
    found: list[Columns] = []
    for solutions in (by_register, by_lane, by_warp):
        columns = tuple(solution for solution in solutions if solution is not None)
        if len(columns) < len(solutions):
            return None
        found.append(columns)
    low = (1 << len(registers)) - 1
    in_register = (tuple(c & low for c in columns) for columns in found)
    in_lane = (tuple(c >> len(registers) for c in columns) for columns in found)
    return _Sources(*in_register, *in_lane)


def _place_rounds(sources: _Sources) -> Columns | None:
    """The columns of A (a destination register per lane bit), or None if none is found.

    Columns are 0 or a single register bit. The pairs (P l, Q l) are kept reduced with P in the high
    bits: a pair (0, nonzero) would be two lanes that want different registers of the same lane.
    """
    columns = sources.register_by_register + sources.register_by_lane
    shift = max(column.bit_length() for column in columns)
    pairs = [
        lane << shift | register
        for lane, register in zip(sources.lane_by_lane, sources.register_by_lane, strict=True)
    ]
    steps = [
        lane << shift | register
        for lane, register in zip(
            sources.lane_by_register, sources.register_by_register, strict=True
        )
    ]
    reached = Basis()
    after = [0] * len(pairs)
    clashing = []
    for bit, pair in enumerate(pairs):
        rest, _ = reached.reduce(pair)
        if rest >> shift:
            reached.insert(pair)
        elif rest:
            clashing.append(bit)
    for bit in clashing:
        for register_bit, step in enumerate(steps):
            rest, _ = reached.reduce(pairs[bit] ^ step)
            if rest >> shift:
                reached.insert(pairs[bit] ^ step)
                after[bit] = 1 << register_bit
                break
        else:
            return None
    return tuple(after)


def _shuffle(sources: _Sources, after: Columns, element_bits: int) -> WarpShuffle:
    """The rounds of a placement."""
    rr, lr = sources.register_by_register, sources.lane_by_register
    reads = tuple(a ^ b for a, b in zip(matmul(lr, after), sources.lane_by_lane, strict=True))
    wants = tuple(a ^ b for a, b in zip(matmul(rr, after), sources.register_by_lane, strict=True))
    offering = Basis()
    for lane, register in zip(reads, wants, strict=True):
        offering.insert(lane, register)
    for lane in _OWN_LANE:
        offering.insert(lane, 0)
    offer_by_lane = tuple(offering.solve(lane) or 0 for lane in _OWN_LANE)
    offer_by_warp = tuple(
        r ^ matvec(offer_by_lane, lane)
        for r, lane in zip(sources.register_by_warp, sources.lane_by_warp, strict=True)
    )
    send = tuple(r ^ matvec(offer_by_lane, lane) for r, lane in zip(rr, lr, strict=True))
    bits = _pack_bits(sources, send, offer_by_lane + offer_by_warp + after, element_bits)
    rounds: dict[ShuffleRound, int] = {}
    arrival = []
    for group in range(1 << (len(rr) - bits)):
        register = group << bits
        exchange = ShuffleRound(matvec(send, register) >> bits, matvec(lr, register))
        arrival.append(rounds.setdefault(exchange, len(rounds)))
    return WarpShuffle(
        pack=1 << bits,
        rounds=tuple(rounds),
        arrival=tuple(arrival),
        source_lane_by_lane=reads,
        source_lane_by_warp=sources.lane_by_warp,
        before_by_lane=tuple(c >> bits for c in offer_by_lane),
        before_by_warp=tuple(c >> bits for c in offer_by_warp),
        after_by_lane=tuple(c >> bits for c in after),
    )


def _pack_bits(sources: _Sources, send: Columns, selects: Columns, element_bits: int) -> int:
    """How many of the lowest register bits stay together, so that they can share a shuffle."""
    bits = 0
    while (element_bits << (bits + 1)) <= _SHUFFLE_BITS and bits < len(send):
        if send[bits] != 1 << bits or sources.lane_by_register[bits]:
            break
        bits += 1
    while bits and any(c % (1 << bits) for c in send[bits:] + selects):
        bits -= 1
    return bits
