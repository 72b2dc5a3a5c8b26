"""What a layout conversion can be: the answers of `conversion.plan_conversion`, cheapest first."""

from __future__ import annotations

from dataclasses import dataclass

from tileiras.dialects.layout.gf2 import matvec
from tileiras.dialects.layout.linear_layout import LinearLayout


@dataclass(frozen=True)
class Identity:
    """Nothing to do: every thread holds the same elements in the same registers."""


@dataclass(frozen=True)
class RegisterPermutation:
    """A rename within each thread: destination register `i` is source register `sources[i]`."""

    sources: tuple[int, ...]


@dataclass(frozen=True)
class ShuffleRound:
    """One exchange between the lanes of a warp.

    Every lane offers its group `send`; lane `l` reads that of lane
    `plan.source_lane(l, warp) ^ lane_xor`.
    """

    send: int
    lane_xor: int


@dataclass(frozen=True)
class WarpShuffle:
    """An exchange within each warp, in three steps.

    All indices count groups of `pack` neighbouring registers, which travel as one value (at most 32
    bits for elements below that). With `^` on group indices, in lane `l` of warp `w`:

        offered[j]  = source[j ^ before(l, w)]            selects; skipped where all bases are 0
        received[k] = shuffle(offered[rounds[k].send], lane source_lane(l, w) ^ rounds[k].lane_xor)
        result[i]   = received[arrival[i ^ after(l)]]     selects

    `before`, `after` and `source_lane` are linear: bases per lane bit and per warp bit. A select
    step is one conditional swap of `x[j]` and `x[j ^ basis]` for each nonzero basis.
    """

    pack: int
    rounds: tuple[ShuffleRound, ...]
    arrival: tuple[int, ...]
    source_lane_by_lane: tuple[int, ...]
    source_lane_by_warp: tuple[int, ...]
    before_by_lane: tuple[int, ...]
    before_by_warp: tuple[int, ...]
    after_by_lane: tuple[int, ...]

    def source_lane(self, lane: int, warp: int) -> int:
        """The lane that `lane` reads from, before a round's `lane_xor`."""
        return matvec(self.source_lane_by_lane, lane) ^ matvec(self.source_lane_by_warp, warp)

    def before(self, lane: int, warp: int) -> int:
        """What is added to the group index when offering."""
        return matvec(self.before_by_lane, lane) ^ matvec(self.before_by_warp, warp)

    def after(self, lane: int) -> int:
        """What is added to the group index when placing what arrived."""
        return matvec(self.after_by_lane, lane)

    @property
    def is_butterfly(self) -> bool:
        """Whether each lane reads from `lane ^ lane_xor`: `shfl.bfly`, else `shfl.idx`."""
        own = tuple(1 << b for b in range(len(self.source_lane_by_lane)))
        return self.source_lane_by_lane == own and not any(self.source_lane_by_warp)

    def is_local(self, exchange: ShuffleRound) -> bool:
        """Whether every lane reads its own value in this round: no instruction."""
        return self.is_butterfly and exchange.lane_xor == 0


@dataclass(frozen=True)
class SharedMemory:
    """Store to shared memory, barrier, load.

    `shared` is "offset" (elements) -> coordinates, swizzled so that both sides avoid bank
    conflicts; `offsets.offset_terms` and `offsets.register_groups` give the addresses. The
    vectors are in elements: the widest that one `st.shared` / `ld.shared` moves. `bytes` is the
    size of the buffer, where an element takes `offsets.storage_bytes(element_bits)`.
    """

    shared: LinearLayout
    store_vector: int
    load_vector: int
    bytes: int


ConversionPlan = Identity | RegisterPermutation | WarpShuffle | SharedMemory
