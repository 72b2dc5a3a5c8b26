"""Every stage of the compiler computes what the one before did; what breaks that is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp, i32, i64
from xdsl.ir import Operation

from tests.kernels.kernel_builder import WEAK, Kernel
from tests.kernels.stage_arguments import make_arguments
from tests.kernels.stage_comparison import (
    compare_entry,
    compare_file,
    first_difference,
    interpret,
    is_entry,
    passes,
)
from tileiras.codegen.target import get_target
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.cuda_tile.types import TOKEN, PointerType, TileType
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.dialects.nv_tileas.encoding import encoded, layout_of
from tileiras.dialects.nv_tileas.pipeline import (
    AgentSwitchOp,
    ConsumerReleaseOp,
    CreatePipelineOp,
    ProducerAcquireOp,
)
from tileiras.dialects.nv_tileas.wgmma import WgmmaDotOp
from tileiras.driver import read_source
from tileiras.interpreter import DeviceBuffer, InterpreterError, SimulatedMemory, run_entry
from tileiras.interpreter.distribution import collect, element_indices, owned, place
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.pipeline import select_steps
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"

SAMPLE = (
    "VectorAddition.vec_add_kernel_1d_gather.86.1", "MatMul.matmul_kernel.33.1",
    "alias.for_loop_alias.19.1", "alias.nested_alias.35.1", "array.copy_3d_permuted.330.1",
    "array_slice.slice_copy_2d.86.2", "attention.fmha_kernel.20.3", "softmax.softmax.19.1",
    "control_flow.break_in_while.265.1", "copy.array_copy_2d.54.6", "mma.mma_kernel.21.2",
    "raw_array_memory.check_raw_dtype.300.1", "reduction.kernel.112.4", "reduction.kernel.452.1",
    "scan.kernel.129.1", "scan.kernel.129.3", "token_order.tiled_view_ifelse.1080.1",
    "array_div.array_div.2.4", "generate.arange_kernel.41.4", "LayerNorm.layer_norm_fwd.17.1",
)  # fmt: skip
"""Control flow, views, gathers, reductions, products, aliasing: one or two of each."""

MATMUL = (ROOT / "examples" / "matmul.mlir").read_bytes()

SPECIALISED = MATMUL.replace(b"64x32", b"64x64").replace(b"32x64", b"64x64")
"""The same with tiles that arrive by TMA and are multiplied by wgmma."""

with_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus beside the checkout")


@with_corpus
@pytest.mark.parametrize("disabled", [(), ("wgmma", "tma", "mma-sync")], ids=["all", "fma"])
@pytest.mark.parametrize("name", SAMPLE)
def test_stages_of_a_corpus_kernel_agree(name, disabled):
    outcomes = compare_file(CORPUS / f"{name}.tileirbc", disabled, by_threads=True)
    assert [(o.kind, o.detail) for o in outcomes if o.kind not in ("same", "idle")] == []


@with_corpus
@pytest.mark.parametrize("name", ["array_div.array_div.2.4", "mma.mma_kernel.21.2"])
def test_threads_of_the_last_stage_agree(name):
    outcomes = compare_file(CORPUS / f"{name}.tileirbc", by_threads=True)
    assert [(o.kind, o.detail) for o in outcomes] == [("same", "")]


def converted(
    text: bytes, disabled: tuple[str, ...] = ()
) -> tuple[ModuleOp, list, list[np.ndarray]]:
    """The nv_tileas module of a kernel, its arguments, and what it should leave in memory."""
    module = read_source(text)
    entry = next(op for op in module.walk() if is_entry(op))
    arguments = make_arguments(entry)  # type: ignore[arg-type]
    wanted = interpret(module, "matmul", arguments)
    for _ in passes(module, disabled, "sm_90"):
        pass
    return module, arguments, wanted


def test_examples_agree_at_every_stage():
    for text in (MATMUL, SPECIALISED):
        outcome = compare_entry(read_source(text), "examples", "matmul", by_threads=True)
        assert (outcome.kind, outcome.detail) == ("same", "")


def test_finds_a_convert_layout_that_moves_to_the_wrong_place():
    module, arguments, wanted = converted(MATMUL)
    op = next(op for op in module.walk() if isinstance(op, tas.ConvertLayoutOp))
    layout = layout_of(op.result.type)
    assert layout is not None
    flat = dict(layout.index_bases)
    flat["lane"] = tuple(reversed(flat["lane"]))
    wrong = LinearLayout.from_index_bases(flat, layout.shape)
    # the operation moves as it should, its user reads other places
    broken = tas.ConvertLayoutOp.create(
        operands=[op.source], result_types=[encoded(op.result.type.element_type, wrong)]
    )
    cast = aa.ReshapeOp.create(operands=[broken.result], result_types=[op.result.type])
    op.parent_block().insert_ops_before([broken, cast], op)
    op.result.replace_all_uses_with(cast.result)
    assert "differs" in first_difference(wanted, interpret(module, "matmul", arguments))


def test_finds_an_alignment_that_does_not_hold():
    module, arguments, _ = converted(MATMUL)
    for op in module.walk():
        if isinstance(op, aa.MakeMemRefOp):
            op.properties["stride_divisor"] = IntTupleAttr((64, 64))
    with pytest.raises(InterpreterError, match="stride 48 is not a multiple of 64"):
        interpret(module, "matmul", arguments)


def test_specialised_warps_agree():
    module, arguments, wanted = converted(SPECIALISED)
    assert any(isinstance(op, AgentSwitchOp) for op in module.walk())
    assert any(isinstance(op, WgmmaDotOp) for op in module.walk())
    assert first_difference(wanted, interpret(module, "matmul", arguments)) == ""


def test_a_stage_that_is_not_handed_back_hangs():
    module, arguments, _ = converted(SPECIALISED)
    for op in [op for op in module.walk() if isinstance(op, ConsumerReleaseOp)]:
        op.detach()
    for op in module.walk():
        if isinstance(op, CreatePipelineOp):
            op.properties["stages"] = IntAttr(1)
    with pytest.raises(InterpreterError, match="stage 1 is waited for before one is handed back"):
        interpret(module, "matmul", arguments)


def test_a_stage_that_nobody_fills_hangs():
    module, arguments, _ = converted(SPECIALISED)
    for op in module.walk():
        if isinstance(op, ProducerAcquireOp):
            loop = op.parent_op()
            assert isinstance(loop, aa.ForOp)
            loop.operands[1] = loop.lower_bound
    # The threads fill the only stage once.
    for op in module.walk():
        if isinstance(op, CreatePipelineOp):
            op.properties["stages"] = IntAttr(1)
    with pytest.raises(InterpreterError, match="stage 1 is never filled"):
        interpret(module, "matmul", arguments)


def test_finds_a_vector_that_is_not_aligned():
    """The view starts one element late, which its facts do not say."""
    module, arguments, _ = converted(MATMUL, ("tma",))
    for op in module.walk():
        if isinstance(op, aa.MakeMemRefOp):
            op.properties["base_align"] = IntegerAttr(2, i64)
    memory = SimulatedMemory()
    late = DeviceBuffer(memory.upload(arguments[0]).address + 2, arguments[0].nbytes)
    with pytest.raises(InterpreterError, match="access of 16 bytes at .* is not aligned"):
        run_entry(module, "matmul", [late, *arguments[1:]], (1, 1, 1), memory)


def test_operands_must_lie_as_the_result_does():
    module = read_source((ROOT / "examples" / "vector_add.mlir").read_bytes())
    for _ in passes(module, (), "sm_90"):
        pass
    op = next(op for op in module.walk() if isinstance(op, aa.AddFOp))
    layout = layout_of(op.result.type)
    assert layout is not None
    flat = {**dict(layout.index_bases), "lane": tuple(reversed(layout.vectors("lane")))}
    other = LinearLayout.from_index_bases(flat, layout.shape)
    moved = tas.ConvertLayoutOp.create(
        operands=[op.lhs], result_types=[encoded(op.result.type.element_type, other)]
    )
    op.parent_block().insert_op_before(moved, op)
    op.operands[0] = moved.result
    arrays = [np.zeros(4096, np.float32) for _ in range(3)]
    with pytest.raises(InterpreterError, match="an operand lies in .*, the result in"):
        run_entry(module, None, [*arrays, 4096], (1, 1, 1))


def written_and_read_back() -> ModuleOp:
    """Stores a tile, then loads it turned around: element i by the thread of element 127 - i."""
    kernel = Kernel(PointerType(i32), PointerType(i32))
    source, target = kernel.args
    element = TileType(i32, (128,))
    ahead = kernel.addresses(source, (128,))
    numbers = kernel.add(ct.IotaOp, [], element)
    last = kernel.constant(i32, 127, (128,))
    back = kernel.add(ct.XOrIOp, [numbers, last], element)
    one = kernel.add(ct.ReshapeOp, [source], TileType(PointerType(i32), (1,)))
    many = kernel.add(ct.BroadcastOp, [one], ahead.type)
    behind = kernel.add(ct.OffsetOp, [many, back], ahead.type)
    order = {"memory_ordering_semantics": WEAK}
    token = kernel.add(ct.StorePtrTkoOp, [ahead, numbers, [], []], TOKEN, **order)
    operands = [behind, [], [], [token]]
    loaded = kernel.add(ct.LoadPtrTkoOp, operands, [element, TOKEN], **order)[0]
    kernel.store(target, loaded)
    kernel.add(ct.ReturnOp, [[]])
    return kernel.module


def test_barriers_keep_accesses_in_token_order_apart():
    module = written_and_read_back()
    for _ in passes(module, (), "sm_90"):
        pass
    assert any(isinstance(op, aa.BarrierOp) for op in module.walk())
    found = np.zeros(128, np.int32)
    run_entry(module, "kernel", [np.zeros(128, np.int32), found], (1, 1, 1))
    np.testing.assert_array_equal(found, np.arange(127, -1, -1))


def test_a_missing_barrier_is_a_race():
    module = written_and_read_back()
    for _ in passes(module, (), "sm_90"):
        pass
    for op in [op for op in module.walk() if isinstance(op, aa.BarrierOp)]:
        op.detach()
    arrays = [np.zeros(128, np.int32), np.zeros(128, np.int32)]
    with pytest.raises(InterpreterError, match="race at address .* no barrier is between"):
        run_entry(module, "kernel", arrays, (1, 1, 1))


LAYOUT = LinearLayout(
    {"register": [(1,)], "lane": [(2,), (4,), (0,), (0,), (0,)], "warp": [(0,)]}, (8,)
)
"""Eight elements in four lanes of one warp; the other lanes and the other warp hold copies."""


def test_collecting_undoes_placing():
    values = np.arange(8, dtype=np.int32)
    held = place(values, LAYOUT)
    assert held.shape == (2, 32, 2) == element_indices(LAYOUT).shape
    np.testing.assert_array_equal(collect(held, LAYOUT, ModuleOp([])), values)


def test_copies_that_differ_name_their_reader():
    held = place(np.arange(8, dtype=np.int32), LAYOUT)
    held[1, 5, 0] = 77
    reader = aa.BarrierOp.create()
    with pytest.raises(InterpreterError, match=r"barrier: copies of element \(2,\) differ: .* 77"):
        collect(held, LAYOUT, reader)


def test_copies_of_a_nan_agree():
    held = place(np.full(8, np.nan, np.float32), LAYOUT)
    assert np.isnan(collect(held, LAYOUT, ModuleOp([]))).all()


def test_every_element_has_one_owner():
    owners = element_indices(LAYOUT)[owned(LAYOUT)]
    assert sorted(owners.tolist()) == list(range(8))


def test_every_operation_of_the_stages_has_a_rule():
    from tileiras.interpreter import pipelines, tensor_rules, thread_rules
    from tileiras.interpreter.equivalent_ops import EquivalentOps
    from tileiras.interpreter.races import RaceDetector

    structure = {
        aa.FuncOp, aa.GlobalOp, aa.ForOp, aa.IfOp, aa.LoopOp,
        aa.YieldOp, aa.ContinueOp, aa.BreakOp, aa.ReturnOp,
    }  # fmt: skip
    equivalents = EquivalentOps()
    whole = (
        structure | tensor_rules.pure_rules(equivalents).keys() | tensor_rules.EFFECT_RULES.keys()
    )
    assert [op.name for op in aa.NvTileAA.operations if op not in whole] == []
    threads = structure | thread_rules.pure_rules(equivalents).keys()
    threads |= thread_rules.effect_rules(equivalents, RaceDetector()).keys()
    threads |= pipelines.effect_rules(equivalents, RaceDetector()).keys()
    operations = [*aa.NvTileAA.operations, *tas.NvTileAS.operations]
    assert [op.name for op in operations if op not in threads] == []


TENSOR_MEMORY = MATMUL.replace(b"64x32", b"64x64").replace(b"32x64", b"64x64")
"""The same kernel for targets where sums lie in tensor memory."""


def for_tensor_memory() -> tuple[ModuleOp, list, list[np.ndarray]]:
    """The nv_tileas module for sm_100, its arguments, and what it should leave in memory."""
    module = read_source(TENSOR_MEMORY)
    entry = next(op for op in module.walk() if is_entry(op))
    arguments = make_arguments(entry)  # type: ignore[arg-type]
    wanted = interpret(module, "matmul", arguments)
    options = CompileOptions(opt_level=3, emit="nv_tileas", gpu_name="sm_100")
    target = get_target("sm_100")
    context = CompileContext(target=target, options=options, remarks=RemarkCollector())
    for step in select_steps(options, target):
        load_pass(step.pass_name)().apply(context, module)
    return module, arguments, wanted


def erase(module: ModuleOp, kind: type[Operation]) -> None:
    """Takes all operations of a kind away."""
    found = [op for op in module.walk() if isinstance(op, kind)]
    assert found
    for op in found:
        op.detach()


def test_sums_in_tensor_memory_are_those_of_the_program():
    module, arguments, wanted = for_tensor_memory()
    assert any(isinstance(op, tc.AccumulatorLoadOp) for op in module.walk())
    assert first_difference(wanted, interpret(module, "matmul", arguments)) == ""


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (tc.AccumulatorCommitOp, "a sum is loaded that is never committed"),
        (tc.AccumulatorAcquireOp, "a product is issued into a sum that nobody has begun"),
        (tc.StageReleaseOp, "is waited for before one is handed back"),
    ],
)
def test_a_product_warp_that_leaves_something_out_is_found(kind, message):
    module, arguments, _ = for_tensor_memory()
    erase(module, kind)
    for op in module.walk():
        if isinstance(op, CreatePipelineOp):
            op.properties["stages"] = IntAttr(1)
    with pytest.raises(InterpreterError, match=message):
        interpret(module, "matmul", arguments)


def test_a_sum_that_nobody_loads_is_found():
    module, arguments, _ = for_tensor_memory()
    for op in module.walk():
        if isinstance(op, tc.ProductWarpOp):
            last = next(o for o in op.walk() if isinstance(o, tc.AccumulatorCommitOp))
            block = last.parent_block()
            assert block is not None
            again = tc.AccumulatorAcquireOp.create(operands=[last.accumulator])
            block.insert_op_after(again, last)
            block.insert_op_after(last.clone(), again)
    with pytest.raises(InterpreterError, match="a sum is never loaded"):
        interpret(module, "matmul", arguments)
