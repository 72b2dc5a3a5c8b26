"""Variables under -g: their names, types and places, as readers of DWARF see them."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from xdsl.dialects.builtin import IntAttr, StringAttr, f32, i1, i32

from tests.kernels.debug_places import CHAIN, KERNEL, at
from tests.kernels.debugged_kernel import SOURCE, write_kernel
from tests.kernels.thread_programs import kernel_module, options_with
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.target import get_target
from tileiras.dialects.llvm.memory import DebugValueOp
from tileiras.driver import compile_module
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

TARGET = get_target("sm_90")
LINES = options_with(line_info=True)
DEBUG = options_with(device_debug=True, opt_level=0)
DEBUG_CUBIN = CompileOptions(gpu_name="sm_90", opt_level=0, device_debug=True)
LOCALS = ["block", "rest", "step", "tile", "total", "twice", "result"]
PARAMETERS = [
    *["x", "x_shape_0", "x_shape_1", "x_stride_0", "x_stride_1"],
    *["y", "y_shape_0", "y_stride_0", "n", "factor"],
]


def emitted(program: Path, **changes) -> bytes:
    """What the program is compiled to for debugging."""
    options = replace(DEBUG_CUBIN, **changes)
    return compile_module(program.read_bytes(), options, filename=program.name).output


def llvm_variables(program: Path) -> dict[str, int]:
    """Variables of the LLVM IR by name; the number of the parameter that it is, else 0."""
    text = emitted(program, emit="llvm").decode()
    found = re.findall(r'!DILocalVariable\(name: "(\w+)", (?:arg: (\d+), )?', text)
    return {name: int(number or 0) for name, number in found}


def test_parameters_and_assignments_have_the_names_of_the_source(tmp_path: Path) -> None:
    found = llvm_variables(write_kernel(tmp_path))
    numbers = {name: number for number, name in enumerate(PARAMETERS, 1)}
    assert found == {**numbers, **dict.fromkeys(LOCALS, 0)}


def test_program_without_its_source_has_no_variables(tmp_path: Path) -> None:
    assert llvm_variables(write_kernel(tmp_path, with_source=False)) == {}


@pytest.mark.parametrize(
    "text",
    ["def other(x): pass\n", "def scale_rows(:\n", "\n" * 40 + "def scale_rows(x): pass\n", "\0"],
    ids=["another function", "no Python", "another line", "no text"],
)
def test_source_that_is_not_the_programs_gives_no_names(tmp_path: Path, text: str) -> None:
    program = write_kernel(tmp_path)
    (tmp_path / SOURCE).write_text(text)
    assert llvm_variables(program) == {}


def test_parameters_that_do_not_fit_the_arguments_have_no_names(tmp_path: Path) -> None:
    program = write_kernel(tmp_path)
    source = tmp_path / SOURCE
    source.write_text(source.read_text().replace("factor, TILE", "factor, more, TILE"))
    assert list(llvm_variables(program)) == LOCALS


def edited(folder: Path, *changes: tuple[str, str]) -> dict[str, int]:
    """The variables where the source says something else at the same places."""
    program = write_kernel(folder)
    source = folder / SOURCE
    text = source.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    source.write_text(text)
    return llvm_variables(program)


def test_tuples_are_taken_apart(tmp_path: Path) -> None:
    found = edited(tmp_path, ("    rest = n - block * TILE", "    rest,m=n - block * TILE, n"))
    assert "rest" in found and "m" not in found


def test_a_variable_that_is_a_copy_somewhere_is_left_out(tmp_path: Path) -> None:
    """It would keep the value that it had before the copy."""
    found = edited(tmp_path, ("total * twice", "total * twice; twice = n; factor = n"))
    assert not {"twice", "factor"} & set(found) and "result" in found


def test_a_variable_that_is_unpacked_from_a_call_is_left_out(tmp_path: Path) -> None:
    found = edited(tmp_path, ("total * twice", "total * twice; twice, m = f()"))
    assert "twice" not in found and "result" in found


def test_a_call_of_the_grid_is_the_axis_that_it_asks_for(tmp_path: Path) -> None:
    assert "block" in edited(tmp_path, ("ct.bid(0)", "ct.bid(2)"))
    assert "block" not in edited(tmp_path, ("ct.bid(0)", "ct.bid(n)"))


def test_variables_change_nothing_without_debugging(tmp_path: Path) -> None:
    """Nor does the source: an ordinary compilation does not look for it."""
    (tmp_path / "no").mkdir()
    one, other = write_kernel(tmp_path), write_kernel(tmp_path / "no", with_source=False)
    for level in (0, 3):
        plain = {"device_debug": False, "opt_level": level, "emit": "ptx"}
        assert emitted(one, **plain) == emitted(other, **plain)
    assert b"debug_value" not in emitted(one, device_debug=False, emit="llvm-dialect")


def test_dwarf_says_where_variables_are(tmp_path: Path) -> None:
    """All in local memory (address class 6), at places of their own."""
    program = shutil.which("llvm-dwarfdump")
    if program is None:
        pytest.skip("llvm-dwarfdump is not installed")
    cubin = tmp_path / "k.cubin"
    cubin.write_bytes(emitted(write_kernel(tmp_path)))
    done = subprocess.run(
        [program, "--debug-info", str(cubin)], capture_output=True, text=True, check=True
    )
    parts = re.split(r"DW_TAG_(?=formal_parameter|variable)", done.stdout)[1:]
    names = [re.findall(r'DW_AT_name\t\("(\w+)"\)', part)[0] for part in parts]
    assert names[: len(PARAMETERS)] == PARAMETERS and sorted(names[10:]) == sorted(LOCALS)
    assert all("DW_AT_address_class\t(0x06)" in part for part in parts)
    places = re.findall(r"DW_AT_location\t\((.*)\)", done.stdout)
    assert len(set(places)) == len(parts)
    types = {
        name: re.findall(r'DW_AT_type\t\(0x\w+ "([^"]*)"', part)[0]
        for name, part in zip(names, parts, strict=True)
    }
    assert (types["x"], types["n"], types["factor"]) == ("float *", "int", "float")
    assert types["total"] == "float[2]"
    assert 'DW_AT_name\t("scale_rows")' in done.stdout


def test_interpreters_pass_over_variables(tmp_path: Path) -> None:
    """A program that is debugged computes what it computes without."""
    np = pytest.importorskip("numpy")
    results = []
    for options in ({}, {"device_debug": False}):
        text = emitted(write_kernel(tmp_path), emit="nv_tileas", **options)
        assert (b"debug_value" in text) == (not options)
        module = parse_text(text.decode())
        x, y = np.ones((3, 128), np.float32), np.zeros(128, np.float32)
        run_entry(module, None, [x, 3, 128, 128, 1, y, 128, 1, 3, np.float32(1.5)], (2, 1, 1))
        results.append(y)
    np.testing.assert_array_equal(results[0], np.repeat([9, 0], 64))
    np.testing.assert_array_equal(*results)


def mark(b: ThreadBuilder, value, name: str, element: str) -> None:
    """A value for a variable."""
    properties = {
        "variable": StringAttr(name),
        "element": StringAttr(element),
        "parameter": IntAttr(0),
    }
    b.append(DebugValueOp, [value], (), properties)


def _body(b: ThreadBuilder, args) -> None:
    b.location = at(KERNEL, "kernel.py", 12)
    value = b.load(args[0], f32, 4)
    mark(b, value, "value", "f32")
    mark(b, value, "two_types", "f32")
    mark(b, b.const_int(i32, 7), "two_types", "i32")
    mark(b, b.const_int(i1, 1), "flag", "i1")
    mark(b, b.const_int(i32, 7), "odd", "f8E9M9")
    b.location = CHAIN
    mark(b, b.fadd(value, value), "value", "f32")


def test_inlined_functions_have_variables_of_their_own() -> None:
    text = print_module(kernel_module(_body), TARGET, DEBUG)
    scopes = re.findall(r'!DILocalVariable\(name: "value", scope: !(\d+)', text)
    nodes = dict(re.findall(r"^!(\d+) = (.*)$", text, re.MULTILINE))
    assert len(scopes) == 2
    assert [re.findall(r'name: "(\w+)"', nodes[scope])[0] for scope in scopes] == ["k", "twice"]


def test_a_name_with_values_of_two_types_is_left_out() -> None:
    text = print_module(kernel_module(_body), TARGET, DEBUG)
    assert '"two_types"' not in text and '"value"' in text


def test_bits_are_bytes_and_unknown_types_are_numbers() -> None:
    text = print_module(kernel_module(_body), TARGET, DEBUG)
    assert 'name: "bool", size: 8, encoding: DW_ATE_boolean' in text
    assert 'name: "f8E9M9", size: 32, encoding: DW_ATE_unsigned' in text


def test_line_information_has_no_variables() -> None:
    text = print_module(kernel_module(_body), TARGET, LINES)
    assert "DILocalVariable" not in text and "alloca" not in text
