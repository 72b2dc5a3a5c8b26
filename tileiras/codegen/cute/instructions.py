"""Operations of `cute_nvgpu` as operations of nvvm.

A rule takes the kernel that is being compiled, the operation, and what its operands hold. Rules
raise AlgebraError for what is not compiled and TargetError for what the target lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import IntegerType, f32, i32
from xdsl.ir import SSAValue

from tileiras.codegen.atoms.shared_operands import SWIZZLE_SPANS, Major, SharedOperand
from tileiras.codegen.cute.memory import Map, index_in, register_type, vectors_of
from tileiras.codegen.cute.targets import PTX_ELEMENTS, check_feature, need, row_of
from tileiras.codegen.target import Feature
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.linear import shared_linear
from tileiras.dialects.cute.algebra.swizzles import ComposedLayout
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.tiled import tile_of
from tileiras.dialects.cute.values import (
    CONTAINERS,
    MATRIX_ROW,
    CopyAtom,
    Tensor,
    TiledMma,
    element_bits,
    plain_layout,
)
from tileiras.dialects.cute_nvgpu.bulk_copies import coordinates_of
from tileiras.dialects.cute_nvgpu.products import check_operands
from tileiras.dialects.llvm.types import vector_type
from tileiras.errors import InternalError

if TYPE_CHECKING:
    from tileiras.codegen.cute.kernel import Kernel

WARPGROUP = 128
_Rule = Callable[["Kernel", CuteOp, Sequence[Any]], None]


# Copies ---------------------------------------------------------------------------------------


def copy_by_atom(kernel: Kernel, atom: CopyAtom, source: Tensor, target: Tensor) -> None:
    """A copy whose instruction is no plain load or store."""
    check_feature(atom, kernel.target)
    if atom.kind == "cp_async":
        _copy_async(kernel, atom, source, target)
        return
    loads = atom.kind.startswith("ldmatrix")
    rows, held = (source, target) if loads else (target, source)
    transposed = atom.kind.endswith("_trans")
    element = register_type(held.engine.element)
    places = zip(vectors_of(rows, MATRIX_ROW), vectors_of(held, 1)[:: atom.held], strict=True)
    order = vectors_of(held, 1)
    for number, (row, _) in enumerate(places):
        registers = order[number * atom.held : (number + 1) * atom.held]
        pointer = kernel.pointer(rows, row)
        if loads:
            words = kernel.thread.ldmatrix(pointer, atom.bits // 32, transposed)
            values = kernel.thread.bitcast(words, vector_type(element, atom.held))
            for place, register in enumerate(registers):
                kernel.write(held, register, [kernel.thread.extract(values, place)])
        else:
            values = kernel.vector([kernel.read(held, at)[0] for at in registers], element)
            words = kernel.thread.bitcast(values, vector_type(i32, atom.bits // 32))
            kernel.thread.stmatrix(words, pointer, transposed)


def _copy_async(kernel: Kernel, atom: CopyAtom, source: Tensor, target: Tensor) -> None:
    count = atom.bits // element_bits(source.engine.element)
    size = atom.bits // 8
    for first, second in zip(vectors_of(source, count), vectors_of(target, count), strict=True):
        there, here = kernel.pointer(target, second), kernel.pointer(source, first)
        kernel.thread.cp_async(there, here, size, "cg" if size == 16 else "ca")


# Threads and barriers -------------------------------------------------------------------------


def _number(kernel: Kernel, op: CuteOp, value: SSAValue) -> None:
    """The result is an i32."""
    kernel.values[op.outputs[0]] = kernel.symbol(kernel.thread.zext(value, IntegerType(64)))


def _elect(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    if kernel.target.has(Feature.ELECT):
        kernel.values[op.outputs[0]] = kernel.thread.elect()
        return
    lane = kernel.thread.lane_id()
    kernel.values[op.outputs[0]] = kernel.thread.icmp("eq", lane, kernel.thread.i32(0))


def _warp(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    _number(kernel, op, kernel.thread.warp_id())


def _lane(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    _number(kernel, op, kernel.thread.lane_id())


def _plain(name: str, feature: Feature | None = None, *arguments: Any) -> _Rule:
    """A method of the builder that takes the static parameters of the operation."""

    def rule(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
        if feature is not None:
            need(kernel.target, feature, op.name.partition(".")[2])
        getattr(kernel.thread, name)(*arguments, *op.statics)

    return rule


def _at_barrier(name: str, feature: Feature = Feature.TMA) -> _Rule:
    """... of a barrier and static parameters."""

    def rule(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
        need(kernel.target, feature, op.name.partition(".")[2])
        getattr(kernel.thread, name)(kernel.address_of(operands[0]), *op.statics)

    return rule


def _wait(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.MBARRIER_TRY_WAIT, "mbarrier_wait")
    kernel.wait(kernel.address_of(operands[0]), kernel.word(operands[1]))


def _try_wait(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.MBARRIER_TRY_WAIT, "mbarrier_try_wait")
    parity = kernel.word(operands[1])
    found = kernel.try_wait(kernel.address_of(operands[0]), parity)
    kernel.values[op.outputs[0]] = found


def _arrive(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.TMA, "mbarrier_arrive")
    rank = kernel.rank(operands[1]) if len(operands) > 1 else None
    kernel.thread.mbarrier_arrive(kernel.address_of(operands[0]), cluster_cta=rank)


# TMA ------------------------------------------------------------------------------------------


def _map(kernel: Kernel, op: CuteOp, atom: Any) -> Map:
    need(kernel.target, Feature.TMA, op.name.partition(".")[2])
    if not isinstance(atom, Map):
        raise AlgebraError("a TMA atom is an argument of the kernel")
    return atom


def _exec_tma(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    held = _map(kernel, op, operands[0])
    kernel.thread.acquire_tensor_map(held.pointer)
    kernel.values[op.outputs[0]] = held


def _prefetch(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    kernel.thread.prefetch_tensormap(_map(kernel, op, operands[0]).pointer)


def _box(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The map, the coordinates and the place in shared memory of a copy."""
    held, tensor, coordinate = operands[0], operands[1], operands[-1]
    pointer = _map(kernel, op, held).pointer
    words = [kernel.word(part) for part in coordinates_of(coordinate)]
    return pointer, words, kernel.pointer(tensor, 0)


def _load(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    pointer, words, target = _box(kernel, op, operands)
    barrier, pair = _counting(kernel, op, operands[2])
    kernel.thread.tma_load(target, pointer, words, barrier, pair=pair)


def _counting(kernel: Kernel, op: CuteOp, barrier: Any) -> tuple[SSAValue, bool]:
    """The barrier that counts a box's bytes, and whether it is that of the pair's first CTA."""
    address = kernel.address_of(barrier)
    if op.statics != [2]:
        return address, False
    need(kernel.target, Feature.TCGEN05, "box for one of a pair of CTAs")
    kernel.is_pair(2)
    return kernel.first_of_pair(address), True


def _mask(kernel: Kernel, mask: Any) -> SSAValue:
    """The CTAs of a mask, 16 bits."""
    return kernel.thread.trunc(kernel.integer(mask), IntegerType(16))


def _load_multicast(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    pointer, words, target = _box(kernel, op, operands[:-1])
    mask = _mask(kernel, operands[-1])
    barrier, pair = _counting(kernel, op, operands[2])
    kernel.thread.tma_load(target, pointer, words, barrier, multicast=mask, pair=pair)


def _store(reduction: str | None) -> _Rule:
    def rule(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
        pointer, words, source = _box(kernel, op, operands)
        kernel.thread.tma_store(pointer, words, source, reduction=reduction)

    return rule


def _read_wait(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.TMA, "tma_store_wait_read")
    kernel.thread.tma_store_wait(op.statics[0], read=True)


# Products -------------------------------------------------------------------------------------


def shared_operand(tensor: Tensor) -> SharedOperand:
    """The operand that a matrix in shared memory is; AlgebraError for one of another layout."""
    layout = tensor.layout
    if isinstance(layout, ComposedLayout):
        layout = ComposedLayout(layout.inner, 0, layout.outer)
    extent, k = (mode.static_size for mode in plain_layout(tensor).modes)
    found, bits = shared_linear(layout), element_bits(tensor.engine.element)
    majors: tuple[Major, ...] = ("k", "mn")
    for major, span in product(majors, SWIZZLE_SPANS):
        try:
            operand = SharedOperand(major, extent, k, bits, span)
        except InternalError:
            continue
        if operand.layout() == found:
            return operand
    raise AlgebraError(f"{tensor.layout} is no operand: rows of 128, 64 or 32 bytes, swizzled")


def check_majors(name: str, transposes: bool, *operands: SharedOperand) -> None:
    """AlgebraError for operands that the instruction takes K-major only."""
    if any(operand.major == "mn" for operand in operands) and not transposes:
        raise AlgebraError(f"operands of {name} are K-major")


def accumulates(kernel: Kernel, mma: TiledMma) -> SSAValue | bool:
    """Whether what the accumulator holds is added to."""
    value = mma.atom.accumulate
    if isinstance(value, int):
        return bool(value)
    number = kernel.integer(value)
    return kernel.thread.icmp("ne", number, kernel.thread.i64(0))


def _warpgroup_mma(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    """One operation for all blocks of 64 rows and steps of K, for each N of the atom.

    Warpgroup w of W along M has the blocks w, w + W, ..
    """
    mma, d, a, b = operands
    row = row_of(mma.atom, kernel.target)
    m, n, _ = check_operands(mma, "warpgroup", a, b)
    left, right = shared_operand(a), shared_operand(b)
    check_majors(row.name, row.family.transposes, left, right)
    rows, columns = tile_of(mma, "C")
    if columns != mma.atom.shape[1]:
        raise AlgebraError("warpgroups are compiled side by side along M only")
    groups = rows // mma.atom.shape[0]
    begin = kernel.thread.operand_descriptor(kernel.pointer(a, 0), left)
    if groups > 1:
        warpgroup = kernel.thread.lshr(kernel.thread.thread_id(), kernel.thread.i32(7))
        step = kernel.thread.i32(left.extent_offset(mma.atom.shape[0]))
        moved = kernel.thread.mul(warpgroup, step)
        begin = kernel.thread.advance_descriptor(begin, kernel.thread.zext(moved, IntegerType(64)))
    start = kernel.thread.operand_descriptor(kernel.pointer(b, 0), right)
    for j in range(n // columns):
        other = kernel.thread.advance_descriptor(start, right.extent_offset(j * columns))
        places = [(v, i, j) for i in range(m // rows) for v in range(row.accumulator_elements)]
        _product(kernel, mma, row.name, (d, places), (begin, left), (other, right), m // rows)


def _product(
    kernel: Kernel,
    mma: TiledMma,
    row: str,
    accumulator: tuple[Tensor, list[Any]],
    a: tuple[SSAValue, SharedOperand],
    b: tuple[SSAValue, SharedOperand],
    blocks: int,
) -> None:
    d, places = accumulator
    numbers = [d.engine.at(index_in(d, place)) for place in places]
    scale = accumulates(kernel, mma)
    held: SSAValue | None = None
    known = next(
        (
            number
            for number, ((file, at), _) in enumerate(kernel.products)
            if file is d.engine.values and at == numbers
        ),
        None,
    )
    if known is not None:
        held = kernel.products.pop(known)[1]
    elif scale is not False:
        values = [kernel.read(d, index_in(d, place))[0] for place in places]
        held = kernel.vector(values, register_type(d.engine.element))
    groups = tile_of(mma, "C")[0] // mma.atom.shape[0]
    stride = a[1].extent_offset(groups * mma.atom.shape[0]) if blocks > 1 else 0
    made = kernel.thread.wgmma(
        row,
        a[0],
        b[0],
        None if scale is False else held,
        a_offsets=a[1].k_offsets,
        b_offsets=b[1].k_offsets,
        reps_m=blocks,
        m_stride=stride,
        a_major=a[1].major,
        b_major=b[1].major,
        scale_d=scale if isinstance(scale, SSAValue) else None,
        fence=True,
    )
    for number in numbers:
        d.engine.values[number] = None
    kernel.products.append(((d.engine.values, numbers), made))


def _warpgroup_wait(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    """Accumulators come out of the last wait; others pass through."""
    need(kernel.target, Feature.WGMMA, "warpgroup_wait")
    passed = kernel.thread.wgmma_wait(op.statics[0], *(value for _, value in kernel.products))
    kept = zip(kernel.products, passed, strict=True)
    kernel.products = [(place, value) for (place, _), value in kept]
    if op.statics[0]:
        return
    for (values, numbers), vector in kernel.products:
        for place, number in enumerate(numbers):
            values[number] = kernel.thread.extract(vector, place)
    kernel.products = []


# Tensor memory --------------------------------------------------------------------------------


def _alloc(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.TCGEN05, "tmem_alloc")
    columns, pair = op.statics[0], kernel.is_pair(op.statics[1] if op.statics[1:] else 1)
    kernel.thread.tcgen05_alloc(kernel.pointer(operands[0], 0), columns, pair)


def _address(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    _number(kernel, op, kernel.read(operands[0], 0)[0])


def _dealloc(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.TCGEN05, "tmem_dealloc")
    columns, pair = op.statics[0], kernel.is_pair(op.statics[1] if op.statics[1:] else 1)
    kernel.thread.tcgen05_dealloc(kernel.word(operands[0]), columns, pair)


def _commit(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    """To one barrier, or with a mask to that of each of its CTAs."""
    need(kernel.target, Feature.TCGEN05, op.name.partition(".")[2])
    barrier, *mask = operands
    kernel.thread.tcgen05_commit(
        kernel.address_of(barrier),
        multicast=_mask(kernel, mask[0]) if mask else None,
        pair=kernel.is_pair(op.statics[0] if op.statics else 1),
    )


def _tcgen05_mma(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    mma, tmem, a, b = operands
    row = row_of(mma.atom, kernel.target)
    left, right = shared_operand(a), shared_operand(b)
    names = [_ptx(element) for element in mma.atom.elements[:2]]
    check_majors(row.name, row.transposes, left, right)
    check_containers(mma, left, right)
    flags = (left.major == "mn", right.major == "mn")
    ctas = mma.atom.ctas
    descriptor = row.descriptor(*names, *mma.atom.shape[:2], transposed=flags, ctas=ctas)
    scale = accumulates(kernel, mma)
    thread = kernel.thread
    thread.tcgen05_mma(
        row.name,
        descriptor,
        kernel.word(tmem),
        thread.tcgen05_descriptor(kernel.pointer(a, 0), left),
        thread.tcgen05_descriptor(kernel.pointer(b, 0), right),
        thread.i1(scale) if isinstance(scale, bool) else scale,
        a_offsets=left.k_offsets,
        b_offsets=right.k_offsets,
        pair=kernel.is_pair(ctas),
    )


def check_containers(mma: TiledMma, *operands: SharedOperand) -> None:
    """AlgebraError for numbers of less than 8 bits that lie in containers along M or N."""
    for element, operand in zip(mma.atom.elements, operands, strict=False):
        if element in CONTAINERS and operand.major == "mn":
            raise AlgebraError(f"operands of {element} are K-major")


def _ptx(element: str) -> str:
    return PTX_ELEMENTS.get(element, element)


def _tcgen05_load(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.TCGEN05, "tcgen05_load")
    tmem, target = operands
    thread = kernel.thread
    indices = vectors_of(target, 1)
    loaded = thread.tcgen05_ld(_own_lanes(kernel, tmem), "32x32b", len(indices), (0,), f32)
    for number, index in enumerate(indices):
        kernel.write(target, index, [thread.extract(loaded, number)])


def _own_lanes(kernel: Kernel, tmem: Any) -> SSAValue:
    """Warp w reaches the lanes 32 (w % 4) on, which the upper half of an address names."""
    thread = kernel.thread
    lanes = thread.and_(thread.warp_id(), thread.i32(3))
    return thread.add(kernel.word(tmem), thread.shl(lanes, thread.i32(21)))


def _tcgen05_store(kernel: Kernel, op: CuteOp, operands: Sequence[Any]) -> None:
    need(kernel.target, Feature.TCGEN05, "tcgen05_store")
    source, tmem = operands
    thread, indices = kernel.thread, vectors_of(source, 1)
    values = kernel.vector([kernel.read(source, index)[0] for index in indices], f32)
    words = thread.bitcast(values, vector_type(i32, len(indices)))
    thread.tcgen05_st(_own_lanes(kernel, tmem), "32x32b", len(indices), (0,), words)


_TMA, _TMEM = Feature.TMA, Feature.TCGEN05
_RULES: dict[str, _Rule] = {
    "elect_sync": _elect,
    "warp_idx": _warp,
    "lane_idx": _lane,
    "mbarrier_init": _at_barrier("mbarrier_init"),
    "mbarrier_init_fence": _plain("fence_mbarrier_init", _TMA),
    "mbarrier_arrive": _arrive,
    "mbarrier_try_wait": _try_wait,
    "mbarrier_arrive_and_expect_tx": _at_barrier("mbarrier_expect_tx"),
    "mbarrier_wait": _wait,
    "mbarrier_arrive_copies": _at_barrier("mbarrier_arrive_copies"),
    "fence_proxy_async": _plain("fence_proxy_async", _TMA),
    "sync_warp": _plain("warp_barrier"),
    "cp_async_commit_group": _plain("cp_async_commit", Feature.CP_ASYNC),
    "cp_async_wait_group": _plain("cp_async_wait", Feature.CP_ASYNC),
    "make_exec_tma": _exec_tma,
    "prefetch_tma_desc": _prefetch,
    "tma_load": _load,
    "tma_load_multicast": _load_multicast,
    "tma_store": _store(None),
    **{f"tma_reduce_{kind}": _store(kind) for kind in ("add", "min", "max", "and", "or", "xor")},
    "tma_store_commit": _plain("tma_store_commit", _TMA),
    "tma_store_wait": _plain("tma_store_wait", _TMA),
    "tma_store_wait_read": _read_wait,
    "warpgroup_arrive": _plain("wgmma_fence", Feature.WGMMA),
    "warpgroup_mma": _warpgroup_mma,
    "warpgroup_commit_batch": _plain("wgmma_commit", Feature.WGMMA),
    "warpgroup_wait": _warpgroup_wait,
    "tmem_alloc": _alloc,
    "tmem_address": _address,
    "tmem_dealloc": _dealloc,
    "tcgen05_mma": _tcgen05_mma,
    "tcgen05_commit": _commit,
    "tcgen05_commit_multicast": _commit,
    "tcgen05_load": _tcgen05_load,
    "tcgen05_store": _tcgen05_store,
    "tcgen05_fence_before": _plain("tcgen05_fence", _TMEM, "before_thread_sync"),
    "tcgen05_fence_after": _plain("tcgen05_fence", _TMEM, "after_thread_sync"),
}
INSTRUCTIONS: dict[str, _Rule] = {f"cute_nvgpu.{name}": rule for name, rule in _RULES.items()}
"""The rule of each operation that is an instruction; the others make atoms."""
