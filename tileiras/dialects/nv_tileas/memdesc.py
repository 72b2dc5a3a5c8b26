"""Tiles in memory: `memdesc` types say what lies there, how, and in which memory.

    #shared0 = #nv_tileas.nvmma_shared<swizzle = 128, major = 1>
    #pair0 = #nv_tileas.pair_shared<swizzle = 128, major = 1, halved = 1>
    #scales0 = #nv_tileas.scale_chunks<k_axis = 1>
    #shared1 = #nv_tileas.shared_linear<layout = #linear0>
    #cells0 = #nv_tileas.thread_cells<layout = #blocked0>
    #tmem0 = #nv_tileas.tensor_memory<block_m = 128>
    !smem0 = !nv_tileas.memdesc<128x64xf16, #shared0, smem>
    !smem1 = !nv_tileas.memdesc<128x4xf8E8M0FNU, #scales0, smem>
    !tmem0 = !nv_tileas.memdesc<128x256xf32, #tmem0, tmem>

A type is that of one tile. How many stages there are is said where they are made
(`create_pipeline`, `create_accumulator`, `alloc_tensor`), and where in its stage a tile starts
where it is waited for (`consumer_wait`). Sums of wgmma and mma.sync are in registers: tensors with
a layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar, TypeGuard

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import AnyAttr, EqAttrConstraint, ParamAttrConstraint, irdl_attr_definition
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.enum_attribute import EnumAttribute
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import register_representatives
from tileiras.dialects.layout.shared import ATOM_BYTES
from tileiras.dialects.layout.tmem import (
    BLOCK_ROWS,
    HALF_ROWS,
    TMEM_COLUMN_BITS,
    TMEM_COLUMNS,
)
from tileiras.dialects.nv_tileaa.exchange import CELL_BYTES
from tileiras.dialects.nv_tileaa.storage import storage_bits, storage_bytes
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr
from tileiras.errors import InternalError

WARP_THREADS = 32
SPANS = (32, 64, 128)
"""Bytes of the swizzle spans of tiles that products read (PTX ISA, "Swizzling modes")."""
WIDE_ATOMS = (128, 32)
"""The span whose atoms may be larger, and how large: for operands of 32 bits that are MN-major."""
_PARTS = ("register", "lane", "warp")
"""What holds the elements of a distributed layout."""


class MemorySpace(StrEnum):
    """A memory of an SM that tiles lie in."""

    SMEM = "smem"
    TMEM = "tmem"


@irdl_attr_definition
class MemorySpaceAttr(EnumAttribute[MemorySpace]):
    """`#nv_tileas.memory_space<smem>`: shared memory or tensor memory."""

    name = "nv_tileas.memory_space"


def _check_swizzle(name: str, span: int, atom: int) -> None:
    """Raises unless TMA writes, and tensor cores read, such spans of such atoms."""
    if span not in SPANS:
        raise VerifyException(f"{name}: a swizzle of {span} bytes, expected one of {SPANS}")
    if atom != ATOM_BYTES and (span, atom) != WIDE_ATOMS:
        raise VerifyException(f"{name}: atoms of {atom} bytes in a swizzle of {span}")


@irdl_attr_definition
class NvmmaSharedAttr(ParametrizedAttribute):
    """As TMA writes and tensor cores read: panels of one `swizzle` span (bytes) along dim `major`.

    Panel p holds the elements p * span .. of every row, row after row; `major` is contiguous. The
    swizzle keeps `atom` bytes together.
    """

    name = "nv_tileas.nvmma_shared"
    SPACE: ClassVar[MemorySpace] = MemorySpace.SMEM
    swizzle: IntAttr
    major: IntAttr
    atom: IntAttr

    def __init__(self, swizzle: int, major: int, atom: int = ATOM_BYTES):
        super().__init__(IntAttr(swizzle), IntAttr(major), IntAttr(atom))

    def verify(self) -> None:
        """The span is one that TMA and tensor cores know."""
        _check_swizzle(self.name, self.swizzle.data, self.atom.data)


@irdl_attr_definition
class PairSharedAttr(ParametrizedAttribute):
    """A tile of which each CTA of a pair has one half along dim `halved` in its own memory.

    A half lies as `nvmma_shared` says. The first CTA has the first one.
    """

    name = "nv_tileas.pair_shared"
    SPACE: ClassVar[MemorySpace] = MemorySpace.SMEM
    swizzle: IntAttr
    major: IntAttr
    halved: IntAttr
    atom: IntAttr

    def __init__(self, swizzle: int, major: int, halved: int, atom: int = ATOM_BYTES):
        super().__init__(IntAttr(swizzle), IntAttr(major), IntAttr(halved), IntAttr(atom))

    def verify(self) -> None:
        """The span is one that TMA and tensor cores know."""
        _check_swizzle(self.name, self.swizzle.data, self.atom.data)


@irdl_attr_definition
class ScaleChunksAttr(ParametrizedAttribute):
    """Scales of a product whose K runs along dim `k_axis`, in chunks of 512 bytes.

    They lie as `dialects/layout/scale_factors` says, for `tcgen05.cp` to bring to tensor memory.
    """

    name = "nv_tileas.scale_chunks"
    SPACE: ClassVar[MemorySpace] = MemorySpace.SMEM
    k_axis: IntAttr

    def __init__(self, k_axis: int):
        super().__init__(IntAttr(k_axis))


@irdl_attr_definition
class ScaleRowsAttr(ParametrizedAttribute):
    """Scales of a product whose K runs along dim `k_axis`, as TMA brings them: the 16 bytes of a
    row, and those of the next one behind them.

    The product puts them in chunks (`scale_chunks`) where they lie, and so is the only one that
    reads them.
    """

    name = "nv_tileas.scale_rows"
    SPACE: ClassVar[MemorySpace] = MemorySpace.SMEM
    k_axis: IntAttr

    def __init__(self, k_axis: int):
        super().__init__(IntAttr(k_axis))


@irdl_attr_definition
class SharedLinearAttr(ParametrizedAttribute):
    """As the layout says: {offset} (elements) -> coordinates. Any thread reads any element."""

    name = "nv_tileas.shared_linear"
    SPACE: ClassVar[MemorySpace] = MemorySpace.SMEM
    layout: LayoutEncodingAttr


@irdl_attr_definition
class ThreadCellsAttr(ParametrizedAttribute):
    """Each thread has its elements of a distributed layout for itself, in cells of 16 bytes.

    Cell c of thread t lies at `(c * threads + t) * 16`, so that a warp's accesses are free of bank
    conflicts. Elements that a thread holds twice are there once.
    """

    name = "nv_tileas.thread_cells"
    SPACE: ClassVar[MemorySpace] = MemorySpace.SMEM
    layout: LayoutEncodingAttr


@irdl_attr_definition
class TensorMemoryAttr(ParametrizedAttribute):
    """Blocks of `block_m` rows side by side: a row is in a lane, 32 bits of elements in a column.

    128 rows are in all lanes, 64 in the lower 16 of each warp (PTX ISA, "Data path layout").
    """

    name = "nv_tileas.tensor_memory"
    SPACE: ClassVar[MemorySpace] = MemorySpace.TMEM
    block_m: IntAttr

    def __init__(self, block_m: int):
        super().__init__(IntAttr(block_m))

    def verify(self) -> None:
        """The block is that of an instruction."""
        if self.block_m.data not in (HALF_ROWS, BLOCK_ROWS):
            found = self.block_m.data
            raise VerifyException(f"{self.name}: blocks of {found} rows, expected 64 or 128")


Encoding = (
    NvmmaSharedAttr
    | PairSharedAttr
    | ScaleChunksAttr
    | ScaleRowsAttr
    | SharedLinearAttr
    | ThreadCellsAttr
    | TensorMemoryAttr
)
ENCODINGS = (
    NvmmaSharedAttr,
    PairSharedAttr,
    ScaleChunksAttr,
    ScaleRowsAttr,
    SharedLinearAttr,
    ThreadCellsAttr,
    TensorMemoryAttr,
)
"""The ways in which a tile may lie in memory; each is of one memory."""


@irdl_attr_definition
class MemDescType(ParametrizedAttribute, TypeAttribute):
    """`!nv_tileas.memdesc<128x64xf16, #shared, smem>`: a tile in shared or tensor memory."""

    name = "nv_tileas.memdesc"
    dims: IntTupleAttr
    element_type: Attribute
    encoding: Attribute
    memory_space: MemorySpaceAttr

    def __init__(self, shape: Sequence[int], element_type: Attribute, encoding: Encoding):
        space = MemorySpaceAttr(encoding.SPACE)
        super().__init__(IntTupleAttr(shape), element_type, encoding, space)

    def verify(self) -> None:
        """A tile that may lie so, in the memory of its encoding; of two dims, or of its layout."""
        wrong = self._mistake()
        if wrong:
            raise VerifyException(f"{self.name}: {wrong}")

    def _mistake(self) -> str:
        encoding, rank = self.encoding, len(self.shape)
        if isinstance(encoding, SharedLinearAttr | ThreadCellsAttr):
            return self._layout_mistake(encoding.layout.data)
        if rank != 2:
            return f"a tile of rank {rank}, expected 2"
        if min(self.shape) < 1:
            return f"a tile of shape {list(self.shape)}, expected sizes"
        if not isinstance(encoding, ENCODINGS) or self.space is not encoding.SPACE:
            return f"a tile in {self.space} that lies as {encoding.name} says"
        if isinstance(encoding, TensorMemoryAttr):
            return self._tmem_mistake(encoding.block_m.data)
        if not 0 <= self.major < rank:
            return f"a tile of rank {rank} with dim {self.major} contiguous"
        if isinstance(encoding, PairSharedAttr) and not self._has_halves(encoding.halved.data):
            return f"a tile of {list(self.shape)} with halves along dim {encoding.halved.data}"
        row = self.own_shape[self.major] * storage_bytes(self.element_type)
        if self.swizzle and row % self.swizzle:
            return f"rows of {row} bytes in panels of {self.swizzle}"
        return ""

    def _layout_mistake(self, layout: LinearLayout) -> str:
        """What is wrong with a tile that lies as a layout says: that of another tile, or memory."""
        if self.space is not MemorySpace.SMEM:
            return f"a tile in {self.space} that lies as {self.encoding.name} says"
        if layout.shape != self.shape:
            return f"a tile of shape {list(self.shape)} in a layout of {list(layout.shape)}"
        wanted = ("offset",) if isinstance(self.encoding, SharedLinearAttr) else _PARTS
        if set(layout.in_dims) - set(wanted):
            return f"a layout of {', '.join(layout.in_dims)[:80]}, expected {', '.join(wanted)}"
        is_one_to_one = layout.is_surjective and layout.is_injective
        if not is_one_to_one and self.shared_linear is not None:
            return "a tile in a layout without an inverse"
        return ""

    def _tmem_mistake(self, block_m: int) -> str:
        """What is wrong with a tile in tensor memory: lanes are for a block, columns for all."""
        rows = self.shape[0]
        if rows % block_m:
            return f"{rows} rows in blocks of {block_m}"
        if self.tmem_columns > TMEM_COLUMNS:
            return f"a tile of {self.tmem_columns} columns, expected at most {TMEM_COLUMNS}"
        return ""

    def _has_halves(self, dim: int) -> bool:
        return 0 <= dim < len(self.shape) and self.shape[dim] % 2 == 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tile."""
        return self.dims.data

    @property
    def own_shape(self) -> tuple[int, ...]:
        """Shape of what a CTA has of the tile: of one that a pair shares, of a half."""
        if not isinstance(self.encoding, PairSharedAttr):
            return self.shape
        halved = self.encoding.halved.data
        return tuple(n // 2 if dim == halved else n for dim, n in enumerate(self.shape))

    @property
    def space(self) -> MemorySpace:
        """The memory that it lies in."""
        return self.memory_space.data

    @property
    def major(self) -> int:
        """The contiguous dim of a tile in shared memory; of scales, the one along K."""
        match self.encoding:
            case NvmmaSharedAttr() | PairSharedAttr():
                return self.encoding.major.data
            case ScaleChunksAttr() | ScaleRowsAttr():
                return self.encoding.k_axis.data
            case _:
                raise InternalError(f"no dim of {self} is contiguous", where="memdesc")

    @property
    def swizzle(self) -> int:
        """Bytes of a swizzle span; 0 of a tile that lies in another way."""
        encoding = self.encoding
        if isinstance(encoding, NvmmaSharedAttr | PairSharedAttr):
            return encoding.swizzle.data
        return 0

    @property
    def atom(self) -> int:
        """Bytes that the swizzle keeps together."""
        encoding = self.encoding
        if isinstance(encoding, NvmmaSharedAttr | PairSharedAttr):
            return encoding.atom.data
        return ATOM_BYTES

    @property
    def has_layout(self) -> bool:
        """Whether a layout says how the tile lies, so that it is known what it takes by itself."""
        return isinstance(self.encoding, SharedLinearAttr | ThreadCellsAttr)

    @property
    def shared_linear(self) -> LinearLayout | None:
        """{offset} -> coordinates of a tile that any thread reads where a layout says."""
        return self.encoding.layout.data if isinstance(self.encoding, SharedLinearAttr) else None

    @property
    def smem_bytes(self) -> int:
        """Bytes of shared memory that a tile takes by itself."""
        size = storage_bytes(self.element_type)
        match self.encoding:
            case SharedLinearAttr() | NvmmaSharedAttr() | PairSharedAttr():
                return prod(self.own_shape) * size
            case ThreadCellsAttr():
                layout = self.encoding.layout.data
                elements = len(set(register_representatives(layout)))
                threads = WARP_THREADS * layout.in_size("warp")
                return -(-elements * size // CELL_BYTES) * CELL_BYTES * threads
            case _:
                raise InternalError(f"{self} is part of a stage", where="memdesc")

    @property
    def tmem_columns(self) -> int:
        """Columns of tensor memory that the tile takes there."""
        if not isinstance(self.encoding, TensorMemoryAttr):
            raise InternalError(f"{self} is not in tensor memory", where="memdesc")
        rows, columns = self.shape
        words = columns * storage_bits(self.element_type) // TMEM_COLUMN_BITS
        return words * (rows // self.encoding.block_m.data)


def accumulator_type(shape: Sequence[int], element_type: Attribute) -> MemDescType:
    """The type of sums, or of an operand, in tensor memory: blocks of 128 rows, or one of fewer."""
    return MemDescType(shape, element_type, TensorMemoryAttr(min(shape[0], BLOCK_ROWS)))


def is_in_smem(type: Attribute) -> TypeGuard[MemDescType]:
    """Whether values of the type are tiles in shared memory."""
    return isinstance(type, MemDescType) and type.space is MemorySpace.SMEM


def is_in_tmem(type: Attribute) -> TypeGuard[MemDescType]:
    """Whether values of the type are tiles in tensor memory."""
    return isinstance(type, MemDescType) and type.space is MemorySpace.TMEM


def _lying_in(space: MemorySpace) -> ParamAttrConstraint[MemDescType]:
    found = EqAttrConstraint(MemorySpaceAttr(space))
    return ParamAttrConstraint(MemDescType, (AnyAttr(), AnyAttr(), AnyAttr(), found))


IN_SMEM = _lying_in(MemorySpace.SMEM)
"""What an operand in shared memory has to be."""
IN_TMEM = _lying_in(MemorySpace.TMEM)
"""What an operand in tensor memory has to be."""
