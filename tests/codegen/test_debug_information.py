"""Debug information: lines and, with -g, the compile unit, functions and what is inlined where."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from xdsl.dialects.builtin import f32

from tests.kernels.debug_places import CHAIN, KERNEL, at
from tests.kernels.thread_programs import kernel_module, options_with
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.nvdisasm import find_nvdisasm
from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.options import CompileOptions

TARGET = get_target("sm_90")
LINES = options_with(line_info=True)
DEBUG = options_with(device_debug=True, opt_level=0)


def _body(b: ThreadBuilder, args) -> None:
    """A load and a store of the kernel, between them what two functions do for it."""
    b.location = at(KERNEL, "kernel.py", 12)
    value = b.load(args[0], f32, 4)
    b.location = CHAIN
    value = b.fadd(value, value)
    b.location = at(KERNEL, "kernel.py", 14)
    b.store(value, args[2], 4)


def llvm(options: CompileOptions) -> str:
    """The kernel's LLVM IR."""
    return print_module(kernel_module(_body), TARGET, options)


def ptx(options: CompileOptions) -> str:
    """The kernel's PTX."""
    return llvm_ir_to_ptx(llvm(options), TARGET, options)


def test_debugging_describes_the_chain_of_calls() -> None:
    """The innermost line is inlined at the line of its caller, that one at the kernel's."""
    text = llvm(DEBUG)
    nodes = dict(re.findall(r"^!(\d+) = (.*)$", text, re.MULTILINE))
    (inner,) = [node for node in nodes.values() if node.startswith("!DILocation(line: 31,")]
    scopes: list[str] = []
    while (link := re.search(r"scope: !(\d+)(?:, inlinedAt: !(\d+))?", inner)) is not None:
        scopes += re.findall(r'name: "(\w+)"', nodes[link[1]])[:1]
        if link[2] is None:
            break
        inner = nodes[link[2]]
    assert scopes[:2] == ["twice", "scaled"] and len(scopes) == 3
    assert inner.startswith("!DILocation(line: 13,")
    assert "emissionKind: FullDebug" in text and "isOptimized: false" in text


def test_line_information_alone_is_lines_and_chains() -> None:
    """The sections of DWARF are left out (tests/codegen/test_inlined_lines.py has the chains)."""
    text = llvm(LINES)
    assert "inlinedAt" in text and "emissionKind: DebugDirectivesOnly" in text
    lines = ptx(LINES)
    assert ".debug_info" not in lines and ", debug" not in lines
    found = re.findall(r"\.loc\s+\d+ (\d+) 5(?=.*\n(?!\t\.loc))", lines)
    assert found == ["12", "31", "14"]


def test_debugging_has_sections() -> None:
    text = ptx(DEBUG)
    assert re.search(r"\.target sm_90a, debug", text)
    for section in (".debug_info", ".debug_abbrev"):
        assert re.search(rf"\.section\s+{re.escape(section)}", text)


@pytest.fixture(scope="module")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernel as ptxas makes it for debugging."""
    path = tmp_path_factory.mktemp("debug") / "k.cubin"
    path.write_bytes(ptx_to_cubin(ptx(DEBUG), TARGET, DEBUG).cubin)
    return path


def test_nvdisasm_reads_the_lines_back(cubin: Path) -> None:
    program = find_nvdisasm(dict(os.environ))
    if program is None:
        pytest.skip("nvdisasm is not installed")
    done = subprocess.run([program, "-g", str(cubin)], capture_output=True, text=True, check=True)
    found = re.findall(r'//## File "([^"]*)", line (\d+)', done.stdout)
    assert {("/src/kernel.py", "12"), ("/src/lib.py", "31")} <= set(found)


def test_dwarf_readers_see_what_is_inlined_where(cubin: Path) -> None:
    program = shutil.which("llvm-dwarfdump")
    if program is None:
        pytest.skip("llvm-dwarfdump is not installed")
    done = subprocess.run([program, str(cubin)], capture_output=True, text=True, check=True)
    unit = done.stdout.partition("DW_TAG_compile_unit")[2]
    assert 'DW_AT_producer\t("tileiras")' in unit
    inlined = unit.split("DW_TAG_inlined_subroutine")[1:]
    calls = [
        (re.findall(r'"(\w+)"\)', part)[0], re.findall(r"DW_AT_call_line\t\((\d+)\)", part)[0])
        for part in inlined
    ]
    assert calls == [("scaled", "13"), ("twice", "22")]
