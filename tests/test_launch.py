"""How kernels are launched: what the cubin is marked with, and what the launch information says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tileiras.cli import run
from tileiras.codegen.cubin import Language, kernel_language
from tileiras.codegen.target import TARGET_NAMES

ROOT = Path(__file__).resolve().parent.parent
VECTOR_ADD = ROOT / "examples" / "vector_add.mlir"


def compiled(directory: Path, *options: str, source: Path = VECTOR_ADD) -> tuple[bytes, dict]:
    """The cubin and what is said of its only kernel."""
    cubin, info = directory / "k.cubin", directory / "k.json"
    arguments = [str(source), "-o", str(cubin), f"--emit-launch-info={info}", *options]
    assert run(arguments) == 0
    (kernel,) = json.loads(info.read_text())["kernels"]
    return cubin.read_bytes(), kernel


@pytest.mark.parametrize("target", [n for n in TARGET_NAMES if n != "sm_107"])
def test_kernels_are_ordinary_grids_of_tile_ir(tmp_path: Path, target: str) -> None:
    cubin, kernel = compiled(tmp_path, f"--gpu-name={target}")
    assert kernel_language(cubin, "vector_add") is Language.TILEIR
    assert (kernel["launch"], kernel["block"], kernel["cluster_size"]) == ("tile", [1, 1, 1], 1)
    assert kernel["threads_per_block"] == 128


def test_clusters_of_one_cta_are_not_marked(tmp_path: Path) -> None:
    cubin, kernel = compiled(tmp_path, "--gpu-name=sm_90", "--launch=cluster")
    assert kernel_language(cubin, "vector_add") is not Language.TILEIR
    assert (kernel["launch"], kernel["block"]) == ("cluster", [1, 1, 1])


def test_explicit_launches_take_the_number_of_threads(tmp_path: Path) -> None:
    cubin, kernel = compiled(tmp_path, "--gpu-name=sm_90", "--launch=explicit")
    assert kernel_language(cubin, "vector_add") is not Language.TILEIR
    assert (kernel["launch"], kernel["block"]) == ("explicit", [128, 1, 1])


def test_old_targets_have_no_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(VECTOR_ADD), "--gpu-name=sm_80", "--launch=cluster", "-o", str(tmp_path / "k")]
    assert run(arguments) == 2
    assert "sm_80 has no clusters, expected --launch=tile or explicit" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_ways_to_launch_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(VECTOR_ADD), "--gpu-name=sm_80", "--launch=grid"]) == 1
    assert "tile" in capsys.readouterr().err
