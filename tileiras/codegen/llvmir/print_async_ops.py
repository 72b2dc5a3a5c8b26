"""LLVM IR text of mbarriers, clusters and TMA: each op is one inline assembly call.

Inline PTX throughout: the text says which instruction is meant, and LLVM cannot reorder it with
memory accesses.
"""

from __future__ import annotations

from typing import cast

from xdsl.ir import Operation

from tileiras.codegen.llvmir.asm_operands import AsmOperands
from tileiras.codegen.llvmir.function_text import FunctionText
from tileiras.codegen.llvmir.print_llvm_ops import PrintRule
from tileiras.codegen.llvmir.type_text import type_text
from tileiras.codegen.target import Feature
from tileiras.dialects.nvvm import cluster, mbarrier, tma

_ALL_LANES = "0xffffffff"
_PUBLISH = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"


def _print_mbarrier_init(text: FunctionText, init: mbarrier.MbarrierInitOp) -> None:
    asm = AsmOperands(text)
    at = asm.shared(init.barrier)
    asm.emit(f"mbarrier.init.shared::cta.b64 [{at}], {init.count.data};")


def _print_mbarrier_arrive(text: FunctionText, arrive: mbarrier.MbarrierArriveOp) -> None:
    asm = AsmOperands(text)
    at, count = asm.shared(arrive.barrier), arrive.count.data
    how = "arrive" if arrive.drops is None else "arrive_drop"
    if arrive.cta is None:
        guard = asm.guard(arrive.predicate)
        asm.emit(f"{guard}mbarrier.{how}.release.cta.shared::cta.b64 _, [{at}], {count};")
        return
    rank = asm.value(arrive.cta)
    guard = asm.guard(arrive.predicate)
    remote = f"mbarrier.{how}.release.cta.shared::cluster.b64"
    asm.emit(
        f"{{ .reg .b32 ra; mapa.shared::cluster.u32 ra, {at}, {rank}; "
        f"{guard}{remote} _, [ra], {count}; }}"
    )


def _print_mbarrier_expect_tx(text: FunctionText, expect: mbarrier.MbarrierExpectTxOp) -> None:
    asm = AsmOperands(text)
    at, guard = asm.shared(expect.barrier), asm.guard(expect.predicate)
    size = str(expect.bytes.data) if expect.size is None else asm.value(expect.size)
    instruction = "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64"
    asm.emit(f"{guard}{instruction} _, [{at}], {size};")


def _print_mbarrier_wait(text: FunctionText, wait: mbarrier.MbarrierWaitOp) -> None:
    asm = AsmOperands(text)
    at, parity = asm.shared(wait.barrier), asm.value(wait.parity)
    order = "" if wait.of_cluster is None else ".acquire.cluster"
    asm.emit(
        "{ .reg .pred p; WAIT_${:uid}: "
        f"mbarrier.try_wait.parity{order}.shared::cta.b64 p, [{at}], {parity}; "
        "@!p bra WAIT_${:uid}; }"
    )


def _print_mbarrier_try_wait(text: FunctionText, wait: mbarrier.MbarrierTryWaitOp) -> None:
    asm = AsmOperands(text, outputs=1)
    at, parity = asm.shared(wait.barrier), asm.value(wait.parity)
    order = "" if wait.of_cluster is None else ".acquire.cluster"
    template = (
        f"{{ .reg .pred p; mbarrier.try_wait.parity{order}.shared::cta.b64 p, [{at}], {parity}; "
        "selp.b32 $0, 1, 0, p; }"
    )
    word = asm.define(template, ["=r"], "i32", "s")
    text.result(wait.result, f"trunc i32 {word} to i1")


def _print_mbarrier_arrive_copies(
    text: FunctionText, arrive: mbarrier.MbarrierArriveCopiesOp
) -> None:
    asm = AsmOperands(text)
    at = asm.shared(arrive.barrier)
    counted = ".noinc" if arrive.unexpected is None else ""
    asm.emit(f"cp.async.mbarrier.arrive{counted}.shared::cta.b64 [{at}];")


def _print_fence_mbarrier_init(text: FunctionText, op: Operation) -> None:
    AsmOperands(text).emit("fence.mbarrier_init.release.cluster;")


def _print_fence_proxy_async(text: FunctionText, fence: mbarrier.FenceProxyAsyncOp) -> None:
    asm = AsmOperands(text)
    space, guard = fence.space.data, asm.guard(fence.predicate)
    asm.emit(f"{guard}fence.proxy.async{'.' if space else ''}{space};")


# clusters


def _print_cluster_arrive(text: FunctionText, op: Operation) -> None:
    order = "release" if cast(cluster.ClusterArriveOp, op).relaxed is None else "relaxed"
    AsmOperands(text).emit(f"barrier.cluster.arrive.{order}.aligned;", "sc")


def _print_cluster_wait(text: FunctionText, op: Operation) -> None:
    AsmOperands(text).emit("barrier.cluster.wait.acquire.aligned;", "sc")


def _print_mapa(text: FunctionText, mapa: cluster.MapSharedOp) -> None:
    asm = AsmOperands(text, outputs=1)
    at, rank = asm.shared(mapa.pointer), asm.value(mapa.rank)
    address = asm.define(f"mapa.shared::cluster.u32 $0, {at}, {rank};", ["=r"], "i32", "")
    text.result(mapa.result, f"inttoptr i32 {address} to {type_text(mapa.result.type)}")


def _print_store_async(text: FunctionText, store: cluster.StoreAsyncOp) -> None:
    asm = AsmOperands(text)
    at, barrier = asm.shared(store.pointer), asm.shared(store.barrier)
    rank, words = asm.value(store.rank), asm.list(store.words)
    count = len(store.words)
    vector, data = (f".v{count}", f"{{{words}}}") if count > 1 else ("", words)
    name = "st.async.shared::cluster.mbarrier::complete_tx::bytes"
    asm.emit(
        f"{{ .reg .b32 ra, rb; mapa.shared::cluster.u32 ra, {at}, {rank}; "
        f"mapa.shared::cluster.u32 rb, {barrier}, {rank}; "
        f"{name}{vector}.b32 [ra], {data}, [rb]; }}"
    )


def _print_try_cancel(text: FunctionText, ask: cluster.TryCancelOp) -> None:
    asm = AsmOperands(text)
    at, barrier = asm.shared(ask.pointer), asm.shared(ask.barrier)
    guard = asm.guard(ask.predicate)
    everyone = "" if ask.of_cluster is None else ".multicast::cluster::all"
    counted = "async.shared::cta.mbarrier::complete_tx::bytes"
    name = f"clusterlaunchcontrol.try_cancel.{counted}{everyone}.b128"
    asm.emit(f"{guard}{name} [{at}], [{barrier}];")


def _print_query_cancel(text: FunctionText, query: cluster.QueryCancelOp) -> None:
    asm = AsmOperands(text, outputs=cluster.ANSWER_WORDS)
    at, name = asm.shared(query.pointer), "clusterlaunchcontrol.query_cancel"
    template = (
        "{ .reg .b128 a; .reg .pred p; .reg .b32 w; "
        f"ld.shared.b128 a, [{at}]; {name}.is_canceled.pred.b128 p, a; "
        "selp.b32 $0, 1, 0, p; mov.b32 $1, 0; mov.b32 $2, 0; mov.b32 $3, 0; "
        f"@p {name}.get_first_ctaid.v4.b32.b128 {{$1, $2, $3, w}}, a; }}"
    )
    struct = "{ " + ", ".join(["i32"] * cluster.ANSWER_WORDS) + " }"
    # The first word is written before the others are read from the answer's address.
    value = asm.define(template, ["=&r"] * cluster.ANSWER_WORDS, struct, "s")
    words = [text.define(f"extractvalue {struct} {value}, {i}") for i in range(4)]
    text.bind_lanes(query.result, words)


_PASSED_BITS = 20
"""Bits of a slot's word that count how often it was passed over; above them is whose it is."""
_MOST_PASSED = (1 << _PASSED_BITS) - 1
"""More than threads that run at the same time can pass; whoever finds it counts no further."""
_MINE = [
    "mov.u64 mine, %gridid;",
    f"shl.b64 mine, mine, {_PASSED_BITS}; or.b64 mine, mine, {-(2**63)};",
]
"""What the word of this launch's slot is above the count: never zero."""


def _print_take_number(text: FunctionText, take: cluster.TakeNumberOp) -> None:
    """`w` is what a slot's word was before a try to claim it. Lanes without the guard: `end`."""
    asm = AsmOperands(text, outputs=2)
    table, state, own, first, end, elected = (asm.value(value) for value in take.operands)
    count = take.slots.data
    here = f"mad.wide.u32 at, slot, 16, {table};"
    cas = "atom.relaxed.gpu.global.cas.b64 old, [at], w, new;"
    lines = [
        "{ .reg .pred p; .reg .b64 mine, at, w, new, old; .reg .b32 slot, home, left, n;",
        f"mov.b32 $0, {state}; mov.b32 $1, {end}; @!{elected} bra DONE_${{:uid}};",
        "mov.u64 at, %gridid; cvt.u32.u64 home, at;",
        f"and.b32 home, home, {count - 1};",
        f"setp.gt.u32 p, {state}, {count}; @p bra STATIC_${{:uid}};",
        f"add.s32 slot, {state}, -1; {here}",
        f"setp.ne.b32 p, {state}, 0; @p bra FOUND_${{:uid}};",
        *_MINE,
        f"mov.b32 slot, home; mov.b32 left, {count}; {here} bra CLAIM_${{:uid}};",
        "CHECK_${:uid}: setp.eq.b64 p, w, 0; @p bra FOUND_${:uid};",
        f"xor.b64 new, w, mine; setp.le.u64 p, new, {_MOST_PASSED}; @p bra FOUND_${{:uid}};",
        f"and.b64 new, w, {_MOST_PASSED}; setp.eq.b64 p, new, {_MOST_PASSED};",
        "@p bra PASSED_${:uid};",
        f"add.s64 new, w, 1; {cas} setp.ne.b64 p, old, w; @p bra CLAIM_${{:uid}};",
        "PASSED_${:uid}: add.s32 left, left, -1; setp.eq.b32 p, left, 0;",
        f"mov.b32 $0, {count + 1}; @p bra STATIC_${{:uid}};",
        f"add.s32 slot, slot, 1; and.b32 slot, slot, {count - 1}; {here}",
        "CLAIM_${:uid}: atom.acquire.gpu.global.cas.b64 w, [at], 0, mine; bra CHECK_${:uid};",
        "FOUND_${:uid}: add.s32 $0, slot, 1;",
        "atom.relaxed.gpu.global.add.u64 w, [at+8], 1; cvt.u32.u64 n, w;",
        f"add.s32 $1, n, {first}; add.s32 n, n, 1; setp.ne.b32 p, n, {end};",
        "@p bra DONE_${:uid};",
        # The last number of all: what was passed over on the way is handed back, then the slot.
        f"UNDO_${{:uid}}: mad.wide.u32 at, home, 16, {table};",
        "setp.eq.b32 p, home, slot; @p bra LEAVE_${:uid};",
        "ld.relaxed.gpu.global.b64 w, [at];",
        f"AGAIN_${{:uid}}: and.b64 new, w, {_MOST_PASSED}; setp.eq.b64 p, new, {_MOST_PASSED};",
        f"cvt.u64.u32 new, {first}; sub.s64 new, w, new;",
        f"@!p {cas} setp.ne.and.b64 p, old, w, !p; mov.b64 w, old;",
        "@p bra AGAIN_${:uid};",
        f"add.s32 home, home, 1; and.b32 home, home, {count - 1}; bra UNDO_${{:uid}};",
        "LEAVE_${:uid}: st.relaxed.gpu.global.b64 [at+8], 0;",
        f"red.release.gpu.global.and.b64 [at], {_MOST_PASSED}; bra DONE_${{:uid}};",
        f"STATIC_${{:uid}}: add.s32 $1, {own}, {first};",
        "DONE_${:uid}: }",
    ]
    made = asm.define(" ".join(lines), ["=&r", "=&r"], "{ i32, i32 }", "sc")
    for number, result in enumerate(take.results):
        text.bind(result, text.define(f"extractvalue {{ i32, i32 }} {made}, {number}"))


def _print_setmaxnreg(text: FunctionText, change: cluster.SetMaxRegistersOp) -> None:
    template = f"setmaxnreg.{change.action.data}.sync.aligned.u32 {change.registers.data};"
    AsmOperands(text).emit(template, "sc")


# TMA


def _print_tma_load(text: FunctionText, load: tma.TmaLoadOp) -> None:
    asm = AsmOperands(text)
    target, source = asm.shared(load.target), asm.value(load.map)
    coordinates, barrier = asm.list(load.coordinates), asm.shared(load.barrier)
    space = "cluster" if load.own_cta is None else "cta"
    name = f"cp.async.bulk.tensor.{len(load.coordinates)}d.shared::{space}.global.tile"
    name += ".mbarrier::complete_tx::bytes"
    tail = ""
    if load.multicast is not None:
        name += ".multicast::cluster"
        tail += f", {asm.value(load.multicast)}"
    if load.pair is not None:
        name += ".cta_group::2"
    guard = asm.guard(load.predicate)
    asm.emit(f"{guard}{name} [{target}], [{source}, {{{coordinates}}}], [{barrier}]{tail};")


def _print_tma_store(text: FunctionText, store: tma.TmaStoreOp) -> None:
    asm = AsmOperands(text)
    target, coordinates = asm.value(store.map), asm.list(store.coordinates)
    source = asm.shared(store.source)
    rank = f"{len(store.coordinates)}d.global.shared::cta"
    if store.reduction is None:
        name = f"cp.async.bulk.tensor.{rank}.tile.bulk_group"
    else:
        name = f"cp.reduce.async.bulk.tensor.{rank}.{store.reduction.data}.tile.bulk_group"
    guard = asm.guard(store.predicate)
    asm.emit(f"{guard}{name} [{target}, {{{coordinates}}}], [{source}];")


def _print_tma_store_commit(text: FunctionText, op: Operation) -> None:
    AsmOperands(text).emit("cp.async.bulk.commit_group;")


def _print_tma_store_wait(text: FunctionText, wait: tma.TmaStoreWaitOp) -> None:
    read = ".read" if wait.read is not None else ""
    AsmOperands(text).emit(f"cp.async.bulk.wait_group{read} {wait.pending.data};")


def _print_prefetch_tensormap(text: FunctionText, op: Operation) -> None:
    asm = AsmOperands(text)
    asm.emit(f"prefetch.tensormap [{asm.value(cast(tma.PrefetchTensorMapOp, op).map)}];")


def _print_acquire_tensormap(text: FunctionText, op: Operation) -> None:
    asm = AsmOperands(text)
    at = asm.value(cast(tma.AcquireTensorMapOp, op).map)
    asm.emit(f"fence.proxy.tensormap::generic.acquire.gpu [{at}], {tma.TENSOR_MAP_BYTES};")


def _map_fields(fill: tma.FillTensorMapsOp, asm: AsmOperands) -> list[tuple[str, str, str]]:
    """Every field of a lane's map: (name, width, operands after the address)."""
    box = [asm.value(extent) for extent in fill.box]
    fields = [
        ("global_address", "b64", asm.value(fill.base)),
        ("rank", "b32", str(len(box) - 1)),
        ("elemtype", "b32", str(tma.ELEMENT_TYPES[fill.element.data])),
        ("interleave_layout", "b32", "0"),
        ("swizzle_mode", "b32", str(tma.SWIZZLE_MODES[fill.swizzle.data])),
        ("fill_mode", "b32", str(tma.FILL_MODES[fill.fill.data])),
    ]
    if fill.atom is not None:
        fields.append(("swizzle_atomicity", "b32", str(tma.ATOMICITIES[fill.atom.data])))
    for dim, (extent, size) in enumerate(zip(box, fill.sizes, strict=True)):
        fields.append(("box_dim", "b32", f"{dim}, {extent}"))
        fields.append(("global_dim", "b32", f"{dim}, {asm.value(size)}"))
        fields.append(("element_stride", "b32", f"{dim}, 1"))
    for dim, stride in enumerate(fill.strides):
        fields.append(("global_stride", "b64", f"{dim}, {asm.value(stride)}"))
    return fields


def _print_fill_tensormaps(text: FunctionText, fill: tma.FillTensorMapsOp) -> None:
    """All lanes clear the scratch; then the first ones fill in the fields of a map each."""
    asm = AsmOperands(text)
    scratch, count = asm.shared(fill.scratch), fill.count.data
    replaced = [
        f"@p tensormap.replace.tile.{name}.shared::cta.b1024.{width} [map], {operands};"
        for name, width, operands in _map_fields(fill, asm)
    ]
    size = tma.TENSOR_MAP_BYTES
    lines = [
        "{ .reg .pred p; .reg .b32 lane, at, map;",
        f"mov.u32 lane, %laneid; setp.lt.u32 p, lane, {count};",
        f"mad.lo.u32 at, lane, 4, {scratch}; mad.lo.u32 map, lane, {size}, {scratch};",
        f"bar.warp.sync {_ALL_LANES};",
        *(f"st.shared.b32 [at+{size * number}], 0;" for number in range(count)),
        f"bar.warp.sync {_ALL_LANES};",
        *replaced,
        f"bar.warp.sync {_ALL_LANES}; }}",
    ]
    asm.emit(" ".join(lines), "sc")


def _print_publish_tensormaps(text: FunctionText, publish: tma.PublishTensorMapsOp) -> None:
    """One copy after the other is under way at once; whoever acquires a map waits."""
    asm = AsmOperands(text)
    scratch, target = asm.shared(publish.scratch), asm.value(publish.target)
    size = tma.TENSOR_MAP_BYTES
    copies = [
        f"{_PUBLISH} [{target}+{size * number}], [{scratch}+{size * number}], {size};"
        for number in range(publish.count.data)
    ]
    asm.emit(" ".join(copies), "sc")


def _print_try_claim_slot(text: FunctionText, claim: tma.TryClaimSlotOp) -> None:
    """Lane 0 sets a bit and does not wait for the answer. CTAs on one SM have different warps."""
    asm = AsmOperands(text, outputs=2)
    busy, count = asm.value(claim.busy), claim.slots.data
    template = (
        "{ .reg .pred p; .reg .b32 lane, bit; mov.b32 $0, 0; "
        f"mov.u32 $1, %warpid; shr.u32 $1, $1, 2; rem.u32 $1, $1, {count}; "
        "mov.b32 bit, 1; shl.b32 bit, bit, $1; mov.u32 lane, %laneid; setp.eq.u32 p, lane, 0; "
        f"@p atom.relaxed.gpu.global.or.b32 $0, [{busy}], bit; }}"
    )
    made = asm.define(template, ["=&r", "=&r"], "{ i32, i32 }", "sc")
    for number, result in enumerate(claim.results):
        text.bind(result, text.define(f"extractvalue {{ i32, i32 }} {made}, {number}"))


def _print_claim_slot(text: FunctionText, claim: tma.ClaimSlotOp) -> None:
    """Lane 0 tries a bit, and looks for a free one until it has set one; then tells the warp.

    The first try costs one trip to memory: CTAs on one SM have different warps there.
    """
    asm = AsmOperands(text, outputs=1)
    busy, mask = asm.value(claim.busy), (1 << claim.slots.data) - 1
    first = [
        "mov.u32 $0, %warpid; shr.u32 $0, $0, 2;",
        f"rem.u32 $0, $0, {claim.slots.data}; bra TRY_${{:uid}};",
    ]
    if claim.tried:
        before, slot = (asm.value(value) for value in claim.tried)
        first = [
            f"mov.b32 $0, {slot}; mov.b32 old, {before};",
            "mov.b32 bit, 1; shl.b32 bit, bit, $0; bra CHECK_${:uid};",
        ]
    lines = [
        "{ .reg .pred p; .reg .b32 bit, old;",
        "mov.u32 $0, %laneid; setp.ne.u32 p, $0, 0; @p bra DONE_${:uid};",
        *first,
        f"CLAIM_${{:uid}}: ld.relaxed.gpu.global.b32 old, [{busy}];",
        f"not.b32 old, old; and.b32 old, old, {mask}; bfind.u32 $0, old;",
        "setp.eq.u32 p, old, 0; @p bra CLAIM_${:uid};",
        "TRY_${:uid}: mov.b32 bit, 1; shl.b32 bit, bit, $0;",
        f"atom.acquire.gpu.global.or.b32 old, [{busy}], bit;",
        "CHECK_${:uid}: and.b32 old, old, bit; setp.ne.u32 p, old, 0; @p bra CLAIM_${:uid};",
        f"DONE_${{:uid}}: bar.warp.sync {_ALL_LANES};",
        f"shfl.sync.idx.b32 $0, $0, 0, 31, {_ALL_LANES}; }}",
    ]
    text.bind(claim.result, asm.define(" ".join(lines), ["=&r"], "i32", "sc"))


def _print_release_slot(text: FunctionText, release: tma.ReleaseSlotOp) -> None:
    asm = AsmOperands(text)
    busy, slot = asm.value(release.busy), asm.value(release.slot)
    guard = asm.guard(release.predicate)
    asm.emit(
        f"{{ .reg .b32 bit; mov.b32 bit, 1; shl.b32 bit, bit, {slot}; not.b32 bit, bit; "
        f"{guard}red.release.gpu.global.and.b32 [{busy}], bit; }}"
    )


def _print_find_tensormaps(text: FunctionText, find: tma.FindTensorMapsOp) -> None:
    """All loads are under way at once; a word counts if there is a one above it."""
    asm = AsmOperands(text, outputs=1)
    key = asm.value(find.key)
    words = [asm.value(word) for word in find.words]
    loads = [
        f"ld.relaxed.gpu.global.v2.b64 {{k{at}, k{at + 1}}}, [{key}+{8 * at}];"
        for at in range(0, len(words), 2)
    ]
    compared = [
        f"mov.b64 w, {{{word}, 1}}; setp.eq.and.b64 p, k{at}, w, p;"
        for at, word in enumerate(words)
    ]
    lines = [
        f"{{ .reg .pred p; .reg .b64 w, k<{len(words) + 1}>; setp.eq.b32 p, 0, 0;",
        *loads,
        *compared,
        f"vote.sync.all.pred p, p, {_ALL_LANES}; selp.b32 $0, 1, 0, p; }}",
    ]
    found = asm.define(" ".join(lines), ["=r"], "i32", "sc")
    text.bind(find.result, text.define(f"icmp ne i32 {found}, 0"))


def _print_keep_tensormaps(text: FunctionText, keep: tma.KeepTensorMapsOp) -> None:
    """Lane 0 asks whether the place is free; if it is, maps are copied there, then their words."""
    asm = AsmOperands(text)
    scratch, target = asm.shared(keep.scratch), asm.value(keep.target)
    taken, key = asm.value(keep.taken), asm.value(keep.key)
    words = [asm.value(word) for word in keep.words]
    size = tma.TENSOR_MAP_BYTES
    copies = [
        f"{_PUBLISH} [{target}+{size * number}], [{scratch}+{size * number}], {size};"
        for number in range(keep.count.data)
    ]
    kept = [
        f"mov.b64 w, {{{word}, 1}}; @p st.relaxed.gpu.global.b64 [{key}+{8 * at}], w;"
        for at, word in enumerate(words)
    ]
    lines = [
        "{ .reg .pred p; .reg .b32 lane, old; .reg .b64 w;",
        "mov.u32 lane, %laneid; setp.eq.u32 p, lane, 0; mov.b32 old, 1;",
        f"@p atom.relaxed.gpu.global.cas.b32 old, [{taken}], 0, 1;",
        f"shfl.sync.idx.b32 old, old, 0, 31, {_ALL_LANES};",
        "setp.ne.b32 p, old, 0; @p bra KEPT_${:uid};",
        *copies,
        f"fence.acq_rel.gpu; setp.lt.u32 p, lane, {keep.count.data};",
        *kept,
        f"KEPT_${{:uid}}: bar.warp.sync {_ALL_LANES}; }}",
    ]
    asm.emit(" ".join(lines), "sc")


RULES: dict[type[Operation], PrintRule] = {
    mbarrier.MbarrierInitOp: _print_mbarrier_init,
    mbarrier.MbarrierArriveOp: _print_mbarrier_arrive,
    mbarrier.MbarrierExpectTxOp: _print_mbarrier_expect_tx,
    mbarrier.MbarrierWaitOp: _print_mbarrier_wait,
    mbarrier.MbarrierTryWaitOp: _print_mbarrier_try_wait,
    mbarrier.MbarrierArriveCopiesOp: _print_mbarrier_arrive_copies,
    mbarrier.FenceMbarrierInitOp: _print_fence_mbarrier_init,
    mbarrier.FenceProxyAsyncOp: _print_fence_proxy_async,
    cluster.ClusterArriveOp: _print_cluster_arrive,
    cluster.ClusterWaitOp: _print_cluster_wait,
    cluster.MapSharedOp: _print_mapa,
    cluster.StoreAsyncOp: _print_store_async,
    cluster.TryCancelOp: _print_try_cancel,
    cluster.QueryCancelOp: _print_query_cancel,
    cluster.TakeNumberOp: _print_take_number,
    cluster.SetMaxRegistersOp: _print_setmaxnreg,
    tma.TmaLoadOp: _print_tma_load,
    tma.TmaStoreOp: _print_tma_store,
    tma.TmaStoreCommitOp: _print_tma_store_commit,
    tma.TmaStoreWaitOp: _print_tma_store_wait,
    tma.PrefetchTensorMapOp: _print_prefetch_tensormap,
    tma.AcquireTensorMapOp: _print_acquire_tensormap,
    tma.FillTensorMapsOp: _print_fill_tensormaps,
    tma.PublishTensorMapsOp: _print_publish_tensormaps,
    tma.TryClaimSlotOp: _print_try_claim_slot,
    tma.ClaimSlotOp: _print_claim_slot,
    tma.ReleaseSlotOp: _print_release_slot,
    tma.FindTensorMapsOp: _print_find_tensormaps,
    tma.KeepTensorMapsOp: _print_keep_tensormaps,
}
"""How each op is printed."""

FEATURES: dict[type[Operation], Feature] = {
    **dict.fromkeys(mbarrier.MBARRIER_OPS, Feature.MBARRIER_TRY_WAIT),
    **dict.fromkeys(cluster.CLUSTER_OPS, Feature.CLUSTER_LAUNCH),
    **dict.fromkeys(cluster.LAUNCH_CONTROL_OPS, Feature.CLUSTER_LAUNCH_CONTROL),
    **dict.fromkeys(tma.TMA_OPS, Feature.TMA),
    cluster.SetMaxRegistersOp: Feature.SETMAXNREG,
}
"""What a target must have for each op."""
