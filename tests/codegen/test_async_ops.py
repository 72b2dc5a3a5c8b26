"""Hopper's building blocks: what they print, what ptxas says, and what they refuse."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IntegerType, ModuleOp, i32, i64
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from tests.kernels.thread_programs import OPTIONS
from tests.kernels.wgmma_cases import PRODUCTS, name_of
from tests.kernels.wgmma_product import Product, product_module
from tileiras.codegen.atoms.matrix_tiles import plan_matrix_tiles
from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.atoms.wgmma import WGMMA_FAMILIES, find_wgmma_atom, get_wgmma_atom
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.async_builder import accumulator_type
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.folding import constant_int
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.llvmir.tma_builder import TensorMapTable
from tileiras.codegen.ptxas_backend import PtxasResult, ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.dialects.layout.linear_layout import LinearLayout
from tileiras.dialects.layout.mma import wgmma_accumulator
from tileiras.dialects.layout.shared import row_major
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import pointer_type
from tileiras.errors import InternalError

TARGET = get_target("sm_90")
SHARED = pointer_type(3)


def assemble(module: ModuleOp) -> tuple[str, PtxasResult]:
    """PTX text and what ptxas makes of it."""
    ptx = llvm_ir_to_ptx(print_module(module, TARGET, OPTIONS), TARGET, OPTIONS)
    assert ".extern" not in ptx
    return ptx, ptx_to_cubin(ptx, TARGET, OPTIONS)


def builder(*types: object) -> tuple[ThreadBuilder, list[SSAValue]]:
    block = Block(arg_types=types)
    return ThreadBuilder(block), list(block.args)


@pytest.mark.parametrize("product", PRODUCTS, ids=name_of)
def test_products_assemble_without_spills_or_serialised_wgmma(product: Product) -> None:
    ptx, result = assemble(product_module(product))
    row = product.row
    steps = product.k // row.family.k
    assert ptx.count(row.mnemonic) == steps * product.reps_m
    assert result.spills == 0
    assert result.advice == ()


def test_a_false_scale_ignores_the_accumulator_at_run_time() -> None:
    product = Product("m64n64k16_f32_f16", 64, "k", "mn")
    ptx, result = assemble(product_module(product, scale_d=True))
    lines = ptx.split("wgmma.mma_async")[1:]
    assert [line.split("}, ", 1)[1].split(", ")[2][:2] for line in lines] == ["%p", "1", "1", "1"]
    assert result.advice == ()


def _everything(b: ThreadBuilder, args, table: TensorMapTable, shared: SSAValue) -> None:
    """Every op that no product or GEMM uses."""
    some = b.elect()
    b.mbarrier_arrive(shared, 2, b.i32(1), some)
    b.mbarrier_arrive_copies(shared)
    b.fence_proxy_async("")
    b.cluster_arrive()
    b.cluster_wait()
    b.cluster_arrive(relaxed=True)
    b.cluster_wait()
    b.store(b.i32(1), b.mapa(shared, b.i32(0)), 4)
    maps = b.claim_tensor_maps(table)
    last = b.tensor_map(maps, table.count - 1)
    sizes, strides = [args[1]] * 5, [b.i64(64)] * 4
    base, box = b.ptrtoint(args[0], i64), [b.i32(extent) for extent in (8, 1, 1, 2, 4)]
    b.fill_tensor_maps(b.gep(shared, 128), 1, base, sizes, strides, box, "bf16", 32, "nan")
    b.fill_tensor_maps(shared, 1, base, sizes[:1], [], box[:1], "f32")
    b.publish_tensor_maps(shared, maps, 2)
    b.prefetch_tensormap(last)
    everyone = b.const_int(IntegerType(16), 3)
    b.tma_load(shared, maps, [args[1]], shared, multicast=everyone, predicate=some)
    b.tma_load(shared, last, [args[1]] * 5, shared)
    b.tma_store(maps, [args[1]], shared, predicate=some)
    for kind in ("add", "min", "max", "and", "or", "xor"):
        b.tma_store(last, [args[1]] * 5, shared, reduction=kind)
    b.tma_store_commit()
    b.tma_store_wait(1, read=True)
    b.tma_store_wait(0)
    b.release_tensor_maps(table, maps, some)


def test_every_op_assembles() -> None:
    table = TensorMapTable.make("maps", 2, slots=4)
    memory = GlobalOp.make("shared", 1024, 3, 1024)
    func = FuncOp.make_kernel(
        "k", [pointer_type(1), i32], threads=128, cluster_dim=(2, 1, 1), blocks_are_clusters=True
    )
    module = ModuleOp([*table.globals, memory, func])
    b = ThreadBuilder(func.entry)
    _everything(b, func.entry.args, table, b.address_of(memory))
    b.ret()
    module.verify()
    ptx, result = assemble(module)
    assert result.spills == 0
    assert ptx.count("tensormap.cp_fenceproxy") == 2
    assert ".multicast::cluster [" in ptx


def test_older_targets_are_refused() -> None:
    module = product_module(PRODUCTS[0])
    with pytest.raises(InternalError, match="needs feature"):
        print_module(module, get_target("sm_80"), OPTIONS)
    with pytest.raises(InternalError, match="needs feature wgmma, which sm_120 lacks"):
        print_module(module, get_target("sm_120"), OPTIONS)


def test_every_row_is_found_by_its_name_and_types() -> None:
    for family in WGMMA_FAMILIES:
        for n in family.sizes_n:
            atom = find_wgmma_atom(family.accumulator, family.a_type, family.b_type, n)
            assert atom is not None
            assert get_wgmma_atom(atom.name) == atom


@pytest.mark.parametrize(
    ("types", "n"), [(("f32", "f16", "f16"), 12), (("s32", "s8", "s8"), 40), (("f16",) * 3, 264)]
)
def test_sizes_that_the_hardware_lacks_are_not_found(types: tuple[str, str, str], n: int) -> None:
    assert find_wgmma_atom(*types, n) is None


def test_unknown_atom_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="m64n12k16_f32_f16"):
        get_wgmma_atom("m64n12k16_f32_f16")


def test_only_16_bit_operands_of_wgmma_may_be_mn_major() -> None:
    b, (a,) = builder(i64)
    for atom in ("m64n64k8_f32_tf32", "m64n64k32_f32_e4m3", "m64n64k32_s32_s8"):
        with pytest.raises(InternalError, match="K-major"):
            b.wgmma(atom, a, a, None, b_major="mn")


def test_words_may_not_be_mn_major() -> None:
    assert SharedOperand("mn", 128, 128, 8).major == "mn"
    with pytest.raises(InternalError, match="no instruction reads such atoms"):
        SharedOperand("mn", 128, 128, 32)


def test_operands_must_be_whole_panels() -> None:
    with pytest.raises(InternalError, match="whole panels"):
        SharedOperand("k", 64, 32, 16)


def test_descriptor_fields_follow_the_ptx_isa() -> None:
    b, (pointer,) = builder(SHARED)
    descriptor = b.operand_descriptor(pointer, SharedOperand("mn", 256, 64, 16))
    fields = constant_int(descriptor.owner.operands[1])
    assert fields is not None
    fields %= 1 << 64
    assert fields >> 62 == 1
    assert fields >> 32 & 0x3FFF == 1024 >> 4
    assert fields >> 16 & 0x3FFF == 8192 >> 4


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize(("major", "bits"), [("k", 8), ("k", 16), ("k", 32), ("mn", 16)])
def test_descriptor_steps_agree_with_the_layout(major, bits: int, swizzle: int) -> None:
    operand = SharedOperand(major, 256, 128, bits, swizzle)
    offset_of = operand.layout(1).invert()
    step = 32 * 8 // bits
    for index, offset in enumerate(operand.k_offsets):
        start = offset_of.apply_index(dim0=0, dim1=index * step)
        assert start * bits // 8 == offset
    first_block = offset_of.apply_index(dim0=64, dim1=0) * bits // 8
    assert operand.extent_offset(64) == first_block
    assert operand.layout(0).shape == (128, 256)


def test_accumulators_are_stored_as_matrices_without_conflicts() -> None:
    shared = SharedOperand("k", 64, 256, 16)
    tiles = plan_matrix_tiles(wgmma_accumulator((64, 256), 1), shared.layout(), 16)
    assert tiles is not None
    assert (tiles.count, tiles.transposed, len(tiles.offsets)) == (4, False, 16)
    for matrix in range(4):
        lanes = range(8 * matrix, 8 * matrix + 8)
        rows = [_xor(tiles.lane, lane) for lane in lanes]
        assert sorted(row // 16 % 8 for row in rows) == list(range(8))


def test_a_transposed_tile_is_stored_by_transposed_matrices() -> None:
    shared = SharedOperand("mn", 64, 128, 16).layout(1)
    tiles = plan_matrix_tiles(wgmma_accumulator((64, 128), 1), shared, 16)
    assert tiles is not None
    assert tiles.transposed


@pytest.mark.parametrize("bits", [32, 64])
def test_pairs_of_wide_elements_are_no_matrices(bits: int) -> None:
    layout = wgmma_accumulator((64, 64), 1)
    assert plan_matrix_tiles(layout, row_major((64, 64)), bits) is None


def _xor(vectors, index: int) -> int:
    result = 0
    for bit, vector in enumerate(vectors):
        result ^= vector if index >> bit & 1 else 0
    return result


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_put_every_element_at_its_place(transposed: bool) -> None:
    """Replays stmatrix by its definition and compares with the layouts."""
    operand = SharedOperand("mn" if transposed else "k", 64, 64, 16)
    shared, fragment = operand.layout(1), wgmma_accumulator((64, 64), 1)
    tiles = plan_matrix_tiles(fragment, shared, 16)
    assert tiles is not None and tiles.transposed == transposed
    for warp in range(4):
        for group, offset in enumerate(tiles.offsets):
            base = offset ^ _xor(tiles.warp, warp)
            for lane in range(32):
                for word in range(tiles.count):
                    for half in (0, 1):
                        row, column = lane // 4, 2 * (lane % 4) + half
                        if transposed:
                            row, column = column, row
                        at = base ^ _xor(tiles.lane, 8 * word + row)
                        register = 2 * (group * tiles.count + word) + half
                        wanted = fragment.apply(register=register, lane=lane, warp=warp)
                        assert shared.apply(offset=at // 2 + column) == wanted


def _wait_type(b: ThreadBuilder) -> SSAValue:
    return b.undef(accumulator_type("m64n64k16_f32_f16"))


def test_misuse_is_found_by_the_verifier() -> None:
    b, (shared, device, number, wide) = builder(SHARED, pointer_type(1), i32, i64)

    def last() -> object:
        op = b.block.last_op
        assert op is not None
        return op

    b.mbarrier_init(device, 1)
    with pytest.raises(VerifyException, match="shared memory pointer"):
        last().verify()  # type: ignore[attr-defined]
    b.mbarrier_init(shared, 0)
    with pytest.raises(VerifyException, match="count 0"):
        last().verify()  # type: ignore[attr-defined]
    b.setmaxnreg(100, "inc")
    with pytest.raises(VerifyException, match="steps of 8"):
        last().verify()  # type: ignore[attr-defined]
    b.tma_load(shared, shared, [number], shared)
    with pytest.raises(VerifyException, match="tensor map lies in global memory"):
        last().verify()  # type: ignore[attr-defined]
    b.tma_load(shared, device, [number] * 6, shared)
    with pytest.raises(VerifyException, match="rank 6"):
        last().verify()  # type: ignore[attr-defined]
    for maps, strides, swizzle, message in (
        (33, [wide], 128, "33 maps, expected 1 to 32"),
        (1, [], 128, "2 sizes, 0 strides, box of 2"),
        (1, [wide], 48, "a 48-byte swizzle"),
    ):
        two = [number] * 2
        b.fill_tensor_maps(shared, maps, wide, two, strides, two, "f16", swizzle)
        with pytest.raises(VerifyException, match=message):
            last().verify()  # type: ignore[attr-defined]
    b.publish_tensor_maps(device, device, 1)
    with pytest.raises(VerifyException, match="shared memory pointer"):
        last().verify()  # type: ignore[attr-defined]
    b.wgmma("m64n64k16_f32_f16", wide, wide, None, b_offsets=(0, 8))
    with pytest.raises(VerifyException, match="multiples of 16 bytes"):
        last().verify()  # type: ignore[attr-defined]
    b.wgmma_wait(8, _wait_type(b))
    with pytest.raises(VerifyException, match="8 pending"):
        last().verify()  # type: ignore[attr-defined]


def test_a_layout_with_few_lanes_is_no_matrix() -> None:
    layout = LinearLayout({"register": [(0, 1)], "lane": [(1, 0)]}, (2, 2))
    assert plan_matrix_tiles(layout, row_major((2, 2)), 16) is None
