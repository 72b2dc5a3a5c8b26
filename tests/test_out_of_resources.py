"""Kernels that need too much shared memory: stderr has the words that autotuners look for.

Triton's backend for Tile IR searches stderr for the two patterns below, and tries the next
configuration when it finds both.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tileiras import cli
from tileiras.codegen.target import TARGET_NAMES, get_target

TOO_MUCH = "uses too much shared data"
BYTES = re.compile(r"0x([0-9a-fA-F]+) bytes, 0x([0-9a-fA-F]+) max")
KERNEL = """
entry @spacious(%out: tile<ptr<f32>>) {{
  %memory = alloca num_elem = {elements}, alignment = 16 : tile<ptr<f32>>
  %token = make_token : token
  %value, %loaded = load_ptr_tko weak %memory token=%token
      : tile<ptr<f32>> -> tile<f32>, token
  %stored = store_ptr_tko weak %out, %value token=%loaded
      : tile<ptr<f32>>, tile<f32> -> token
}}
"""


def compile_with_memory(elements: int, folder: Path, target: str) -> int:
    """`tileiras` on a kernel with so many 32-bit elements of shared memory."""
    source = folder / "spacious.mlir"
    source.write_text(KERNEL.format(elements=elements))
    return cli.run([str(source), f"--gpu-name={target}", "-o", str(folder / "out.cubin")])


def reported(text: str) -> tuple[int, int] | None:
    """Bytes needed and bytes there are, as Triton reads them."""
    found = BYTES.search(text)
    if TOO_MUCH not in text or found is None:
        return None
    return int(found.group(1), 16), int(found.group(2), 16)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_120"])
def test_our_own_check_says_ptxass_words(target, tmp_path, capsys):
    assert compile_with_memory(100_000, tmp_path, target) == 5
    shown = capsys.readouterr().err
    assert reported(shown) == (400_000, get_target(target).static_shared_limit)
    limit = get_target(target).static_shared_limit
    assert f"400000 bytes of shared memory, {target} has {limit}" in shown


def test_ptxass_own_words_are_passed_on(tmp_path, capsys, monkeypatch):
    real = get_target("sm_90")
    generous = replace(real, static_shared_limit=real.static_shared_limit * 2)
    monkeypatch.setattr("tileiras.codegen.target.get_target", lambda name: generous)
    assert compile_with_memory(60_000, tmp_path, "sm_90") == 5
    shown = capsys.readouterr().err
    assert "ptxas rejected the generated code: " in shown
    used, limit = reported(shown) or (0, 0)
    assert used >= 240_000
    assert limit == real.static_shared_limit


def test_a_kernel_that_fits_says_nothing(tmp_path, capsys):
    assert compile_with_memory(10_000, tmp_path, "sm_90") == 0
    assert reported(capsys.readouterr().err) is None


def test_a_product_says_the_same_words(tmp_path, capsys, monkeypatch):
    real = get_target("sm_80")
    monkeypatch.setattr(
        "tileiras.codegen.target.get_target", lambda name: replace(real, static_shared_limit=256)
    )
    example = Path(__file__).resolve().parent.parent / "examples" / "matmul.mlir"
    assert cli.run([str(example), "--gpu-name=sm_80", "--emit=ptx"]) == 5
    used, limit = reported(capsys.readouterr().err) or (0, 0)
    assert used > limit == 256


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_bytes_are_those_of_the_target(name):
    target = get_target(name)
    size = target.static_shared_limit + 16
    assert reported(target.too_much_shared_memory(size)) == (size, target.static_shared_limit)
