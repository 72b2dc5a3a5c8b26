"""The C launcher: its types, its names, and that a C program launches with it.

Without a GPU: the program of integrations/c is compiled against a driver in C whose one kernel adds
two vectors, from the parameters that `cuLaunchKernel` gets.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kernels.c_driver import DRIVER, DRIVER_HEADER
from tileiras import cli
from tileiras.c_launcher import c_name, c_type, run, to_header
from tileiras.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent
VECTOR_ADD = ROOT / "examples" / "vector_add.mlir"


@pytest.mark.parametrize(
    ("kind", "size", "type"),
    [
        ("ptr<f16>", 8, "CUdeviceptr"),
        ("f32", 4, "float"),
        ("f64", 8, "double"),
        ("f16", 2, "uint16_t"),
        ("f8E4M3FN", 1, "uint8_t"),
        ("i1", 1, "int8_t"),
        ("i32", 4, "int32_t"),
        ("i64", 8, "int64_t"),
    ],
)
def test_types_have_the_size_of_the_parameter(kind: str, size: int, type: str) -> None:
    assert c_type(kind, size) == type


def test_sizes_that_c_has_not_are_refused() -> None:
    with pytest.raises(UsageError, match="type i128 has 16 bytes, expected 1, 2, 4 or 8"):
        c_type("i128", 16)


def test_names_are_those_of_c() -> None:
    assert c_name("vector_add") == "vector_add"
    assert c_name("a.b$c") == "a_b_c"
    assert c_name("while") == "launch_while" and c_name("0k") == "launch_0k"


@pytest.mark.parametrize("launch", ["tile", "explicit"])
def test_program_launches(launch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the block of the launch information; warnings are errors."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler is installed")
    monkeypatch.chdir(tmp_path)
    arguments = ["--gpu-name=sm_90", f"--launch={launch}", "--emit-launch-info=k.json", "-o", "k"]
    assert cli.run([str(VECTOR_ADD), *arguments]) == 0
    assert run(["k.json", "-o", "vector_add.h"]) == 0
    x, y, z = json.loads(Path("k.json").read_text())["kernels"][0]["block"]
    Path("cuda.h").write_text(DRIVER_HEADER)
    Path("driver.c").write_text(DRIVER)
    shutil.copy(ROOT / "integrations" / "c" / "main.c", ".")
    words = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-I.", f"-DBLOCK={x * y * z}"]
    subprocess.run([*words, "main.c", "driver.c", "-o", "main"], check=True)
    done = subprocess.run(["./main", "k"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1500 sums are right\n")
    assert subprocess.run(["./main", "k.json"], capture_output=True).returncode == 1


KERNEL = {"target": "sm_90", "block": [1, 1, 1], "cluster_size": 1, "parameters": []}


def test_clusters_that_are_not_portable_are_allowed() -> None:
    allows = "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)"
    texts = [
        to_header({"kernels": [{**KERNEL, "name": "k", "cluster_size": size}]}) for size in (8, 16)
    ]
    assert allows not in texts[0] and texts[1].index(allows) < texts[1].index("cuLaunchKernel")


def test_header_is_the_same_each_time() -> None:
    kernel = {**KERNEL, "name": "k"}
    text = to_header({"kernels": [kernel, {**kernel, "name": "l"}]})
    assert text == to_header({"kernels": [kernel, {**kernel, "name": "l"}]})
    assert text.count("static inline CUresult") == 2 and "{0}" in text


def test_kernels_of_one_name_in_c_are_refused() -> None:
    kernel = {**KERNEL, "name": "a.b"}
    with pytest.raises(UsageError, match="kernel 'a.b' and another are both 'a_b' in C"):
        to_header({"kernels": [kernel, {**kernel, "name": "a_b"}]})


def test_mistakes_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.json"
    for content, message in (("{", "is no JSON"), ("{}", "has no launch information")):
        path.write_text(content)
        assert run([str(path)]) == 1
        assert message in capsys.readouterr().err
    assert run([]) == 1
    assert "no input file provided" in capsys.readouterr().err
