"""Static figures of loops: what counts as the loop, its instructions, flops and shared memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import static_figures  # noqa: E402  # pyright: ignore[reportMissingImports]
from loop_figures import (  # noqa: E402  # pyright: ignore[reportMissingImports]
    main_loop,
    statements,
)
from sass_figures import role_loops  # noqa: E402  # pyright: ignore[reportMissingImports]

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1, %r2, %r3, %r4}, {%r5}, {%r6}, {%r7};"
WGMMA = "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%r1, %r2}, "
TCGEN05 = (
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.block16 [%r1], %rd1, %rd2, %r2, [%r3]"
)


def kernel(body: str) -> str:
    """PTX with a body."""
    head = ".version 9.0\n.visible .entry k(\n\t.param .u64 p\n)\n.reqntid 128\n"
    return f"{head}{{\n{body}\nret;\n}}\n"


def loop(body: str, label: str = "L1") -> str:
    """A loop over a body: with the branch and the setp two instructions more."""
    return f"${label}: // a loop\n{body}\nsetp.ne.s32 %p1, %r1, 0;\n@%p1 bra ${label};\n"


def test_a_loop_is_counted_with_its_products_and_loads() -> None:
    body = f"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{%r1}}, [%r2];\n{MMA}\n{MMA}"
    found = main_loop(kernel(f"mov.u32 %r9, 1;\n{MMA}\n{loop(body)}"), (128, 128))
    assert found is not None
    assert (found.unit, found.instructions, found.products) == ("mma.sync", 5, 2)
    assert (found.flops, found.shared_bytes) == (2 * 2 * 16 * 8 * 16, 512)
    assert found.per_kiloflop == pytest.approx(1000 * 5 / 8192)


def test_the_innermost_loop_with_products_is_taken() -> None:
    waiting = loop("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;", "L2")
    inner = loop(waiting + MMA, "L1")
    found = main_loop(kernel(loop(f"add.s32 %r1, %r1, 1;\n{inner}", "L0")), (128, 128))
    assert found is not None
    # Waiting, its branch and setp, the product, branch and setp; not the addition.
    assert found.instructions == 6


def test_kernels_without_a_loop_of_products_have_no_figures() -> None:
    assert main_loop(kernel(MMA), (128, 128)) is None
    assert main_loop(kernel(loop("add.s32 %r1, %r1, 1;")), (128, 128)) is None


@pytest.mark.parametrize(
    ("operands", "rows"), [("%rd1, %rd2, 1, 1, 1, 0, 0;", 192), ("{%r3}, %rd2, 1, 1, 1, 0;", 128)]
)
def test_wgmma_reads_a_from_memory_or_registers(operands: str, rows: int) -> None:
    found = main_loop(kernel(loop(WGMMA + operands)), (128, 128))
    assert found is not None
    assert found.flops == 2 * 64 * 128 * 16 // 4
    assert found.shared_bytes == rows * 32 // 4


def test_tcgen05_computes_the_whole_tile() -> None:
    found = main_loop(kernel(loop(f"@%p2 {TCGEN05}, [%r4], %p1;")), (128, 256))
    assert found is not None
    assert found.unit == "tcgen05 block_scale"
    assert found.flops == 2 * 128 * 256 * 64
    assert found.shared_bytes == (128 + 256) * 32


@pytest.mark.parametrize(("usage", "rows"), [("fill", 128), ("use", 0), ("lastuse", 0)])
def test_a_left_operand_that_is_kept_is_not_read_again(usage: str, rows: int) -> None:
    kept = TCGEN05.replace("block16", f"block16.collector::a::{usage}")
    found = main_loop(kernel(loop(f"{kept}, [%r4], %p1;")), (128, 256))
    assert found is not None
    assert found.shared_bytes == (rows + 256) * 32


SCORES = "mov.b32 %r2, 135266320;\n"
"""The instruction descriptor of 128x64, of f16."""
PROBABILITIES = "tcgen05.mma.cta_group::1.kind::f16 [%r1], [%r3], %rd2, %r2, %p1;"


def test_left_operands_in_tensor_memory_are_not_read_from_shared_memory() -> None:
    found = main_loop(kernel(SCORES + loop(PROBABILITIES)), (128, 256))
    assert found is not None and found.unit == "tcgen05"
    assert found.flops == 2 * 128 * 64 * 16
    assert found.shared_bytes == 64 * 32


def test_loops_of_warps_that_read_sums_count() -> None:
    reader = loop("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r5}, [%r6];\nex2.approx.f32 %f1, %f2;")
    alone = main_loop(kernel(SCORES + loop(PROBABILITIES)), (128, 64))
    found = main_loop(kernel(SCORES + loop(PROBABILITIES) + reader.replace("L1", "L2")), (128, 64))
    assert alone is not None and found is not None
    assert found.instructions == alone.instructions + 2 * 4
    text = kernel(SCORES + loop(PROBABILITIES) + reader.replace("L1", "L2"))
    over_tiles = main_loop(text, (128, 64), reads_sums=False)
    assert over_tiles is not None and over_tiles.instructions == alone.instructions
    text = kernel(SCORES + loop(PROBABILITIES) + reader.replace("L1", "L2") + "setmaxnreg.dec 40;")
    traded = main_loop(text.replace("reqntid 128", "reqntid 384"), (128, 64))
    assert traded is not None and traded.instructions == alone.instructions + 8 * 4


def test_branches_back_to_one_place_are_one_loop() -> None:
    """`continue` in the middle, then the end of the loop."""
    body = f"{MMA}\n@%p2 bra $L1;\n{MMA}"
    found = main_loop(kernel(loop(body)), (128, 128))
    assert found is not None and (found.products, found.instructions) == (2, 5)


SASS = """
.L_x_1:
        /*0010*/                   LDTM.x64 R4, tmem[UR6] ;   /* 0x00 */
        /*0020*/                   MUFU.EX2 R5, R5 ;
        /*0030*/              @!P0 BRA `(.L_x_1) ;
.L_x_4:
        /*0040*/                   MUFU.EX2 R5, R5 ;
        /*0050*/               @P1 BRA `(.L_x_1) ;
.L_x_2:
        /*0060*/                   UTCHMMA gdesc[UR4], gdesc[UR6], tmem[UR8] ;
        /*0070*/                   BRA.U UP0, `(.L_x_2) ;
.L_x_3:
        /*0080*/                   EXIT ;
        /*0090*/                   BRA `(.L_x_4) ;
"""


def test_sass_tells_what_each_role_issues() -> None:
    found = role_loops(SASS)
    assert found is not None
    # What comes back from a wait, behind the kernel's end, is no loop.
    assert (found.products, found.product_warp, found.consumer) == (1, 2, 5)
    assert role_loops("nothing") is None


def test_statements_see_through_assembly_and_line_numbers() -> None:
    text = kernel(".loc 1 2 3\nadd.s32 %r1, %r1, 1;\n{ .reg .pred p; W: bra W; mov.b32 %r1, %r2; }")
    assert [line.split()[0] for line in statements(text)] == [
        "add.s32",
        "W:",
        "bra",
        "mov.b32",
        "ret",
    ]


@pytest.mark.parametrize(("target", "unit"), [("sm_90", "wgmma"), ("sm_120", "mma.sync")])
def test_our_kernels_have_figures(target: str, unit: str) -> None:
    row = static_figures.our_row("f16", target)
    assert row is not None and row.loop is not None
    assert row.loop.unit == unit and row.spilled == 0 and row.stages >= 2
    assert static_figures.our_row("mxf8", "sm_90") is None


def page_rows() -> dict[tuple[str, str, str], dict[str, str]]:
    """Rows of the page by kernel, target and compiler."""
    page = (ROOT / "docs" / "static-figures.md").read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("|")]
    heads, rows = lines[0], lines[2:]
    found = [dict(zip(heads, row, strict=True)) for row in rows]
    return {(row["kernel"], row["target"], row["compiler"]): row for row in found}


@pytest.mark.parametrize("kernel_name", static_figures.KERNELS)
@pytest.mark.parametrize("target", ["sm_90", "sm_120"])
def test_kernels_are_as_the_page_says(kernel_name: str, target: str) -> None:
    """Registers may be others with another ptxas; what is in the loop is ours."""
    row = static_figures.our_row(kernel_name, target)
    if row is None:
        assert (kernel_name, target, "tileiras") not in page_rows()
        return
    said = page_rows()[kernel_name, target, "tileiras"]
    assert row.loop is not None and row.spilled == 0
    assert row.loop.instructions <= int(said["instructions"])
    assert row.loop.products == int(said["products"])
    assert row.stages >= int(said["stages"])
    assert row.loop.bytes_per_kiloflop <= float(said["bytes/kflop"]) + 0.005


@pytest.mark.parametrize(("kernel_name", "target"), static_figures.AS_TRITON)
def test_what_triton_has_is_as_the_page_says(kernel_name: str, target: str) -> None:
    how = static_figures.AS_TRITON[kernel_name, target]
    row = static_figures.our_row(kernel_name, target, how)
    assert row is not None and row.loop is not None and row.spilled == 0
    said = page_rows()[kernel_name, target, "tileiras1"]
    assert row.loop.instructions <= int(said["instructions"])
    assert row.loop.products == int(said["products"])
    assert row.stages >= int(said["stages"])


def test_no_figure_is_worse_than_tritons() -> None:
    """f8 on sm_90: than Triton's that adds up as exactly. Where a warp of ours computes more at
    once, its registers are those of the row that computes as much.
    """
    rows = page_rows()
    pairs = [key for key in rows if key[2] == "tileiras"]
    assert len(pairs) == 18
    for kernel_name, target, _ in pairs:
        exact = (kernel_name, target, "triton+")
        other = rows.get(exact) or rows[kernel_name, target, "triton"]
        ours = rows[kernel_name, target, "tileiras"]
        alike = rows.get((kernel_name, target, "tileiras1"))
        for row in (ours, *([alike] if alike else [])):
            assert float(row["per kflop"]) <= float(other["per kflop"])
            assert float(row["bytes/kflop"]) <= float(other["bytes/kflop"])
            assert int(row["stages"]) >= int(other["stages"])
            assert int(row["spilled"]) == 0
        assert int((alike or ours)["least"]) <= int(other["least"])
    assert {key[:2] for key in rows if key[2] == "tileiras1"} == set(static_figures.AS_TRITON)


def test_page_has_every_kernel_of_both_compilers() -> None:
    page = (ROOT / "docs" / "static-figures.md").read_text(encoding="utf-8")
    assert page.startswith(static_figures.HEAD[: static_figures.HEAD.index("VERSION")])
    for kernel_name in static_figures.KERNELS:
        for compiler in ("tileiras", "triton"):
            for target in static_figures.ONLY.get(kernel_name, ("sm_100", "sm_103", "sm_120")):
                assert f"| {kernel_name} | {target} | {compiler} |" in page


@pytest.mark.parametrize(("meets", "warps"), [("", 1), ("bar.sync 0;\n", 4)])
def test_warps_that_meet_read_shared_memory_together(meets: str, warps: int) -> None:
    """Of four; a warp that issues products by itself reads alone. A copy of scales: 512 bytes."""
    copy = "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r1], %rd1;"
    body = f"{meets}ld.shared.v4.b32 {{%r1}}, [%r2];\n{copy}\n{TCGEN05}, %p1;"
    found = main_loop(kernel(loop(body)), (128, 128))
    assert found is not None
    operands = (128 + 128) * 64 // 2
    assert found.shared_bytes == operands + 512 * warps + 512
