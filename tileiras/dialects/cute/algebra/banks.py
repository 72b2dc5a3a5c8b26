"""Bank conflicts, widths of vectors and the choice of a swizzle, from CuTe layouts.

Counted on the addresses themselves, element by element: any layout will do, also with extents that
are no powers of two. Where `linear` converts both layouts, `dialects.layout.offsets` computes the
same numbers by linear algebra.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import static
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, Swizzle, swizzled
from tileiras.dialects.layout.offsets import (
    BANK_BITS,
    BANK_BYTES,
    MAX_VECTOR_BYTES,
    phase_lane_bits,
    storage_bytes,
)

BANKS = 1 << BANK_BITS


def offsets_of_thread(thread_value: Layout, shared: AnyLayout, thread: int) -> list[int]:
    """Offsets in elements of a thread's values: `shared(tv(thread, value))` for each value."""
    threads, values = _thread_and_values(thread_value)
    start = static(threads(thread), "an index of a thread")
    found = []
    for value in values.indices:
        index = start + static(value, "an index of a value")
        found.append(static(shared(index), "an offset in shared memory"))
    return found


def vector_width(thread_value: Layout, shared: AnyLayout, element_bits: int) -> int:
    """The widest aligned vector, in elements, that values of each thread fill in shared memory.

    A power of two, at most 16 bytes: each thread's distinct offsets are whole aligned vectors, and
    which values lie where in a vector is the same in all vectors of all threads.
    """
    threads, _ = _thread_and_values(thread_value)
    width = MAX_VECTOR_BYTES // storage_bytes(element_bits)
    offsets = [
        offsets_of_thread(thread_value, shared, thread) for thread in range(threads.static_size)
    ]
    while width > 1 and not _has_vectors(offsets, width):
        width //= 2
    return width


def _has_vectors(offsets_of_threads: list[list[int]], width: int) -> bool:
    """Whether all threads have the same order of values in aligned vectors of `width`."""
    patterns: dict[tuple[int, ...], None] = {}
    for offsets in offsets_of_threads:
        vectors: dict[int, dict[int, int]] = {}
        for value, offset in enumerate(offsets):
            vectors.setdefault(offset // width, {}).setdefault(offset % width, value)
        for places in vectors.values():
            if len(places) < width:
                return False
            patterns[tuple(places[k] - places[0] for k in range(width))] = None
    return len(patterns) == 1


def bank_conflicts(thread_value: Layout, shared: AnyLayout, element_bits: int, vector: int) -> int:
    """The wavefronts that one wavefront's worth of the first access takes: 1 is free of conflicts.

    Lanes that touch the same 4-byte word do not conflict. `vector` is in elements. Lanes go
    together as far as 128 bytes reach: all 32 up to 4 bytes each, half of them for 8, a
    quarter for 16.
    """
    size = storage_bytes(element_bits)
    threads, _ = _thread_and_values(thread_value)
    lanes = min(threads.static_size, 1 << phase_lane_bits(vector * size))
    words: dict[int, None] = {}
    for lane in range(lanes):
        first = offsets_of_thread(thread_value, shared, lane)[0] & -vector
        for byte in range(first * size, (first + vector) * size, min(size, BANK_BYTES)):
            words[byte // BANK_BYTES] = None
    per_bank = [0] * BANKS
    for word in words:
        per_bank[word % BANKS] += 1
    # A wavefront moves a word of each bank; 128 bytes without conflicts are one.
    return max(per_bank)


def choose_swizzle(
    accesses: tuple[Layout, ...], shared: Layout, element_bits: int
) -> Swizzle | None:
    """The swizzle of `shared` with which these accesses (TV layouts) take the fewest wavefronts.

    Candidates keep the vectors of every access whole; the fewest bits and the nearest shift win
    where several are as good, and None where none is better than no swizzle.
    """
    vectors = [vector_width(access, shared, element_bits) for access in accesses]

    def cost(layout: AnyLayout) -> int:
        pairs = zip(accesses, vectors, strict=True)
        return sum(bank_conflicts(access, layout, element_bits, v) for access, v in pairs)

    best, least = None, cost(shared)
    for swizzle in candidate_swizzles(shared.static_size, max(vectors, default=1)):
        found = cost(swizzled(swizzle, shared))
        if found < least:
            best, least = swizzle, found
    return best


def candidate_swizzles(size: int, vector: int) -> Iterator[Swizzle]:
    """Swizzles within `size` offsets that leave vectors whole, the simplest first."""
    width = size.bit_length() - 1
    low = vector.bit_length() - 1
    for bits in range(1, BANK_BITS + 1):
        for shift in range(bits, width - low - bits + 1):
            for base in range(low, width - shift - bits + 1):
                yield Swizzle(bits, base, shift)


def _thread_and_values(thread_value: Layout) -> tuple[Layout, Layout]:
    if thread_value.rank != 2:
        raise AlgebraError(f"a TV layout is (thread, value), found {thread_value}")
    return thread_value[0], thread_value[1]
