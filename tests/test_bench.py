"""`tileiras-bench` without a GPU: arguments, what is told, comparisons, mistakes."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

np = pytest.importorskip("numpy")

import tileiras  # noqa: E402
from tileiras.bench.arguments import make_arguments, parse_shape, scalars_of  # noqa: E402
from tileiras.bench.command import run  # noqa: E402
from tileiras.bench.measurement import Times  # noqa: E402
from tileiras.errors import UsageError  # noqa: E402
from tileiras.launch_info import KernelLaunch, KernelParameter  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
VECTOR_ADD = str(ROOT / "examples" / "vector_add.mlir")
SHAPE = ("--grid=2", "--shape=1500,1500,1500,1500")


class Gpu:
    """A GPU in Python, in whose processes kernels do what is planned."""

    def __init__(self, folder: Path):
        self.plan = folder / "plan.json"
        self.plans()

    def plans(self, **kernels: object) -> None:
        """Sets what happens to kernels; what is not named takes 0.25 ms."""
        self.plan.write_text(json.dumps(kernels))

    def bench(self, *words: str) -> int:
        """The command; its exit code."""
        launcher = ROOT / "tests" / "kernels" / "fake_launcher.py"
        return run(words, (sys.executable, str(launcher), str(self.plan)))

    def notes(self, what: str) -> list[str]:
        """What was launched or loaded."""
        path = Path(f"{self.plan}.log")
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(what)]


@pytest.fixture
def gpu(tmp_path: Path) -> Gpu:
    """A GPU whose only kernel adds two f32 arrays."""
    return Gpu(tmp_path)


def kernel(*types: str) -> KernelLaunch:
    """A kernel with these parameters."""
    parameters = tuple(KernelParameter(f"arg{i}", t, 8, 8 * i) for i, t in enumerate(types))
    return KernelLaunch("k", "sm_90", 128, 1, "tile", (1, 1, 1), 0, parameters)


def test_words_become_arguments() -> None:
    """Extents for pointers, values for scalars; the same each time."""
    types = ("ptr<f16>", "ptr<i32>", "i32", "f32", "ptr<i1>")
    words = parse_shape("4x8, 16, 0x10, 1.5, 3", kernel(*types))
    first, second = (make_arguments(words, kernel(*types)) for _ in range(2))
    assert [getattr(one, "shape", one) for one in first] == [(4, 8), (16,), 16, 1.5, (3,)]
    assert [one.dtype.name for one in (first[0], first[1], first[4])] == [
        "float16",
        "int32",
        "uint8",
    ]
    assert all(np.array_equal(a, b) for a, b in zip(first, second))
    assert first[0].std() > 0.5 and abs(first[1]).max() <= 4 and first[4].max() <= 1
    assert scalars_of(first) == {2: 16}


@pytest.mark.parametrize(
    ("types", "text", "message"),
    [
        (
            ("ptr<f32>", "i32"),
            "4",
            r"kernel 'k' takes 2 arguments \(ptr<f32>, i32\), --shape has 1",
        ),
        (("ptr<f32>",), "4x", "argument 0 of 'k' is '4x', expected extents such as 128x64"),
        (("ptr<f32>",), "4x0", "argument 0 of 'k' is '4x0', expected extents"),
        (("i32",), "4x4", "argument 0 of 'k' is '4x4', expected a number for i32"),
        (("ptr<f32>",), "1000000x1000000", "has 4000000000000 bytes, expected"),
        (("ptr<f4E2M1FN>",), "4", "is an array of f4E2M1FN, expected one of f16, f32"),
    ],
)
def test_words_that_do_not_fit_are_refused(types: tuple[str, ...], text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_arguments(parse_shape(text, kernel(*types)), kernel(*types))


def test_spread_is_that_of_the_launches() -> None:
    assert Times((1.0, 3.0, 2.0)).median == 2.0
    assert Times((1.0, 3.0)).spread == 0.5 and Times((2.0, 2.0)).spread == 0.0


def test_kernel_is_timed_and_told(
    gpu: Gpu, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "k.json"
    assert gpu.bench(VECTOR_ADD, *SHAPE, "--repeats=5", "--json", str(path)) == 0
    text = capsys.readouterr().out
    assert "0.2500 ms (of 5: 0.2500 to 0.2500, spread 0.0 %)" in text
    assert "bound by latency" in text and "occupancy  100 %, limited by warps" in text
    data = json.loads(path.read_text())
    assert data["times_ms"] == [0.25] * 5 and "against" not in data
    assert data["gigabytes_per_second"] == pytest.approx(3 * 4 * 1500 / 0.25e-3 / 1e9)
    launched = gpu.notes("launch")
    assert len(launched) > 5 and launched[0] == "launch vector_add (2, 1, 1)"
    assert not list(Path("/tmp").glob(f"tileiras-bench*-{os.getpid()}-*"))


def test_kernel_is_compared_with_tile_ir(
    gpu: Gpu, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "k.json"
    assert gpu.bench(VECTOR_ADD, *SHAPE, "--against", VECTOR_ADD, "--json", str(path)) == 0
    text = capsys.readouterr().out
    assert "results" in text and "agree, largest difference 0" in text
    assert json.loads(path.read_text())["against"]["speedup"] == 1.0


def test_kernel_is_compared_with_a_cubin(gpu: Gpu, tmp_path: Path) -> None:
    cubin = tmp_path / "other.cubin"
    cubin.write_bytes(tileiras.compile(Path(VECTOR_ADD), "sm_90").cubin)
    assert gpu.bench(VECTOR_ADD, *SHAPE, "--against", str(cubin)) == 0
    assert gpu.notes("cubin") == [f"cubin {len(cubin.read_bytes())}"] * 3


def test_different_results_are_an_error(gpu: Gpu, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.plans(vector_add="drift")
    assert gpu.bench(VECTOR_ADD, *SHAPE, "--against", VECTOR_ADD) == 1
    assert "DIFFER, largest difference 1" in capsys.readouterr().out
    assert gpu.bench(VECTOR_ADD, *SHAPE, "--against", VECTOR_ADD, "--absolute=1.5") == 0


def test_measurement_is_drawn(gpu: Gpu, tmp_path: Path) -> None:
    """A dot for each batch where its time is, and what was achieved of the GPU."""
    gpu.plans(vector_add=[0.25, 0.5, 0.25, 0.5])  # each is loaded alone and beside the other
    path = tmp_path / "k.svg"
    words = [VECTOR_ADD, *SHAPE, "--against", VECTOR_ADD, "--repeats=5", "--plot", str(path)]
    assert gpu.bench(*words) == 0
    root = ElementTree.parse(path).getroot()
    name = "{http://www.w3.org/2000/svg}"
    dots = [dot.attrib for dot in root.iter(f"{name}circle")]
    assert len(dots) == 10
    places = {dot["fill"]: float(dot["cx"]) for dot in dots}
    assert len(places) == 2 and len({dot["cx"] for dot in dots}) == len(set(places.values()))
    texts = [text.text or "" for text in root.iter(f"{name}text")]
    assert "vector_add on sm_90" in texts and "predicted" in texts and "ms" in texts
    medians = [float(text.split()[0]) for text in texts if re.fullmatch(r"[\d.]+ ms", text)]
    start = float(next(root.iter(f"{name}line")).attrib["x1"])
    drawn = [(place - start) / median for place, median in zip(places.values(), medians)]
    assert len(medians) == 2 and drawn[0] == pytest.approx(drawn[1], abs=1.0)
    assert any(re.fullmatch(r"[\d.e-]+ of \d+ GB/s, \d+ %", text) for text in texts)
    wide, tall = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(0 < float(dot["cx"]) < wide and 0 < float(dot["cy"]) < tall for dot in dots)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("hang", "it did not end within 3 seconds"),
        ("hang later", "it did not end within 3 seconds"),
        ("crash", "its process was ended by SIGSEGV"),
        ("break", "cuCtxSynchronize failed: CUDA_ERROR_716"),
    ],
)
def test_kernel_that_hangs_or_crashes_is_given_up(
    gpu: Gpu, what: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu.plans(vector_add=what)
    start = time.monotonic()
    assert gpu.bench(VECTOR_ADD, *SHAPE, "--timeout=3") == 2
    assert f"error: {message}" in capsys.readouterr().err and time.monotonic() - start < 30


@pytest.mark.parametrize("what", ["hang", "crash", "break"])
def test_other_kernel_that_fails_leaves_the_first_ones_numbers(
    gpu: Gpu, what: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gpu.plans(vector_add=f"second {what}")
    path = tmp_path / "k.json"
    words = [VECTOR_ADD, *SHAPE, "--against", VECTOR_ADD, "--timeout=3", "--json", str(path)]
    assert gpu.bench(*words) == 2
    text = capsys.readouterr().out
    assert "0.2500 ms" in text and "FAILED: " in text and "speedup" not in text
    data = json.loads(path.read_text())
    assert data["median_ms"] == 0.25 and data["against"]["failure"]


def test_vendors_compiler_is_found_in_the_toolkit(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    """And runs on the same file, for the same GPU; what it says is passed on."""
    from tileiras.codegen import cuda_toolkit

    monkeypatch.setattr(cuda_toolkit, "package_folders", lambda: ())
    cubin = tmp_path / "made.cubin"
    cubin.write_bytes(tileiras.compile(Path(VECTOR_ADD), "sm_90").cubin)
    program = tmp_path / "bin" / "tileiras"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\ncp {cubin} "$3"\n')
    program.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert gpu.bench(VECTOR_ADD, *SHAPE, "--against", "vendor") == 0
    words = (tmp_path / "words").read_text().split()
    assert words[0] == VECTOR_ADD and words[3:] == ["--gpu-name", "sm_90", "-O3"]
    assert not os.path.exists(os.path.dirname(words[2]))
    program.write_text("#!/bin/sh\necho 'no such operation' >&2\nexit 3\n")
    assert gpu.bench(VECTOR_ADD, *SHAPE, "--against", "vendor") == 2
    assert "NVIDIA's compiler refuses" in (err := capsys.readouterr().err)
    assert "no such operation" in err
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nothing"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert gpu.bench(VECTOR_ADD, *SHAPE, "--against", "vendor") == 2
    assert "NVIDIA's compiler is not found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no input file provided"),
        ([VECTOR_ADD, "--shape=1"], "no grid given, expected --grid"),
        ([VECTOR_ADD, "--grid=1"], "no shape given, expected --shape"),
        ([VECTOR_ADD, *SHAPE, "--repeats=0"], "--repeats is '0', expected a positive number"),
        ([VECTOR_ADD, *SHAPE, "--relative=x"], "--relative is 'x', expected a number"),
        ([VECTOR_ADD, *SHAPE, "--timeout=x"], "--timeout is 'x', expected a number"),
        ([VECTOR_ADD, *SHAPE, "--entry=f"], "no entry 'f', found: vector_add"),
        ([VECTOR_ADD, "--grid=1", "--shape=8,8"], "kernel 'vector_add' takes 4 arguments"),
        ([VECTOR_ADD, *SHAPE, "--against=/no/such"], "/no/such"),
    ],
)
def test_mistakes_are_told(
    gpu: Gpu, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gpu.bench(*arguments) in (1, 2)
    assert message in capsys.readouterr().err
    assert gpu.notes("launch") == []


def test_machine_without_a_gpu_is_told(gpu: Gpu, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.plan.write_text('{"no GPU": true}')
    assert gpu.bench(VECTOR_ADD, *SHAPE) == 2
    assert "error: no GPU: cuInit failed: CUDA_ERROR_100" in capsys.readouterr().err
