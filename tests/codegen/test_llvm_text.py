"""LLVM IR text: phis, line information, launch attributes, whitelists; the same text every time."""

from __future__ import annotations

import re

import pytest
from xdsl.dialects import test as test_dialect
from xdsl.dialects.builtin import (
    CallSiteLoc,
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
    f16,
    f32,
    f64,
    i32,
    i64,
)

from tests.kernels.thread_programs import kernel_module, llvm_text, options_with, ptx_text
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.target import get_target
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import pointer_type, vector_type
from tileiras.errors import InternalError


def _location(line: int, name: str = "src/kernel.py") -> FileLineColLoc:
    return FileLineColLoc(StringAttr(name), IntAttr(line), IntAttr(5))


def _summing_loop(b: ThreadBuilder, args) -> None:
    """Sums i over 0 <= i < n, with the sum and i as block arguments."""
    n = args[4]
    loop, done = b.new_block([i32, i32]), b.new_block([i32])
    b.br(loop, [b.i32(0), b.i32(0)])
    b.at(loop)
    index, total = loop.args
    total = b.add(total, index)
    following = b.add(index, b.i32(1))
    b.cond_br(b.icmp("slt", following, n), loop, done, [following, total], [total], no_unroll=True)
    b.at(done)
    b.store(done.args[0], args[0], 4)


def test_block_arguments_become_phis_with_an_entry_per_predecessor() -> None:
    text = llvm_text(_summing_loop)
    phis = re.findall(r"phi i32 (.*)", text)
    assert [phi.count("[") for phi in phis] == [2, 2, 1]
    assert phis[0].startswith("[ 0, %b0 ]")


def test_loop_hint_reaches_the_ptx() -> None:
    assert "nounroll" in ptx_text(_summing_loop)


def _products(b: ThreadBuilder, args) -> None:
    """A loop that adds products to sums, whose result leaves through another block."""
    sums, words = vector_type(f32, 4), vector_type(i32, 4)
    head, body = b.new_block([i32, sums]), b.new_block()
    done, end = b.new_block([sums]), b.new_block([sums])
    b.br(head, [b.i32(0), b.zero(sums)])
    b.at(head)
    index, total = head.args
    b.cond_br(b.icmp("slt", index, args[4]), body, done, (), [total])
    b.at(body)
    left = b.bitcast(b.load(args[1], words, 16), vector_type(f16, 8))
    total = b.mma_tile("m16n8k16_f32_f16", left, b.slice(left, 0, 4), total, (1, 1, 1))
    b.br(head, [b.add(index, b.i32(1)), total])
    b.at(done)
    b.cond_br(b.icmp("eq", args[4], b.i32(9)), end, end, [b.zero(sums)], [done.args[0]])
    b.at(end)
    b.store(end.args[0], args[0], 16)


def test_sums_of_products_cross_blocks_in_lanes_where_pairs_of_f32_are_packed() -> None:
    packed, plain = llvm_text(_products, "sm_120"), llvm_text(_products, "sm_90")
    # At the head of the loop and behind it; then a select of two vectors is one.
    assert (packed.count("phi float"), packed.count("phi <4 x float>")) == (4 * 2, 1)
    assert (plain.count("phi float"), plain.count("phi <4 x float>")) == (0, 3)
    ptx = ptx_text(_products, "sm_120")
    loop = ptx[ptx.index("$L__BB0_1:") : ptx.index("bra.uni")]
    assert "mma.sync" in loop and "mov.b64" not in loop


def _rarely(b: ThreadBuilder, args) -> None:
    """A loop with a branch that is hardly ever taken."""
    head, rare, after = b.new_block([i32]), b.new_block(), b.new_block([i32])
    done = b.new_block()
    b.br(head, [b.i32(0)])
    b.at(head)
    [index] = head.args
    is_rare = b.icmp("eq", index, args[4])
    b.cond_br(is_rare, rare, after, (), [index], is_rare=True)
    b.at(rare)
    b.store(index, args[0], 4)
    b.br(after, [b.add(index, b.i32(7))])
    b.at(after)
    following = b.add(after.args[0], b.i32(1))
    b.cond_br(b.icmp("slt", following, b.i32(99)), head, done, [following], ())
    b.at(done)


def test_code_of_rare_branches_is_out_of_the_way() -> None:
    ptx = ptx_text(_rarely)
    assert ptx.index("setp.lt.s32") < ptx.index("st.global")


def test_branch_with_both_sides_to_one_block_selects_the_values() -> None:
    def body(b: ThreadBuilder, args) -> None:
        end = b.new_block([i32])
        condition = b.icmp("slt", args[4], b.i32(3))
        b.cond_br(condition, end, end, [b.i32(1)], [args[4]])
        b.at(end)
        b.store(end.args[0], args[0], 4)

    text = llvm_text(body)
    assert "select i1" in text
    assert re.search(r"phi i32 \[ %\d+, %b0 \]\n", text)
    ptx_text(body)


def test_unreachable_blocks_are_not_printed() -> None:
    def body(b: ThreadBuilder, args) -> None:
        orphan = b.new_block()
        ThreadBuilder(orphan).ret()
        b.store(args[4], args[0], 4)

    assert "b1:" not in llvm_text(body)


def test_blocks_out_of_order_still_define_before_use() -> None:
    def body(b: ThreadBuilder, args) -> None:
        last, middle = b.new_block(), b.new_block()
        b.br(middle)
        b.at(middle)
        value = b.add(args[4], b.i32(1))
        b.br(last)
        b.at(last)
        b.store(value, args[0], 4)

    assert ".entry k" in ptx_text(body)


def test_the_same_module_prints_the_same_text() -> None:
    assert llvm_text(_summing_loop) == llvm_text(_summing_loop)


def test_launch_attributes_become_ptx_directives() -> None:
    ptx = ptx_text(
        lambda b, args: b.store(b.thread_id(), args[0], 4),
        threads=128,
        cluster_dim=(1,),
        blocks_are_clusters=True,
        min_ctas=2,
        max_registers=64,
    )
    for directive in (".reqntid 128", ".reqnctapercluster 1", ".blocksareclusters"):
        assert directive in ptx
    assert ".minnctapersm 2" in ptx and ".maxnreg 64" in ptx


def test_argument_attributes_are_kept() -> None:
    text = llvm_text(
        lambda b, args: b.store(args[4], args[0], 4),
        arg_attrs=["noalias align 16", "", "", "", ""],
    )
    assert "ptr addrspace(1) noalias align 16 %0" in text


def test_globals_have_space_alignment_and_contents() -> None:
    module = kernel_module(lambda b, args: b.store(args[4], args[0], 4))
    for op in (
        GlobalOp.make("tile", 1024, 3, 128),
        GlobalOp.make("dynamic", 0, 3, 1024, external=True),
        GlobalOp.make("fmt", 3, 4, 1, initializer=b'a"\n', constant=True),
    ):
        module.body.block.insert_op_before(op, module.body.block.first_op)
    module.verify()
    text = print_module(module)
    assert "@tile = internal addrspace(3) global [1024 x i8] undef, align 128" in text
    assert "@dynamic = external addrspace(3) global [0 x i8], align 1024" in text
    assert r'@fmt = internal addrspace(4) constant [3 x i8] c"a\22\0A", align 1' in text


# line information


def _with_lines(b: ThreadBuilder, args) -> None:
    b.location = _location(12)
    value = b.fadd(b.load(args[0], f32, 4), b.load(args[1], f32, 4))
    b.location = CallSiteLoc(_location(3, "src/lib.py"), _location(13))
    b.store(value, args[2], 4)


def test_line_info_becomes_loc_directives() -> None:
    from tileiras.codegen.llvm_backend import llvm_ir_to_ptx

    options = options_with(line_info=True)
    target = get_target("sm_90")
    ptx = llvm_ir_to_ptx(print_module(kernel_module(_with_lines), target, options), target, options)
    assert re.search(r"\.loc\s+1 12 5", ptx)
    assert re.search(r"\.loc\s+2 3 5", ptx)
    assert '"src/kernel.py"' in ptx.replace("src/src", "src") or "kernel.py" in ptx
    assert ", debug" not in ptx


def test_without_line_info_there_are_no_loc_directives() -> None:
    assert ".loc" not in ptx_text(_with_lines)


# what is refused


def test_unknown_intrinsic_is_refused() -> None:
    with pytest.raises(InternalError, match="llvm.nvvm.fmax3"):
        llvm_text(lambda b, args: b.intrinsic("llvm.nvvm.fmax3", f32, []))


def test_intrinsic_for_a_type_it_does_not_lower_for_is_refused() -> None:
    def body(b: ThreadBuilder, args) -> None:
        b.unary_intrinsic("llvm.exp2", b.load(args[0], f64, 8))

    with pytest.raises(InternalError, match="llvm.exp2 is not available for double"):
        llvm_text(body)


def test_unknown_library_function_is_refused() -> None:
    with pytest.raises(InternalError, match="__nv_nothing"):
        llvm_text(lambda b, args: b.libdevice("__nv_nothing", b.load(args[0], f32, 4)))


def test_library_function_of_another_type_is_refused() -> None:
    with pytest.raises(InternalError, match="__nv_sinf takes 1 operands of float"):
        llvm_text(lambda b, args: b.libdevice("__nv_sinf", b.load(args[0], f16, 2)))


def test_instruction_that_the_target_lacks_is_refused_with_its_location() -> None:
    def body(b: ThreadBuilder, args) -> None:
        b.location = _location(7)
        b.stmatrix(b.zero(vector_type(i32, 4)), b.inttoptr(b.i64(0), pointer_type(3)))

    with pytest.raises(InternalError, match="stmatrix.*sm_80 lacks") as caught:
        llvm_text(body, "sm_80")
    assert caught.value.location is not None and caught.value.location.line == 7
    assert "stmatrix" in llvm_text(body, "sm_90")


def test_foreign_op_is_refused() -> None:
    func = FuncOp.make_kernel("k", [i64])
    func.entry.add_op(test_dialect.TestOp())
    ThreadBuilder(func.entry).ret()
    with pytest.raises(InternalError, match="'test.op' has no LLVM form"):
        print_module(ModuleOp([func]))
