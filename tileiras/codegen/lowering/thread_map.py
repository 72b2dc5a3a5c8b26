"""Linear functions of lane and warp as instructions, computed once at the start of the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.dialects.llvm.types import integer_type


class ThreadMap:
    """Values that depend on the thread only; `prologue` builds at the start of the kernel."""

    def __init__(self, prologue: ThreadBuilder, num_warps: int):
        self.b = prologue
        self.num_warps = num_warps
        self._linear: dict[tuple[tuple[int, ...], tuple[int, ...]], SSAValue] = {}
        self._zero: dict[tuple[int, int], SSAValue | None] = {}
        self._moved: dict[tuple[tuple[int, ...], tuple[int, ...], int], SSAValue] = {}
        self._offsets: dict[tuple[tuple[int, ...], tuple[int, ...], int], SSAValue] = {}
        self._selected: dict[tuple[int, int, int], SSAValue] = {}
        self._never: SSAValue | None = None
        self._lane: SSAValue | None = None
        self._warp: SSAValue | None = None

    @property
    def lane(self) -> SSAValue:
        """Lane of this thread, i32."""
        if self._lane is None:
            self._lane = self.b.lane_id()
        return self._lane

    @property
    def warp(self) -> SSAValue:
        """Warp of this thread within the tile block, i32."""
        if self._warp is None:
            self._warp = self.b.warp_id() if self.num_warps > 1 else self.b.i32(0)
        return self._warp

    def linear(self, lane: Sequence[int], warp: Sequence[int]) -> SSAValue:
        """The `^` of `lane[b]` over the lane's set bits and of `warp[b]` over the warp's, i32."""
        key = (tuple(lane), tuple(warp))
        known = self._linear.get(key)
        if known is None:
            parts = self._terms(self.lane, lane) if any(lane) else []
            if any(warp):
                parts += self._terms(self.warp, warp)
            known = parts[0] if parts else self.b.i32(0)
            for part in parts[1:]:
                known = self.b.xor(known, part)
            self._linear[key] = known
        return known

    def moved(self, lane: Sequence[int], warp: Sequence[int], offset: int) -> SSAValue:
        """`linear(lane, warp) ^ offset`, i32."""
        if not offset:
            return self.linear(lane, warp)
        key = (tuple(lane), tuple(warp), offset)
        if key not in self._moved:
            self._moved[key] = self.b.xor(self.linear(lane, warp), self.b.i32(offset))
        return self._moved[key]

    def offset(self, lane: Sequence[int], warp: Sequence[int], mixed: int) -> SSAValue:
        """`moved(lane, warp, mixed)` as an offset of pointers, i64."""
        key = (tuple(lane), tuple(warp), mixed)
        if key not in self._offsets:
            moved = self.moved(lane, warp, mixed)
            self._offsets[key] = self.b.zext(moved, integer_type(64))
        return self._offsets[key]

    def selected(self, lane_mask: int, unset: int, is_set: int) -> SSAValue:
        """One of two numbers, by whether any of these bits of the lane is set, i32."""
        key = (lane_mask, unset, is_set)
        if key not in self._selected:
            bits = self.b.and_(self.lane, self.b.i32(lane_mask))
            is_unset = self.b.icmp("eq", bits, self.b.i32(0))
            self._selected[key] = self.b.select(is_unset, self.b.i32(unset), self.b.i32(is_set))
        return self._selected[key]

    def never(self) -> SSAValue:
        """i1: false in every thread, which the compilers below cannot know."""
        if self._never is None:
            # No SM has this number (PTX ISA, "%smid": below %nsmid).
            self._never = self.b.icmp("eq", self.b.sreg("smid"), self.b.i32(-1))
        return self._never

    def _terms(self, source: SSAValue, bases: Sequence[int]) -> list[SSAValue]:
        """One term for each run of bits that moves as a whole, one for each other bit."""
        terms: list[SSAValue] = []
        bit = 0
        while bit < len(bases):
            length = _run_length(bases, bit)
            if bases[bit] == 0:
                bit += 1
                continue
            terms.append(self._term(source, bit, length, bases[bit]))
            bit += length
        return terms

    def _term(self, source: SSAValue, bit: int, length: int, basis: int) -> SSAValue:
        """Bits `bit` to `bit + length - 1` of the source, placed at the position of `basis`."""
        field = self.b.and_(source, self.b.i32(((1 << length) - 1) << bit))
        if basis & (basis - 1):
            is_zero = self.b.icmp("eq", field, self.b.i32(0))
            return self.b.select(is_zero, self.b.i32(0), self.b.i32(basis))
        shift = basis.bit_length() - 1 - bit
        if shift > 0:
            return self.b.shl(field, self.b.i32(shift))
        return self.b.lshr(field, self.b.i32(-shift)) if shift < 0 else field

    def all_zero(self, lane_mask: int, warp_mask: int) -> SSAValue | None:
        """i1: whether these bits of lane and warp are all zero; None if no bit is asked for."""
        key = (lane_mask, warp_mask)
        if key not in self._zero:
            self._zero[key] = self._compute_zero(lane_mask, warp_mask)
        return self._zero[key]

    def _compute_zero(self, lane_mask: int, warp_mask: int) -> SSAValue | None:
        if not lane_mask and not warp_mask:
            return None
        thread = self.b.thread_id()
        mask = lane_mask | warp_mask << 5
        return self.b.icmp("eq", self.b.and_(thread, self.b.i32(mask)), self.b.i32(0))


def _run_length(bases: Sequence[int], start: int) -> int:
    """Bits from `start` on whose bases are successive powers of two."""
    first = bases[start]
    if first == 0 or first & (first - 1):
        return 1
    length = 1
    while start + length < len(bases) and bases[start + length] == first << length:
        length += 1
    return length
