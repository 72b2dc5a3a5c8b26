"""`tileiras-bench` without a GPU: arguments, what is told, comparisons, mistakes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

import tileiras  # noqa: E402
from tests.kernels.fake_driver import FakeDriver, use  # noqa: E402
from tileiras.bench.arguments import make_arguments, parse_shape, scalars_of  # noqa: E402
from tileiras.bench.command import run  # noqa: E402
from tileiras.bench.measurement import Times  # noqa: E402
from tileiras.errors import UsageError  # noqa: E402
from tileiras.launch_info import KernelLaunch, KernelParameter  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
VECTOR_ADD = str(ROOT / "examples" / "vector_add.mlir")
SHAPE = ("--grid=2", "--shape=1500,1500,1500,1500")


class Drifting(FakeDriver):
    """A driver whose results grow with every launch: no two kernels agree."""

    def _cuLaunchKernel(self, function: object, *rest: Any) -> tuple[()]:
        self.noise += 1.0
        return super()._cuLaunchKernel(function, *rest)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU whose only kernel adds two f32 arrays, each launch in 0.25 ms."""
    return use(FakeDriver(), monkeypatch)


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
    driver: FakeDriver, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "k.json"
    assert run([VECTOR_ADD, *SHAPE, "--repeats=5", "--json", str(path)]) == 0
    text = capsys.readouterr().out
    assert "0.2500 ms (of 5: 0.2500 to 0.2500, spread 0.0 %)" in text
    assert "bound by latency" in text and "occupancy  100 %, limited by warps" in text
    data = json.loads(path.read_text())
    assert data["times_ms"] == [0.25] * 5 and "against" not in data
    assert data["gigabytes_per_second"] == pytest.approx(3 * 4 * 1500 / 0.25e-3 / 1e9)
    launched = [call for call in driver.calls if call[0] == "cuLaunchKernel"]
    assert len(launched) == 8 and launched[0][2:5] == (2, 1, 1)
    assert driver.memory == {}


def test_kernel_is_compared_with_tile_ir(
    driver: FakeDriver, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "k.json"
    assert run([VECTOR_ADD, *SHAPE, "--against", VECTOR_ADD, "--json", str(path)]) == 0
    text = capsys.readouterr().out
    assert "results" in text and "agree, largest difference 0" in text
    assert json.loads(path.read_text())["against"]["speedup"] == 1.0


def test_kernel_is_compared_with_a_cubin(driver: FakeDriver, tmp_path: Path) -> None:
    cubin = tmp_path / "other.cubin"
    cubin.write_bytes(tileiras.compile(Path(VECTOR_ADD), "sm_90").cubin)
    assert run([VECTOR_ADD, *SHAPE, "--against", str(cubin)]) == 0
    loaded = [call[1] for call in driver.calls if call[0] == "cuModuleLoadData"]
    assert cubin.read_bytes() in loaded and len(loaded) == 2


def test_different_results_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(Drifting(), monkeypatch)
    assert run([VECTOR_ADD, *SHAPE, "--against", VECTOR_ADD]) == 1
    assert "DIFFER, largest difference 1" in capsys.readouterr().out
    use(Drifting(), monkeypatch)
    assert run([VECTOR_ADD, *SHAPE, "--against", VECTOR_ADD, "--absolute=1.5"]) == 0


def test_vendors_compiler_is_found_in_the_toolkit(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
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
    assert run([VECTOR_ADD, *SHAPE, "--against", "vendor"]) == 0
    words = (tmp_path / "words").read_text().split()
    assert words[0] == VECTOR_ADD and words[3:] == ["--gpu-name", "sm_90", "-O3"]
    assert not os.path.exists(os.path.dirname(words[2]))
    program.write_text("#!/bin/sh\necho 'no such operation' >&2\nexit 3\n")
    assert run([VECTOR_ADD, *SHAPE, "--against", "vendor"]) == 2
    assert "NVIDIA's compiler refuses" in (err := capsys.readouterr().err)
    assert "no such operation" in err
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "nothing"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert run([VECTOR_ADD, *SHAPE, "--against", "vendor"]) == 2
    assert "NVIDIA's compiler is not found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no input file provided"),
        ([VECTOR_ADD, "--shape=1"], "no grid given, expected --grid"),
        ([VECTOR_ADD, "--grid=1"], "no shape given, expected --shape"),
        ([VECTOR_ADD, *SHAPE, "--repeats=0"], "--repeats is '0', expected a positive number"),
        ([VECTOR_ADD, *SHAPE, "--relative=x"], "--relative is 'x', expected a number"),
        ([VECTOR_ADD, *SHAPE, "--entry=f"], "no entry 'f', found: vector_add"),
        ([VECTOR_ADD, "--grid=1", "--shape=8,8"], "kernel 'vector_add' takes 4 arguments"),
        ([VECTOR_ADD, *SHAPE, "--against=/no/such"], "/no/such"),
    ],
)
def test_mistakes_are_told(
    driver: FakeDriver, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) in (1, 2)
    assert message in capsys.readouterr().err
    assert "cuLaunchKernel" not in driver.names()


def test_machine_without_a_gpu_is_told(
    driver: FakeDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    driver.failing["cuInit"] = 100
    assert run([VECTOR_ADD, *SHAPE]) == 2
    assert "error: no GPU: cuInit failed: CUDA_ERROR_100" in capsys.readouterr().err
