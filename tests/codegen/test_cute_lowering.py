"""Kernels in CuTe's dialect, compiled: right in the PTX machine, and rejected with a place."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileiras.driver import compile_module
from tileiras.errors import CompileError, TargetError, TileirasError
from tileiras.interpreter.ptx import run_ptx
from tileiras.options import CompileOptions

EXAMPLES = Path(__file__).parents[2] / "examples" / "cute"
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


@cache
def compiled(text: str, target: str = "sm_80", emit: str = "ptx") -> bytes:
    """The output for a program's text."""
    return compile_module(text.encode(), CompileOptions(gpu_name=target, emit=emit)).output


def example(name: str) -> str:
    """The text of an example."""
    return (EXAMPLES / f"{name}.mlir").read_text()


def integers(count: int, dtype: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    """Small numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, count).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
class TestExamples:
    """In the PTX machine, which also looks for races."""

    def test_a_vector_is_scaled_and_added(self, target: str) -> None:
        """Three CTAs; accesses are of 128 bits."""
        x, y = integers(1536, np.float32), integers(1536, np.float32, 1)
        expected = 2.5 * x + y
        ptx = compiled(example("saxpy"), target).decode()
        run_ptx(ptx, [x, 1536, y, 1536, 2.5], (3, 1, 1))
        assert (y == expected).all()
        assert ptx.count("ld.global.v4") == 2 and ptx.count("st.global.v4") == 1

    def test_a_matrix_is_transposed_through_a_swizzle(self, target: str) -> None:
        """A barrier stands between writes and reads."""
        a, b = integers(1024, np.float32), np.zeros(1024, np.float32)
        ptx = compiled(example("transpose"), target).decode()
        run_ptx(ptx, [a, b], (1, 1, 1))
        assert (b.reshape(32, 32) == a.reshape(32, 32).T).all()
        assert "bar.sync" in ptx or "barrier" in ptx

    def test_four_warps_multiply(self, target: str) -> None:
        """Four atoms each: one along M, two along N, two along K."""
        a, b = integers(1024, np.float16), integers(1024, np.float16, 1)
        d = np.zeros(1024, np.float32)
        ptx = compiled(example("gemm"), target).decode()
        run_ptx(ptx, [a, b, d], (1, 1, 1))
        wanted = a.reshape(32, 32).astype(np.float32) @ b.reshape(32, 32).T.astype(np.float32)
        assert (d.reshape(32, 32) == wanted).all()
        assert ptx.count("mma.sync") == 4

    @pytest.mark.parametrize("name", ["saxpy", "transpose", "gemm"])
    def test_becomes_a_cubin(self, target: str, name: str) -> None:
        """And the same one again."""
        cubins = [compiled(example(name), target, "cubin") for _ in range(2)]
        assert cubins[0].startswith(b"\x7fELF") and cubins[0] == cubins[1]


def test_each_stage_is_printed() -> None:
    """The program, one thread's program, and LLVM's."""
    assert b"cute.axpby" in compiled(example("saxpy"), emit="cute")
    assert b"llvm.func @saxpy" in compiled(example("saxpy"), emit="llvm-dialect")
    assert b"define" in compiled(example("saxpy"), emit="llvm")


def test_a_loop_is_unrolled_and_carries_a_coordinate() -> None:
    """Prefix sums of a row, element by element."""
    text = """
    cute.func @k(%a: !cute.tensor<i32, gmem, align<4>, (8,32):(1,8)>) threads 32 {
      %tid = cute.thread_idx<0>()
      %column = cute.make_coord(%tid) -> !cute.coord<(_,?)>
      %line = cute.slice(%column, %a)
      %r = cute.make_fragment_like(%line)
      %word = cute.static() -> !cute.copy_atom<universal, 32>
      cute.copy(%word, %line, %r)
      %zero = cute.static() -> !cute.int<0>
      %one = cute.static() -> !cute.int<1>
      %last = cute.static() -> !cute.int<7>
      %start = cute.tuple_sub(%one, %one)
      %end = cute.for %i = %zero to %last step %one carries (%from = %start) {
        cute.yield(%from)
      }
      cute.add(%r, %r, %r)
      cute.copy(%word, %r, %line)
      cute.return
    }"""
    a = integers(256, np.int32)
    expected = 2 * a
    run_ptx(compiled(text).decode(), [a], (1, 1, 1))
    assert (a == expected).all()


def kernel(body: str, arguments: str = "") -> str:
    """A kernel whose body begins on line 2."""
    return f"cute.func @k({arguments}) threads 32 {{\n{body}\ncute.return\n}}"


ROW = "%a: !cute.tensor<f32, gmem, align<16>, (8):(2)>, %n: i32"
VECTOR = "%v = cute.static() -> !cute.copy_atom<universal, 128>\ncute.copy(%v, %a, %a)"
REGISTERS = "%r = cute.alloc() -> !cute.tensor<f32, rmem, align<16>, 8:1>\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (kernel(VECTOR, ROW), 3, "vectors of 4 elements of (8):(2) are not contiguous"),
        (
            kernel(
                "%s = cute.alloc() -> !cute.tensor<f32, smem, align<16>, S<1,0,2> o 0 o 8:1>\n"
                "%v = cute.static() -> !cute.copy_atom<universal, 128>\ncute.copy(%v, %s, %s)"
            ),
            4,
            "S<1,0,2> tears vectors of 4 elements apart",
        ),
        (
            kernel(
                REGISTERS + "%v = cute.static() -> !cute.copy_atom<universal, 32>\n"
                "%t = cute.alloc() -> !cute.tensor<f32, smem, align<16>, 8:1>\n"
                "cute.copy(%v, %r, %t)"
            ),
            5,
            "a register is read that nothing has written",
        ),
        (
            kernel(
                REGISTERS + "cute.clear(%r)\n"
                "%h = cute.alloc() -> !cute.tensor<f8E5M2, rmem, align<16>, 8:1>\n"
                "cute.cast(%r, %h)"
            ),
            5,
            "elements f8E5M2 are not cast",
        ),
        (
            kernel(
                REGISTERS + "%p = cute.alloc() -> !cute.tensor<i1, rmem, align<16>, 8:1>\n"
                "cute.clear(%p)\n%w = cute.static() -> !cute.copy_atom<universal, 32>\n"
                "%t = cute.alloc() -> !cute.tensor<f32, smem, align<16>, 8:1>\n"
                "cute.copy_if(%w, %p, %t, %r)"
            ),
            7,
            "a register that keeps its value has none, clear it before",
        ),
        (
            kernel(
                "%h = cute.alloc() -> !cute.tensor<f16, rmem, align<16>, 8:1>\ncute.clear(%h)\n"
                "%b = cute.alloc() -> !cute.tensor<bf16, rmem, align<16>, 8:1>\ncute.cast(%h, %b)"
            ),
            5,
            "elements f16 are not cast to bf16",
        ),
        (
            kernel(REGISTERS + "%x = cute.load(%r, %n) : f32", ROW),
            3,
            "the index of a register must be static",
        ),
        (
            kernel(
                "%z = cute.static() -> !cute.int<0>\n%o = cute.static() -> !cute.int<1>\n"
                "%e = cute.static() -> !cute.int<5000>\ncute.for %i = %z to %e step %o {\n}"
            ),
            5,
            "loops have 5000 turns, at most 4096 compile",
        ),
        (
            kernel("%r = cute.alloc() -> !cute.tensor<tf32, rmem, align<16>, 8:1>"),
            2,
            "elements tf32 are not compiled",
        ),
        (
            kernel(
                "%r = cute.recast_tensor(%a) -> !cute.tensor<f16, gmem, align<16>, (16):(1)>",
                "%a: !cute.tensor<f32, gmem, align<16>, (8):(1)>, %n: i32",
            )
            + kernel(REGISTERS + "cute.fill(%r, %n)", ROW).replace("@k", "@l"),
            6,
            "a value i32 fills no f32",
        ),
        (
            kernel(
                "%z = cute.static() -> !cute.int<0>\n%o = cute.static() -> !cute.int<1>\n"
                "%e = cute.to_int(%n)\n%l = cute.static() -> !cute.layout<4,1>\n"
                "%r = cute.for %i = %z to %e step %o carries (%x = %l) {\ncute.yield(%x)\n}",
                ROW,
            ),
            6,
            "loops that are not unrolled carry numbers",
        ),
    ],
)
def test_what_is_not_compiled_is_said_with_its_place(text: str, line: int, message: str) -> None:
    """CompileError: the program is right, and beyond what is compiled."""
    with pytest.raises(CompileError) as raised:
        compiled(text)
    assert message in raised.value.message
    assert raised.value.location is not None
    assert raised.value.location.line == line


def test_a_loop_that_is_unrolled_carries_layouts() -> None:
    """Where it stays a loop, numbers only."""
    body = (
        "%z = cute.static() -> !cute.int<0>\n%o = cute.static() -> !cute.int<1>\n"
        "%l = cute.static() -> !cute.layout<4,1>\n"
        "%r = cute.for %i = %z to %o step %o carries (%x = %l) {\ncute.yield(%x)\n}"
    )
    assert b".entry k" in compiled(kernel(body))


def test_an_atom_that_the_target_lacks_names_those_that_have_it() -> None:
    """Products of f8 are on sm_89 and later; nothing is said there."""
    body = (
        "%m = cute.static() -> !cute.mma_atom<warp, (16,8,32), f8E4M3FN, f8E4M3FN, f32>\n"
        "%l = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>\n%t = cute.make_tiled_mma(%m, %l)"
    )
    assert b".entry k" in compiled(kernel(body), "sm_89")
    with pytest.raises(TargetError) as raised:
        compiled(kernel(body), "sm_80")
    assert "sm_80 has no m16n8k32_f32_e4m3, sm_89, sm_90, " in raised.value.message
    assert raised.value.location is not None
    assert raised.value.location.line == 4


def test_an_atom_that_is_no_instruction_is_rejected() -> None:
    """Fragments of 64 bits fit the rule of their layouts; no instruction has the shape."""
    body = (
        "%m = cute.static() -> !cute.mma_atom<warp, (16,8,32), f16, f16, f32>\n"
        "%l = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>\n%t = cute.make_tiled_mma(%m, %l)"
    )
    with pytest.raises(CompileError, match="there is no instruction for the atom warp"):
        compiled(kernel(body))


@pytest.mark.parametrize(
    ("atom", "kinds"),
    [
        ("(8,8,4), f64, f64, f64", (np.float64, np.float64)),
        ("(16,8,32), i8, i8, i32", (np.int8, np.int32)),
        ("(16,8,16), f16, f16, f16", (np.float16, np.float16)),
    ],
)
def test_other_atoms_multiply(atom: str, kinds: tuple[Any, Any]) -> None:
    """One atom, one warp."""
    shape, a_type, _, c_type = atom.rsplit(", ", 3)
    m, n, k = (int(extent) for extent in shape.strip("()").split(","))
    tensor = "!cute.tensor<{}, gmem, align<16>, ({},{}):({},1)>".format
    arguments = (
        f"%A: {tensor(a_type, m, k, k)}, %B: {tensor(a_type, n, k, k)}, "
        f"%D: {tensor(c_type, m, n, n)}"
    )
    bits = {"f64": 64, "i8": 8, "f16": 16, "i32": 32}
    body = f"""%m = cute.static() -> !cute.mma_atom<warp, {atom}>
    %l = cute.static() -> !cute.layout<(1,1,1),(0,0,0)>
    %t = cute.make_tiled_mma(%m, %l)
    %tid = cute.thread_idx<0>()
    %a = cute.partition_a(%t, %A, %tid)
    %b = cute.partition_b(%t, %B, %tid)
    %d = cute.partition_c(%t, %D, %tid)
    %ra = cute.make_fragment_a(%t, %a)
    %rb = cute.make_fragment_b(%t, %b)
    %rd = cute.make_fragment_c(%t, %d)
    %in = cute.static() -> !cute.copy_atom<universal, {bits[a_type]}>
    %out = cute.static() -> !cute.copy_atom<universal, {bits[c_type]}>
    cute.copy(%in, %a, %ra)
    cute.copy(%in, %b, %rb)
    cute.clear(%rd)
    cute.gemm(%t, %rd, %ra, %rb, %rd)
    cute.copy(%out, %rd, %d)"""
    a, b = integers(m * k, kinds[0]), integers(n * k, kinds[0], 1)
    d = np.zeros(m * n, kinds[1])
    run_ptx(compiled(kernel(body, arguments)).decode(), [a, b, d], (1, 1, 1))
    wanted = a.reshape(m, k).astype(kinds[1]) @ b.reshape(n, k).T.astype(kinds[1])
    assert (d.reshape(m, n) == wanted).all()


@pytest.mark.parametrize(("source", "target"), [("f32", "f16"), ("f16", "f64"), ("f32", "f32")])
def test_floats_are_cast(source: str, target: str) -> None:
    """To fewer bits, to more, to as many; halves are exact in all of them."""
    tensor = "!cute.tensor<{}, gmem, align<16>, 32:1>".format
    types = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
    body = """%zero = cute.static() -> !cute.int<0>
    %tid = cute.thread_idx<0>()
    %one = cute.static() -> !cute.layout<32,1>
    %x = cute.local_partition(%a, %one, %tid)
    %y = cute.local_partition(%b, %one, %tid)
    cute.cast(%x, %y)"""
    a, b = integers(32, types[source]) / types[source](2), np.zeros(32, types[target])
    text = kernel(body, f"%a: {tensor(source)}, %b: {tensor(target)}")
    run_ptx(compiled(text).decode(), [a, b], (1, 1, 1))
    assert (b == a).all() and a.any()


def test_a_stage_that_is_skipped_is_not_printed() -> None:
    """Tiles have no part in it."""
    with pytest.raises(TileirasError, match="input of stage cute has no form in stage nv_tileas"):
        compiled(example("saxpy"), emit="nv_tileas")
