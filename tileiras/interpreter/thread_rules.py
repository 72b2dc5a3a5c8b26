"""The operations of nv_tileas: every thread acts on what it holds.

Elementwise operations act register by register; reshape, permute and broadcast do nothing at all,
the layouts say what became of the elements. Loads and stores go by vectors, whose first element has
the address and the mask of all. Whatever moves elements between threads (conversions, reductions,
slices, products) collects whole tiles, in which copies must agree, and places its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation, Region, SSAValue

from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.attributes import (
    MemoryOrdering,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.blocked import contiguous_vector
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.interpreter.async_copy import finish, make_buffer, put
from tileiras.interpreter.distribution import (
    LANES,
    collect,
    element_indices,
    owned,
    place,
    required_layout,
    thread_numbers,
)
from tileiras.interpreter.equivalent_ops import (
    ELEMENTWISE,
    EquivalentOps,
    equivalent_properties,
    pointee_format,
)
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.formats import Array, Format, from_bits, to_bits
from tileiras.interpreter.matrix import RULES
from tileiras.interpreter.memory_access import padding_tile, read_elements, write_elements
from tileiras.interpreter.races import Kind, RaceDetector
from tileiras.interpreter.state import BlockRun, EffectRule, Exit, PureRule
from tileiras.interpreter.tensor_rules import (
    EFFECT_RULES,
    equivalent_rule,
    mask_of,
    scaled_dot_rule,
)
from tileiras.interpreter.tensor_rules import effect_rules as tensor_rules_effect_rules
from tileiras.interpreter.tensor_rules import pure_rules as tensor_rules_pure_rules
from tileiras.interpreter.tensor_views import view_access

_WHOLE = (
    aa.CatOp,
    aa.DotOp,
    aa.DotScaledOp,
    aa.ExtractOp,
    aa.InsertOp,
    aa.PackOp,
    aa.UnpackOp,
    aa.ConstantOp,
    aa.MakeRangeOp,
)
"""Operations without effects that collect whole tiles."""

_IN_PLACE = (aa.BroadcastOp, aa.PermuteOp, aa.ReshapeOp)


@dataclass
class WholeTiles(BlockRun):
    """A run in which the values of tensors are whole tiles; `op` is who reads them."""

    run: BlockRun
    op: Operation

    def __post_init__(self) -> None:
        self.memory, self.log = self.run.memory, self.run.log
        self.block_id, self.grid = self.run.block_id, self.run.grid
        self.cluster_rank = self.run.cluster_rank
        self.globals, self.allocas = self.run.globals, self.run.allocas
        self.loads, self.sent = self.run.loads, self.run.sent
        self.launched = self.run.launched

    def value(self, ssa: SSAValue) -> Any:
        """A whole tile, or whatever else the value is."""
        layout = layout_of(ssa.type)
        value = self.run.value(ssa)
        return value if layout is None else collect(value, layout, self.op)

    def values(self, ssa: Sequence[SSAValue]) -> list[Any]:
        """Several values."""
        return [self.value(item) for item in ssa]

    def run_region(self, region: Region, arguments: Sequence[Any]) -> Exit:
        """Runs a region, whose values are scalars."""
        return self.run.run_region(region, arguments)


def placed(op: Operation, results: Sequence[Any]) -> list[Any]:
    """Whole results where the layouts of the operation's results say."""
    layouts = [layout_of(result.type) for result in op.results]
    return [
        value if layout is None else place(np.asarray(value), layout)
        for value, layout in zip(results, layouts, strict=True)
    ]


def _whole(rule: EffectRule) -> EffectRule:
    """A rule on whole tiles as one on distributed ones."""

    def act(run: BlockRun, op: Operation) -> list[Any]:
        return placed(op, rule(WholeTiles(run, op), op))

    return act


def _whole_pure(rule: PureRule) -> EffectRule:
    def act(run: BlockRun, op: Operation) -> list[Any]:
        operands = WholeTiles(run, op).values(op.operands)
        return placed(op, [rule(op, *operands)])

    return act


def _elementwise(rule: PureRule) -> PureRule:
    """Register by register, where all operands lie as the result does."""

    def compute(op: Operation, *operands: Array) -> Array:
        wanted = layout_of(op.results[0].type)
        for operand in op.operands:
            found = layout_of(operand.type)
            if found is not None and found != wanted:
                raise InterpreterError(f"an operand lies in {found}, the result in {wanted}", op)
        return rule(op, *operands)

    return compute


def _in_place(op: Operation, source: Array) -> Array:
    """The registers as they are; only their number is checked."""
    shape = element_indices(required_layout(op.results[0].type)).shape
    if source.shape != shape:
        raise InterpreterError(f"registers {source.shape} cannot serve as {shape}", op)
    return source


def _splat(op: aa.SplatOp, source: Array) -> Array:
    return np.broadcast_to(source, element_indices(required_layout(op.result.type)).shape)


def _convert_layout(run: BlockRun, op: tas.ConvertLayoutOp) -> list[Array]:
    return placed(op, [WholeTiles(run, op).value(op.source)])


def _scan_total(run: BlockRun, op: tas.ScanTotalOp) -> list[Array]:
    """The last slice of the scan's result, the first of a reverse one."""
    tile, scan = WholeTiles(run, op).value(op.source), op.scan
    end = 0 if scan.reverse.value.data else -1
    return placed(op, [np.take(tile, end, scan.dim.value.data)])


def _integer_signs(op: tas.MmaDotOp) -> dict[str, SignednessAttr]:
    """How an atom on integers reads its operands: the end of its name, `s8`, `u8` or both."""
    parts = [part for part in op.atom.data.split("_")[2:] if part in ("s8", "u8")]
    signs = {"s8": Signedness.SIGNED, "u8": Signedness.UNSIGNED}
    if not parts:
        return {}
    return {
        "signedness_lhs": SignednessAttr(signs[parts[0]]),
        "signedness_rhs": SignednessAttr(signs[parts[-1]]),
    }


def dot_rule(equivalents: EquivalentOps) -> PureRule:
    """Products by any instruction: the same sums."""

    def compute(op: Operation, lhs: Array, rhs: Array, acc: Array) -> Array:
        signs = _integer_signs(op) if isinstance(op, tas.MmaDotOp) else {}
        properties = equivalent_properties(op, "signedness_lhs", "signedness_rhs") | signs
        equivalent_class = ct.MmaIOp if properties else ct.MmaFOp
        operands, results = (op.operands[:3], op.results)
        if isinstance(op, wg.WgmmaDotsOp):
            operands, results = (*op.operands_of(0), op.accs[0]), op.sums[:1]
        if isinstance(op, tc.Tcgen05DotOp):
            operands, results = (op.lhs, op.rhs, op.accumulator), (op.accumulator,)
        equivalent = equivalents.of(op, equivalent_class, properties, operands, results)
        return RULES[equivalent_class](equivalent, lhs, rhs, acc)

    return compute


# memory


@dataclass(frozen=True)
class _Access:
    """Addresses and masks of [warp, lane, register], as vectors take them from their leaders."""

    addresses: Array
    mask: Array


def _by_vectors(
    op: Any, layout: LinearLayout, addresses: Array, mask: Array, fmt: Format
) -> _Access:
    """What really is accessed when `vector` registers move at once; must be aligned."""
    width = contiguous_vector(layout, op.axis.data, op.vector.data)
    if width == 1 or fmt.bits == 4:
        return _Access(addresses, mask)
    grouped = (*addresses.shape[:-1], -1, width)
    leaders = addresses.reshape(grouped)[..., :1]
    masks = np.broadcast_to(mask, addresses.shape).reshape(grouped)[..., :1]
    size = fmt.storage.itemsize
    wrong = (leaders % (width * size) != 0) & masks
    if np.any(wrong):
        raise InterpreterError(
            f"an access of {width * size} bytes at {int(leaders[wrong][0]):#x} is not aligned", op
        )
    moved = leaders + np.arange(width) * size
    whole = np.broadcast_to(masks, moved.shape)
    return _Access(moved.reshape(addresses.shape), whole.reshape(addresses.shape))


def _kind(op: Any, is_write: bool) -> Kind:
    return Kind(is_write, op.ordering.data is not MemoryOrdering.WEAK)


class MemoryRules:
    """Loads and stores by threads; `races` watches them."""

    def __init__(self, races: RaceDetector):
        self.races = races

    def _note(self, op: Any, access: _Access, chosen: Array, fmt: Format, kind: Kind) -> None:
        threads = thread_numbers(access.addresses.shape)[chosen]
        size = fmt.storage.itemsize
        self.races.access(op, access.addresses[chosen], size, threads, kind)

    def barrier(self, run: BlockRun, op: aa.BarrierOp) -> list[Any]:
        """All threads meet."""
        self.races.barrier()
        return []

    def _view_access(self, run: BlockRun, op: Any, layout: LinearLayout) -> tuple[Any, _Access]:
        """The view and what each register accesses; tiles of indices must lie with the tile."""
        view, tile = view_access(WholeTiles(run, op), op)
        _check_index_layouts(op, layout)
        fmt = view.format
        indices = element_indices(layout)
        offsets, inside = tile.offsets.reshape(-1)[indices], tile.inside.reshape(-1)[indices]
        if fmt.bits == 4:
            return view, _Access(offsets, inside)
        addresses = view.tensor.base + offsets * fmt.storage.itemsize
        return view, _by_vectors(op, layout, addresses, inside, fmt)

    def tiled_load(self, run: BlockRun, op: tas.TiledLoadOp) -> list[Any]:
        """Each register reads its element."""
        return [self._read_view(run, op, required_layout(op.result.type)), None]

    def async_copy(self, run: BlockRun, op: tas.AsyncCopyOp) -> list[Any]:
        """Each register's element goes to the stage."""
        if not run.value(op.predicate):
            return put(run, op, None)
        return put(run, op, self._read_view(run, op, op.layout.data))

    def _read_view(self, run: BlockRun, op: Any, layout: LinearLayout) -> Array:
        view, access = self._view_access(run, op, layout)
        fmt, mask = view.format, access.mask
        result = padding_tile(view.type.padding_value, mask.shape, fmt)
        if fmt.bits == 4:
            offsets = access.addresses[mask]
            result[mask] = read_elements(run.memory, view.tensor.base, offsets, fmt)
            return result
        self._note(op, access, mask, fmt, _kind(op, False))
        result[mask] = from_bits(run.memory.gather(access.addresses[mask], fmt.storage), fmt)
        return result

    def tiled_store(self, run: BlockRun, op: tas.TiledStoreOp) -> list[Any]:
        """Owners write their elements."""
        layout = required_layout(op.value.type)
        view, access = self._view_access(run, op, layout)
        collect(run.value(op.value), layout, op)
        fmt, chosen = view.format, access.mask & owned(layout)
        values = np.asarray(run.value(op.value))[chosen]
        if fmt.bits == 4:
            offsets = access.addresses[chosen]
            write_elements(run.memory, view.tensor.base, offsets, values, fmt)
            return [None]
        self._note(op, access, chosen, fmt, _kind(op, True))
        run.memory.scatter(access.addresses[chosen], to_bits(values, fmt))
        return [None]

    def _pointer_access(self, run: BlockRun, op: Any, layout: LinearLayout | None) -> _Access:
        """A scalar access counts as one register of every thread of one warp."""
        addresses = np.asarray(run.value(op.pointers))
        mask = np.ones_like(addresses, np.bool_) if op.mask is None else run.value(op.mask)
        if layout is None:
            return _Access(addresses, np.asarray(mask))
        fmt = pointee_format(op.pointers.type)
        return _by_vectors(op, layout, addresses, np.asarray(mask), fmt)

    def load(self, run: BlockRun, op: tas.LoadOp) -> list[Any]:
        """Each register reads through its pointer; a scalar is read by all threads."""
        layout = layout_of(op.result.type)
        access, fmt = self._pointer_access(run, op, layout), pointee_format(op.pointers.type)
        mask, kind = access.mask, _kind(op, False)
        shape = access.addresses.shape
        other = run.value(op.other) if op.other is not None else padding_tile(None, shape, fmt)
        result = np.array(np.broadcast_to(other, shape))
        if layout is not None:
            self._note(op, access, mask, fmt, kind)
        elif mask:
            threads = np.arange(1 if kind.is_strong else LANES * _warps_of(op))
            addresses = np.full(threads.shape, int(access.addresses))
            self.races.access(op, addresses, fmt.storage.itemsize, threads, kind)
        result[mask] = from_bits(run.memory.gather(access.addresses[mask], fmt.storage), fmt)
        return [result, None]

    def store(self, run: BlockRun, op: tas.StoreOp) -> list[Any]:
        """Owners write through their pointers; a scalar is written by the first thread."""
        layout = layout_of(op.value.type)
        access, fmt = self._pointer_access(run, op, layout), pointee_format(op.pointers.type)
        chosen, kind = access.mask, _kind(op, True)
        value = np.asarray(run.value(op.value))
        if layout is not None:
            WholeTiles(run, op).values(op.operands[:3] if op.mask is not None else op.operands[:2])
            chosen = chosen & owned(layout)
            self._note(op, access, chosen, fmt, kind)
        elif chosen:
            address = np.atleast_1d(access.addresses)
            self.races.access(op, address, fmt.storage.itemsize, np.zeros(1, np.int32), kind)
        run.memory.scatter(access.addresses[chosen], to_bits(value[chosen], fmt))
        return [None]

    def store_rows(self, run: BlockRun, op: tas.StoreRowsOp) -> list[Any]:
        """Whoever points to a chunk of a row has all of it stored."""
        layout, fmt = layout_of(op.pointers.type), pointee_format(op.pointers.type)
        if layout is None:
            raise InterpreterError("pointers of rows have no layout", op)
        tile, chosen = WholeTiles(run, op).value(op.value), owned(layout)
        if op.mask is not None:
            chosen = chosen & np.asarray(run.value(op.mask))
        rows, columns = np.unravel_index(element_indices(layout)[chosen], layout.shape)
        along = np.arange(op.chunk.data)
        values = tile[rows[:, None], columns[:, None] + along].reshape(-1)
        first = np.asarray(run.value(op.pointers))[chosen]
        addresses = (first[:, None] + along * fmt.storage.itemsize).reshape(-1)
        run.memory.scatter(addresses, to_bits(values, fmt))
        return [None]

    def atomic(self, rule: EffectRule, addressed: Callable[..., Any]) -> EffectRule:
        """An atomic: done by owners, hence as on the whole tile."""

        def act(run: BlockRun, op: Any) -> Sequence[Any]:
            addresses, fmt, mask, layout = addressed(WholeTiles(run, op), op)
            threads = np.zeros(addresses.shape, np.int32)
            if layout is not None:
                threads = np.zeros(layout.size, np.int32)
                chosen, indices = owned(layout), element_indices(layout)
                threads[indices[chosen]] = thread_numbers(indices.shape)[chosen]
                threads = threads.reshape(layout.shape)
            kind = Kind(is_write=True, is_strong=True)
            size = fmt.storage.itemsize
            self.races.access(op, addresses[mask], size, threads[mask], kind)
            return list(_whole(rule)(run, op))

        return act


def _check_index_layouts(op: Any, layout: LinearLayout) -> None:
    """A register's coordinate must lie in the same register of the tile of indices."""
    for axis, index in enumerate(op.indices):
        found = layout_of(index.type)
        if found is None:
            continue
        low = int(np.prod(layout.shape[axis + 1 :], dtype=np.int64))
        wanted = element_indices(layout) // low % layout.shape[axis]
        if not np.array_equal(wanted, element_indices(found)):
            raise InterpreterError(f"the indices along dim {axis} do not lie with the tile", op)


def _warps_of(op: Operation) -> int:
    """The warps of the function around an operation."""
    parent: Operation | None = op
    while parent is not None and not isinstance(parent, aa.FuncOp):
        parent = parent.parent_op()
    return parent.num_warps.value.data if parent is not None and parent.num_warps else 1


def _addressed_by_pointers(run: BlockRun, op: Any) -> tuple[Any, ...]:
    addresses = np.asarray(run.value(op.pointers))
    mask = np.asarray(mask_of(run, op, addresses.shape))
    return addresses, pointee_format(op.pointers.type), mask, layout_of(op.pointers.type)


def _addressed_by_view(run: BlockRun, op: Any) -> tuple[Any, ...]:
    view, access = view_access(run, op)
    layout = required_layout(op.value.type)
    _check_index_layouts(op, layout)
    addresses = view.tensor.base + access.offsets * view.format.storage.itemsize
    return addresses, view.format, access.inside, layout


def pure_rules(equivalents: EquivalentOps) -> dict[type[Operation], PureRule]:
    """Operations that each thread performs on its own registers."""
    rules: dict[type[Operation], PureRule] = {
        cls: _elementwise(equivalent_rule(equivalents, equivalent))
        for cls, equivalent in ELEMENTWISE.items()
    }
    rules.update(dict.fromkeys(_IN_PLACE, _in_place))
    rules[aa.SplatOp] = _splat
    return rules


def effect_rules(
    equivalents: EquivalentOps, races: RaceDetector
) -> dict[type[Operation], EffectRule]:
    """Operations that touch memory or move elements between threads."""
    memory, on_tiles = MemoryRules(races), tensor_rules_pure_rules(equivalents)
    rules = {cls: _whole(rule) for cls, rule in tensor_rules_effect_rules().items()}
    rules.update({cls: _whole_pure(on_tiles[cls]) for cls in (*_WHOLE, aa.UnsplatOp)})
    dots = _whole_pure(dot_rule(equivalents))
    return {
        **rules,
        aa.BarrierOp: memory.barrier,
        aa.AtomicCASOp: memory.atomic(EFFECT_RULES[aa.AtomicCASOp], _addressed_by_pointers),
        aa.AtomicRMWOp: memory.atomic(EFFECT_RULES[aa.AtomicRMWOp], _addressed_by_pointers),
        aa.TiledAtomicRedOp: memory.atomic(EFFECT_RULES[aa.TiledAtomicRedOp], _addressed_by_view),
        tas.ConvertLayoutOp: _convert_layout,
        tas.AllocTensorOp: make_buffer,
        tas.ReadStageOp: finish,
        tas.ScanTotalOp: _scan_total,
        tas.FmaDotOp: dots,
        tas.LoadOp: memory.load,
        tas.MmaDotOp: dots,
        tas.MmaScaledDotOp: _whole_pure(scaled_dot_rule(equivalents)),
        tas.AsyncCopyOp: memory.async_copy,
        tas.StoreOp: memory.store,
        tas.StoreRowsOp: memory.store_rows,
        tas.TiledLoadOp: memory.tiled_load,
        tas.TiledStoreOp: memory.tiled_store,
    }
