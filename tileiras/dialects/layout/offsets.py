"""Addresses in shared memory: who stores, at which offsets, in which vectors and conflicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from tileiras.dialects.layout.blocked import LANE_BITS
from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.gf2 import matvec, rank
from tileiras.dialects.layout.linear_layout import LinearLayout

# CUDA C++ Programming Guide, "Shared Memory": 32 banks, successive words in successive banks.
BANK_BYTES = 4
BANK_BITS = 5
# The widest access of one thread (PTX ISA, ld / st: `.v4.b32`).
MAX_VECTOR_BYTES = 16


@dataclass(frozen=True)
class OffsetTerms:
    """Element offsets of a thread's elements in shared memory.

    Thread (lane, warp) has `base` = the `^` of `lane[b]` over the set bits of its lane and of
    `warp[b]` over those of its warp; its register `r` lies at `base ^ register[r]`.
    """

    register: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]

    def base(self, lane: int, warp: int) -> int:
        """The offset of register 0 of a thread."""
        return matvec(self.lane, lane) ^ matvec(self.warp, warp)


@dataclass(frozen=True)
class RegisterGroup:
    """Registers that one vector access moves: `registers[k]` lies at `(base ^ offset) + k`."""

    offset: int
    registers: tuple[int, ...]


def storage_bytes(element_bits: int) -> int:
    """Bytes that one element takes in shared memory: its size, at least 1, a power of two."""
    return 1 << (max(1, -(-element_bits // 8)) - 1).bit_length()


def owner_mask(layout: LinearLayout) -> tuple[int, int]:
    """(lane mask, warp mask): a thread owns its elements if these bits of its indices are zero.

    The owners' distinct registers hold every element exactly once, so stores and atomics are
    done by owners only.
    """
    return layout.free_mask("lane"), layout.free_mask("warp")


def register_representatives(layout: LinearLayout) -> tuple[int, ...]:
    """For each register the lowest register of the thread that holds the same element."""
    first: dict[int, int] = {}
    vectors = layout.vectors("register")
    return tuple(first.setdefault(matvec(vectors, r), r) for r in range(1 << len(vectors)))


@lru_cache(maxsize=1024)
def offset_bases(distributed: LinearLayout, shared: LinearLayout) -> LinearLayout:
    """The map (register, lane, warp) -> offset: the inverse of `shared` after `distributed`."""
    if distributed.shape != shared.shape:
        raise LayoutError(f"tile {distributed.shape} does not fit shared memory of {shared.shape}")
    return shared.invert().compose(distributed)


@lru_cache(maxsize=1024)
def offset_terms(distributed: LinearLayout, shared: LinearLayout) -> OffsetTerms:
    """The constants from which generated code makes addresses; `shared` must be bijective."""
    bases = offset_bases(distributed, shared)
    registers = bases.vectors("register")
    return OffsetTerms(
        tuple(matvec(registers, r) for r in range(1 << len(registers))),
        bases.vectors("lane"),
        bases.vectors("warp"),
    )


def vector_elements(distributed: LinearLayout, shared: LinearLayout, element_bits: int) -> int:
    """The widest aligned vector, in elements, that a thread's registers fill in shared memory.

    Offset bit `b` of a vector needs a register bit that moves the offset by exactly `1 << b`, and
    no other input bit may touch the offset bits within the vector.
    """
    bases = offset_bases(distributed.without_register_duplicates(), shared)
    registers = set(bases.vectors("register"))
    widest = MAX_VECTOR_BYTES // storage_bytes(element_bits)
    bits = 0
    while 2 << bits <= widest and 1 << bits in registers:
        bits += 1
    while bits and not _is_aligned(bases.all_vectors(), bits):
        bits -= 1
    return 1 << bits


def _is_aligned(vectors: Iterable[int], bits: int) -> bool:
    """Whether exactly the `bits` unit vectors touch the low `bits` bits."""
    low = (1 << bits) - 1
    return sorted(v for v in vectors if v & low) == [1 << b for b in range(bits)]


@lru_cache(maxsize=1024)
def register_groups(
    distributed: LinearLayout, shared: LinearLayout, vector: int
) -> tuple[RegisterGroup, ...]:
    """The vector accesses of one thread, by lowest register; register copies are left out.

    LayoutError if vectors of `vector` elements do not exist (see `vector_elements`).
    """
    terms = offset_terms(distributed, shared)
    groups: dict[int, list[int]] = {}
    for register, representative in enumerate(register_representatives(distributed)):
        if register == representative:
            groups.setdefault(terms.register[register] & -vector, []).append(register)
    result = []
    for offset, registers in groups.items():
        ordered = tuple(sorted(registers, key=lambda r: terms.register[r]))
        if [terms.register[r] - offset for r in ordered] != list(range(vector)):
            raise LayoutError(f"registers do not form vectors of {vector} elements: {distributed}")
        result.append(RegisterGroup(offset, ordered))
    if any(term & (vector - 1) for term in terms.lane + terms.warp):
        raise LayoutError(f"vectors of {vector} elements are not aligned: {distributed}")
    return tuple(result)


def phase_lane_bits(vector_bytes: int) -> int:
    """How many lane bits share a wavefront: all 32 lanes up to 4 bytes each, then half, a quarter.

    Source: 128 bytes per wavefront; 8-byte accesses go by half warps, 16-byte ones by quarters.
    """
    return LANE_BITS - max(0, (vector_bytes // BANK_BYTES).bit_length() - 1)


def bank_conflicts(
    distributed: LinearLayout, shared: LinearLayout, element_bits: int, vector: int
) -> int:
    """The wavefronts that one wavefront's worth of an access takes: 1 is free of conflicts.

    Lanes that touch the same 4-byte word do not conflict. `vector` is in elements.
    """
    size = storage_bytes(element_bits)
    shift = size.bit_length() - 1
    lanes = offset_bases(distributed, shared).vectors("lane")[: phase_lane_bits(vector * size)]
    addresses = [offset << shift for offset in lanes]
    addresses += [1 << b for b in range((vector * size).bit_length() - 1)]
    words = [address // BANK_BYTES for address in addresses]
    return 1 << (rank(words) - rank(word % (1 << BANK_BITS) for word in words))
