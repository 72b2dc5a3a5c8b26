"""Steps of random programs: gathers, views, atomics, tokens, globals, addresses, promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import IntAttr, IntegerAttr, NoneAttr, StringAttr, SymbolRefAttr

from tests.gpu.differential.arithmetic_steps import count_of
from tests.kernels.exact_program import BLOCKS, EXACT_UP_TO, INPUT_SIZE, Held
from tests.kernels.kernel_builder import DEVICE, NO_OVERFLOW, RELAXED, UNSIGNED, WEAK, flags
from tests.kernels.random_programs import INTEGERS, PAD, f32, f64, i1, i32, i64
from tests.kernels.view_kernels import MAKE_VIEW, load_view, tensor_view
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWMode,
    AtomicRMWModeAttr,
    DivByAttr,
    MemoryOrdering,
    MemoryOrderingAttr,
    SymbolVisibility,
    SymbolVisibilityAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import (
    TOKEN,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
)
from tileiras.dialects.cuda_tile.types import TileType as Tile

if TYPE_CHECKING:
    from tests.gpu.differential.programs import WideGenerator

INTEGER_MODES = tuple(
    mode for mode in AtomicRMWMode if mode not in (AtomicRMWMode.ADDF, AtomicRMWMode.XCHG)
)


def _input(g: WideGenerator) -> tuple[int, Any, int]:
    """An input that tiles were loaded from: number, pointer, elements."""
    number = g.random.randrange(len(g.input_types))
    return number, g.kernel.args[number], g.input_counts[number]


def _loaded(g: WideGenerator, number: int, value: Any) -> Held:
    return Held(value, INPUT_SIZE if g.input_types[number] in EXACT_UP_TO else 0)


def _new_output(g: WideGenerator, element: Any, count: int) -> Any:
    """The pointer of an output that an operation writes itself."""
    entry = g.kernel.block
    pointer = entry.insert_arg(Tile(PointerType(element)), len(entry.args))
    g.early.append((element, BLOCKS * count))
    return pointer


def _indices_below(g: WideGenerator, shape: tuple[int, ...], count: int) -> Any:
    """A tile of i32 from 0 to the largest power of two that is not above count, exclusive."""
    limit = 1 << (count.bit_length() - 1)
    tile = g.pick(lambda held: held.element == i32 and held.shape == shape)
    if tile is not None and g.random.random() < 0.6:
        value = tile.value
    else:
        steps = g.kernel.add(ct.IotaOp, [], Tile(i32, (count_of(shape),)))
        value = g.kernel.add(ct.ReshapeOp, [steps], Tile(i32, shape))
        factor = g.kernel.constant(i32, g.random.choice((1, 3, 5, 2)), shape)
        value = g.kernel.add(ct.MulIOp, [value, factor], value.type, overflow=NO_OVERFLOW)
    mask = g.kernel.constant(i32, limit - 1, shape)
    return g.kernel.add(ct.AndIOp, [value, mask], value.type)


def _spread(g: WideGenerator, pointer: Any, shape: tuple[int, ...]) -> Any:
    """A tile of one pointer everywhere."""
    one = g.kernel.add(ct.ReshapeOp, [pointer], Tile(pointer.type.element_type, (1,) * len(shape)))
    return g.kernel.add(ct.BroadcastOp, [one], Tile(pointer.type.element_type, shape))


def gather(g: WideGenerator) -> Held | None:
    """Elements of an input at indices of any order, perhaps masked, perhaps with padding."""
    number, pointer, count = _input(g)
    shape = g.shape()
    index = _indices_below(g, shape, count)
    addresses = _spread(g, pointer, shape)
    if g.random.random() < 0.3:
        addresses = _round_trip(g, addresses)
    addresses = g.kernel.add(ct.OffsetOp, [addresses, index], addresses.type)
    mask = g.pick(lambda held: held.element == i1 and held.shape == shape)
    element = g.input_types[number]
    masks = [] if mask is None else [mask.value]
    padding = [] if mask is None else [g.kernel.constant(element, 2, shape)]
    value = g.kernel.add(
        ct.LoadPtrTkoOp,
        [addresses, masks, padding, []],
        [Tile(element, shape), TOKEN],
        memory_ordering_semantics=WEAK,
    )[0]
    return _loaded(g, number, value)


def _round_trip(g: WideGenerator, addresses: Any) -> Any:
    """The pointers as integers, or as pointers to something else, and back."""
    shape = addresses.type.shape
    if g.random.random() < 0.5:
        numbers = g.kernel.add(ct.PtrToIntOp, [addresses], Tile(i64, shape))
        return g.kernel.add(ct.IntToPtrOp, [numbers], addresses.type)
    other = g.kernel.add(ct.PtrToPtrOp, [addresses], Tile(PointerType(f64), shape))
    return g.kernel.add(ct.PtrToPtrOp, [other], addresses.type)


def view(g: WideGenerator) -> Held | None:
    """A tile through a view whose tiles overlap, or lie apart, or whose rows are gathered."""
    number, pointer, count = _input(g)
    element = g.input_types[number]
    rows = 1 << g.random.randrange(1, 5)
    columns = 1 << g.random.randrange(0, 5)
    if count < rows * columns:
        return None
    height = count // columns
    tensor = TensorViewType(element, (height, columns), (columns, 1))
    base = tensor_view(g.kernel, pointer, tensor)
    zero = g.kernel.constant(i32, 0)
    if g.random.random() < 0.5:
        steps = (g.random.choice((1, 3, rows, 2 * rows)), columns)
        kind: Any = StridedViewType((rows, columns), steps, tensor, (0, 1), PAD)
        reaches_second = height > (BLOCKS - 1) * steps[0]
        index: list[Any] = [g.block_id if reaches_second else zero, zero]
    else:
        kind = GatherScatterViewType((rows, columns), tensor, 0, PAD)
        index = [_indices_below(g, (rows,), height), zero]
    made = g.kernel.add(MAKE_VIEW[type(kind)], [base], kind)
    return _loaded(g, number, load_view(g.kernel, made, index))


def sizes(g: WideGenerator) -> Held | None:
    """What a view, a tensor or the grid says of itself."""
    _, pointer, count = _input(g)
    tensor = TensorViewType(pointer.type.element_type.pointee, (count, 1), (1, 1))
    kind = PartitionViewType((1 << g.random.randrange(5), 1), tensor, (0, 1), PAD)
    match g.random.randrange(3):
        case 0:
            results = g.kernel.add(ct.GetNumTileBlocksOp, [], [Tile(i32)] * 3)
        case 1:
            base = tensor_view(g.kernel, pointer, tensor)
            results = g.kernel.add(ct.GetTensorShapeOp, [base], [[Tile(i32)] * 2])
        case _:
            base = tensor_view(g.kernel, pointer, tensor)
            made = g.kernel.add(ct.MakePartitionViewOp, [base], kind)
            results = g.kernel.add(ct.GetIndexSpaceShapeOp, [made], [[Tile(i32)] * 2])
    return Held(results[0], 0)


def atomic(g: WideGenerator) -> Held | None:
    """An atomic operation on memory of this block's own; its old values go on."""
    held = g.pick(
        lambda tile: (tile.element in (i32, i64) or tile.is_float) and count_of(tile.shape) <= 512
    )
    if held is None or not held.shape:
        return None
    if held.is_float and held.size >= EXACT_UP_TO[held.element]:
        return None
    pointer = g.advanced(_new_output(g, held.element, count_of(held.shape)), count_of(held.shape))
    addresses = g.kernel.addresses(pointer, held.shape)
    ordering = MemoryOrderingAttr(g.random.choice((MemoryOrdering.RELAXED, MemoryOrdering.ACQ_REL)))
    mask = g.pick(lambda tile: tile.element == i1 and tile.shape == held.shape)
    masks = [] if mask is None else [mask.value]
    common = {"memory_ordering_semantics": ordering, "memory_scope": DEVICE}
    results = [held.value.type, TOKEN]
    if not held.is_float and g.random.random() < 0.25:
        compare = g.kernel.constant(held.element, 1, held.shape)
        operands = [addresses, compare, held.value, masks, []]
        g.kernel.add(ct.AtomicCASTkoOp, operands, results, **common)
        return None
    mode = AtomicRMWMode.ADDF if held.is_float else g.random.choice(INTEGER_MODES)
    if held.element == f32:
        g.flushed.add(len(g.early) - 1)
    if held.element in (i32, i64) and g.random.random() < 0.15:
        mode = AtomicRMWMode.XCHG
    operands = [addresses, held.value, masks, []]
    old = g.kernel.add(
        ct.AtomicRMWTkoOp, operands, results, mode=AtomicRMWModeAttr(mode), **common
    )[0]
    if masks or held.is_float:
        return None  # what is masked off has no old value; bits of ones are no whole number
    return Held(old, 0)


def view_reduction(g: WideGenerator) -> None:
    """Integers combined atomically through a view, by both blocks at once."""
    held = g.pick(lambda tile: tile.element in (i32, i64) and len(tile.shape) > 0)
    if held is None:
        return
    pointer = _new_output(g, held.element, count_of(held.shape))
    shape = (BLOCKS * held.shape[0], *held.shape[1:])
    strides = tuple(count_of(shape[dim + 1 :]) for dim in range(len(shape)))
    tensor = TensorViewType(held.element, shape, strides)
    kind = PartitionViewType(held.shape, tensor, tuple(range(len(shape))))
    made = g.kernel.add(ct.MakePartitionViewOp, [tensor_view(g.kernel, pointer, tensor)], kind)
    zero = g.kernel.constant(i32, 0)
    g.kernel.add(
        ct.AtomicRedViewTkoOp,
        [made, [zero] * len(shape), held.value, []],
        TOKEN,
        memory_ordering_semantics=RELAXED,
        memory_scope=DEVICE,
        mode=AtomicRMWModeAttr(g.random.choice(INTEGER_MODES)),
        inbounds=flags([0] * len(shape)),
    )


def stored_and_loaded(g: WideGenerator) -> Held | None:
    """A tile that goes to memory and comes back in another order, as tokens say."""
    held = g.pick(lambda tile: len(tile.shape) > 0 and tile.element != i1)
    if held is None:
        return None
    count = count_of(held.shape)
    pointer = g.advanced(_new_output(g, held.element, count), count)
    addresses = g.kernel.addresses(pointer, held.shape)
    first = g.kernel.add(ct.MakeTokenOp, [], TOKEN)
    if g.random.random() < 0.2:
        first = g.kernel.add(ct.GdcWaitTkoOp, [[first]], TOKEN)
    stored = g.kernel.add(
        ct.StorePtrTkoOp,
        [addresses, held.value, [], [first]],
        TOKEN,
        memory_ordering_semantics=WEAK,
    )
    token = g.kernel.add(ct.JoinTokensOp, [[first, stored]], TOKEN)
    if g.random.random() < 0.3:
        token = g.kernel.add(ct.MemoryFenceAliasTkoOp, [token], TOKEN)
    index = _indices_below(g, held.shape, count)
    moved = g.kernel.add(ct.OffsetOp, [_spread(g, pointer, held.shape), index], addresses.type)
    value = g.kernel.add(
        ct.LoadPtrTkoOp,
        [moved, [], [], [token]],
        [held.value.type, TOKEN],
        memory_ordering_semantics=WEAK,
    )[0]
    return Held(value, held.size)


def global_table(g: WideGenerator) -> Held | None:
    """Elements of a table in the module."""
    element, count = g.random.choice(INTEGERS), 1 << g.random.randrange(1, 7)
    name = f"table_{g.seed}_{len(g.kernel.block.ops)}"
    data = np.random.default_rng([g.seed, count]).integers(0, 256, count * element.width.data // 8)
    operation = ct.GlobalOp.build(
        properties={
            "sym_name": StringAttr(name),
            "value": DenseAttr(Tile(element, (count,)), data.astype(np.uint8).tobytes()),
            "alignment": IntegerAttr(64, i64),
            "symbol_visibility": SymbolVisibilityAttr(SymbolVisibility.PRIVATE),
        }
    )
    g.kernel.body.block.insert_op_before(operation, g.kernel.entry)
    pointer = g.kernel.add(ct.GetGlobalOp, [], Tile(PointerType(element)), name=SymbolRefAttr(name))
    return Held(g.kernel.load(pointer, (count,)), 0)


def scratch(g: WideGenerator) -> Held | None:
    """A tile that goes through memory which the tile block allocates."""
    held = g.pick(
        lambda tile: len(tile.shape) > 0 and tile.element != i1 and count_of(tile.shape) <= 256
    )
    if held is None:
        return None
    pointer = g.kernel.add(
        ct.AllocaOp,
        [],
        Tile(PointerType(held.element)),
        num_elem=IntegerAttr(count_of(held.shape), i64),
        alignment=IntegerAttr(16, i64),
    )
    addresses = g.kernel.addresses(pointer, held.shape)
    stored = g.kernel.add(
        ct.StorePtrTkoOp, [addresses, held.value, [], []], TOKEN, memory_ordering_semantics=WEAK
    )
    value = g.kernel.add(
        ct.LoadPtrTkoOp,
        [addresses, [], [], [stored]],
        [held.value.type, TOKEN],
        memory_ordering_semantics=WEAK,
    )[0]
    return Held(value, held.size)


def promise(g: WideGenerator) -> Held | None:
    """A true promise about a tile, or an assertion that holds."""
    held = g.pick(lambda tile: tile.element == i32)
    if held is None:
        return None
    if g.random.random() < 0.4:
        equal = ct.attributes.ComparisonPredicateAttr(ct.attributes.ComparisonPredicate.EQUAL)
        condition = g.kernel.add(
            ct.CmpIOp,
            [held.value, held.value],
            Tile(i1, held.shape),
            comparison_predicate=equal,
            signedness=UNSIGNED,
        )
        g.kernel.add(ct.AssertOp, [condition], message=StringAttr("a number is itself"))
        return None
    eight = g.kernel.constant(i32, -8, held.shape)
    rounded = g.kernel.add(ct.AndIOp, [held.value, eight], held.value.type)
    predicate = DivByAttr(IntAttr(8), NoneAttr(), NoneAttr())
    return Held(g.kernel.add(ct.AssumeOp, [rounded], rounded.type, predicate=predicate), 0)


def dependents(g: WideGenerator) -> None:
    """Dependent grids may start: there are none."""
    g.kernel.add(ct.GdcLaunchDependentsTkoOp, [[]], TOKEN)


STEPS: tuple[tuple[Callable[[Any], Held | None], int], ...] = (
    (gather, 4),
    (view, 3),
    (sizes, 1),
    (atomic, 3),
    (view_reduction, 1),
    (stored_and_loaded, 3),
    (global_table, 1),
    (scratch, 1),
    (promise, 1),
    (dependents, 1),
)
"""Steps and how often each is chosen."""
