"""Operations of tcgen05 at thread level: what verifies, what is printed, what assembles."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp, f32, i1, i32, i64
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from tests.kernels.product_text import ProductKernel
from tests.kernels.thread_programs import OPTIONS
from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.folding import constant_int
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.target import get_target
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import SHARED, pointer_type
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas.memdesc import accumulator_type
from tileiras.driver import compile_module
from tileiras.errors import InternalError
from tileiras.options import CompileOptions

Build = Callable[[ThreadBuilder, list[SSAValue]], object]
TYPES = (pointer_type(SHARED), pointer_type(1), i32, i64, i1)

WRONG: tuple[tuple[str, Build], ...] = (
    ("48 columns, expected a power of two", lambda b, v: b.tcgen05_alloc(v[0], 48)),
    ("16 columns, expected a power of two", lambda b, v: b.tcgen05_alloc(v[0], 16)),
    ("1024 columns", lambda b, v: b.tcgen05_dealloc(v[2], 1024)),
    ("shared memory pointer", lambda b, v: b.tcgen05_alloc(v[1], 64)),
    ("shared memory pointer", lambda b, v: b.tcgen05_commit(v[1])),
    ("unknown kind 'sometimes'", lambda b, v: b.tcgen05_fence("sometimes")),
    (
        "not multiples of 16 bytes",
        lambda b, v: b.tcgen05_mma("f16", 0, v[2], v[3], v[3], v[4], a_offsets=[8], b_offsets=[0]),
    ),
    (
        "an A and a B offset for every k step",
        lambda b, v: b.tcgen05_mma(
            "f16", 0, v[2], v[3], v[3], v[4], a_offsets=[0, 32], b_offsets=[0]
        ),
    ),
    (
        "has no 32 bits",
        lambda b, v: b.tcgen05_mma(
            "f16", 1 << 32, v[2], v[3], v[3], v[4], a_offsets=[0], b_offsets=[0]
        ),
    ),
    ("no transfer of shape 16x256b.x3", lambda b, v: b.tcgen05_ld(v[2], "16x256b", 3, (0,), f32)),
    ("no transfer of shape 16x256b.x64", lambda b, v: b.tcgen05_ld(v[2], "16x256b", 64, (0,), f32)),
    ("expected 4 elements of 32 bits", lambda b, v: b.tcgen05_ld(v[2], "16x256b", 1, (0,), i64)),
    ("no transfer of shape 32x32b.x3", lambda b, v: b.tcgen05_st(v[2], "32x32b", 3, (0,), v[2])),
    ("expected 2 elements of 32 bits", lambda b, v: b.tcgen05_st(v[2], "32x32b", 2, (0,), v[2])),
    (
        "expected i64 or i32",
        lambda b, v: b.tcgen05_mma("f16", 0, v[2], v[4], v[3], v[4], a_offsets=[0], b_offsets=[0]),
    ),
)


@pytest.mark.parametrize(("message", "build"), WRONG, ids=[message for message, _ in WRONG])
def test_verifier_finds_what_the_hardware_has_not(message: str, build: Build) -> None:
    block = Block(arg_types=TYPES)
    b = ThreadBuilder(block)
    build(b, list(block.args))
    ops = [op for op in block.ops if op.name.startswith("nvvm.tcgen05")]
    with pytest.raises(VerifyException, match=message):
        for op in ops:
            op.verify()


def kernel() -> ModuleOp:
    """Every operation once."""
    memory = GlobalOp.make("shared", 4096, SHARED, 1024)
    func = FuncOp.make_kernel("k", [pointer_type(1)], threads=128)
    b = ThreadBuilder(func.entry)
    shared = b.address_of(memory)
    b.tcgen05_alloc(shared, 64)
    b.tcgen05_fence("before_thread_sync")
    b.barrier()
    b.tcgen05_fence("after_thread_sync")
    tmem = b.load(shared, i32, 4)
    operand = b.tcgen05_descriptor(shared, SharedOperand("k", 64, 32, 16, 64))
    first = b.i1(False)
    word = 1 << 4 | 64 >> 3 << 17 | 64 >> 4 << 24
    b.tcgen05_mma(
        "f16",
        word,
        tmem,
        operand,
        operand,
        first,
        a_offsets=(0, 32),
        b_offsets=(0, 32),
        predicate=b.elect(),
    )
    b.tcgen05_mma("f16", word, tmem, tmem, operand, first, a_offsets=(32, 40), b_offsets=(0, 32))
    b.tcgen05_commit(shared, predicate=b.elect())
    b.tcgen05_st(tmem, "32x32b", 2, (0, 2), b.build([tmem] * 4))
    rows = b.tcgen05_ld(tmem, "32x32b", 4, (0, 4), f32)
    b.store(rows, func.entry.args[0], 4)
    b.tcgen05_dealloc(tmem, 64)
    b.ret()
    return ModuleOp([memory, func])


def test_every_operation_is_one_call() -> None:
    module = kernel()
    module.verify()
    text = print_module(module, get_target("sm_100"), OPTIONS)
    for wanted in (
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
        "tcgen05.fence::before_thread_sync;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32",
        "tcgen05.ld.sync.aligned.32x32b.x4.b32 {$4, $5, $6, $7}, [$8 + 4];",
        "tcgen05.st.sync.aligned.32x32b.x2.b32 [$0 + 2], {$3, $4}; tcgen05.wait::st.sync.aligned;",
    ):
        assert text.count(wanted) == 1
    assert text.count("tcgen05.mma.cta_group::1.kind::f16") == 4
    assert re.search(r"tcgen05\.mma\.\S+ \[\$0\], \[c1\], d0,", text)


@pytest.mark.parametrize("target", ["sm_90", "sm_120"])
def test_other_targets_are_refused(target: str) -> None:
    with pytest.raises(InternalError, match=f"needs feature tcgen05, which {target} lacks"):
        print_module(kernel(), get_target(target), OPTIONS)


@pytest.mark.parametrize(("swizzle", "code"), [(128, 2), (64, 4), (32, 6)])
def test_descriptor_has_the_fields_of_the_isa(swizzle: int, code: int) -> None:
    block = Block()
    b = ThreadBuilder(block)
    null = b.inttoptr(b.i32(0), pointer_type(SHARED))
    operand = SharedOperand("k", 128, swizzle // 2, 16, swizzle)
    found = constant_int(b.tcgen05_descriptor(null, operand))
    wanted = code << 61 | 1 << 46 | (8 * swizzle >> 4) << 32 | 1 << 16
    assert found is None or found % (1 << 64) == wanted


@pytest.mark.parametrize(
    ("element", "target"), [("f16", "sm_100"), ("i8", "sm_100"), ("bf16", "sm_103")]
)
def test_kernels_assemble_without_spills(element: str, target: str) -> None:
    source = ProductKernel(element, (128, 128, 64), whole=True).text().encode()
    options = CompileOptions(opt_level=3, emit="cubin", gpu_name=target)
    made = compile_module(source, options)
    assert made.output.startswith(b"\x7fELF")
    assert any("0 bytes spilled" in line for line in made.notes)


def accumulator(shape: tuple[int, int], **numbers: int) -> tc.CreateAccumulatorOp:
    """Sums with these numbers."""
    values = {"stages": 1, "column": 0, "columns": 128, "readers": 4} | numbers
    return tc.CreateAccumulatorOp.create(
        result_types=[accumulator_type(shape, f32)],
        properties={name: IntAttr(number) for name, number in values.items()},
    )


@pytest.mark.parametrize(
    "numbers", [{"stages": 0}, {"columns": 0}, {"readers": 0}, {"column": 400, "columns": 128}]
)
def test_sums_that_do_not_lie_in_tensor_memory_are_refused(numbers: dict[str, int]) -> None:
    accumulator((128, 128)).verify()
    with pytest.raises(VerifyException, match="expected at least one, of 512 columns"):
        accumulator((128, 128), **numbers).verify()


def test_stage_has_room_for_its_tile() -> None:
    """256 rows of 128 columns take 256: two blocks of 128 rows side by side."""
    accumulator((256, 128), columns=256).verify()
    with pytest.raises(VerifyException, match="stages of 128 columns, expected at least 256 for"):
        accumulator((256, 128), columns=128).verify()
