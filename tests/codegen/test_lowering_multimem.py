"""Accesses to multicast memory: the PTX instructions, and what they need to know."""

from __future__ import annotations

import re

import pytest

from tests.kernels.lowered import lower_to_llvm
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.driver import compile_module, with_environment
from tileiras.errors import CompileError
from tileiras.options import CompileOptions


def program(element: str, body: str, size: str = "64", align: int = 16) -> str:
    """A kernel with a view of multicast memory; `body` says what is done with %v and tile %x."""
    tensor = f"tensor_view<{size}x64x{element}, strides=[64,1], <multicast>>"
    view = f"partition_view<tile=(8x32), {tensor}>"
    pointer = f"tile<ptr<{element}, <multicast>>>"
    tile = f"tile<8x32x{element}>"
    value = "1.0" if "f" in element else "1"
    body = body.replace("VIEW", view).replace("TILE", tile)
    return f"""cuda_tile.module @m {{ entry @k(%p: {pointer}) {{
      %a = assume div_by<{align}>, %p : {pointer}
      %z = constant <i32: 0> : tile<i32>
      %x = constant <{element}: {value}> : {tile}
      %t = make_tensor_view %a, shape = [{size}, 64], strides = [64, 1] : {pointer} -> {tensor}
      %v = make_partition_view %t : {view}
      {body}
      return }} }}"""


def load(kind: str = "add", order: str = "weak") -> str:
    """Loads and stores the reduced tile into the same view."""
    attributes = (
        ""
        if kind == "add"
        else f"attributes {{reduction = #cuda_tile.multimem_reduction_kind<{kind}>}} "
    )
    return f"""%r, %k = multimem_load_reduce_view_tko {order} %v[%z, %z] {attributes}
        : VIEW, tile<i32>
        -> TILE, token
      %w = multimem_store_view_tko weak %v, %r[%z, %z] token = %k : VIEW, TILE, tile<i32>, token
        -> token"""


def reduce(kind: str) -> str:
    """Reduces a constant tile into memory."""
    attributes = (
        ""
        if kind == "add"
        else f"attributes {{reduction = #cuda_tile.multimem_reduction_kind<{kind}>}} "
    )
    return f"""%w = multimem_reduce_view_tko relaxed device %v, %x[%z, %z] {attributes}: VIEW, TILE,
        tile<i32> -> token"""


def ptx_of(text: str, target: str = "sm_100") -> str:
    """The PTX of a program that ptxas takes, too."""
    options = with_environment(CompileOptions(gpu_name=target))
    compile_module(text.encode(), options)
    asked = with_environment(CompileOptions(gpu_name=target, emit="ptx"))
    return compile_module(text.encode(), asked).output.decode()


@pytest.mark.parametrize(
    ("element", "kind", "end"),
    [
        ("f32", "add", "add.f32"),
        ("f64", "add", "add.f64"),
        ("f16", "add", "add.f16x2"),
        ("bf16", "max", "max.bf16x2"),
        ("i32", "umin", "min.u32"),
        ("i64", "max", "max.s64"),
        ("i32", "xor", "xor.b32"),
    ],
)
def test_loads_reduce_and_stores_reach_all(element: str, kind: str, end: str) -> None:
    ptx = ptx_of(program(element, load(kind)))
    loads = re.findall(r"multimem\.ld_reduce\.weak\.global\.(\S+)", ptx)
    assert loads and set(loads) == {end}
    width = 64 if "64" in element else 32
    assert f"multimem.st.weak.global.b{width}" in ptx
    # 256 elements for 32 threads: a word of two 16-bit numbers counts for two
    assert len(loads) == (4 if "16" in element else 8)


@pytest.mark.parametrize(
    ("element", "kind", "end"), [("f16", "add", "add.f16x2"), ("i32", "min", "min.s32")]
)
def test_reductions_into_memory(element: str, kind: str, end: str) -> None:
    ptx = ptx_of(program(element, reduce(kind)))
    assert f"multimem.red.relaxed.gpu.global.{end}" in ptx


def test_bounds_guard_every_access() -> None:
    ptx = ptx_of(program("f32", load(), size="60"))
    assert re.search(r"@%p\d+ multimem\.ld_reduce", ptx)
    assert re.search(r"@%p\d+ multimem\.st", ptx)


def test_order_and_scope_of_a_load() -> None:
    assert "multimem.ld_reduce.acquire.sys.global" in ptx_of(
        program("f32", load(order="acquire sys"))
    )


def test_halves_that_may_not_be_aligned_are_an_error() -> None:
    with pytest.raises(CompileError, match="not known to come in pairs"):
        lower_to_llvm(parse_module(program("f16", load(), align=2)), "sm_100")


def test_other_targets_reject_multicast() -> None:
    with pytest.raises(CompileError, match="multicast pointers require sm_100 or sm_103"):
        lower_to_llvm(parse_module(program("f32", load())), "sm_90")
