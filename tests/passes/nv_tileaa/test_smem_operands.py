"""Operands of mma.sync that are loaded early and read where they are: which, and how far ahead."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp, UnitAttr
from xdsl.utils.exceptions import VerifyException

from tests.kernels.gemm import gemm
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import WHOLE_CHUNKS, make_case
from tests.kernels.softmax_attention import softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.driver import read_source
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.planning.schedule.pipelined_loads import PipelinedLoad, find_pipelined_loads
from tileiras.planning.schedule.smem_operands import MOST_DISTANCE, schedule_operands


def after(
    source: bytes, stage: str, arch: str = "sm_80", without: tuple[str, ...] = ()
) -> ModuleOp:
    """The module behind a pass."""
    module = read_source(source)
    for name, _ in passes(module, without, arch):
        if name == stage:
            return module
    raise AssertionError(f"no pass {stage}")


def placed(source: bytes, arch: str = "sm_80", without: tuple[str, ...] = ()) -> ModuleOp:
    """The module when all tiles have layouts."""
    return after(source, "convert-tileaa-to-tileas", arch, without)


def in_stages(module: ModuleOp) -> list[tas.ReadStageOp]:
    """The loads whose tiles products read in their stages."""
    finished = (op for op in module.walk() if isinstance(op, tas.ReadStageOp))
    return [op for op in finished if op.shared is not None]


def test_threads_meet_before_an_iteration_starts_loads() -> None:
    module = placed(gemm(128, 128, 32))
    assert len(in_stages(module)) == 2
    [loop] = {op.parent_op() for op in in_stages(module)}
    assert isinstance(loop, aa.ForOp)
    first, *others = loop.body.block.ops
    assert isinstance(first, aa.AsyncWaitGroupOp) and first.meet is not None
    assert first.pending is not None and first.pending.data == 1
    assert sum(isinstance(op, tas.AsyncCopyOp) for op in others) == 2
    last = loop.next_op
    assert (
        isinstance(last, aa.AsyncWaitGroupOp) and last.meet is not None and last.frees is not None
    )


def test_stages_stay_where_loops_are_nested() -> None:
    text = ProductKernel("f16", (64, 64, 32), form="persistent", whole=True).text()
    module = placed(text.encode())
    assert len(in_stages(module)) == 2
    waits = [op for op in module.walk() if isinstance(op, aa.AsyncWaitGroupOp)]
    assert waits and all(op.frees is None for op in waits)


GEMM = gemm(64, 64, 32)
OTHER_USE = (b"%d = mmaf %a,", b"%a2 = addf %a, %a : tile<64x32xf16>\n      %d = mmaf %a2,")
NAN = (b"tile=(64x32), padding_value = zero", b"tile=(64x32), padding_value = nan")


@pytest.mark.parametrize(
    ("change", "count"), [((b"", b""), 2), (OTHER_USE, 1), (NAN, 1)], ids=["plain", "used", "nan"]
)
def test_tiles_that_pass_through_registers(change: tuple[bytes, bytes], count: int) -> None:
    assert len(in_stages(placed(GEMM.replace(*change)))) == count


@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
def test_what_is_rounded_to_tf32_passes_through_registers(arch: str) -> None:
    """mma.sync would cut what `ftof` rounds (docs/decisions/0009); steps stay whole."""
    text = ProductKernel("f32", (128, 128, 32), whole=True).text().encode()
    module = placed(text, arch)
    assert not in_stages(module)
    [dot] = [op for op in module.walk() if isinstance(op, tas.MmaDotOp)]
    assert shape_of(dot.lhs) == (128, 32)
    rounded = [op for op in module.walk() if isinstance(op, aa.FpToFpOp)]
    assert len(rounded) == 2


def test_small_floats_that_are_widened_pass_through_registers() -> None:
    text = ProductKernel("f8E4M3FN", (64, 64, 64), b="transposed", whole=True).text().encode()
    assert not in_stages(placed(text, "sm_90", ("wgmma",)))
    assert len(in_stages(placed(text, "sm_89"))) == 2


@pytest.mark.parametrize(("keys", "count"), [(64, 2), (128, 0)])
def test_one_tile_block_alone_does_without_stages(keys: int, count: int) -> None:
    """Of 128 keys three stages of both operands would fill an SM, where registers let four
    share.
    """
    module = placed(softmax_attention("full", 16, keys, 128), "sm_90", ("wgmma",))
    assert len(in_stages(module)) == count


def two_loads() -> list[PipelinedLoad]:
    """Of two operands with stages of 2 KB."""
    module = after(gemm(32, 32, 32), "form-clusters")
    [loop] = [op for op in module.walk() if isinstance(op, aa.ForOp)]
    return find_pipelined_loads(loop)


@pytest.mark.parametrize(
    ("kilobytes", "most_ctas", "wanted"),
    [
        (48, 2, (3, 2)),
        (24, 2, (2, 2)),
        (20, 2, (3, 1)),
        (12, 1, (2, 1)),
        (8, 1, (1, 1)),
        (8, 2, (1, 1)),
        (7, 1, None),
    ],
)
def test_two_distance_are_worth_more_than_company(
    kilobytes: int, most_ctas: int, wanted: tuple[int, int] | None
) -> None:
    loads = two_loads()
    found = schedule_operands(loads, loads, 128, most_ctas, lambda n: kilobytes * 1024 // n)
    assert (found and (found.distance, found.ctas)) == wanted
    assert found is None or found.distance <= MOST_DISTANCE


def test_a_tile_block_alone_where_several_could_be_does_without_stages() -> None:
    loads = two_loads()
    assert schedule_operands(loads, loads, 128, 3, lambda n: 12 * 1024 // n) is None


@pytest.mark.parametrize("kernel", WHOLE_CHUNKS, ids=lambda kernel: kernel.name)
def test_every_stage_computes_the_product(kernel: ProductKernel) -> None:
    module = parse_text(kernel.text(), "kernel.mlir")
    for name, _ in passes(module, (), "sm_89"):
        if name not in ("tileas-expand-schedule", "convert-tileaa-to-tileas"):
            continue
        for seed in range(2):
            case = make_case(kernel, seed, tiles=2)
            arguments = case.arguments()
            run_entry(module, "product", arguments, case.grid)
            assert case.difference(arguments[2]) == ""


def test_stages_are_not_free_before_all_have_waited() -> None:
    for properties in ({"frees": UnitAttr()}, {"meet": UnitAttr(), "pending": IntAttr(1)}):
        with pytest.raises(VerifyException, match="may be in use"):
            aa.AsyncWaitGroupOp.create(properties={"frees": UnitAttr(), **properties}).verify()


LATER_PRODUCT = """%qz = constant <f32: 0.0> : tile<16x512xf32>
    %qa = constant <f16: 1.0> : tile<16x16xf16>
    %qb = make_partition_view %tB : VIEWB
    %qc = make_partition_view %tC : VIEWC
    %qv, %qt = load_view_tko weak %qb[%c0, %y] token = %t0 : VIEWB, tile<i32>
      -> tile<16x512xf16>, token
    %qd = mmaf %qa, %qv, %qz : tile<16x16xf16>, tile<16x512xf16>, tile<16x512xf32>
    %qs = store_view_tko weak %qd, %qc[%x, %y] token = %stored
      : tile<16x512xf32>, VIEWC, tile<i32> -> token
    return
"""


def test_a_later_product_does_not_get_the_memory_of_stages() -> None:
    """It wants any number of bytes for its operands, which may be more than there are."""
    text = ProductKernel("f16", (64, 32, 32), whole=True).text()
    tile, view = "partition_view<tile=(16x512)", "tensor_view<?x?x%s, strides=[?,1]>>"
    later = LATER_PRODUCT.replace("VIEWB", f"{tile}, padding_value = zero, {view % 'f16'}")
    text = text.replace("return\n", later.replace("VIEWC", f"{tile}, {view % 'f32'}"))
    module = placed(text.encode(), "sm_90", ("wgmma",))
    assert len(in_stages(module)) == 2
    assert all(op.frees is None for op in module.walk() if isinstance(op, aa.AsyncWaitGroupOp))
