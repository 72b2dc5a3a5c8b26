"""Operands of products by multiply-adds: in shared memory once, read row by row of K.

A thread reads, for each k, the rows of A or the columns of B that its block of the result needs,
in vectors. Where they lie follows from how they are stored and how they are read
(`layout.staging`), so neither side has bank conflicts that a swizzle can avoid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from tileiras.codegen.lowering.addressing import combinations
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.staging import Window, store_tile
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.gf2 import independent, matvec
from tileiras.dialects.layout.offsets import offset_bases, register_groups, vector_elements
from tileiras.dialects.layout.operands import dim_vectors
from tileiras.dialects.layout.staging import plan_staging
from tileiras.dialects.llvm.types import bit_width, scalar_of, vector_type
from tileiras.errors import InternalError


@dataclass(frozen=True)
class FactorLayout:
    """What each thread reads of an operand for one k, and where that lies.

    `own` has the thread's rows (or columns), `registers` says which of them each register of the
    result takes. `shared` is the whole operand in shared memory; its highest offset bits are the
    highest bits of K where `parts` of K go through the buffer one after the other.
    """

    own: LinearLayout
    registers: tuple[int, ...]
    shared: LinearLayout
    store_vector: int
    load_vector: int
    k_dim: int
    parts: int

    @property
    def k_offsets(self) -> list[int]:
        """What each bit of k within a part adds to (`^`) an offset."""
        vectors = dim_vectors(self.own.shape, self.k_dim)
        steps = LinearLayout.from_index_bases({"k": vectors}, self.own.shape)
        offsets = offset_bases(steps, self.shared).vectors("k")
        return list(offsets[: len(offsets) - (self.parts.bit_length() - 1)])


def plan_factor(
    source: LinearLayout, result: LinearLayout, k_position: int, bits: int, parts: int
) -> FactorLayout:
    """How an operand that lies in `source` gets to the threads that hold `result`.

    K is dim `-k_position`: 1 for A, 2 for B. An operand of one batch serves all batches.
    """
    shape, k_dim = source.shape, source.rank - k_position
    names = ("register", "lane", "warp")
    held = {name: _projected(result, name, source, k_dim) for name in names}
    own = LinearLayout.from_index_bases(
        held | {"register": independent(held["register"])}, source.shape
    )
    place = {index: r for r, index in enumerate(combinations(own.vectors("register")))}
    registers = tuple(place[index] for index in combinations(held["register"]))
    along_k = dim_vectors(shape, k_dim)
    reads = LinearLayout.from_index_bases(
        dict(own.index_bases) | {"register": [*own.vectors("register"), *along_k]}, shape
    )
    shared = _shared((source, reads, own), k_dim, bits, parts)
    store = vector_elements(source, shared, bits)
    load = min(vector_elements(side, shared, bits) for side in (reads, own))
    return FactorLayout(own, registers, shared, store, load, k_dim, parts)


def _projected(result: LinearLayout, name: str, operand: LinearLayout, k_dim: int) -> list[int]:
    """Where each input bit of the result's layout moves within the operand, k left alone."""
    vectors: list[int] = []
    for vector in result.basis(name):
        index = 0
        for dim, size in enumerate(operand.shape):
            coordinate = 0 if dim == k_dim or size == 1 else vector[dim]
            index = index * size + coordinate
        vectors.append(index)
    return vectors


def _shared(
    sides: tuple[LinearLayout, LinearLayout, LinearLayout], k_dim: int, bits: int, parts: int
) -> LinearLayout:
    """One part as it is written, and read over all k and for one; parts behind each other."""
    source = sides[0]
    depth = source.shape[k_dim] // parts
    written, read, together = (_within_part(side, k_dim, depth) for side in sides)
    part = plan_staging(written, read, bits, together, access_cost=1).shared
    unit = [int(dim == k_dim) for dim in range(source.rank)]
    high = [tuple(depth * c << bit for c in unit) for bit in range(parts.bit_length() - 1)]
    return LinearLayout({"offset": [*part.basis("offset"), *high]}, source.shape)


def _within_part(layout: LinearLayout, k_dim: int, depth: int) -> LinearLayout:
    """Coordinates relative to the part of K in which an element lies."""
    bases = {
        name: [
            tuple(c % depth if dim == k_dim else c for dim, c in enumerate(vector))
            for vector in vectors
        ]
        for name, vectors in layout.bases
    }
    shape = tuple(depth if dim == k_dim else size for dim, size in enumerate(layout.shape))
    return LinearLayout(bases, shape)


@dataclass
class Factor:
    """An operand of products; `read` may be asked for k within the part staged last."""

    ctx: KernelLowering
    value: SSAValue
    source: LinearLayout
    layout: FactorLayout
    region: SSAValue | None = None
    _base: SSAValue | None = None
    _moving: int = 0
    _pointers: dict[int, SSAValue] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of an element in shared memory."""
        return bit_width(scalar_of(self.value.type)) // 8

    @property
    def elements(self) -> int:
        """Elements of one part."""
        return self.source.size // self.layout.parts

    @property
    def bytes(self) -> int:
        """Bytes of one part."""
        return self.elements * self.size

    def stage(self, region: SSAValue, part: int) -> None:
        """Writes one of the parts along K; a barrier must follow."""
        self.region = region
        window = Window(self.elements, part) if self.layout.parts > 1 else None
        vector = self.layout.store_vector
        store_tile(
            self.ctx, self.value, region, self.source, self.layout.shared, vector, window=window
        )

    def start_step(self, step: SSAValue | None, unrolled: int) -> None:
        """From here on k counts from `step` times 2 to the power of `unrolled`."""
        bases = offset_bases(self.layout.own, self.layout.shared)
        lane, warp = (
            [v % self.elements * self.size for v in bases.vectors(name)]
            for name in ("lane", "warp")
        )
        self._base = self.ctx.threads.linear(lane, warp)
        high = [v * self.size for v in self.layout.k_offsets[unrolled:]]
        if step is not None:
            self._base = self.ctx.b.xor(self._base, _selected_sum(self.ctx, step, high))
        self._moving = 0
        for vector in (*lane, *warp, *high):
            self._moving |= vector
        self._pointers.clear()

    def read(self, k: int) -> SSAValue:
        """What each register of the result multiplies for one k of the step, as a vector."""
        layout = self.layout
        at_k = matvec(layout.k_offsets, k)
        groups = register_groups(layout.own, layout.shared, layout.load_vector)
        element = scalar_of(self.value.type)
        type = vector_type(element, layout.load_vector)
        loaded: list[SSAValue] = []
        order = [0] * layout.own.in_size("register")
        for number, group in enumerate(groups):
            offset = (at_k ^ group.offset) % self.elements * self.size
            align = layout.load_vector * self.size
            loaded.append(self.ctx.b.load(self._pointer(offset), type, align))
            for position, register in enumerate(group.registers):
                order[register] = number * layout.load_vector + position
        b = self.ctx.b
        elements = [b.extract(piece, i) for piece in loaded for i in range(layout.load_vector)]
        return b.build([elements[order[register]] for register in layout.registers], element)

    def _pointer(self, offset: int) -> SSAValue:
        """This thread's address plus (`^`) an offset in bytes; what is disjoint is added."""
        b, mixed = self.ctx.b, offset & self._moving
        if mixed not in self._pointers:
            if self.region is None or self._base is None:
                raise InternalError("an operand is read before it is staged", where="fma_dot")
            base = b.xor(self._base, b.i32(mixed)) if mixed else self._base
            self._pointers[mixed] = b.gep(self.region, base)
        return b.gep(self._pointers[mixed], offset & ~self._moving)


def _selected_sum(ctx: KernelLowering, number: SSAValue, vectors: Sequence[int]) -> SSAValue:
    """The `^` of the vectors over the set bits of a number, i32."""
    b = ctx.b
    if all(vector == vectors[0] << bit for bit, vector in enumerate(vectors)):
        return b.mul(number, b.i32(vectors[0]))
    total: SSAValue = b.i32(0)
    for bit, vector in enumerate(vectors):
        is_set = b.and_(b.lshr(number, b.i32(bit)), b.i32(1))
        total = b.xor(total, b.mul(is_set, b.i32(vector)))
    return total
