"""LLVM IR text of the `nvvm` dialect's ops: intrinsics, and inline PTX for mma.sync."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from xdsl.ir import Operation, SSAValue

from tileiras.codegen.atoms.mma import MmaAtom, get_mma_atom
from tileiras.codegen.llvmir.asm_operands import AsmOperands
from tileiras.codegen.llvmir.function_text import FunctionText
from tileiras.codegen.llvmir.print_access import print_guarded_load, print_guarded_store
from tileiras.codegen.llvmir.print_llvm_ops import PrintRule, asm_call, call_function
from tileiras.codegen.llvmir.type_text import type_text
from tileiras.codegen.target import Feature
from tileiras.dialects.layout.scales import ScaleWords
from tileiras.dialects.llvm.types import bit_width, lanes_of
from tileiras.dialects.nvvm import access, copies, matrix, threads
from tileiras.errors import InternalError

_ALL_LANES = ("i32", "-1")
_SHARED = "ptr addrspace(3)"
_GLOBAL = "ptr addrspace(1)"


def _print_sreg(text: FunctionText, op: Operation) -> None:
    register = cast(threads.ReadSregOp, op).register.data
    ref = call_function(text, f"llvm.nvvm.read.ptx.sreg.{register}", "i32", ())
    text.bind(op.results[0], ref or "")


def _print_barrier(text: FunctionText, barrier: threads.BarrierOp) -> None:
    number = ("i32", str(barrier.id.data))
    if barrier.group is not None:
        first = f"add i32 {text.ref(barrier.group)}, {barrier.id.data}"
        number = ("i32", text.define(first))
    if barrier.threads is None:
        call_function(text, "llvm.nvvm.barrier.cta.sync.aligned.all", "void", [number])
        return
    args = [number, ("i32", str(barrier.threads.data))]
    call_function(text, "llvm.nvvm.barrier.cta.sync.aligned.count", "void", args)


def _print_barrier_arrive(text: FunctionText, barrier: threads.BarrierArriveOp) -> None:
    args = [("i32", str(barrier.id.data)), ("i32", str(barrier.threads.data))]
    call_function(text, "llvm.nvvm.barrier.cta.arrive.aligned.count", "void", args)


def _print_warp_barrier(text: FunctionText, op: Operation) -> None:
    call_function(text, "llvm.nvvm.bar.warp.sync", "void", [_ALL_LANES])


def _print_shfl(text: FunctionText, shfl: threads.ShflOp) -> None:
    name = f"llvm.nvvm.shfl.sync.{shfl.mode.data}.i32"
    tail = [("i32", text.ref(shfl.offset)), ("i32", str(shfl.clamp.data))]
    moved = [
        call_function(text, name, "i32", [_ALL_LANES, ("i32", lane), *tail]) or ""
        for lane in text.lanes(shfl.value)
    ]
    text.bind_lanes(shfl.result, moved)


def _print_vote(text: FunctionText, vote: threads.VoteOp) -> None:
    args = [_ALL_LANES, ("i1", text.ref(vote.predicate))]
    name = f"llvm.nvvm.vote.{vote.mode.data}.sync"
    text.bind(vote.result, call_function(text, name, type_text(vote.result.type), args) or "")


def _print_redux(text: FunctionText, redux: threads.ReduxOp) -> None:
    name = f"llvm.nvvm.redux.sync.{redux.kind.data}"
    reduced = [
        call_function(text, name, "i32", [("i32", lane), _ALL_LANES]) or ""
        for lane in text.lanes(redux.value)
    ]
    text.bind_lanes(redux.result, reduced)


def _print_elect(text: FunctionText, op: Operation) -> None:
    pair = call_function(text, "llvm.nvvm.elect.sync", "{ i32, i1 }", [_ALL_LANES])
    text.result(op.results[0], f"extractvalue {{ i32, i1 }} {pair}, 1")


# matrices


def _fragment(
    text: FunctionText, atom: MmaAtom, value: SSAValue, register_class: str, registers: int
) -> list[str]:
    """A thread's fragments as registers; `registers` is how many there must be."""
    bits = 64 if register_class == "d" else 32
    if bit_width(value.type) != registers * bits:
        raise InternalError(
            f"{atom.name}: fragment {value.type} is not {registers} registers of {bits} bits",
            where="LLVM IR printer",
        )
    return text.lanes(value) if register_class in "df" else text.words(value, bits)


def _bind_accumulator(
    text: FunctionText, atom: MmaAtom, result: SSAValue, registers: list[str]
) -> None:
    if lanes_of(result.type) == len(registers):
        text.bind_sums(result, registers)
    else:
        text.bind(result, text.uncut(registers, 32, result.type))


_REGISTER_TYPES = {"r": "i32", "f": "float", "d": "double"}


@dataclass(frozen=True)
class _Scale:
    """The scales of an operand of one instruction: a register, byte-id and thread-id."""

    word: str
    byte: int
    thread: int


def _one_mma(
    text: FunctionText,
    atom: MmaAtom,
    a: Sequence[str],
    b: Sequence[str],
    c: Sequence[str],
    scales: Sequence[_Scale] = (),
) -> list[str]:
    """One instruction, its accumulator registers tied; returns the new accumulator registers."""
    sizes = (len(c), len(a), len(b))
    spans, first = [], 0
    for size in sizes:
        spans.append("{" + ", ".join(f"${n}" for n in range(first, first + size)) + "}")
        first += size
    d, a_text, b_text = spans
    scaled = "".join(
        f", ${first + index}, {{{scale.byte}, {scale.thread}}}"
        for index, scale in enumerate(scales)
    )
    template = f"{atom.mnemonic} {d}, {a_text}, {b_text}, {d}{scaled};"
    operand, accumulator = atom.operand_class, atom.accumulator_class
    constraints = [f"={accumulator}"] * len(c) + [operand] * (len(a) + len(b) + len(scales))
    constraints += [str(index) for index in range(len(c))]
    unit = _REGISTER_TYPES[accumulator]
    inputs = (*a, *b, *(scale.word for scale in scales))
    args = [(_REGISTER_TYPES[operand], ref) for ref in inputs] + [(unit, ref) for ref in c]
    result = "{ " + ", ".join([unit] * len(c)) + " }"
    value = text.define(asm_call(template, ",".join(constraints), result, args, "c"))
    return [text.define(f"extractvalue {result} {value}, {i}") for i in range(len(c))]


def _print_mma_grid(
    text: FunctionText,
    op: matrix.MmaSyncOp | matrix.MmaTileOp | matrix.MmaScaledTileOp,
    reps: tuple[int, int, int],
    scales_of: Callable[[int, int, int], Sequence[_Scale]] = lambda m, n, k: (),
) -> None:
    atom = get_mma_atom(op.atom.data)
    reps_m, reps_n, reps_k = reps
    per_a, per_b, per_c = atom.a_registers, atom.b_registers, atom.c_registers
    a = _fragment(text, atom, op.a, atom.operand_class, per_a * reps_m * reps_k)
    b = _fragment(text, atom, op.b, atom.operand_class, per_b * reps_n * reps_k)
    c = list(_fragment(text, atom, op.c, atom.accumulator_class, per_c * reps_m * reps_n))
    for k in range(reps_k):
        for m in range(reps_m):
            for n in range(reps_n):
                at_a, at_b = per_a * (k + reps_k * m), per_b * (k + reps_k * n)
                at_c = per_c * (n + reps_n * m)
                c[at_c : at_c + per_c] = _one_mma(
                    text,
                    atom,
                    a[at_a : at_a + per_a],
                    b[at_b : at_b + per_b],
                    c[at_c : at_c + per_c],
                    scales_of(m, n, k),
                )
    _bind_accumulator(text, atom, op.result, c)


def _print_mma_sync(text: FunctionText, op: Operation) -> None:
    _print_mma_grid(text, cast(matrix.MmaSyncOp, op), (1, 1, 1))


def _print_mma_tile(text: FunctionText, mma: matrix.MmaTileOp) -> None:
    _print_mma_grid(text, mma, (mma.reps_m.data, mma.reps_n.data, mma.reps_k.data))


def _print_mma_scaled_tile(text: FunctionText, mma: matrix.MmaScaledTileOp) -> None:
    atom, blocks = get_mma_atom(mma.atom.data), mma.blocks.data
    if atom.scaling is None:
        raise InternalError(f"{atom.name} has no scales", where="LLVM IR printer")
    sides = (ScaleWords("A", blocks), mma.scale_a), (ScaleWords("B", blocks), mma.scale_b)
    words = [text.lanes(value) for _, value in sides]
    vector, first = atom.scaling.vector, mma.step.data

    def scales(m: int, n: int, k: int) -> list[_Scale]:
        places = [
            side.select(fragment, (first + k) * vector)
            for (side, _), fragment in zip(sides, (m, n), strict=True)
        ]
        return [
            _Scale(of[place.word], place.byte, place.thread)
            for of, place in zip(words, places, strict=True)
        ]

    _print_mma_grid(text, mma, (mma.reps_m.data, mma.reps_n.data, mma.reps_k.data), scales)


def _print_ldmatrix(text: FunctionText, load: matrix.LdMatrixOp) -> None:
    count = load.count.data
    transposed = ".trans" if load.transposed is not None else ""
    name = f"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{transposed}.b16.p3"
    args = [(_SHARED, text.ref(load.pointer))]
    if count == 1:
        text.bind_lanes(load.result, [call_function(text, name, "i32", args) or ""])
        return
    result = "{ " + ", ".join(["i32"] * count) + " }"
    value = call_function(text, name, result, args)
    refs = [text.define(f"extractvalue {result} {value}, {i}") for i in range(count)]
    text.bind_lanes(load.result, refs)


def _print_stmatrix(text: FunctionText, store: matrix.StMatrixOp) -> None:
    transposed = ".trans" if store.transposed is not None else ""
    name = f"llvm.nvvm.stmatrix.sync.aligned.m8n8.x{store.count.data}{transposed}.b16.p3"
    values = [("i32", lane) for lane in text.lanes(store.value)]
    call_function(text, name, "void", [(_SHARED, text.ref(store.pointer)), *values])


# copies


def _print_cp_async(text: FunctionText, copy: copies.CpAsyncOp) -> None:
    if copy.ignore is not None:
        # LLVM has no intrinsic of this form.
        asm = AsmOperands(text)
        places = f"[{asm.shared(copy.target)}], [{asm.value(copy.source)}]"
        size, ignore = copy.bytes.data, asm.value(copy.ignore)
        asm.emit(f"cp.async.{copy.cache.data}.shared.global {places}, {size}, {ignore};")
        return
    name = f"llvm.nvvm.cp.async.{copy.cache.data}.shared.global.{copy.bytes.data}"
    args = [(_SHARED, text.ref(copy.target)), (_GLOBAL, text.ref(copy.source))]
    if copy.source_bytes is not None:
        name += ".s"
        args.append(("i32", text.ref(copy.source_bytes)))
    call_function(text, name, "void", args)


def _print_cp_async_commit(text: FunctionText, op: Operation) -> None:
    call_function(text, "llvm.nvvm.cp.async.commit.group", "void", ())


def _print_cp_async_wait(text: FunctionText, op: Operation) -> None:
    pending = str(cast(copies.CpAsyncWaitOp, op).pending.data)
    call_function(text, "llvm.nvvm.cp.async.wait.group", "void", [("i32", pending)])


def _print_grid_dependency(text: FunctionText, op: Operation) -> None:
    action = cast(copies.GridDependencyOp, op).action.data.replace("_", ".")
    call_function(text, f"llvm.nvvm.griddepcontrol.{action}", "void", ())


_RULES: dict[type[Operation], PrintRule] = {
    threads.ReadSregOp: _print_sreg,
    threads.BarrierOp: _print_barrier,
    threads.BarrierArriveOp: _print_barrier_arrive,
    threads.WarpBarrierOp: _print_warp_barrier,
    threads.ShflOp: _print_shfl,
    threads.VoteOp: _print_vote,
    threads.ReduxOp: _print_redux,
    threads.ElectOp: _print_elect,
    matrix.MmaSyncOp: _print_mma_sync,
    matrix.MmaTileOp: _print_mma_tile,
    matrix.MmaScaledTileOp: _print_mma_scaled_tile,
    matrix.LdMatrixOp: _print_ldmatrix,
    matrix.StMatrixOp: _print_stmatrix,
    copies.CpAsyncOp: _print_cp_async,
    copies.CpAsyncCommitOp: _print_cp_async_commit,
    copies.CpAsyncWaitOp: _print_cp_async_wait,
    copies.GridDependencyOp: _print_grid_dependency,
    access.GuardedLoadOp: print_guarded_load,
    access.GuardedStoreOp: print_guarded_store,
}
"""How the ops are printed that many kernels have; grows by those that a kernel needs."""

_ELSEWHERE = {
    "tileiras.dialects.nvvm.mbarrier": "print_async_ops",
    "tileiras.dialects.nvvm.cluster": "print_async_ops",
    "tileiras.dialects.nvvm.tma": "print_async_ops",
    "tileiras.dialects.nvvm.wgmma": "print_wgmma",
    "tileiras.dialects.nvvm.tcgen05": "print_tcgen05",
}
"""Chapters of the dialect that many kernels do without, and the modules that print them."""

_REQUIRED_FEATURES: dict[type[Operation], Feature] = {
    threads.ReduxOp: Feature.REDUX,
    threads.ElectOp: Feature.ELECT,
    matrix.LdMatrixOp: Feature.LDMATRIX,
    matrix.StMatrixOp: Feature.STMATRIX,
    copies.CpAsyncOp: Feature.CP_ASYNC,
    copies.GridDependencyOp: Feature.GRID_DEPENDENCY,
}


def nvvm_rule(op_class: type[Operation]) -> PrintRule | None:
    """What prints ops of a class; its module is imported for the first of them."""
    rule = _RULES.get(op_class)
    if rule is None and (name := _ELSEWHERE.get(op_class.__module__)) is not None:
        module = import_module(f"{__package__}.{name}")
        _RULES.update(module.RULES)
        _REQUIRED_FEATURES.update(module.FEATURES)
        rule = _RULES.get(op_class)
    return rule


def required_feature(op: Operation) -> Feature | None:
    """What a target must have for this op, if anything. `nvvm_rule` has been asked before."""
    if isinstance(op, matrix.MmaSyncOp | matrix.MmaTileOp | matrix.MmaScaledTileOp):
        return get_mma_atom(op.atom.data).feature
    if isinstance(op, threads.ReadSregOp) and "cluster" in op.register.data:
        return Feature.CLUSTER_LAUNCH
    return _REQUIRED_FEATURES.get(type(op))
