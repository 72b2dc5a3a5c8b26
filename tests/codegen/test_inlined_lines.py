"""Chains of calls with `--lineinfo`: in PTX, and as nvdisasm reads them from the cubin."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from xdsl.dialects.builtin import IntAttr, StringAttr, f32
from xdsl.ir import Attribute

from tests.kernels.debug_places import CHAIN, INNER, KERNEL, OUTER, at, function
from tests.kernels.debugged_kernel import write_kernel
from tests.kernels.thread_programs import kernel_module, options_with
from tileiras import cli
from tileiras.codegen.cubin.elf import read_sections
from tileiras.codegen.inlined_lines import hide_calls, show_calls
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.nvdisasm import find_nvdisasm
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.dialects.cuda_tile.debug_info import DICallSiteLoc, DILocAttr
from tileiras.interpreter.ptx.parser import parse_module

TARGET = get_target("sm_90")
LINES = options_with(line_info=True)


def chain(line: int, kernel_line: int) -> Attribute:
    """A line of `twice`, which `scaled` calls, which the kernel calls at its line."""
    caller = DICallSiteLoc(at(OUTER, "lib.py", 22), at(KERNEL, "kernel.py", kernel_line))
    return DICallSiteLoc(at(INNER, "lib.py", line), caller)


def ptx(*places: Attribute) -> str:
    """The PTX of a kernel with one addition from each place, each of the one before."""

    def body(b: ThreadBuilder, args) -> None:
        b.location = at(KERNEL, "kernel.py", 12)
        value = b.load(args[0], f32, 4)
        for place in places:
            b.location = place
            value = b.fadd(value, value)
        b.location = at(KERNEL, "kernel.py", 19)
        b.store(value, args[2], 4)

    return llvm_ir_to_ptx(print_module(kernel_module(body), TARGET, LINES), TARGET, LINES)


def locations(text: str) -> list[str]:
    """The lines' numbers, names of functions for their labels."""
    names = {
        label: bytes(map(int, data.split(",")[:-1])).decode()
        for label, data in re.findall(r"(\$L__info_string\d+):\n\t\.b8 ([\d,]+)\n", text)
    }
    found = re.findall(r"^\t\.loc\t(.*)$", text, re.MULTILINE)
    return [re.sub(r"\$L__info_string\d+", lambda label: names[label[0]], line) for line in found]


def test_line_has_the_chain_of_its_calls() -> None:
    text = ptx(CHAIN)
    assert locations(text)[1:] == [
        "1 12 5",
        "1 13 5",
        "2 22 5, function_name scaled, inlined_at 1 13 5",
        "2 31 5, function_name twice, inlined_at 2 22 5",
        "1 19 5",
    ]
    assert re.findall(r"\.file\t(.*)", text) == ['1 "/src/kernel.py"', '2 "/src/lib.py"']


def test_callers_are_said_again_only_where_the_calls_are_others() -> None:
    """The line of the same call inside the same function is the nearest one before it."""
    text = ptx(chain(31, 13), chain(32, 13), chain(31, 14), chain(33, 13))
    assert locations(text)[2:-1] == [
        "1 13 5",
        "2 22 5, function_name scaled, inlined_at 1 13 5",
        "2 31 5, function_name twice, inlined_at 2 22 5",
        "2 32 5, function_name twice, inlined_at 2 22 5",
        "1 14 5",
        "2 22 5, function_name scaled, inlined_at 1 14 5",
        "2 31 5, function_name twice, inlined_at 2 22 5",
        "2 22 5, function_name scaled, inlined_at 1 13 5",
        "2 33 5, function_name twice, inlined_at 2 22 5",
    ]


def test_files_of_callers_are_listed_once() -> None:
    """A file that no code of its own comes from takes the number of one that stood for a call."""
    middle = DICallSiteLoc(
        at(function("middle", "middle.py", 1), "middle.py", 2), at(KERNEL, "kernel.py", 13)
    )
    text = ptx(DICallSiteLoc(at(INNER, "lib.py", 31), middle))
    assert sorted(re.findall(r'\.file\t\d+ (.*)', text)) == [
        '"/src/kernel.py"', '"/src/lib.py"', '"/src/middle.py"',
    ]  # fmt: skip
    assert len(set(re.findall(r"\.file\t(\d+)", text))) == 3
    assert "<inlined>" not in text


def test_paths_are_quoted_as_by_llvm() -> None:
    """The file of a caller, which LLVM has not written, as the one that it has."""
    odd = 'a"b\\c é.py'
    place = at(function("k", odd, 10), odd, 13)
    text = ptx(place, DICallSiteLoc(at(INNER, "lib.py", 31), place))
    paths = re.findall(r"\.file\t\d+ (.*)", text)
    assert len(paths) == len(set(paths)) == 3


@pytest.mark.parametrize("path", ["", "/src/", "/", "rel/"])
def test_file_without_a_name_is_called_as_by_llvm(path: str) -> None:
    """ptxas takes no table with an empty one."""
    place = DILocAttr(KERNEL, StringAttr(path), IntAttr(13), IntAttr(3))
    helper = DILocAttr(function("f", "", 1), StringAttr(path), IntAttr(4), IntAttr(3))
    text = ptx(DICallSiteLoc(helper, place))
    assert re.findall(r"\.file\t(.*)", text) == ['1 "/src/kernel.py"', '2 "<stdin>"']
    assert "2 4 3, function_name f, inlined_at 2 13 3" in locations(text)
    assert ptx_to_cubin(text, TARGET, LINES).cubin


@pytest.mark.parametrize("line", [0, 1, 2**31, 2**40])
def test_any_number_of_a_line_is_taken(line: int) -> None:
    place = DILocAttr(INNER, StringAttr("/src/lib.py"), IntAttr(line), IntAttr(line))
    text = ptx(DICallSiteLoc(place, DICallSiteLoc(place, at(KERNEL, "kernel.py", 13))))
    assert "inlined_at" in text and ptx_to_cubin(text, TARGET, LINES).cubin


def test_nothing_changes_without_calls() -> None:
    text = print_module(kernel_module(lambda b, args: b.store(args[4], args[0], 4)), TARGET, LINES)
    assert hide_calls(text) == (text, []) and show_calls(text, []) is text
    plain = ptx(at(KERNEL, "kernel.py", 13))
    assert "function_name" not in plain and ".debug_str" not in plain


def test_debugging_keeps_what_llvm_writes() -> None:
    """With -g the chains stand in DWARF's sections."""
    debug = options_with(device_debug=True, line_info=True, opt_level=0)

    def body(b: ThreadBuilder, args) -> None:
        b.location = CHAIN
        b.store(args[4], args[0], 4)

    text = print_module(kernel_module(body), TARGET, debug)
    assert hide_calls(text) == (text, [])
    assert "function_name" not in llvm_ir_to_ptx(text, TARGET, debug)


def test_machine_reads_the_directives() -> None:
    assert list(parse_module(ptx(CHAIN)).functions) == ["k"]


def code(cubin: bytes) -> bytes:
    """The instructions of the kernel."""
    return next(part.data for part in read_sections(cubin) if part.name == ".text.k")


def test_instructions_are_those_of_the_innermost_lines_alone() -> None:
    text = ptx(CHAIN, chain(32, 14))
    plain = re.sub(r"(?m)^(\t\.loc\t[\d ]+), function_name.*$", r"\1", text)
    assert plain != text
    assert code(ptx_to_cubin(plain, TARGET, LINES).cubin) == code(
        ptx_to_cubin(text, TARGET, LINES).cubin
    )


def read_back(text: str, folder: Path) -> list[str]:
    """What nvdisasm says of the lines that code comes from, with the calls."""
    program = find_nvdisasm(dict(os.environ))
    if program is None:
        pytest.skip("nvdisasm is not installed")
    path = folder / "k.cubin"
    path.write_bytes(ptx_to_cubin(text, TARGET, LINES).cubin)
    command = [program, "-gi", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.findall(r"//## File (.*)", done.stdout)
    return [line.replace('"/src/', "").replace('"', "").replace(", line ", ":") for line in found]


def test_nvdisasm_reads_the_chains_back(tmp_path: Path) -> None:
    """Two calls of the same function, by turns."""
    lines = read_back(ptx(chain(31, 13), chain(32, 14), chain(33, 13)), tmp_path)
    start = lines.index("lib.py:31 inlined at lib.py:22")
    assert lines[start : start + 9] == [
        "lib.py:31 inlined at lib.py:22",
        "lib.py:22 inlined at kernel.py:13",
        "kernel.py:13",
        "lib.py:32 inlined at lib.py:22",
        "lib.py:22 inlined at kernel.py:14",
        "kernel.py:14",
        "lib.py:33 inlined at lib.py:22",
        "lib.py:22 inlined at kernel.py:13",
        "kernel.py:13",
    ]


def test_command_keeps_the_chains(tmp_path: Path) -> None:
    """From a program's text through all passes: a load from a helper of the kernel."""
    program = write_kernel(tmp_path)
    text = program.read_text()
    kernel = "#loc29 = #cuda_tile.di_loc<#loc9 in #di_subprogram>\n"
    helper = re.sub(r'name = "[^"]*"', 'name = "helper"', text.split("#di_subprogram = ", 1)[1])
    calls = (
        f"#di_helper = {helper.splitlines()[0]}\n"
        '#loc90 = loc("/src/lib.py":7:3)\n'
        "#loc91 = #cuda_tile.di_loc<#loc90 in #di_helper>\n"
        "#loc92 = #cuda_tile.di_loc<#loc9 in #di_subprogram>\n"
        "#loc29 = loc(callsite(#loc91 at #loc92))\n"
    )
    assert kernel in text
    program.write_text(text.replace(kernel, calls))
    output = tmp_path / "k.ptx"
    words = [str(program), "--gpu-name=sm_90", "--lineinfo", "--emit=ptx", "-o", str(output)]
    assert cli.run(words) == 0
    found = [line for line in locations(output.read_text()) if "function_name" in line]
    assert found and {re.sub(r"\b[12] (?=\d+ \d+)", "", line) for line in found} == {
        "7 3, function_name helper, inlined_at 10 15"
    }
