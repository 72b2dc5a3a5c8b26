"""Tensor maps that later CTAs find made, in the PTX machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from thread_kernels import OPTIONS
from xdsl.dialects.builtin import ModuleOp, i32, i64
from xdsl.ir import SSAValue

from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.llvmir.tma_builder import TensorMapTable
from tileiras.codegen.target import get_target
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import SHARED, pointer_type
from tileiras.interpreter.ptx import Limits, run_ptx

MAPS = 2


def _finds(same_hash: bool) -> str:
    """CTA i asks for maps made from args[1][i] in lane 0 and from 5 in others, then keeps such."""
    table = TensorMapTable.make("maps", MAPS, 4, keeps=True)
    scratch = GlobalOp.make("scratch", 128 * MAPS, SHARED, 128)
    func = FuncOp.make_kernel("k", [pointer_type(1), pointer_type(1)], threads=32)
    b = ThreadBuilder(func.entry)
    found, numbers = cast(Sequence[SSAValue], func.entry.args)
    at = b.shl(b.zext(b.sreg("ctaid.x"), i64), b.i64(2))
    number = b.load(b.gep(numbers, at), i32, 4)
    lane = b.lane_id()
    word = b.select(b.icmp("eq", lane, b.i32(0)), number, b.i32(5))
    own = b.select(b.icmp("ult", lane, b.i32(MAPS)), lane, b.i32(1))
    kept = b.kept_maps(table, b.i32(1) if same_hash else number, own)
    words = [word, b.i32(9), b.i32(-1)]
    b.store(b.zext(b.find_tensor_maps(kept, words), i32), b.gep(found, at), 4)
    b.keep_tensor_maps(kept, b.address_of(scratch), words, MAPS)
    b.ret()
    module = ModuleOp([*table.globals, scratch, func])
    module.verify()
    target = get_target("sm_90")
    return llvm_ir_to_ptx(print_module(module, target, OPTIONS), target, OPTIONS)


def _run(text: str, numbers: list[int]) -> list[int]:
    """What each CTA found; they run one after the other, on one SM, as the register says."""
    found = np.full(len(numbers), 7, np.int32)
    arguments = [found, np.array(numbers, np.int32)]
    on_one = text.replace("%smid", "%ctaid.y")
    run_ptx(on_one, arguments, (len(numbers), 1, 1), limits=Limits(resident=1))
    return found.tolist()


def test_the_second_of_two_equal_ones_finds_them() -> None:
    assert _run(_finds(same_hash=False), [3, 3, 3]) == [0, 1, 1]


def test_another_number_does_not_find_them() -> None:
    assert _run(_finds(same_hash=True), [3, 4, 3]) == [0, 0, 1]


def test_who_came_first_stays() -> None:
    assert _run(_finds(same_hash=True), [3, 4, 4, 3]) == [0, 0, 0, 1]
