"""sm_107, which LLVM does not know: compiled as sm_103 under its own name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.driver import compile_module
from tileiras.errors import CompileError
from tileiras.options import CompileOptions

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
COPY = """
entry @copy(%from: tile<ptr<fnv8E5M3FNU>>, %to: tile<ptr<fnv8E5M3FNU>>) {
  %token = make_token : token
  %value, %after = load_ptr_tko weak %from token=%token
      : tile<ptr<fnv8E5M3FNU>> -> tile<fnv8E5M3FNU>, token
  %done = store_ptr_tko weak %to, %value token=%after
      : tile<ptr<fnv8E5M3FNU>>, tile<fnv8E5M3FNU> -> token
}
"""
WIDEN = """
entry @widen(%from: tile<ptr<fnv8E5M3FNU>>, %to: tile<ptr<f32>>) {
  %token = make_token : token
  %value, %after = load_ptr_tko weak %from token=%token
      : tile<ptr<fnv8E5M3FNU>> -> tile<fnv8E5M3FNU>, token
  %wide = ftof %value : tile<fnv8E5M3FNU> -> tile<f32>
  %done = store_ptr_tko weak %to, %wide token=%after : tile<ptr<f32>>, tile<f32> -> token
}
"""
OLDER_HEAD, NEWER_HEAD = b".version 9.0\n.target sm_103a\n", b".version 9.4\n.target sm_107a\n"


def compiled(source: bytes, target: str, emit: str = "ptx") -> bytes:
    """The output of a compilation."""
    options = CompileOptions(gpu_name=target, emit=emit)
    return compile_module(source, options).output


@pytest.mark.parametrize("name", ["vector_add", "matmul"])
def test_examples_are_the_older_targets_code_under_the_new_name(name: str) -> None:
    source = (EXAMPLES / f"{name}.mlir").read_bytes()
    older, newer = (compiled(source, target) for target in ("sm_103", "sm_107"))
    assert OLDER_HEAD in older
    assert newer == older.replace(OLDER_HEAD, NEWER_HEAD)


def test_ptxas_assembles_an_example() -> None:
    source = (EXAMPLES / "vector_add.mlir").read_bytes()
    assert compiled(source, "sm_107", "cubin")[:4] == b"\x7fELF"


def test_its_own_element_type_is_moved() -> None:
    assert b"st.global.b8" in compiled(COPY.encode(), "sm_107")


def test_its_own_element_type_is_on_no_older_target() -> None:
    with pytest.raises(CompileError, match="'sm_103': unsupported type 'fnv8E5M3FNU'"):
        compiled(COPY.encode(), "sm_103")


def test_its_own_element_type_is_not_converted() -> None:
    with pytest.raises(CompileError, match="'ftof' op on .*E5M3FNU is not supported on sm_107"):
        compiled(WIDEN.encode(), "sm_107")
