"""Locks that one CTA of a cluster takes for all: the same sums, and where it must not be done."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from tests.kernels.lock_kernels import LOOP, RELEASE, TURNS, SmemTransposeCase
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import make_case
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.driver import compile_module, with_environment
from tileiras.interpreter import InterpreterError, execution, run_entry
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

SPLIT = ProductKernel("f16", (64, 64, 64), form="split")
WIDE = ProductKernel("f16", (64, 128, 64), form="split")
PLAIN = ProductKernel("f32", (64, 32, 16), a="any", form="split", is_aligned=False)


def stages(text: str) -> dict[str, ModuleOp]:
    """The kernel behind the pass, and once tiles have layouts."""
    module = parse_text(text, "kernel.mlir")
    found: dict[str, ModuleOp] = {}
    for name, _ in passes(module, (), "sm_90"):
        if name in ("coarsen-locks", "convert-tileaa-to-tileas"):
            found[name] = module.clone()
    return found


def kernel_of(module: ModuleOp) -> aa.FuncOp:
    """The only kernel."""
    return next(op for op in module.walk() if isinstance(op, aa.FuncOp))


def cluster_size(text: str) -> int:
    """CTAs of a cluster of the kernel."""
    return kernel_of(stages(text)["coarsen-locks"]).cluster_size


def test_one_cta_takes_the_lock_for_all():
    func = kernel_of(stages(TURNS)["coarsen-locks"])
    assert (func.cluster_size, func.shared_axis) == (4, 0)
    operations = list(func.walk())
    assert sum(isinstance(op, aa.AtomicCASOp) for op in operations) == 1
    assert sum(isinstance(op, aa.TiledStoreOp) for op in operations) == 1
    assert sum(isinstance(op, aa.StoreOp) for op in operations) == 1
    reads = [op for op in operations if isinstance(op, aa.ReadSharedOp)]
    assert [op.rank.data for op in reads] == list(range(4))


@pytest.mark.parametrize("parts", [1, 2, 8, 11, 16])
def test_sums_of_all_parts(parts: int):
    for module in stages(TURNS).values():
        case = SmemTransposeCase(parts, 3)
        run_entry(module, None, case.arguments, case.grid)
        case.check()


@pytest.mark.parametrize("seed", range(3))
def test_clusters_come_in_any_order(seed: int, monkeypatch: pytest.MonkeyPatch):
    programs = execution._programs

    def shuffled(entry: execution.Entry, grid: tuple[int, int, int]):
        clusters: dict[tuple[int, int, int], list[int]] = {}
        for block, rank in programs(entry, grid):
            clusters.setdefault(block, []).append(rank)
        blocks = list(clusters)
        order = np.random.default_rng(seed).permutation(len(blocks))
        return [(blocks[at], rank) for at in order for rank in clusters[blocks[at]]]

    monkeypatch.setattr(execution, "_programs", shuffled)
    case = SmemTransposeCase(19, 2)
    run_entry(stages(TURNS)["convert-tileaa-to-tileas"], None, case.arguments, case.grid)
    case.check()


@pytest.mark.parametrize("kernel", [SPLIT, WIDE, PLAIN], ids=lambda kernel: kernel.name)
def test_products_are_added(kernel: ProductKernel):
    module = stages(kernel.text())["convert-tileaa-to-tileas"]
    assert kernel_of(module).cluster_size == (2 if kernel is WIDE else 4)
    for seed in range(2):
        case = make_case(kernel, seed)
        arguments = case.arguments()
        run_entry(module, "product", arguments, case.grid)
        assert not case.difference(arguments[2])


STORE_BEFORE = """
    %early = store_ptr_tko weak %count, %c0 token=%t0 : tile<ptr<i32>>, tile<i32> -> token"""
CHANGES = {
    "something is stored before": (LOOP, STORE_BEFORE + LOOP),
    "the lock stays taken": ("xchg, %c0", "xchg, %c1"),
    "the lock is not exchanged": ("xchg, %c0", "add, %c0"),
    "blocks count differently": ("addi %turn, %c1", "addi %turn, %b"),
    "a lock of each block": ("offset %locks, %by", "offset %locks, %b"),
    "a tile of each block": ("%sp[%by]", "%sp[%b]"),
    "the loop goes on when the lock was free": (
        "cmpi equal %old, %c1",
        "cmpi not_equal %old, %c1",
    ),
    "the loop goes on when the lock was taken, too": (
        "if %busy {\n      }",
        "if %busy {\n        break %taken : token\n      }",
    ),
    "places may be the same": ("%count, %again token=%seen", "%count, %again token=%stored"),
    "one side accesses nothing": (
        "%w0 = store_view_tko weak %mine, %sp[%by] token = %held\n"
        "        : tile<1024xf32>, partition_view<tile=(1024), "
        "tensor_view<8192xf32, strides=[1]>>, tile<i32> -> token\n      yield %w0",
        "yield %held",
    ),
    "one side writes nothing": (
        "%w1 = store_view_tko weak %more, %sp[%by] token = %read\n"
        "        : tile<1024xf32>, partition_view<tile=(1024), "
        "tensor_view<8192xf32, strides=[1]>>, tile<i32> -> token\n      yield %w1",
        "yield %read",
    ),
    "the lock is looked at": ("%count = offset %turns, %by", "%count = offset %locks, %parts"),
    "something follows": (RELEASE, RELEASE + STORE_BEFORE.replace("%t0", "%free")),
    "one CTA is asked for": (
        "%parts: tile<i32>)",
        "%parts: tile<i32>) optimization_hints=<sm_90 = {num_cta_in_cga = 1}>",
    ),
}


SHORT = "partition_view<tile=(1024), padding_value = zero, tensor_view<1000xf32, strides=[1]>>"
LONG = "partition_view<tile=(1024), tensor_view<8192xf32, strides=[1]>>"
SHORT_VIEW = f"""    %short_t = make_tensor_view %short, shape = [1000], strides = [1]
      : tensor_view<1000xf32, strides=[1]>
    %shp = make_partition_view %short_t : {SHORT}
"""
TWO_PLACES = f"""
    %there, %read = load_view_tko weak %shp[%by] token = %held : {SHORT}, tile<i32>
      -> tile<1024xf32>, token
    %more = addf %there, %mine : tile<1024xf32>
    %w1 = store_view_tko weak %more, %shp[%by] token = %read
      : tile<1024xf32>, {SHORT}, tile<i32> -> token
    %sum, %summed = load_view_tko weak %sp[%by] token = %held : {LONG}, tile<i32>
      -> tile<1024xf32>, token
    %all = addf %sum, %ADDED : tile<1024xf32>
    %stored = store_view_tko weak %all, %sp[%by] token = %summed
      : tile<1024xf32>, {LONG}, tile<i32> -> token
"""


@pytest.mark.parametrize(("added", "size"), [("mine", 4), ("there", 1)])
def test_what_stands_out_of_bounds_is_padding_each_time(added: str, size: int):
    """Added up in registers it would be something else, which another place would get."""
    start, end = TURNS.index("    %stored = if"), TURNS.index("    %next = addi")
    text = TURNS[:start] + TWO_PLACES.replace("ADDED", added) + TURNS[end:]
    text = text.replace("%parts: tile<i32>)", "%parts: tile<i32>, %short: tile<ptr<f32>>)")
    text = text.replace("    %first = muli", SHORT_VIEW + "    %first = muli")
    assert cluster_size(text) == size
    sums: list[np.ndarray] = []
    for module in (parse_text(text, "kernel.mlir"), *stages(text).values()):
        case = SmemTransposeCase(4, 1)
        arguments = [*case.arguments, np.zeros(1000, np.float32)]
        run_entry(module, None, arguments, case.grid)
        sums.append(case.sums)
    for found in sums[1:]:
        np.testing.assert_array_equal(found, sums[0])


@pytest.mark.parametrize(("rows", "size"), [(1024, 1), (2048, 4)])
def test_each_thread_of_the_largest_blocks_sends_whole_registers(rows: int, size: int):
    text = TURNS.replace("f32", "f16").replace("1024", str(rows)).replace("div_by<16>", "div_by<1>")
    before, after = CHANGES["one CTA is asked for"]
    hint = after.replace("num_cta_in_cga = 1", "num_worker_warps_per_cta = 32")
    text = text.replace(before, hint)
    assert cluster_size(text) == size
    options = with_environment(CompileOptions(gpu_name="sm_90", emit="ptx"))
    ptx = compile_module(text.encode(), options).output.decode()
    assert ("st.async" in ptx) == (size > 1)


@pytest.mark.parametrize("change", CHANGES)
def test_other_kernels_stay_as_they_are(change: str):
    before, after = CHANGES[change]
    assert before in TURNS
    assert cluster_size(TURNS.replace(before, after)) == 1


def test_fewer_ctas_can_be_asked_for():
    before, after = CHANGES["one CTA is asked for"]
    assert cluster_size(TURNS.replace(before, after.replace("= 1", "= 2"))) == 2


def test_clusters_are_as_large_as_there_are_tile_blocks():
    text = PLAIN.text()
    assert "step %nz" in text
    assert cluster_size(text) == 4
    assert cluster_size(text.replace("step %nz", "step %c2")) == 2
    sixteen = "%c16 = constant <i32: 16> : tile<i32>\n    %t0 = make_token"
    many = text.replace("step %nz", "step %c16").replace("%t0 = make_token", sixteen)
    assert cluster_size(many) == 8


def exchange_of(module: ModuleOp) -> aa.ShareTilesOp:
    """The only exchange."""
    return next(op for op in module.walk() if isinstance(op, aa.ShareTilesOp))


def test_only_the_reader_gets_tiles_once_they_are_there():
    module = stages(TURNS)["coarsen-locks"]
    case = SmemTransposeCase(9, 1)
    wait = next(op for op in module.walk() if isinstance(op, aa.AwaitSharedOp))
    wait.detach()
    with pytest.raises(InterpreterError, match="before it has arrived"):
        run_entry(module, None, case.arguments, case.grid)
    Rewriter.insert_op(wait, InsertPoint.after(exchange_of(module)))
    with pytest.raises(InterpreterError, match="gets no tiles"):
        run_entry(module, None, case.arguments, case.grid)
    module = stages(TURNS)["coarsen-locks"]
    exchange_of(module).properties["reader"] = IntAttr(1)
    with pytest.raises(InterpreterError, match="to itself"):
        run_entry(module, None, case.arguments, case.grid)
    module = stages(TURNS)["coarsen-locks"]
    next(op for op in module.walk() if isinstance(op, aa.SendSharedOp)).detach()
    with pytest.raises(InterpreterError, match="never arrive"):
        run_entry(module, None, case.arguments, case.grid)


def test_exchanges_are_verified():
    module = stages(TURNS)["coarsen-locks"]
    module.verify()
    read = exchange_of(module).reads(0)[0]
    read.properties["rank"] = IntAttr(4)
    with pytest.raises(VerifyException, match="no CTA 4"):
        read.verify_()
    read.properties |= {"rank": IntAttr(0), "number": IntAttr(1)}
    with pytest.raises(VerifyException, match="no tile 1"):
        read.verify_()
    del kernel_of(module).properties["cluster"]
    with pytest.raises(VerifyException, match="the cluster has one CTA"):
        exchange_of(module).verify_()


STORE_OF_MINE = f"store_view_tko weak %mine, %sp[%by] token = %held : tile<1024xf32>, {LONG}"
WRITTEN_TWICE = f"""
    %once = if %is_first -> (token) {{
      %w0 = {STORE_OF_MINE}, tile<i32> -> token
      yield %w0 : token
    }} else {{
      yield %held : token
    }}
    %stored = {STORE_OF_MINE.replace("%held", "%once")}, tile<i32> -> token
"""


def test_what_one_side_of_a_branch_writes_may_be_written_again():
    start, end = TURNS.index("    %stored = if"), TURNS.index("    %next = addi")
    text = TURNS[:start] + WRITTEN_TWICE + TURNS[end:]
    assert cluster_size(text) == 4
    for module in (parse_text(text, "kernel.mlir"), *stages(text).values()):
        case = SmemTransposeCase(6, 1)
        run_entry(module, None, case.arguments, case.grid)
        last = case.x[5 * 1024 : 6 * 1024]
        np.testing.assert_array_equal(case.sums[:1024], last)


@pytest.mark.parametrize(("other", "size"), [("%turn", 1), ("%c1", 4)])
def test_what_stands_for_masked_elements_is_known_before_the_section(other: str, size: int):
    section = f"""
    %found, %masked = load_ptr_tko weak %more_counts, %is_there, {other} token=%held
      : tile<ptr<i32>>, tile<i1>, tile<i32> -> tile<i32>, token
    %sum = addi %found, %c1 : tile<i32>
    %put = store_ptr_tko weak %more_counts, %sum, %is_there token=%masked
      : tile<ptr<i32>>, tile<i32>, tile<i1> -> token
"""
    place = "    %more_counts = offset %turns, %c1 : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
    text = TURNS.replace("    %stored = if", f"{section}    %stored = if")
    text = text.replace("    %count = offset", f"{place}    %count = offset")
    assert cluster_size(text) == size
    for module in (parse_text(text, "kernel.mlir"), *stages(text).values()):
        case = SmemTransposeCase(6, 1)
        case.turns = np.zeros(2, np.int32)
        run_entry(module, None, case.arguments, case.grid)
        assert list(case.turns) == [0, 6]


@pytest.mark.parametrize("tile", [(64, 64, 32), (32, 128, 64)])
def test_what_is_sent_leaves_room_where_shared_memory_is_small(tile: tuple[int, int, int]):
    """For tiles that loads start early, and for changes of layouts."""
    text = ProductKernel("f32", tile, form="split").text()
    options = with_environment(CompileOptions(gpu_name="sm_120", emit="ptx"))
    assert "st.async" in compile_module(text.encode(), options).output.decode()


@pytest.mark.parametrize(("element", "depth"), [("f16", 128), ("f32", 64)])
def test_steps_are_cut_again_where_pipelines_get_half_of_the_memory(element: str, depth: int):
    func = kernel_of(
        stages(ProductKernel(element, (32, 64, 256), form="split").text())["coarsen-locks"]
    )
    assert func.cluster_size > 1
    [dot] = [op for op in func.walk() if isinstance(op, aa.DotOp)]
    assert shape_of(dot.lhs) == (32, depth)
