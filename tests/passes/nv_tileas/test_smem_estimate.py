"""How much shared memory operations need beside the pipelines."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation

from tests.kernels.cuda_tile_text import kernel
from tileiras.driver import compile_module, with_environment
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.planning.resources.smem import ROUND_BYTES, calls_runtime, scratch_bytes


def ops(body: str) -> list[Operation]:
    """The operations of a body, on nv_tileaa."""
    options = with_environment(
        CompileOptions(gpu_name="sm_90", emit="nv_tileaa", print_generic=True)
    )
    text = compile_module(kernel(body + "\nreturn").encode(), options).output.decode()
    return list(parse_text(text).walk())


def rmw(shape: str, element: str) -> str:
    """An atomic addition whose result `%0` is a tile of that shape."""
    tile = f"{shape}{element}"
    name = "_".join(part for part in (shape.removesuffix("x"), element) if part)
    mode = "add" if element.startswith("i") else "addf"
    return (
        f"%0, %1 = atomic_rmw_tko relaxed device %p_{name}, {mode}, %v_{name} : "
        f"tile<{shape}ptr<{element}>>, tile<{tile}> -> tile<{tile}>, token"
    )


def keeping(shape: str, element: str) -> str:
    """A store of `%0`, so that it is used."""
    name = "_".join(part for part in (shape.removesuffix("x"), element) if part)
    return (
        f"\n%9 = store_ptr_tko weak %p_{name}, %0 : "
        f"tile<{shape}ptr<{element}>>, tile<{shape}{element}> -> token"
    )


@pytest.mark.parametrize(
    ("shape", "element", "used", "wanted"),
    [
        ("", "i32", True, 128),
        ("", "i32", False, 0),
        ("64x", "i32", True, 256),
        ("64x", "i32", False, 0),
        ("128x", "f16", True, 256),
        ("16384x", "f64", True, 131072),
    ],
)
def test_atomics_need_room_for_old_values_that_somebody_reads(shape, element, used, wanted):
    body = rmw(shape, element) + (keeping(shape, element) if used else "")
    found = [scratch_bytes(op) for op in ops(body) if op.name == "nv_tileaa.atomic_rmw"]
    assert found == [wanted]


@pytest.mark.parametrize(("size", "wanted"), [(16, 1024), (64, 16384), (128, ROUND_BYTES)])
def test_changes_of_layout_count_no_more_than_a_round(size: int, wanted: int):
    tile, pointers = f"{size}x{size}xf32", f"%p_{size}x{size}_f32"
    to = f"tile<{size}x{size}xptr<f32>>"
    body = (
        f"%x, %8 = load_ptr_tko weak {pointers} : {to} -> tile<{tile}>, token\n"
        f"%y = permute %x [1, 0] : tile<{tile}> -> tile<{tile}>\n"
        f"%9 = store_ptr_tko weak {pointers}, %y : {to}, tile<{tile}> -> token"
    )
    assert [scratch_bytes(op) for op in ops(body) if op.name == "nv_tileaa.permute"] == [wanted]


def test_elementwise_operations_need_none():
    body = (
        "%0 = addf %v_64x64_f32, %v_64x64_f32 : tile<64x64xf32>\n"
        "%9 = store_ptr_tko weak %p_64x64_f32, %0 : "
        "tile<64x64xptr<f32>>, tile<64x64xf32> -> token"
    )
    names = {op.name for op in ops(body) if scratch_bytes(op)}
    assert names == {"nv_tileaa.store"}


def test_prints_and_assertions_call_the_runtime():
    body = (
        '%7 = print_tko "%d", %v_i32 : tile<i32> -> token\n'
        'assert %v_i1, "wrong" : tile<i1>\n' + rmw("", "i32")
    )
    names = [op.name for op in ops(body) if calls_runtime(op)]
    assert "nv_tileaa.print" in names and "nv_tileaa.atomic_rmw" not in names
