"""Schedules as attributes: what is printed is read back, and what verifies can be run."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.gemm import with_ctas
from tests.kernels.row_loops import KERNELS
from tests.kernels.softmax_attention import run_attention, softmax_attention
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import (
    LOOP_SCHEDULE,
    PREFETCH,
    SCHEDULE,
    loop_schedule,
)
from tileiras.driver import compile_module, read_source
from tileiras.errors import BytecodeError, UsageError
from tileiras.interpreter import run_entry
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions
from tileiras.pass_names import make_pass
from tileiras.pipeline import select_steps
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind
from tileiras.stages import print_stage

ROOT = Path(__file__).resolve().parents[2]
BEFORE = ("canonicalize", "cse", "convert-cudatile-to-tileaa", "choose-strategy")
GENERATE, EXPAND = "tileas-generate-schedule", "tileas-expand-schedule"
SERIAL = f"{GENERATE}{{scheduler=serial}}"
ATTENTION = with_ctas(softmax_attention("full", 128, 128, 64), 1)
SOURCES: dict[str, tuple[bytes, str]] = {
    "attention": (ATTENTION, "sm_90"),
    "rows": (KERNELS[0].text.encode(), "sm_90"),
    "product": ((ROOT / "examples" / "matmul.mlir").read_bytes(), "sm_80"),
}


def after(source: bytes, *names: str, gpu_name: str = "sm_90") -> str:
    """The text that passes leave."""
    options = CompileOptions(gpu_name=gpu_name, emit="nv_tileaa")
    return compile_module(source, options, pass_names=names).output.decode()


def scheduled_loops(module: ModuleOp) -> list[int]:
    """The stages of its scheduled loops."""
    found = (loop_schedule(op) for op in module.walk())
    return [schedule.integer("stages") for schedule in found if schedule is not None]


def has_attributes(module: ModuleOp) -> bool:
    """Whether anything of a schedule is left."""
    names = {LOOP_SCHEDULE, SCHEDULE, PREFETCH}
    return any(names & op.attributes.keys() for op in module.walk())


@pytest.mark.parametrize("name", SOURCES)
def test_a_schedule_can_be_read_back_and_acted_on(name: str) -> None:
    source, gpu_name = SOURCES[name]
    written = after(source, *BEFORE, GENERATE, gpu_name=gpu_name)
    module = parse_text(written, "k.mlir")
    assert max(scheduled_loops(module)) > 1
    assert print_stage(module) == written
    at_once = parse_text(after(source, *BEFORE, GENERATE, EXPAND, gpu_name=gpu_name), "k.mlir")
    in_two = parse_text(after(written.encode(), EXPAND, gpu_name=gpu_name), "k.mlir")
    assert in_two.is_structurally_equivalent(at_once)
    assert not has_attributes(at_once)


@pytest.mark.parametrize("name", SOURCES)
def test_expanding_the_serial_schedule_changes_nothing(name: str) -> None:
    source, gpu_name = SOURCES[name]
    plain = after(source, *BEFORE, gpu_name=gpu_name)
    written = after(source, *BEFORE, SERIAL, gpu_name=gpu_name)
    module = parse_text(written, "k.mlir")
    loops = [op for op in module.walk() if isinstance(op, aa.ForOp)]
    assert scheduled_loops(module) == [1] * len(loops)
    assert after(source, *BEFORE, SERIAL, EXPAND, gpu_name=gpu_name) == plain


@pytest.mark.parametrize("name", SOURCES)
def test_text_with_a_schedule_is_compiled_as_it_says(name: str) -> None:
    source, gpu_name = SOURCES[name]
    options = CompileOptions(gpu_name=gpu_name, emit="ptx")
    steps = [step.pass_name for step in select_steps(options, get_target(gpu_name))]
    before = steps[: steps.index(GENERATE)]
    directly = compile_module(source, options).output
    written = after(source, *before, GENERATE, gpu_name=gpu_name)
    assert compile_module(written.encode(), options).output == directly
    serial = after(source, *before, SERIAL, gpu_name=gpu_name)
    assert compile_module(serial.encode(), options).output != directly


@pytest.mark.parametrize(("ctas", "kind"), [(1, RemarkKind.PASSED), (2, RemarkKind.MISSED)])
def test_a_schedule_pays_where_as_many_ctas_share_an_sm(ctas: int, kind: RemarkKind) -> None:
    """The kernel with its strategy, or the one that it was; and a remark that says which."""
    plain = after(ATTENTION, *BEFORE)
    written = after(ATTENTION, *BEFORE, GENERATE)
    asked = re.sub(r"(registers = \d+,\s+ctas =) 1>", rf"\1 {ctas}>", written)
    remarks = RemarkCollector(RemarkFilter({kind: "all"}))
    options = CompileOptions(gpu_name="sm_90", emit="nv_tileaa")
    found = compile_module(asked.encode(), options, pass_names=(EXPAND,), remarks=remarks)
    [said] = [r.message for r in remarks.remarks if r.name == "Overlap"]
    assert "strategy = #nv_tileas.strategy<chosen = wgmma>" in found.output.decode()
    if kind is RemarkKind.MISSED:
        assert said.endswith("in their own iteration: 1 of 2 CTAs would share an SM")
        assert found.output.decode() == plain
    else:
        assert re.search(r"after theirs: \d+ of \d+ cycles, \d+ registers$", said)
        assert found.output.decode().count("nv_tileaa.dot ") == 4


def test_a_schedule_without_a_condition_is_acted_on() -> None:
    written = after(ATTENTION, *BEFORE, GENERATE)
    bare = re.sub(r",\s+ctas = 1>", ">", written)
    found = after(bare.encode(), EXPAND)
    assert "strategy" not in found and found.count("nv_tileaa.dot ") == 4


def test_a_serial_kernel_computes_the_same() -> None:
    module = parse_text(after(ATTENTION, *BEFORE, SERIAL, EXPAND), "k.mlir")
    wanted = run_attention(read_source(ATTENTION), 128, 192, 64)
    assert np.array_equal(wanted, run_attention(module, 128, 192, 64))


def test_a_scheduler_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match="unknown scheduler 'seriel', expected one of modulo") as e:
        make_pass(f"{GENERATE}{{scheduler=seriel}}")
    assert e.value.label == "did you mean 'serial'?"


KERNEL = """!memref0 = !nv_tileaa.memref<16xf32, strides = [1]>
!view0 = !nv_tileaa.tiled_view<16 of !memref0>
builtin.module {
  nv_tileaa.func @k(%a: !nv_tileaa.ptr<f32>, %n: i32) {
    %token = nv_tileaa.create_mem_token
    %memref = nv_tileaa.make_memref %a {base_align = 4, shape_divisor = [16], stride_divisor = [1]}
        : !nv_tileaa.ptr<f32> -> !memref0
    %view = nv_tileaa.block_tile %memref : !view0
    %c0 = nv_tileaa.constant 0 : i32
    %c1 = nv_tileaa.constant 1 : i32
    %one = nv_tileaa.constant dense<1.000000e+00> : tensor<16xf32>
    %r:3 = nv_tileaa.for %i = %c0 to %n step %c1 iter_args(%x = %one, %y = %one, %z = %one)
        -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) : i32
        attributes {loop_schedule = #nv_tileaa.loop_schedule<stages = 2>} {
      %f = nv_tileaa.int_to_fp %i signed : i32 to f32
      %v = nv_tileaa.splat %f : f32 -> tensor<16xf32>
BODY      nv_tileaa.continue CARRIED : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
    }
    %s = nv_tileaa.addf %r#0, %r#1 : tensor<16xf32>
    %t = nv_tileaa.subf %s, %r#2 : tensor<16xf32>
    %done = nv_tileaa.tiled_store %t, %view[%c0] token = %token : tensor<16xf32>, !view0
    nv_tileaa.return
  }
}
"""


def random_kernel(rng: random.Random) -> str:
    """A loop of a few operations with random operands, stages and places."""
    values, lines = ["%v", "%x", "%y", "%z"], ""
    orders = rng.sample(range(5), 5) if rng.random() < 0.8 else list(range(5))
    late = rng.sample(range(5), 2)
    for number in range(5):
        place = f"stage = {int(number in late)}, order = {orders[number]}"
        op = rng.choice(["addf", "subf", "maxf"])
        operands = f"{rng.choice(values)}, {rng.choice(values)}"
        attribute = f"{{schedule = #nv_tileaa.op_schedule<{place}>}}"
        lines += f"      %o{number} = nv_tileaa.{op} {operands} {attribute} : tensor<16xf32>\n"
        values.append(f"%o{number}")
    carried = ", ".join(rng.choice(values) for _ in range(3))
    return KERNEL.replace("BODY", lines).replace("CARRIED", carried)


def result(module: ModuleOp, trips: int) -> np.ndarray:
    """What the kernel stores."""
    out = np.zeros(16, np.float32)
    run_entry(module, "k", [out, np.int32(trips)], (1, 1, 1))
    return out


def test_a_schedule_that_verifies_computes_what_the_loop_does() -> None:
    """Of random ones; as many are rejected, for what they read has not been computed."""
    rng, runs, rejected = random.Random(7), 0, 0
    while runs < 40:
        text = random_kernel(rng)
        try:
            module = parse_text(text, "k.mlir")
        except BytecodeError as error:
            assert "runs before" in error.message
            rejected += 1
            continue
        plain = re.sub(r" \{schedule = [^}]*\}|\n *attributes \{[^}]*\}", "", text)
        expanded = parse_text(after(text.encode(), EXPAND), "k.mlir")
        assert not has_attributes(expanded)
        for trips in (0, 1, 2, 5):
            wanted = result(parse_text(plain, "k.mlir"), trips)
            assert np.array_equal(wanted, result(expanded, trips)), text
        runs += 1
        assert scheduled_loops(module) == [2]
    assert rejected > runs
