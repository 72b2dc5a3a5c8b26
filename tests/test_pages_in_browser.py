"""The HTML that commands write, shown in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser, find_browser
from tests.kernels.gemm import gemm
from tileiras.driver import compile_module
from tileiras.explain.analysis import Explanation, explain
from tileiras.explain.page import to_html
from tileiras.explain.prediction import Shape
from tileiras.explain.report import is_missed
from tileiras.layout_command import command as layout_command
from tileiras.options import CompileOptions

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        find_browser() is None,
        reason="no Chromium on PATH and none in $CHROMIUM (Debian: chromium-headless-shell)",
    ),
]

ROOT = Path(__file__).resolve().parents[1]
LENGTH = 67108864
PHONE, DESK = 400, 1200

OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
REQUESTS = "performance.getEntriesByType('resource').map(one => one.name)"
BARS = """[...document.querySelectorAll('.bar')].map(bar => ({
    kind: bar.className, width: bar.getBoundingClientRect().width,
    colour: getComputedStyle(bar).backgroundColor }))"""
OPENING = """[...document.querySelectorAll('details')].map(one => {
    const state = () => [one.open, one.getBoundingClientRect().height];
    const before = state();
    one.querySelector('summary').click();
    return { before, after: state() }; })"""
CONTRAST = """(() => {
    const numbers = colour => colour.match(/[0-9.]+/g).map(Number);
    const light = colour => {
        const [r, g, b] = numbers(colour).slice(0, 3).map(c => c / 255)
            .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const probe = document.createElement('div');
    probe.style.backgroundColor = 'Canvas';
    document.body.append(probe);
    const canvas = light(getComputedStyle(probe).backgroundColor);
    probe.remove();
    return [...document.querySelectorAll('h1, h2, li, td, pre, summary, footer')].map(one => {
        const text = light(getComputedStyle(one).color);
        const ratio = (Math.max(text, canvas) + 0.05) / (Math.min(text, canvas) + 0.05);
        return [one.tagName + '.' + one.className, ratio]; }); })()"""
CELLS = """[...document.querySelectorAll('g')].map(cell => {
    const [box, text] = [cell.querySelector('rect').getBBox(), cell.querySelector('text')];
    const inner = text.getBBox();
    return { text: text.textContent, fits: inner.x >= box.x && inner.y >= box.y &&
        inner.x + inner.width <= box.x + box.width &&
        inner.y + inner.height <= box.y + box.height }; })"""


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    """A browser with a profile of its own."""
    program = find_browser()
    assert program
    return Browser(program, tmp_path)


@pytest.fixture(scope="module")
def product() -> Explanation:
    """A product that is bound by the tensor cores."""
    return explain(gemm(128, 128, 64), "k.mlir", "sm_90", shape=Shape((32, 32, 1), {3: 4096}))


@pytest.fixture(scope="module")
def slow() -> Explanation:
    """A kernel with missed remarks."""
    source = (ROOT / "examples" / "tutorial" / "axpy_any.tileirbc").read_bytes()
    lengths = {1: LENGTH, 4: LENGTH, 7: LENGTH}
    return explain(source, "axpy_any.tileirbc", "sm_90", shape=Shape((65536, 1, 1), lengths))


@pytest.fixture(params=["product", "slow"])
def explanation(request: pytest.FixtureRequest) -> Explanation:
    """Each of them."""
    return request.getfixturevalue(request.param)


def test_report_fits_a_desk_and_a_phone(browser: Browser, explanation: Explanation) -> None:
    """Nothing is cut off, and nobody scrolls sideways."""
    page = to_html(explanation)
    assert [browser.measure(page, OVERFLOW, width) for width in (DESK, PHONE)] == [0, 0]


def test_overflow_is_measured(browser: Browser) -> None:
    """The check can fail."""
    page = "<!doctype html><body><pre style='width:3000px'>x</pre></body>"
    assert browser.measure(page, OVERFLOW, DESK) > 1000


def test_report_asks_for_nothing_else(browser: Browser, explanation: Explanation) -> None:
    """No font, no style and no picture from elsewhere."""
    assert browser.measure(to_html(explanation), REQUESTS) == []
    other = "http://127.0.0.1:9/a.png"
    page = f"<!doctype html><body><img src='{other}'></body>"
    assert browser.measure(page, REQUESTS) == [other]


def test_bars_are_as_long_as_the_times(browser: Browser, product: Explanation) -> None:
    """And have the colour of their bound."""
    bars: list[dict[str, Any]] = browser.measure(to_html(product), BARS)
    times = [line.time for line in product.prediction.lines if line.time]
    bounds = [line.bound for line in product.prediction.lines if line.time]
    assert [bar["kind"] for bar in bars if bar["width"]] == [f"bar {bound}" for bound in bounds]
    longest = max(bar["width"] for bar in bars)
    drawn = [bar["width"] / longest for bar in bars if bar["width"]]
    assert drawn == pytest.approx([time / max(times) for time in times], abs=0.02)
    colours = {bar["kind"]: bar["colour"] for bar in bars}
    assert len(set(colours.values())) == len(colours) and "rgba(0, 0, 0, 0)" not in colours.values()


def test_details_open_and_close(browser: Browser, slow: Explanation) -> None:
    """Lines with something missed are open at first, others closed."""
    page = to_html(slow)
    found = browser.measure(page, OPENING)
    missed = [any(map(is_missed, slow.remarks_at(*line.place))) for line in slow.prediction.lines]
    assert [one["before"][0] for one in found] == missed
    for one in found:
        assert one["after"][0] is not one["before"][0]
        shown, hidden = sorted((one["before"], one["after"]), reverse=True)
        assert shown[1] > hidden[1] + 10


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read(browser: Browser, slow: Explanation, dark: bool) -> None:
    """A contrast of 4.5, as WCAG's level AA asks for, by day and by night."""
    found = browser.measure(to_html(slow), CONTRAST, dark=dark)
    assert any(name == "LI.missed" for name, _ in found)
    assert [one for one in found if one[1] < 4.5] == []


def test_dark_is_dark(browser: Browser, product: Explanation) -> None:
    """The page follows the reader's choice."""
    script = "getComputedStyle(document.body).color"
    page = to_html(product)
    assert browser.measure(page, script) == "rgb(0, 0, 0)"
    assert browser.measure(page, script, dark=True) == "rgb(255, 255, 255)"


def test_source_is_text(browser: Browser) -> None:
    """What looks like HTML in a kernel's source is shown, not run."""
    found = explain(gemm(128, 128, 64), "k.mlir", "sm_90")
    place = found.prediction.lines[0].place
    found.source[place[0]] = ["<b>bold</b><script>document.title = 1</script>"] * 64
    page = to_html(found)
    shown = browser.measure(page, "[document.title, document.querySelector('pre').textContent]")
    assert shown[1] == "<b>bold</b><script>document.title = 1</script>" and shown[0] != "1"


def test_report_is_drawn(browser: Browser, product: Explanation) -> None:
    """A blank page has one kind of line."""
    picture = browser.picture(to_html(product))
    assert (picture.width, picture.height) == (1200, 900)
    assert picture.kinds_of_lines > 50
    assert browser.picture("<!doctype html><body></body>").kinds_of_lines <= 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["((4,8),2):((16,1),8)", "--tile", "8,8"],
        ["S<3,3,3> o 0 o (8,64):(64,1)", "--bits", "16"],
        ["(128,64):(64,1)", "--bits", "16"],
        ["--mma", "16,8,16", "--bits", "16", "--operand", "A"],
        ["--dump", "DUMP", "%tile"],
        ["--dump", "DUMP", "convert_layout"],
    ],
    ids=["threads", "banks", "large", "mma", "tensor", "conversion"],
)
def test_labels_fit_the_cells_of_a_layout(
    browser: Browser, arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each cell of the table that is printed has its box."""
    path, dump = tmp_path / "layout.html", tmp_path / "DUMP"
    options = CompileOptions(gpu_name="sm_80", emit="nv_tileas")
    matmul = (ROOT / "examples" / "matmul.mlir").read_bytes()
    dump.write_bytes(compile_module(matmul, options).output)
    arguments = [str(dump) if word == "DUMP" else word for word in arguments]
    assert layout_command.main([*arguments, "--html", str(path)]) == 0
    printed = capsys.readouterr().out
    page = path.read_text(encoding="utf-8")
    cells = browser.measure(page, CELLS)
    assert len(cells) >= 64
    assert [cell for cell in cells if not cell["fits"]] == []
    words = printed.split()
    assert all(word in words for cell in cells[:64] for word in cell["text"].split())
    assert browser.measure(page, REQUESTS) == []
