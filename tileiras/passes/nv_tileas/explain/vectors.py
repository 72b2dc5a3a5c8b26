"""How many bytes a thread moves at once, what keeps it from more, and what would change that."""

from __future__ import annotations

from dataclasses import dataclass

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import contiguous_vector
from tileiras.planning.access import MAX_ACCESS_BYTES, SECTOR_BYTES, Fact, VectorLimit


@dataclass(frozen=True)
class Width:
    """An access of `vector` elements of `bits` along `axis`, and what bounded it."""

    vector: int
    bits: int
    axis: int
    layout: LinearLayout
    limits: tuple[VectorLimit, ...]

    @property
    def bytes(self) -> int:
        """Bytes that a thread moves at once; at least one."""
        return max(1, self.own_vector * self.bits // 8)

    @property
    def own_vector(self) -> int:
        """Elements that a thread moves at once: what lies side by side in its registers."""
        return contiguous_vector(self.layout, self.axis, self.vector)

    @property
    def proven(self) -> int:
        """Elements that what is known would allow."""
        return min(_power_of_two(limit.elements) for limit in self.limits)

    @property
    def warp_bytes(self) -> int:
        """Neighbouring bytes that the lanes of a warp move together."""
        lanes, run = self.layout.basis("lane"), self.own_vector
        while run < self.layout.shape[self.axis] and self._along(run) in lanes:
            run *= 2
        return max(1, run * self.bits // 8)

    def _along(self, step: int) -> tuple[int, ...]:
        return tuple(step if dim == self.axis else 0 for dim in range(self.layout.rank))

    @property
    def tightest(self) -> VectorLimit | None:
        """What keeps the access from `MAX_ACCESS_BYTES`; None if nothing known does."""
        least = min(self.limits, key=lambda limit: _power_of_two(limit.elements))
        is_short = _power_of_two(least.elements) * self.bits < 8 * MAX_ACCESS_BYTES
        return least if is_short else None

    @property
    def is_missed(self) -> bool:
        """Whether an author could have wider accesses of the same tile."""
        if self.bytes >= MAX_ACCESS_BYTES:
            return False
        least = self.tightest
        return least is not None and least.fact is not Fact.TILE and self.has_more

    @property
    def has_more(self) -> bool:
        """Whether the tile is long enough for wider accesses."""
        return self.layout.shape[self.axis] > self.own_vector


def _power_of_two(value: int) -> int:
    """The largest power of two that divides `value`; one of no bound for 0."""
    return value & -value if value else 1 << 30


def reason(width: Width) -> str:
    """Why the access is as wide as it is."""
    if width.bytes >= MAX_ACCESS_BYTES:
        return "base, strides and extents are proven to be multiples of what moves at once"
    least = width.tightest
    if least is None or width.own_vector < min(width.proven, width.layout.shape[width.axis]):
        return "values stay in the registers in which their users want them"
    return what_is_missing(least, width.bits)


def what_is_missing(limit: VectorLimit, bits: int) -> str:
    """The fact that bounds an access, in words."""
    have, dim = _power_of_two(limit.elements), limit.dim
    want = 8 * MAX_ACCESS_BYTES // bits
    match limit.fact:
        case Fact.BASE:
            aligned = have * bits // 8
            return f"the base pointer is proven to be {aligned}-byte aligned, not 16-byte aligned"
        case Fact.EXTENT:
            return f"the extent of dim {dim} is proven to be a multiple of {have}, not of {want}"
        case Fact.STRIDE:
            return f"the stride of dim {dim} is proven to be a multiple of {have}, not of {want}"
        case Fact.TILE:
            extent = f"the tile has an extent of {limit.elements} along dim {dim}"
            return f"{extent}, where memory is contiguous"
        case Fact.STEP:
            return f"tiles start every {limit.elements} elements of dim {dim}"
        case Fact.NO_UNIT_STRIDE:
            return f"the stride of dim {dim} is not one, or is not known to be"
        case Fact.INDICES:
            return "rows are gathered by indices of which nothing is known"
        case Fact.CONTIGUITY:
            return f"pointers are proven to run on for {have} elements, not for {want}"
        case Fact.ALIGNMENT:
            return f"pointers are proven to be {have * bits // 8}-byte aligned, not 16-byte aligned"
        case Fact.MASK:
            return f"the mask is known to be the same for {have} elements, not for {want}"
        case Fact.INSTRUCTION | Fact.NO_POINTERS:
            return "one element is all there is"


def remedy(limit: VectorLimit, bits: int) -> str:
    """What an author would do about it."""
    want = 8 * MAX_ACCESS_BYTES // bits
    match limit.fact:
        case Fact.BASE | Fact.ALIGNMENT:
            return "pass memory that is 16-byte aligned, and say so (assume div_by<16>)"
        case Fact.EXTENT:
            return (
                f"pad dim {limit.dim} to a multiple of {want}, and say so (assume div_by<{want}>)"
            )
        case Fact.STRIDE:
            return f"pad rows so that the stride of dim {limit.dim} is a multiple of {want}"
        case Fact.NO_UNIT_STRIDE:
            return "let a dim of more than one element in the tile have the static stride 1"
        case Fact.STEP:
            return "let tiles start at multiples of their extent"
        case Fact.CONTIGUITY | Fact.MASK | Fact.INDICES:
            return "load through a view of the tensor instead of through pointers or indices"
        case _:
            return "make the tile longer where memory is contiguous"


def sectors(width: Width) -> str:
    """How much of the 32-byte sectors that memory moves is used, empty if all of it is."""
    if width.warp_bytes >= SECTOR_BYTES or not all(map(any, width.layout.basis("lane"))):
        return ""
    return (
        f"lanes touch {width.warp_bytes} neighbouring bytes, and memory moves {SECTOR_BYTES} at a "
        "time"
    )
