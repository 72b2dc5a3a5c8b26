"""Globals and allocations: values, addresses, and what is given back."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.lowered import lower_to_llvm, run_lowered
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.nvvm.access import GuardedLoadOp, GuardedStoreOp
from tileiras.errors import CompileError
from tileiras.interpreter import SimulatedMemory, run_entry


def run_both(text: str, *arrays: np.ndarray, grid: tuple[int, int, int] = (1, 1, 1)) -> ModuleOp:
    """Compares the arrays after the interpreter and the simulator; returns the llvm module."""
    wanted = [array.copy() for array in arrays]
    run_entry(parse_module(text), None, wanted, grid, SimulatedMemory())
    module = lower_to_llvm(parse_module(text))
    run_lowered(module, list(arrays), grid)
    for found, expected in zip(arrays, wanted, strict=True):
        np.testing.assert_array_equal(found, expected)
    return module


def named(module: ModuleOp, name: str) -> GlobalOp:
    """The only variable with this name."""
    variables = [op for op in module.body.ops if isinstance(op, GlobalOp)]
    (found,) = [op for op in variables if op.sym_name.data == name]
    return found


READ_GLOBAL = """cuda_tile.module @m {{
  global {before} @table {after} <{element}: {values}> : tile<4x{element}>
  entry @k(%out: tile<ptr<{element}>>) {{
    %g = get_global @table : tile<ptr<{element}>>
    %r = reshape %g : tile<ptr<{element}>> -> tile<1xptr<{element}>>
    %s = broadcast %r : tile<1xptr<{element}>> -> tile<4xptr<{element}>>
    %i = iota : tile<4xi32>
    %p = offset %s, %i : tile<4xptr<{element}>>, tile<4xi32> -> tile<4xptr<{element}>>
    %v, %t = load_ptr_tko weak %p : tile<4xptr<{element}>> -> tile<4x{element}>, token
    %o = reshape %out : tile<ptr<{element}>> -> tile<1xptr<{element}>>
    %q = broadcast %o : tile<1xptr<{element}>> -> tile<4xptr<{element}>>
    %w = offset %q, %i : tile<4xptr<{element}>>, tile<4xi32> -> tile<4xptr<{element}>>
    store_ptr_tko weak %w, %v : tile<4xptr<{element}>>, tile<4x{element}> -> token
    return
  }}
}}"""


@pytest.mark.parametrize(
    ("element", "values", "dtype"),
    [
        ("i1", "[1, 0, 0, 1]", np.uint8),
        ("i8", "[1, -2, 3, 4]", np.int8),
        ("i16", "7", np.int16),
        ("f32", "[1.5, -2.0, 0.0, 4.0]", np.float32),
        ("f64", "2.5", np.float64),
        ("tf32", "[1.5, -2.0, 0.0, 4.0]", np.float32),
        ("i64", "[1, -2, 3, 4]", np.int64),
    ],
)
def test_a_global_has_its_initial_values(element: str, values: str, dtype: type) -> None:
    text = READ_GLOBAL.format(before="", after="", element=element, values=values)
    run_both(text, np.full(4, 1, dtype))


@pytest.mark.parametrize(
    ("before", "after", "align", "visible", "constant"),
    [
        ("", "", 4, True, False),
        ("private", "", 4, False, False),
        ("constant", "", 4, True, True),
        ("", "alignment = 64", 64, True, False),
    ],
)
def test_attributes_of_globals(
    before: str, after: str, align: int, visible: bool, constant: bool
) -> None:
    text = READ_GLOBAL.format(before=before, after=after, element="f32", values="1.0")
    table = named(lower_to_llvm(parse_module(text)), "table")
    assert table.align.data == align
    assert (table.visible is not None) == visible
    assert (table.constant is not None) == constant


def test_names_that_the_compiler_adds_give_way() -> None:
    text = READ_GLOBAL.format(before="", after="", element="f32", values="1.0")
    text = text.replace("@table", "@constant").replace("@k", "@scratch")
    text = text.replace("return", 'print_tko "text" -> token\n return')
    module = lower_to_llvm(parse_module(text))
    names = [op.sym_name.data for op in module.body.ops if isinstance(op, GlobalOp | FuncOp)]
    assert len(names) == len(set(names))
    assert {"constant", "scratch", "constant_1"} <= set(names)


ALLOCA = """cuda_tile.module @m {
  entry @k(%in: tile<ptr<f32>>, %out: tile<ptr<f32>>) {
    %a = alloca num_elem = 128, alignment = 64 SHARING : tile<ptr<f32>>
    %i = iota : tile<128xi32>
    %last = constant <i32: 127> : tile<128xi32>
    %j = subi %last, %i : tile<128xi32>
    %ra = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>>
    %ba = broadcast %ra : tile<1xptr<f32>> -> tile<128xptr<f32>>
    %pa = offset %ba, %i : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
    %qa = offset %ba, %j : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
    %ri = reshape %in : tile<ptr<f32>> -> tile<1xptr<f32>>
    %bi = broadcast %ri : tile<1xptr<f32>> -> tile<128xptr<f32>>
    %pi = offset %bi, %i : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
    %ro = reshape %out : tile<ptr<f32>> -> tile<1xptr<f32>>
    %bo = broadcast %ro : tile<1xptr<f32>> -> tile<128xptr<f32>>
    %po = offset %bo, %i : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
    %v, %t = load_ptr_tko weak %pi : tile<128xptr<f32>> -> tile<128xf32>, token
    %t1 = store_ptr_tko weak %pa, %v token=%t : tile<128xptr<f32>>, tile<128xf32> -> token
    %w, %t2 = load_ptr_tko weak %qa token=%t1 : tile<128xptr<f32>> -> tile<128xf32>, token
    store_ptr_tko weak %po, %w token=%t2 : tile<128xptr<f32>>, tile<128xf32> -> token
    return
  }
}"""


@pytest.mark.parametrize("sharing", ["", "global"])
def test_a_tile_is_reversed_through_an_allocation(sharing: str) -> None:
    data = np.arange(128, dtype=np.float32)
    found = np.zeros(128, np.float32)
    module = run_both(ALLOCA.replace("SHARING", sharing), data, found, grid=(2, 1, 1))
    np.testing.assert_array_equal(found, data[::-1])
    if not sharing:
        assert named(module, "alloca").size.data == 512
        assert named(module, "alloca").align.data == 64


def test_pointers_may_point_to_shared_memory_only_where_something_is_allocated() -> None:
    with_alloca = lower_to_llvm(parse_module(ALLOCA.replace("SHARING", "")))
    without = lower_to_llvm(
        parse_module(READ_GLOBAL.format(before="", after="", element="f32", values="1.0"))
    )
    for module, allowed in ((with_alloca, {0, 3}), (without, {1, 3})):
        spaces = {
            op.pointers.type.element_type.address_space  # type: ignore[union-attr]
            for op in module.walk()
            if isinstance(op, GuardedLoadOp | GuardedStoreOp) and hasattr(op.pointers.type, "shape")
        }
        assert spaces and spaces <= allowed


def test_more_shared_memory_than_the_target_has() -> None:
    text = ALLOCA.replace("SHARING", "").replace("num_elem = 128", "num_elem = 100000")
    with pytest.raises(CompileError, match="400000 bytes of shared memory, sm_90 has 232448"):
        lower_to_llvm(parse_module(text))
