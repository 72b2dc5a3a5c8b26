"""Kernels that spill with registers to spare are told to take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.codegen.ptxas_backend import ptx_to_cubin
from tileiras.codegen.ptxas_log import KernelResources
from tileiras.codegen.spilled_registers import with_all_registers, with_fewer_ctas
from tileiras.codegen.target import get_target
from tileiras.driver import compile_module, with_environment
from tileiras.options import CompileOptions

ROOT = Path(__file__).resolve().parents[2]
TARGET = get_target("sm_80")
HEAD = ".visible .entry k(\n\t.param .u32 a,\n\t.param .u32 b\n)\n.reqntid 256{}\n{{\n  ret;\n}}\n"


def used(registers: int, spills: int) -> list[KernelResources]:
    """What ptxas says of kernel k, and of another one that fits."""
    return [
        KernelResources("k", registers, 0, spills, spills, 0),
        KernelResources("other", 32, 0, 0, 0, 0),
    ]


def test_spilling_kernel_is_allowed_all_registers():
    changed = with_all_registers(HEAD.format(""), used(64, 8), TARGET)
    assert changed == HEAD.format("\n.minnctapersm 1")


@pytest.mark.parametrize(
    ("directives", "registers", "spills"),
    [("", 255, 8), ("", 64, 0), ("\n.minnctapersm 2", 64, 8), ("\n.maxnreg 64", 64, 8)],
)
def test_other_kernels_stay_as_they_are(directives, registers, spills):
    assert with_all_registers(HEAD.format(directives), used(registers, spills), TARGET) is None


def test_threads_share_the_registers_of_an_sm():
    text = HEAD.format("").replace("256", "32, 16, 1")
    assert with_all_registers(text, used(128, 8), TARGET) is None
    assert with_all_registers(text, used(120, 8), TARGET) is not None


def crowded(count: int) -> str:
    """PTX of a kernel that holds `count` values at a time, each loaded from another address."""
    loads = "\n".join(f"ld.volatile.global.b32 %r{i}, [%rd1+{4 * i}];" for i in range(count))
    stores = "\n".join(
        f"st.volatile.global.b32 [%rd1+{4 * i}], %r{i};" for i in reversed(range(count))
    )
    return f"""
.version 9.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 256
{{
.reg .b32 %r<{count}>;
.reg .b64 %rd<2>;
ld.param.b64 %rd1, [p];
{loads}
{stores}
ret;
}}
"""


def test_a_kernel_that_must_spill_has_all_registers(tmp_path):
    options = CompileOptions(knobs={"TMPDIR": str(tmp_path)})
    result = ptx_to_cubin(crowded(400), TARGET, options)
    assert result.spills
    assert result.registers == TARGET.max_registers_per_thread


@pytest.mark.parametrize(("asked", "left"), [(8, 7), (4, 3)])
def test_a_wish_for_many_ctas_gives_way(asked: int, left: int) -> None:
    text = HEAD.format(f"\n.minnctapersm {asked}")
    changed = with_fewer_ctas(text, used(72, 8))
    assert changed == HEAD.format(f"\n.minnctapersm {left}")


@pytest.mark.parametrize(
    ("directives", "spills"), [("\n.minnctapersm 3", 8), ("\n.minnctapersm 8", 0), ("", 8)]
)
def test_ctas_that_are_counted_on_stay(directives: str, spills: int) -> None:
    assert with_fewer_ctas(HEAD.format(directives), used(72, spills)) is None


def test_the_example_does_not_spill_where_many_ctas_fit() -> None:
    source = (ROOT / "examples" / "matmul.mlir").read_bytes()
    made = compile_module(source, with_environment(CompileOptions(gpu_name="sm_100")))
    assert "0 bytes spilled" in made.notes[0]
