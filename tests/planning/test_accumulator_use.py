"""Where sums in tensor memory are acquired and committed: written, refused, and acted on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation

from tests.kernels.assigned import BORDER, assigned, first, plan_of, read, run
from tests.kernels.gemm import gemm, persistent
from tests.kernels.planned import SPECIALISED, kernel_of
from tests.kernels.product_text import ProductKernel
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.warp_roles import ACCUMULATORS
from tileiras.errors import CompileError
from tileiras.planning.warp_roles.assignment import assign_roles

GPU = "sm_100"
TARGET = get_target(GPU)
GEMM = gemm(128, 128, 64)


def of_iteration() -> bytes:
    """A product whose loop takes the larger one of it and of what came before."""
    text = ProductKernel("f16", (128, 128, 64), whole=True).text()
    (line,) = (line for line in text.split("\n") if "%after = mmaf" in line)
    product = line.replace("%after =", "%own =").replace("%before", "%zero")
    larger = "%after = maxf %own, %before : tile<128x128xf32>"
    return text.replace(line, f"{product}\n{larger}").encode()


ITERATION = of_iteration()


def used(func: aa.FuncOp) -> list[tuple[str, tuple[int, ...]]]:
    """What sums are acquired around, with their columns."""
    found = read(func, TARGET).accumulators
    return [(op.name, tuple(own.column for own in sums)) for op, sums in found.items()]


def test_sum_of_a_loop_is_acquired_around_it() -> None:
    assert used(kernel_of(assigned(GEMM, GPU))) == [("nv_tileaa.for", (0,))]


def test_sum_of_a_tile_is_acquired_in_the_loop_over_tiles() -> None:
    func = kernel_of(assigned(persistent(128, 128, 64), GPU))
    (op,) = read(func, TARGET).accumulators
    assert isinstance(op.parent_op(), aa.ForOp)


def test_sum_that_its_loop_reads_is_acquired_around_the_product() -> None:
    assert used(kernel_of(assigned(ITERATION, GPU))) == [("nv_tileaa.dot", (0,))]


@pytest.mark.parametrize("source", [GEMM, ITERATION, persistent(128, 128, 64)])
def test_accumulators_are_read_as_they_were_decided(source: bytes) -> None:
    func = kernel_of(assigned(source, GPU))
    decided = assign_roles(func, plan_of(func, TARGET))
    found = read(func, TARGET)
    assert found.accumulators == decided.accumulators
    assert found.releases == decided.releases and found.pending == decided.pending == {}


def test_sums_in_registers_are_not_acquired() -> None:
    assert read(kernel_of(assigned(SPECIALISED["gemm"]()))).accumulators == {}


def test_conversion_acquires_and_commits_around_what_says_so() -> None:
    text = run(assigned(ITERATION, GPU), BORDER, GPU)
    inside = text[text.index("product_warp") : text.index("agent_switch")]
    order = [
        inside.index(word)
        for word in ("nv_tileaa.for", "accumulator_acquire", "tcgen05_dot", "accumulator_commit")
    ]
    assert order == sorted(order)
    text = run(assigned(GEMM, GPU), BORDER, GPU)
    assert text.index("accumulator_acquire") < text.index("nv_tileaa.for")
    assert text.index("nv_tileaa.continue") < text.index("accumulator_commit")


def columns(*numbers: int) -> DenseArrayBase:
    """First columns of sums."""
    return DenseArrayBase.from_list(i32, numbers)


def put(kind: type[Operation], *numbers: int) -> Callable[[aa.FuncOp], object]:
    """Writes columns beside the first operation of a kind."""
    return lambda func: first(func, kind).update({ACCUMULATORS: columns(*numbers)})


SPOILED: dict[str, tuple[bytes, Callable[[aa.FuncOp], object], str]] = {
    "a sum that nobody acquires": (
        GEMM,
        lambda f: first(f, aa.ForOp).pop(ACCUMULATORS),
        "'for' op has no 'accumulators' with 0, its sum's column",
    ),
    "a sum of an iteration that nobody acquires": (
        ITERATION,
        lambda f: first(f, aa.DotOp).pop(ACCUMULATORS),
        "'dot' op has no 'accumulators' with 0, its sum's column",
    ),
    "another column": (GEMM, put(aa.ForOp, 128), "'for' op has 'accumulators' where it makes no"),
    "no column": (GEMM, put(aa.ForOp), "'for' op has 'accumulators' where it makes no sum"),
    "a sum twice": (GEMM, put(aa.ForOp, 0, 0), r"'accumulators' \[0, 0\], expected rising ones"),
    "a product of a loop's sum": (
        GEMM,
        put(aa.DotOp, 0),
        "'dot' op has 'accumulators' where it makes no sum",
    ),
    "a loop around an iteration's sum": (
        ITERATION,
        put(aa.ForOp, 0),
        "'for' op has 'accumulators' where it makes no sum",
    ),
}


@pytest.mark.parametrize("what", SPOILED)
def test_accumulators_that_contradict_the_program_are_refused(what: str) -> None:
    source, change, message = SPOILED[what]
    func = kernel_of(assigned(source, GPU))
    change(func)
    with pytest.raises(CompileError, match=message):
        read(func, TARGET)
