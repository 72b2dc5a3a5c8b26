"""Operands of mma.sync products: fragments step by step along K, from registers or shared memory.

An operand that already lies in the instruction's fragments stays in registers. Any other is staged
once in shared memory, unless it has been copied there, and every step along K reads the fragments
it needs: so no more than one step's fragments are live, however large the tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, OpResult, SSAValue

from tileiras.codegen.atoms.matrix_tiles import plan_matrix_tiles
from tileiras.codegen.lowering.addressing import combinations
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.staging import Window, load_tile, store_tile
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import offset_bases, storage_bytes, vector_elements
from tileiras.dialects.layout.operands import OperandTile, inner_bits
from tileiras.dialects.llvm.types import bit_width, lanes_of, vector_type
from tileiras.errors import InternalError

_MATRICES_BITS = 2
"""ldmatrix reads up to four matrices at once."""


@dataclass(frozen=True)
class FragmentSteps:
    """How a fragment layout divides into steps along K.

    Registers are numbered as `mma_operand_layout` does: the atom's, then `k_bits` bits of repeats
    along K, then the others. A step takes the lowest `step_bits` of the repeats along K.
    """

    layout: LinearLayout
    atom_bits: int
    k_bits: int
    step_bits: int

    @property
    def count(self) -> int:
        """Steps along K."""
        return 1 << (self.k_bits - self.step_bits)

    def step_layout(self) -> LinearLayout:
        """The registers of the first step; it reaches only a part of the tile."""
        registers = self.layout.vectors("register")
        first_high = self.atom_bits + self.k_bits
        kept = registers[: self.atom_bits + self.step_bits] + registers[first_high:]
        bases = dict(self.layout.index_bases) | {"register": kept}
        return LinearLayout.from_index_bases(bases, self.layout.shape)

    def origin(self, step: int) -> int:
        """Row-major index of a step's first element."""
        first = self.atom_bits + self.step_bits
        vectors = self.layout.vectors("register")[first : self.atom_bits + self.k_bits]
        return combinations(vectors)[step]

    def registers(self, step: int) -> list[int]:
        """The registers of a step among all of the fragment layout."""
        low = 1 << (self.atom_bits + self.step_bits)
        whole = 1 << (self.atom_bits + self.k_bits)
        total = self.layout.in_size("register")
        return [high + step * low + r for high in range(0, total, whole) for r in range(low)]


@dataclass(frozen=True)
class RegisterOperand:
    """An operand that lies in fragments."""

    ctx: KernelLowering
    value: SSAValue
    steps: FragmentSteps

    def fragments(self, step: int) -> SSAValue:
        """The fragments of a step."""
        return self.ctx.b.shuffle(self.value, None, self.steps.registers(step))


@dataclass
class SharedOperand:
    """An operand of `element`s in shared memory, which `region` says where: all of it, or a part.

    `fragments` may be asked for steps of the `part` that is there.
    """

    ctx: KernelLowering
    element: Attribute
    steps: FragmentSteps
    tile: OperandTile
    parts: int = 1
    region: SSAValue | None = None
    part: int = 0
    _pointers: dict[int, SSAValue] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of an element in shared memory."""
        return storage_bytes(bit_width(self.element))

    @property
    def elements(self) -> int:
        """Elements of one part."""
        return self.tile.shared.size // self.parts

    @property
    def bytes(self) -> int:
        """Bytes of one part."""
        return self.elements * self.size

    def fragments(self, step: int) -> SSAValue:
        """The fragments of a step."""
        if self.region is None:
            raise InternalError("an operand is read before it is staged", where="dot")
        origin = self.tile.shared.invert().compose(
            LinearLayout.from_index_bases({"at": [self.steps.origin(step)]}, self.tile.shared.shape)
        )
        place = origin.vectors("at")[0]
        if place // self.elements != self.part:
            raise InternalError("a step lies outside the staged part of K", where="dot")
        place %= self.elements
        if self.tile.is_matrix:
            return self._load_matrices(place)
        return self._load_elements(place)

    def _load_elements(self, place: int) -> SSAValue:
        """Plain loads, as wide as the fragment's registers allow."""
        layout, bits = self.steps.step_layout(), bit_width(self.element)
        shared = self.tile.shared
        vector = min(
            vector_elements(self.steps.layout, shared, bits), vector_elements(layout, shared, bits)
        )
        if self.region is None:
            raise InternalError("an operand is read before it is staged", where="dot")
        return load_tile(self.ctx, self.element, self.region, layout, shared, vector, place)

    def _load_matrices(self, place: int) -> SSAValue:
        """ldmatrix: lanes 0 to 7 give the rows of the first matrix, 8 to 15 of the second, ..."""
        bits = bit_width(self.element)
        layout = self.steps.step_layout()
        rest = layout.vectors("register")[inner_bits(bits) :]
        together = min(_MATRICES_BITS, len(rest))
        matrices = [*rest[:together], 0, 0][:_MATRICES_BITS]
        row_lanes = self._row_vectors(layout)
        address = LinearLayout.from_index_bases(
            {
                "register": rest[together:],
                "lane": [*row_lanes, *matrices],
                "warp": layout.vectors("warp"),
            },
            layout.shape,
        )
        bases = offset_bases(address, self.tile.shared)
        b = self.ctx.b
        loaded = [
            b.ldmatrix(self._pointer(bases, place ^ offset), 1 << together, self.tile.transposed)
            for offset in combinations(bases.vectors("register"))
        ]
        words = b.concat(loaded)
        lanes = layout.in_size("register")
        return b.bitcast(words, vector_type(self.element, lanes))

    def _row_vectors(self, layout: LinearLayout) -> Sequence[int]:
        """What tells the eight rows of a matrix apart."""
        if self.tile.transposed:
            return (*layout.vectors("register")[:1], *layout.vectors("lane")[:2])
        return layout.vectors("lane")[2:]

    def _pointer(self, bases: LinearLayout, offset: int) -> SSAValue:
        """This thread's address plus (`^`) an offset in elements; what is disjoint is added."""
        lane = [v % self.elements * self.size for v in bases.vectors("lane")]
        warp = [v % self.elements * self.size for v in bases.vectors("warp")]
        used = 0
        for vector in (*lane, *warp):
            used |= vector
        delta = offset * self.size
        mixed = delta & used
        if mixed not in self._pointers:
            if self.region is None:
                raise InternalError("an operand is read before it is staged", where="dot")
            base = self._thread_offset(lane, warp, mixed)
            self._pointers[mixed] = self.ctx.b.gep(self.region, base)
        return self.ctx.b.gep(self._pointers[mixed], delta & ~used)

    def _thread_offset(self, lane: Sequence[int], warp: Sequence[int], mixed: int) -> SSAValue:
        """This thread's bytes from the region on, ready before the loop in which it moves on."""
        return self.ctx.threads.offset(lane, warp, mixed)


@dataclass
class StagedOperand(SharedOperand):
    """An operand that threads write to shared memory, one part of K after the other."""

    value: SSAValue | None = None
    source: LinearLayout | None = None

    def stage(self, region: SSAValue, part: int) -> None:
        """Writes one of the parts along K; a barrier must follow."""
        if self.value is None or self.source is None:
            raise InternalError("an operand to be staged has no registers", where="dot")
        self.region, self.part = region, part
        self._pointers.clear()
        window = Window(self.elements, part) if self.parts > 1 else None
        shared, vector = self.tile.shared, self.tile.store_vector
        tiles = plan_matrix_tiles(self.source, shared, 16) if self.tile.stores_matrices else None
        if tiles is not None:
            offset = self.ctx.threads.linear(tiles.lane, tiles.warp)
            self.ctx.b.store_matrices(self.value, region, offset, tiles)
            return
        store_tile(self.ctx, self.value, region, self.source, shared, vector, window=window)

    def _thread_offset(self, lane: Sequence[int], warp: Sequence[int], mixed: int) -> SSAValue:
        """Made where it is used: the region stays, so nothing but registers would be saved."""
        base = self.ctx.threads.linear(lane, warp)
        return self.ctx.b.xor(base, self.ctx.b.const_int(i32, mixed)) if mixed else base


def unsigned(value: SSAValue) -> SSAValue:
    """The tile of which an operand is the negative, or the operand."""
    if isinstance(value, OpResult) and isinstance(value.op, aa.NegFOp):
        return value.op.operands[0]
    return value


def register_count(value: SSAValue) -> int:
    """Lanes of a vector."""
    return lanes_of(value.type) or 1
