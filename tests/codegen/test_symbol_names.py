"""Names, alignments and types that LLVM or ptxas cannot take are located errors before them."""

from __future__ import annotations

import pytest

from tileiras.driver import compile_module
from tileiras.errors import BytecodeError, CompileError, TileirasError
from tileiras.options import CompileOptions

PTX = CompileOptions(gpu_name="sm_90", emit="ptx")


def error_of(text: str) -> TileirasError:
    """What compiling the text to PTX raises; fails if nothing."""
    with pytest.raises(TileirasError) as caught:
        compile_module(text.encode(), PTX, "k.mlir")
    return caught.value


NOT_PTX = ["a b", "a-b", "a.b", ".ab", "1a", "a\\00b", "é", "%a", "$", "_", "llvm.foo", "a\\22b"]


@pytest.mark.parametrize("name", NOT_PTX)
def test_entry_name_that_ptx_has_not(name: str) -> None:
    """Exit code 5 as NVIDIA's compiler, with the place of the entry."""
    error = error_of(f'entry @"{name}"() {{\n}}\n')
    assert isinstance(error, CompileError)
    assert "expected a PTX identifier" in error.message
    assert error.location is not None and error.location.line == 1


@pytest.mark.parametrize("name", ["a$b", "_a", "$1", "ret", "reg", "a" * 5000])
def test_entry_name_that_ptx_has(name: str) -> None:
    """Words of PTX and long names are names too."""
    ptx = compile_module(f'entry @"{name}"() {{\n}}\n'.encode(), PTX).output.decode()
    assert f".entry {name}(" in ptx


def test_entry_without_a_name_does_not_verify() -> None:
    """Exit code 3, as NVIDIA's compiler."""
    assert "has an empty name" in error_of('entry @""() {\n}\n').message


USED_GLOBAL = """global @"{name}" alignment = {alignment} <i8: 1> : tile<2xi8>
entry @k() {{
  %0 = get_global @"{name}" : tile<ptr<i8>>
  %1, %2 = load_ptr_tko weak %0 : tile<ptr<i8>> -> tile<i8>, token
  %3 = store_ptr_tko weak %0, %1 : tile<ptr<i8>>, tile<i8> -> token
}}
"""


def test_name_of_a_global() -> None:
    """As that of an entry."""
    error = error_of(USED_GLOBAL.format(name="a b", alignment=1))
    assert error.exit_code == 5 and "global has the name 'a b'" in error.message


def test_alignment_of_a_global_that_llvm_has_not() -> None:
    """LLVM's end at 2^32."""
    error = error_of(USED_GLOBAL.format(name="g", alignment=1 << 62))
    assert error.exit_code == 5 and "expected at most 4294967296" in error.message
    assert error.location is not None
    compile_module(USED_GLOBAL.format(name="g", alignment=1 << 30).encode(), PTX)


def test_alignment_of_an_allocation_that_llvm_has_not() -> None:
    """Used or not."""
    text = "entry @k() {\n  %0 = alloca num_elem = 4, alignment = 4611686018427387904 "
    error = error_of(text + ": tile<ptr<f32>>\n}\n")
    assert error.exit_code == 5 and error.location is not None and error.location.line == 2


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("vprintf", '%0 = print_tko "%d", %a : tile<i32> -> token'),
        ("__assertfail", '%0 = trunci %a : tile<i32> -> tile<i1>\nassert %0, "x" : tile<i1>'),
    ],
)
def test_entry_named_like_a_function_that_it_calls(name: str, body: str) -> None:
    """LLVM would see two definitions; without the call the name is free."""
    error = error_of(f"entry @{name}(%a: tile<i32>) {{\n{body}\n}}\n")
    assert error.exit_code == 5 and "the name of a function that it calls" in error.message
    compile_module(f"entry @{name}() {{\n}}\n".encode(), PTX)


LLVM_KERNEL = """builtin.module {{
  {global_}
  "llvm.func"() <{{sym_name = "{name}", kernel}}> ({{
    {body}
    "llvm.return"() : () -> ()
  }}) : () -> ()
}}
"""


@pytest.mark.parametrize(
    ("name", "global_", "body", "message"),
    [
        ("a b", "", "", "expected a PTX identifier"),
        (
            "k",
            "",
            '%0 = "llvm.alloca"() <{size = #builtin.int<4>, align = #builtin.int<8589934592>}> '
            ": () -> !llvm.ptr<0>",
            "expected a power of two up to 2^32",
        ),
        (
            "k",
            "",
            '%0 = "llvm.alloca"() <{size = #builtin.int<4>, align = #builtin.int<4>}> '
            ": () -> !llvm.ptr<13>",
            "address space 13",
        ),
        (
            "k",
            '"llvm.global"() <{sym_name = "g", size = #builtin.int<4>, space = #builtin.int<2>, '
            "align = #builtin.int<4>}> : () -> ()",
            "",
            "address space 2 is unknown",
        ),
        (
            "k",
            '"llvm.global"() <{sym_name = "g", size = #builtin.int<-4>, space = #builtin.int<1>, '
            "align = #builtin.int<4>}> : () -> ()",
            "",
            "size -4",
        ),
        (
            "k",
            "",
            '%0 = "llvm.undef"() : () -> i4096',
            "an integer of 4096 bits, expected at most 128",
        ),
        (
            "k",
            "",
            '%0 = "llvm.undef"() : () -> vector<1000000xf32>',
            "a vector of shape [1000000]",
        ),
    ],
)
def test_text_of_the_llvm_stage_is_checked_too(
    name: str, global_: str, body: str, message: str
) -> None:
    """There the user writes what our lowerings never would."""
    error = error_of(LLVM_KERNEL.format(name=name, global_=global_, body=body))
    assert message in error.message
    assert isinstance(error, BytecodeError | CompileError)
