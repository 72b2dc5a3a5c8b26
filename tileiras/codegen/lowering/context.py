"""What the lowering of one kernel knows: values, places of threads, scratch memory, branches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.pipelines import RoleState
from tileiras.codegen.lowering.scratch import Scratch
from tileiras.codegen.lowering.smem_tiles import SmemTile
from tileiras.codegen.lowering.symbols import SymbolNames
from tileiras.codegen.lowering.thread_map import ThreadMap
from tileiras.codegen.lowering.types import register_type, value_type
from tileiras.codegen.target import GpuTarget
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import owner_mask
from tileiras.dialects.llvm import memory as llvm_memory
from tileiras.dialects.llvm.types import (
    CONSTANT,
    GLOBAL,
    SHARED,
    PointerType,
    lanes_of,
    pointer_type,
)
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa.exchange import ExchangeType, KeptMemoryType
from tileiras.dialects.nv_tileaa.types import MemRefType, MemTokenType, TiledViewType
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.memdesc import is_in_tmem
from tileiras.errors import CompileError, InternalError
from tileiras.options import CompileOptions


@dataclass(frozen=True)
class LoopFrame:
    """Where `continue` and `break` of a loop go; `next_iteration` gets the carried values."""

    next_iteration: Callable[[Sequence[SSAValue]], None]
    exit: Block


@dataclass(frozen=True)
class SentTile:
    """One of the tiles that CTAs of a cluster send to one of them: a thread's words and cells.

    `start` is that of the tile in what a CTA sends, `step` leads from a cell of a thread to the
    next one, in bytes; `place` is this thread's first cell of CTA 0. `owns`: whether the thread is
    the one of those with the same elements that sends them, None if there is no other.
    """

    words: SSAValue
    place: SSAValue
    start: int
    step: int
    owns: SSAValue | None


@dataclass(frozen=True)
class SentTiles:
    """Where tiles of a cluster's CTAs arrive: the mbarrier, and `size`, the bytes of each CTA."""

    tiles: tuple[SentTile, ...]
    barrier: SSAValue
    size: int


def has_register(type: Attribute) -> bool:
    """Whether values of the type exist at run time: tokens, views and sums in
    tensor memory do not."""
    without = (MemTokenType, TiledViewType, MemRefType, ExchangeType, KeptMemoryType)
    return not (isinstance(type, without) or is_in_tmem(type))


class KernelLowering:
    """State of the lowering of one function; rules read and extend `values`."""

    def __init__(
        self,
        entry: Block,
        scratch_global: llvm_memory.GlobalOp,
        target: GpuTarget,
        options: CompileOptions,
        num_warps: int,
        kernel_name: str,
        symbols: SymbolNames,
        module_globals: Mapping[str, llvm_memory.GlobalOp],
        module_variables: dict[str, llvm_memory.GlobalOp],
        memory_space: int = GLOBAL,
    ):
        self.target = target
        self.kernel_name = kernel_name
        self.symbols = symbols
        self.module_globals = module_globals
        self.module_variables = module_variables
        self.memory_space = memory_space
        self.options = options
        self.num_warps = num_warps
        self.prologue = ThreadBuilder(entry)
        self.b = ThreadBuilder(entry)
        self.threads = ThreadMap(self.prologue, num_warps)
        limit = target.static_shared_limit
        self.scratch = Scratch(self.b, self.prologue, scratch_global, limit, self.too_large)
        self.values: dict[SSAValue, SSAValue] = {}
        self.loops: list[LoopFrame] = []
        self.op: Operation | None = None
        self.roles = RoleState()
        self.cluster_size = 1
        self.divides_tiles = True
        self.has_static_tile_scheduler = False
        self.has_dynamic_tile_scheduler = False
        self.tiles_drawn = 1
        """How many tiles a number of the queue is for."""
        self.takes_over = False
        """Whether CTAs go on with tile blocks that they ask for."""
        self.is_alone = False
        self.waits: list[tuple[Block, Block]] = []
        self.heap: dict[Operation, SSAValue] = {}
        self.buffer_memory: tuple[SSAValue, int] | None = None
        """All buffers of pipelined loads, and how many bytes they take."""
        self.smem_tiles: dict[SSAValue, SmemTile] = {}
        """Tiles in stages of pipelines, which products read there; they have no registers."""
        self.exchanges: dict[SSAValue, SentTiles] = {}
        self.sums_of_parts: dict[SSAValue, Sequence[Any]] = {}
        """Sums of products of parts that can go on (`products_of_parts.PartSums`)."""
        self.has_long_prints: bool | None = None
        self._print_buffer: SSAValue | None = None
        self._constants: dict[tuple[bytes, int, int], llvm_memory.GlobalOp] = {}
        self._variables: list[llvm_memory.GlobalOp] = []

    # values

    def value(self, old: SSAValue) -> SSAValue:
        """What a value has become: a scalar, or this thread's elements as a vector."""
        return self.values[old]

    def lowered_type(self, type: Attribute) -> Attribute:
        """The register type of a value."""
        if not isinstance(type, TensorType):
            return register_type(type)
        return value_type(type, self.layout(type).in_size("register"))

    def layout(self, type: Attribute) -> LinearLayout:
        """The layout of a tensor type."""
        layout = layout_of(type)
        if layout is None:
            raise InternalError(f"tensor without a layout: {type}", where="lowering")
        return layout

    def unsupported(self, what: str) -> CompileError:
        """The error for something that is valid but not lowered yet."""
        if self.op is None:
            return CompileError(f"{what} is not supported yet")
        name = self.op.name.partition(".")[2]
        return CompileError(f"'{name}' op: {what} is not supported yet", place_of(self.op))

    def contradiction(self, what: str) -> CompileError:
        """The error for an operation that says something of itself that cannot be."""
        if self.op is None:
            return CompileError(f"the kernel {what}")
        name = self.op.name.partition(".")[2]
        return CompileError(f"'{name}' op {what}", place_of(self.op))

    # memory

    @property
    def pointer(self) -> PointerType:
        """The type of pointers that programs access memory through.

        Global memory, or generic where they may point to an alloca, which is shared memory.
        """
        return pointer_type(self.memory_space)

    @property
    def state_space(self) -> str:
        """PTX's suffix of accesses through such pointers."""
        return ".global" if self.memory_space == GLOBAL else ""

    def too_large(self, size: int, limit: int) -> CompileError:
        """The error for an operation that needs `size` bytes of the `limit` left for scratch."""
        taken = self.target.static_shared_limit - limit
        return self.contradiction(
            f"{self.target.too_much_shared_memory(taken + size)}; use smaller tiles"
        )

    def constant_global(
        self, data: bytes, align: int, space: int = CONSTANT
    ) -> llvm_memory.GlobalOp:
        """Read-only data; equal data is kept once."""
        known = self._constants.get((data, align, space))
        if known is None:
            known = llvm_memory.GlobalOp.make(
                self.symbols.unique("constant"),
                len(data),
                space,
                align,
                initializer=data,
                constant=True,
            )
            self._constants[(data, align, space)] = known
        return known

    def shared_variable(self, name: str, size: int, align: int) -> llvm_memory.GlobalOp:
        """Shared memory of its own that lasts as long as the kernel."""
        made = llvm_memory.GlobalOp.make(self.symbols.unique(name), size, SHARED, align)
        self._variables.append(made)
        return made

    def print_lock(self) -> llvm_memory.GlobalOp:
        """The module's lock for prints that take several calls."""
        if "print_lock" not in self.module_variables:
            made = llvm_memory.GlobalOp.make(
                self.symbols.unique("print_lock"), 4, GLOBAL, 4, initializer=bytes(4)
            )
            self.module_variables["print_lock"] = made
            self._variables.append(made)
        return self.module_variables["print_lock"]

    def print_buffer(self, size: int) -> SSAValue:
        """Local memory for the arguments of one call of printf; every call reuses it."""
        if self._print_buffer is None:
            self._print_buffer = self.prologue.alloca(size, 8)
        return self._print_buffer

    @property
    def globals_made(self) -> list[llvm_memory.GlobalOp]:
        """Constants and variables of the kernel, in order of first use."""
        return [*self._constants.values(), *self._variables]

    def add_globals(self, *items: llvm_memory.GlobalOp) -> None:
        """Module-level memory that this kernel needs."""
        self._variables.extend(items)

    # threads

    def owner(self, layout: LinearLayout) -> SSAValue | None:
        """i1: whether this thread is the one to write its elements; None if all threads are."""
        lanes, warps = owner_mask(layout)
        return self.threads.all_zero(lanes, warps)

    def both(self, first: SSAValue | None, second: SSAValue | None) -> SSAValue | None:
        """The conjunction of two guards, either of which may be absent; scalars meet vectors."""
        if first is None or second is None:
            return first if second is None else second
        lanes = lanes_of(first.type) or lanes_of(second.type)
        if lanes is not None:
            if lanes_of(first.type) is None:
                first = self.b.splat(first, lanes)
            if lanes_of(second.type) is None:
                second = self.b.splat(second, lanes)
        return self.b.and_(first, second)

    @contextmanager
    def first_thread(self) -> Iterator[None]:
        """What is built inside is done by the first thread of the tile block alone.

        No barriers inside, and no scratch regions: those may need one.
        """
        inside, after = self.b.new_block(), self.b.new_block()
        first = self.threads.all_zero(31, self.num_warps - 1)
        if first is None:
            raise InternalError("a tile block of one thread", where="lowering")
        self.b.cond_br(first, inside, after)
        self.b.at(inside)
        yield
        self.b.br(after)
        self.b.at(after)

    @contextmanager
    def first_thread_alone(self) -> Iterator[None]:
        """As `first_thread`, for operations that it usually does for all, telling them the result.

        Now it keeps what it finds out to itself.
        """
        with self.first_thread():
            self.is_alone = True
            yield
            self.is_alone = False

    @contextmanager
    def where(self, condition: SSAValue | None) -> Iterator[None]:
        """What is built inside is done by threads for which the condition (i1) holds, or by all."""
        if condition is None:
            yield
            return
        inside, after = self.b.new_block(), self.b.new_block()
        self.b.cond_br(condition, inside, after)
        self.start_block(inside)
        yield
        self.b.br(after)
        self.start_block(after)

    def is_first(self) -> SSAValue | None:
        """i1: whether this is the thread that acts for all; None where no other one is about."""
        return None if self.is_alone else self.threads.all_zero(31, self.num_warps - 1)

    def barrier(self) -> None:
        """All threads of the tile block meet; scratch memory is free again."""
        self.b.barrier()
        self.scratch.synchronized()

    def start_block(self, block: Block) -> None:
        """Continues at the end of another block, where nothing is known of scratch memory."""
        self.b.at(block)
        self.scratch.unknown()


LoweringRule = Callable[[KernelLowering, Any], None]
"""Lowers the operations of one class."""
LoweringRules = dict[type[Operation], LoweringRule]
