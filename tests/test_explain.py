"""`tileiras-explain`: lines with their costs, the prediction for a shape, text and page."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.kernels.gemm import gemm
from tests.kernels.row_loops import RowLoop
from tileiras.errors import TargetError, UsageError
from tileiras.explain.analysis import Explanation, explain
from tileiras.explain.command import run
from tileiras.explain.page import to_html
from tileiras.explain.prediction import Shape
from tileiras.explain.report import to_text

ROOT = Path(__file__).resolve().parents[1]
MATMUL = ROOT / "examples" / "matmul.mlir"
VECTOR_ADD = ROOT / "examples" / "vector_add.mlir"
SIZE = 4096
SQUARE = Shape((SIZE // 128, SIZE // 128, 1), {3: SIZE, 4: SIZE, 5: SIZE})


def product(shape: Shape | None = SQUARE, target: str = "sm_90") -> Explanation:
    """A product of f16 in tiles of 128x128x64."""
    return explain(gemm(128, 128, 64), "k.mlir", target, shape=shape)


@pytest.fixture(scope="module")
def explained() -> Explanation:
    """The product for a shape."""
    return product()


def test_flops_are_those_of_the_shape(explained: Explanation) -> None:
    """2 M N K at the data sheet's 989 TFLOP/s."""
    (line,) = [line for line in explained.prediction.lines if line.kind == "product"]
    assert line.place == ("k.mlir", 30) and line.bound == "tensor"
    assert line.times["tensor"] == pytest.approx(2 * SIZE**3 / 989e6, rel=1e-3)


def test_memory_is_every_tensor_once(explained: Explanation) -> None:
    """Three matrices of f16 at 4.8 TB/s; L2 brings operands once for every tile."""
    times = explained.prediction.times
    assert times["memory"] == pytest.approx(3 * 2 * SIZE**2 / 4800e3, rel=1e-3)
    moved = 2 * SIZE**3 / 128 * 2 + 2 * SIZE**2
    assert times["L2"] == pytest.approx(moved / (132 * 47 * 1.829 * 1e3), rel=1e-2)


def test_prediction_is_the_slowest_unit(explained: Explanation) -> None:
    prediction = explained.prediction
    assert prediction.time == max(prediction.times.values())
    assert prediction.times[prediction.slowest] == prediction.time
    assert prediction.bound in ("memory", "tensor")


def test_time_grows_with_the_shape() -> None:
    smaller = product(Shape((8, 8, 1), {3: 1024, 4: 1024, 5: 1024}))
    assert smaller.prediction.time * 50 < product().prediction.time


def test_products_without_wgmma_take_longer() -> None:
    """mma.sync has half the rate where there is wgmma."""
    source = gemm(32, 32, 64)
    shape = Shape((128, 128, 1), {3: SIZE, 4: SIZE, 5: SIZE})
    small = explain(source, "k.mlir", "sm_90", shape=shape).prediction
    (line,) = [line for line in small.lines if line.kind == "product"]
    assert line.times["tensor"] == pytest.approx(2 * 2 * SIZE**3 / 989e6, rel=1e-3)


def test_vector_kernel_is_bound_by_memory() -> None:
    count = 1 << 26
    shape = Shape((count // 1024, 1, 1), {3: count})
    source = VECTOR_ADD.read_bytes()
    found = explain(source, str(VECTOR_ADD), "sm_90", shape=shape).prediction
    assert found.bound == "memory"
    assert found.time == pytest.approx(3 * 4 * count / 4800e3, rel=0.01)


def test_loads_that_are_waited_for_cost_latency() -> None:
    """A loop over a row of one block: latency, not bytes, is what it takes."""
    source = RowLoop(chained=True, in_place=True).text.encode()
    found = explain(source, "k.mlir", "sm_90", shape=Shape((1, 1, 1), {}))
    assert found.prediction.slowest == "latency" and found.prediction.bound == "latency"
    assert product().prediction.times["latency"] == 0


def test_loop_of_unknown_length_is_named() -> None:
    found = product(Shape((4, 4, 1), {3: SIZE}))
    assert found.prediction.unknown == (("k.mlir", 24),)
    assert "one iteration is counted of the loop at k.mlir:24" in to_text(found)
    assert "one iteration" not in to_text(product())


def test_without_a_shape_one_tile_block_is_counted() -> None:
    found = product(None)
    assert found.prediction.times == {} and found.prediction.bound == ""
    text = to_text(found)
    assert "no shape is given" in text and "4.19430" not in text
    assert f"{2 * 128 * 128 * 64:g} flops" in text


def test_report_has_source_costs_and_what_was_missed(explained: Explanation) -> None:
    text = to_text(explained)
    assert "   30  %d = mmaf %a, %b, %a0" in text
    assert "product: " in text and "wgmma.m64n" in text
    assert "! store of 2 instead of 16 bytes a thread" in text
    assert "to change it: pass memory that is 16-byte aligned" in text
    assert "nothing was measured" in text and "H200 data sheet" in text


class Reader(HTMLParser):
    """Checks that elements are closed in order; keeps text and attributes."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen += [tag, *(name for name, _ in attrs)]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_page_is_one_file_without_script(explained: Explanation) -> None:
    page = to_html(explained)
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [] and not {"script", "src", "href", "link"} & set(reader.seen)
    assert "http" not in page.replace("https://www.w3.org", "")
    words = " ".join(reader.text)
    assert "%d = mmaf %a, %b, %a0 : tile<128x64xf16>" in words
    assert "bound by" in words and "to change it: " in words


def test_page_escapes_what_the_source_says() -> None:
    found = product()
    found.source["k.mlir"][29] = "<script>alert(1)</script>"
    assert "<script>" not in to_html(found)


def test_same_input_same_report(explained: Explanation) -> None:
    again = product()
    assert to_text(again) == to_text(explained) and to_html(again) == to_html(explained)


def test_targets_without_rates_are_refused_with_a_shape() -> None:
    with pytest.raises(TargetError, match="no rates of sm_80 are known"):
        product(target="sm_80")
    assert product(None, "sm_80").prediction.lines


def test_command_writes_text_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "k.html"
    arguments = [str(MATMUL), "--gpu-name", "sm_90", "--grid", "64,64"]
    arguments += [f"--arg={place}=4096" for place in (3, 4, 5)]
    assert run([*arguments, "--html", str(page)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("matmul on sm_90\n") and page.read_text().startswith("<!doctype")
    told = (ROOT / "docs" / "explain.md").read_text()
    figures = re.findall(r"predicted: .*|units: .*|product: .*", told)
    assert len(figures) == 3 and all(figure in printed for figure in figures)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no input file provided"),
        ([str(MATMUL)], "no GPU architecture given, expected --gpu-name"),
        ([str(MATMUL), "--gpu-name=sm_90", "--grid=0"], "the grid is '0', expected one to three"),
        ([str(MATMUL), "--gpu-name=sm_90", "--grid=1,2,3,4"], "the grid is '1,2,3,4'"),
        ([str(MATMUL), "--gpu-name=sm_90", "--grid=1", "--arg=x=1"], "the argument is 'x=1'"),
        ([str(MATMUL), "--gpu-name=sm_90", "--arg=3=1"], "--arg says nothing without --grid"),
        ([str(MATMUL), "--gpu-name=sm_90", "--entry=f"], "no entry 'f', found: matmul"),
        ([str(MATMUL), "--gpu-name=sm_9"], "unknown GPU target 'sm_9'"),
    ],
)
def test_mistakes_are_told(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) != 0
    assert message in capsys.readouterr().err


def test_later_stages_are_refused() -> None:
    from tileiras.driver import compile_module, with_environment
    from tileiras.options import CompileOptions

    options = with_environment(CompileOptions(gpu_name="sm_90", emit="nv_tileas"))
    text = compile_module(MATMUL.read_bytes(), options).output
    with pytest.raises(UsageError, match="only programs of stage cuda_tile are explained"):
        explain(text, "k.mlir", "sm_90")


def test_compiler_imports_nothing_of_it() -> None:
    """Neither the report nor the remarks' explanations, unless they are asked for."""
    code = (
        "import sys; from tileiras import cli; "
        f"code = cli.run([{str(MATMUL)!r}, '--gpu-name=sm_90', '--emit=ptx', '-o', '/dev/null']); "
        "names = ('tileiras.explain', 'tileiras.passes.nv_tileas.explain', "
        "'tileiras.resource_remarks', 'tileiras.codegen.occupancy'); "
        "print(code, [name for name in names if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "0 []"
