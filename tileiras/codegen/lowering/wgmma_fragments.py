"""The left operand of wgmma, read into registers from a shared tile whose rows are contiguous.

Every warp reads the fragments of its own rows. Elements of 32 bits come by vector loads: one
element of several rows at once. Elements of 8 bits come by transposing `ldmatrix`, which takes
pairs of rows for its 16-bit elements; byte permutations then take the pairs apart. Which rows a
thread holds is `dialects/layout/wgmma_rows`.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from tileiras.codegen.lowering.addressing import combinations
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.types import storage_bits
from tileiras.dialects.layout.offsets import offset_bases, vector_elements
from tileiras.dialects.layout.shared import swizzled_panels
from tileiras.dialects.layout.wgmma_rows import register_rows_fragments
from tileiras.dialects.llvm.types import vector_type
from tileiras.dialects.nv_tileas.memdesc import MemDescType
from tileiras.errors import InternalError

_MATRIX_LINES = (1, 4, 8 ^ 2, 2, 16)
"""K of the line that a lane addresses for ldmatrix, by the lane's bits.

Lines 2 t and 2 t + 1 of a matrix go to the threads with `lane % 4 == t`, which want K 4 t to
4 t + 3 of two matrices. Threads 2 and 3 get the two matrices the other way round (`8 ^ 2`): so the
eight lines of a matrix differ in K % 8, and the swizzle puts them on different banks.
"""
_SELECTORS = ((0x6420, 0x7531), (0x2064, 0x3175))
"""Bytes of two words (PTX ISA, "prmt") that are one row's four K; for threads 0, 1 and 2, 3."""
_TURNED_LINES = (1, 2, 4, 8, 16)
"""The same where the right operand is transposed: a thread has K 2 t, 2 t + 1, 8 + 2 t and 9 + 2 t,
which is what two matrices give it (`dialects/layout/wgmma_k_order`).
"""


class FragmentReader:
    """Reads an operand of (rows, K) from the tile at `pointer`; nothing is read twice.

    `is_smem_transposed`: K is in the order of transposed right operands, 8 bits of each element.
    """

    def __init__(
        self,
        ctx: KernelLowering,
        pointer: SSAValue,
        type: MemDescType,
        k_axis: int,
        *,
        is_smem_transposed: bool = False,
    ):
        if type.major == k_axis:
            raise InternalError("fragments are read from K-major tiles by wgmma", where="wgmma")
        self._is_smem_transposed = is_smem_transposed
        self.ctx = ctx
        self.pointer = pointer
        self.bits = storage_bits(type.element_type)
        shape = (type.shape[1 - k_axis], type.shape[k_axis])
        layout = register_rows_fragments(shape, self.bits, ctx.num_warps // 4)
        shared = swizzled_panels(shape, 0, self.bits, type.swizzle)
        bases = offset_bases(layout, shared)
        size = self.bits // 8
        registers = [vector * size for vector in bases.vectors("register")]
        atom_bits = 2 if self.bits == 32 else 4
        step_bits = (shape[1] * self.bits // 256).bit_length() - 1
        self._atom = registers[:atom_bits]
        self._steps = combinations(registers[atom_bits : atom_bits + step_bits])
        self._blocks = combinations(registers[atom_bits + step_bits :])
        self._warp = [vector * size for vector in bases.vectors("warp")]
        if self.bits == 8:
            places, lines = shared.invert(), _TURNED_LINES if is_smem_transposed else _MATRIX_LINES
            self._lane = [places.apply_index(dim0=0, dim1=line) for line in lines]
        else:
            self._lane = [vector * size for vector in bases.vectors("lane")]
            self._vector = vector_elements(layout, shared, self.bits)
        self._pointers: dict[int, SSAValue] = {}
        self._loaded: dict[int, SSAValue] = {}
        self._made: dict[int, SSAValue] = {}

    def fragments(self, row_block: int, step: int) -> SSAValue:
        """The four words of this thread for 64 rows of its warpgroup and one K step."""
        place = self._blocks[row_block] ^ self._steps[step]
        if place not in self._made:
            read = self._by_matrices if self.bits == 8 else self._by_vectors
            self._made[place] = read(place)
        return self._made[place]

    def _by_vectors(self, place: int) -> SSAValue:
        """The elements of a fragment, whose vectors also hold those of other blocks of rows."""
        b, within = self.ctx.b, 4 * self._vector - 1
        words: list[SSAValue] = []
        for offset in combinations(self._atom):
            start = (place ^ offset) & ~within
            if start not in self._loaded:
                type = vector_type(i32, self._vector)
                self._loaded[start] = b.load(self._address(start), type, 4 * self._vector)
            words.append(b.extract(self._loaded[start], ((place ^ offset) & within) // 4))
        return b.build(words)

    def _by_matrices(self, place: int) -> SSAValue:
        """Two matrices of the lower half of K and two of the upper one, taken apart by rows."""
        b = self.ctx.b
        loaded = b.ldmatrix(self._address(place), 4, transposed=True)
        matrices = [b.extract(loaded, index) for index in range(4)]
        words: list[SSAValue] = []
        for half in (0, 2):
            for row in (0, 1):
                args = (matrices[half], matrices[half + 1], self._selector(row))
                words.append(b.unary_intrinsic("llvm.nvvm.prmt", *args))
        return b.build(words)

    def _selector(self, row: int) -> SSAValue:
        """The bytes of a row of the pair, as this thread got them."""
        if self._is_smem_transposed:
            return self.ctx.b.i32(_SELECTORS[0][row])
        return self.ctx.threads.selected(2, *(choice[row] for choice in _SELECTORS))

    def _address(self, offset: int) -> SSAValue:
        """This thread's address moved (`^`) by an offset in bytes; what is disjoint is added."""
        b, used = self.ctx.b, 0
        for vector in (*self._lane, *self._warp):
            used |= vector
        mixed = offset & used
        if mixed not in self._pointers:
            base = self.ctx.threads.moved(self._lane, self._warp, mixed)
            self._pointers[mixed] = b.gep(self.pointer, base)
        return b.gep(self._pointers[mixed], offset & ~used)
