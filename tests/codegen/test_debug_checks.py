"""Prints and assertions under -g: they are in the code, at their lines, beside the variables."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tileiras.codegen.nvdisasm import find_nvdisasm
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import PtxRuntimeError, run_ptx
from tileiras.options import CompileOptions

DEBUG = CompileOptions(gpu_name="sm_90", opt_level=0, device_debug=True)
PRINT, CHECK, CHECK_TILE, STORE = 6, 7, 8, 9
"""The lines of checks.py that the program is from."""

PROGRAM = f"""
entry @checks(%p: tile<ptr<i32>>, %n: tile<i32>) {{
  %most = constant <i32: 4> : tile<i32> loc("most"(#at5))
  %t = print_tko "n = %d\\0A", %n : tile<i32> -> token loc(#at{PRINT})
  %small = cmpi less_than %n, %most, signed : tile<i32> -> tile<i1> loc("small"(#at{CHECK}))
  assert %small, "n is small" : tile<i1> loc(#at{CHECK})
  %i = iota : tile<64xi32> loc("i"(#at{CHECK_TILE}))
  %one = reshape %n : tile<i32> -> tile<1xi32> loc(#at{CHECK_TILE})
  %all = broadcast %one : tile<1xi32> -> tile<64xi32> loc(#at{CHECK_TILE})
  %other = cmpi not_equal %i, %all, signed : tile<64xi32> -> tile<64xi1> loc(#at{CHECK_TILE})
  assert %other, "n is no index" : tile<64xi1> loc(#at{CHECK_TILE})
  %done = store_ptr_tko weak %p, %n : tile<ptr<i32>>, tile<i32> -> token loc(#at{STORE})
  return loc(#at{STORE})
}} loc(#at4)
#file = #cuda_tile.di_file<"checks.py" in "/src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 4, name = "checks", linkageName = "checks", \
compileUnit = #unit, scopeLine = 4>
""" + "".join(
    f'#place{line} = loc("/src/checks.py":{line}:5)\n'
    f"#at{line} = #cuda_tile.di_loc<#place{line} in #k>\n"
    for line in range(4, STORE + 1)
)


def emitted(**changes: str) -> bytes:
    """What the program is compiled to."""
    return compile_module(PROGRAM.encode(), replace(DEBUG, **changes), filename="k").output


def calls(ptx: str) -> list[tuple[str, int]]:
    """The functions of CUDA's runtime that are called, with the line of the `.loc` before each."""
    found: list[tuple[str, int]] = []
    line = 0
    for text in ptx.splitlines():
        if (place := re.match(r"\t\.loc\t\d+ (\d+)", text)) is not None:
            line = int(place[1])
        found += [
            (name, line) for name in re.findall(r"(?<!func )\b(vprintf|__assertfail)\b", text)
        ]
    return [(name, line) for name, line in found if line]


def test_calls_are_at_the_lines_of_the_source() -> None:
    """A line for the print, for each element that fails one, and the end after each assertion."""
    ptx = emitted(emit="ptx").decode()
    assert re.search(r"\.target sm_90a, debug", ptx)
    assert calls(ptx) == [
        ("vprintf", PRINT),
        ("vprintf", CHECK),
        ("__assertfail", CHECK),
        ("vprintf", CHECK_TILE),
        ("__assertfail", CHECK_TILE),
    ]


def test_variables_are_described_beside_them() -> None:
    text = emitted(emit="llvm").decode()
    found = re.findall(r'!DILocalVariable\(name: "(\w+)",.* line: (\d+),', text)
    assert found == [("most", "5"), ("small", str(CHECK)), ("i", str(CHECK_TILE))]


def test_nvdisasm_finds_code_at_each_line(tmp_path: Path) -> None:
    program = find_nvdisasm(dict(os.environ))
    if program is None:
        pytest.skip("nvdisasm is not installed")
    path = tmp_path / "k.cubin"
    path.write_bytes(emitted())
    command = [program, "-g", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = set(re.findall(r'//## File "/src/checks.py", line (\d+)', done.stdout))
    assert {str(line) for line in (PRINT, CHECK, CHECK_TILE, STORE)} <= found
    assert re.findall(r"\.section\s+\.debug_(info|abbrev)\b", done.stdout)


@pytest.mark.parametrize(("number", "failing"), [(-1, 0), (5, CHECK), (2, CHECK_TILE)])
def test_code_for_debugging_goes_on_or_ends(number: int, failing: int) -> None:
    """In the PTX machine, which stops at `__assertfail`."""
    ptx = emitted(emit="ptx").decode()
    out = np.zeros(1, np.int32)
    if not failing:
        run_ptx(ptx, [out, number])
        assert out[0] == number
        return
    with pytest.raises(PtxRuntimeError) as caught:
        run_ptx(ptx, [out, number])
    place = caught.value.location
    assert place is not None and out[0] == 0
    before = re.findall(r"^\t\.loc\t\d+ (\d+)", "\n".join(ptx.splitlines()[: place.line]), re.M)
    assert int(before[-1]) == failing
