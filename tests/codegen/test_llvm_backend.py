"""LLVM in process: errors, dumps, optimisation levels, and the cache of libdevice slices."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from xdsl.dialects.builtin import f32

from tests.kernels.thread_programs import OPTIONS, in_child, llvm_text
from tileiras.codegen import cuda_toolkit, llvm_backend
from tileiras.codegen.libdevice import Libdevice, used_functions
from tileiras.codegen.llvm_backend import llvm_ir_to_ptx, load_llvm, prepare
from tileiras.codegen.llvmir.intrinsics import NEAR
from tileiras.codegen.llvmir.printer import DATA_LAYOUT, TRIPLE
from tileiras.codegen.target import get_target
from tileiras.errors import InternalError, TargetError
from tileiras.options import CompileOptions

_HEAD = f'target datalayout = "{DATA_LAYOUT}"\ntarget triple = "{TRIPLE}"\n'
_DEBUG_UNIT = """
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: FullDebug)
!1 = !DIFile(filename: "k.py", directory: "/")
!2 = !{i32 2, !"Debug Info Version", i32 3}
"""
_EMPTY = _HEAD + "define ptx_kernel void @k() { ret void }\n"


def _sine(b, args) -> None:
    b.store(b.libdevice("__nv_sinf", b.load(args[0], f32, 4)), args[1], 4)


def test_text_that_does_not_parse_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="LLVM IR does not parse.*expected"):
        llvm_ir_to_ptx(_HEAD + "define nonsense", get_target("sm_90"), OPTIONS)


def test_invalid_ir_is_an_internal_error() -> None:
    text = _HEAD + "define i32 @f() { ret void }\n"
    with pytest.raises(InternalError, match="LLVM IR"):
        llvm_ir_to_ptx(text, get_target("sm_90"), OPTIONS)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_optimisation_level_compiles(level: int) -> None:
    options = CompileOptions(opt_level=level)
    assert ".target sm_90a" in llvm_ir_to_ptx(_EMPTY, get_target("sm_90"), options)


def test_ptx_version_is_explicit() -> None:
    assert ".version 9.0" in llvm_ir_to_ptx(_EMPTY, get_target("sm_80"), OPTIONS)


def test_text_for_a_target_that_llvm_lacks_differs_in_its_head_only() -> None:
    older = llvm_ir_to_ptx(_EMPTY, get_target("sm_103"), OPTIONS)
    newer = llvm_ir_to_ptx(_EMPTY, get_target("sm_107"), OPTIONS)
    assert ".version 9.0\n.target sm_103a\n" in older
    assert newer == older.replace("9.0\n.target sm_103a", "9.4\n.target sm_107a")


def test_debug_information_keeps_its_word_on_a_target_that_llvm_lacks() -> None:
    text = _EMPTY + _DEBUG_UNIT
    ptx = llvm_ir_to_ptx(text, get_target("sm_107"), OPTIONS)
    assert ".version 9.4\n.target sm_107a, debug\n" in ptx


def test_text_that_says_another_target_is_an_internal_error() -> None:
    target = replace(get_target("sm_107"), llvm_ptx_version=91)
    with pytest.raises(InternalError, match=r"PTX for sm_107 does not say '\.version 9\.1"):
        llvm_backend._retarget(".version 9.0\n.target sm_103a\n", target)


def test_preparing_in_a_thread_loads_llvm() -> None:
    prepare()
    assert load_llvm().version().startswith("22.")


def test_dumps_are_printed_only_when_asked_for() -> None:
    def compile_thrice() -> None:
        target = get_target("sm_90")
        llvm_ir_to_ptx(_EMPTY, target, OPTIONS)
        os.write(2, b"<start>")
        llvm_ir_to_ptx(_EMPTY, target, CompileOptions(print_after_all=True))
        os.write(2, b"<stop>")
        llvm_ir_to_ptx(_EMPTY, target, OPTIONS)

    outcome = in_child(compile_thrice)
    before, _, rest = outcome.errors.partition("<start>")
    during, _, after = rest.partition("<stop>")
    assert outcome.status == 0
    assert "IR Dump After" in during
    assert before == after == ""


# libdevice


def test_used_functions_are_those_declared() -> None:
    text = "declare float @__nv_sinf(float)\n  %1 = call float @__nv_cosf(float %0)\n"
    assert used_functions(text) == ("__nv_sinf",)


def test_slices_are_cached_and_used_again(tmp_path: Path) -> None:
    options = CompileOptions(knobs={"XDG_CACHE_HOME": str(tmp_path)})
    target, text = get_target("sm_90"), llvm_text(_sine)
    first = llvm_ir_to_ptx(text, target, options)
    (cached,) = tmp_path.rglob("*.bc")
    assert cached.name == "__nv_sinf.bc" and cached.stat().st_size < 20_000
    assert llvm_ir_to_ptx(text, target, options) == first
    assert list(tmp_path.rglob("*.tmp")) == []


def test_damaged_slice_is_made_again(tmp_path: Path) -> None:
    options = CompileOptions(knobs={"XDG_CACHE_HOME": str(tmp_path)})
    target, text = get_target("sm_90"), llvm_text(_sine)
    first = llvm_ir_to_ptx(text, target, options)
    (cached,) = tmp_path.rglob("*.bc")
    good = cached.read_bytes()
    cached.write_bytes(good[:100])
    assert llvm_ir_to_ptx(text, target, options) == first
    assert cached.read_bytes() == good


def test_unwritable_cache_is_ignored(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    options = CompileOptions(knobs={"XDG_CACHE_HOME": str(blocked)})
    target, text = get_target("sm_90"), llvm_text(_sine)
    assert llvm_ir_to_ptx(text, target, options) == llvm_ir_to_ptx(text, target, OPTIONS)
    assert blocked.read_text() == "not a folder"


_BOOL_TO_BF16 = """
  %wide = sitofp <2 x i1> %flags to <2 x float>
  %short = fptrunc <2 x float> %wide to <2 x bfloat>
  store volatile <2 x bfloat> %short, ptr addrspace(1) %p, align 4
"""


def test_callers_of_libdevice_are_not_rewritten() -> None:
    """InstCombine would merge the conversions, which the back end then gets wrong."""

    def ptx(call: str) -> list[str]:
        text = (
            f"{_HEAD}declare float @__nv_sinf(float)\n"
            "define ptx_kernel void @k(ptr addrspace(1) %p, float %x, <2 x i1> %flags) {\n"
            f"{_BOOL_TO_BF16}{call}  ret void\n}}\n"
        )
        lines = llvm_ir_to_ptx(text, get_target("sm_90"), OPTIONS).splitlines()
        return [line.split()[0] for line in lines if ".bf16" in line or "selp" in line]

    plain = ptx("")
    called = ptx(
        "  %y = call float @__nv_sinf(float %x)\n"
        "  store volatile float %y, ptr addrspace(1) %p, align 4\n"
    )
    assert any(line.startswith("cvt.rn.bf16x2.f32") for line in plain)
    assert [line for line in called if "bf16" in line] == [line for line in plain if "bf16" in line]


@pytest.mark.parametrize("name", ["__nv_powf", "__nv_sinf", "__nv_sin", "__nv_fmod"])
def test_questions_of_libdevice_are_answered_before_its_functions_are_inlined(name: str) -> None:
    """Their names are data of the module until then. LLVM's code generator answers them, too, but
    looks at instructions that it has freed where constants were inlined (`pow` of two constants).
    """
    kind = "float" if name.endswith("f") else "double"
    arguments = f"{kind} 2.0" if "sin" in name else f"{kind} 2.0, {kind} 2.0"
    text = (
        f"{_HEAD}declare {kind} @{name}({arguments.replace(' 2.0', '')})\n"
        "define ptx_kernel void @k(ptr addrspace(1) %p) {\n"
        f"  %y = call {kind} @{name}({arguments})\n"
        f"  store volatile {kind} %y, ptr addrspace(1) %p, align 8\n  ret void\n}}\n"
    )
    ptx = llvm_ir_to_ptx(text, get_target("sm_90"), replace(OPTIONS, opt_level=0))
    name_in_bytes = ", ".join(map(str, b"__CUDA"))
    assert "st.volatile.global" in ptx
    assert name_in_bytes not in ptx


def test_constants_are_given_to_libdevice_in_processes_with_other_memory() -> None:
    """What is read after it is freed shows in some processes only."""
    test = test_questions_of_libdevice_are_answered_before_its_functions_are_inlined.__name__
    program = f"from tests.codegen.test_llvm_backend import {test} as test; test('__nv_powf')"
    for number in range(1, 4):
        environment = {**os.environ, "MALLOC_PERTURB_": str(number)}
        done = subprocess.run([sys.executable, "-c", program], env=environment)
        assert done.returncode == 0


@pytest.mark.parametrize("name", NEAR)
def test_functions_of_near_arguments_have_no_loop(name: str, tmp_path: Path) -> None:
    """And no memory: what reduces large arguments is gone."""
    knobs = {"XDG_CACHE_HOME": str(tmp_path)}

    def ptx(called: str) -> str:
        text = (
            f"{_HEAD}declare float @{called}(float)\n"
            "define ptx_kernel void @k(ptr addrspace(1) %p, float %x) {\n"
            f"  %y = call float @{called}(float %x)\n"
            "  store volatile float %y, ptr addrspace(1) %p, align 4\n  ret void\n}\n"
        )
        return llvm_ir_to_ptx(text, get_target("sm_90"), replace(OPTIONS, knobs=knobs))

    whole, near = ptx(NEAR[name]), ptx(name)
    assert ".local" in whole and "call" not in near
    assert ".local" not in near and near.count("bra") <= 1
    assert ptx(name) == near
    assert {path.name for path in tmp_path.rglob("*.bc")} == {f"{name}.bc", f"{NEAR[name]}.bc"}


def test_missing_libdevice_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_toolkit, "package_folders", list)
    with pytest.raises(TargetError, match="cannot find libdevice.*nvidia-nvvm"):
        Libdevice(load_llvm(), {})


def test_function_that_libdevice_lacks_is_an_internal_error() -> None:
    text = _EMPTY + "declare float @__nv_nothing(float)\n"
    with pytest.raises(InternalError, match="no function __nv_nothing"):
        llvm_ir_to_ptx(text, get_target("sm_90"), OPTIONS)


def test_missing_llvm_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.codegen import llvm_library
    from tileiras.errors import UsageError

    monkeypatch.setattr(llvm_library, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="llvmlite"):
        llvm_library.find_llvm_library()
    assert llvm_backend.load_llvm() is load_llvm()
