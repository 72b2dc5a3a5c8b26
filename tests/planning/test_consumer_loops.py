"""Loops that consumers do not run: which they are, what is refused, and what is left of them."""

from __future__ import annotations

import pytest
from xdsl.ir import Operation

from tests.kernels.assigned import BORDER, assigned, first, plan_of, read, run
from tests.kernels.gemm import gemm, persistent
from tests.kernels.planned import SPECIALISED, kernel_of
from tests.kernels.product_text import ProductKernel
from tileiras.codegen.target import get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.warp_roles import (
    CONSUMER,
    PRODUCER,
    PRODUCT,
    ROLES,
    RolesAttr,
    role_attribute,
    roles_attribute,
)
from tileiras.errors import CompileError
from tileiras.planning.warp_roles.consumer_loops import loops_of_others

GPU = "sm_100"
TARGET = get_target(GPU)


def of_iteration() -> bytes:
    """A product whose loop takes the larger one of it and of what came before."""
    text = ProductKernel("f16", (128, 128, 64), whole=True).text()
    (line,) = (line for line in text.split("\n") if "%after = mmaf" in line)
    product = line.replace("%after =", "%own =").replace("%before", "%zero")
    larger = "%after = maxf %own, %before : tile<128x128xf32>"
    return text.replace(line, f"{product}\n{larger}").encode()


SOURCES = {
    "gemm": (gemm(128, 128, 64), [True]),
    "persistent": (persistent(128, 128, 64), [False, True]),
    "of iteration": (of_iteration(), [False]),
}
"""Kernels, and which of their loops only sum up in tensor memory."""


def loops(func: aa.FuncOp) -> list[aa.ForOp]:
    """All loops, outer ones first."""
    return [op for op in func.walk() if isinstance(op, aa.ForOp)]


@pytest.mark.parametrize("name", SOURCES)
def test_consumers_leave_loops_that_only_sum_up(name: str) -> None:
    source, expected = SOURCES[name]
    func = kernel_of(assigned(source, GPU))
    left = list(loops_of_others(func, plan_of(func, TARGET)))
    assert [loop in left for loop in loops(func)] == expected
    elsewhere = read(func, TARGET).elsewhere
    assert [loop in elsewhere for loop in loops(func)] == expected
    for loop in left:
        assert all(op in elsewhere for op in loop.walk())


def test_consumers_run_loops_whose_sums_are_in_their_registers() -> None:
    func = kernel_of(assigned(SPECIALISED["gemm"]()))
    assert not list(loops_of_others(func, plan_of(func)))
    assert not any(loop in read(func).elsewhere for loop in loops(func))


def test_barrier_in_a_loop_keeps_the_consumers_in_it() -> None:
    func = kernel_of(assigned(gemm(128, 128, 64), GPU))
    plan, (loop,) = plan_of(func, TARGET), loops(func)
    assert list(loops_of_others(func, plan)) == [loop]
    barrier = aa.BarrierOp.create()
    loop.body.block.insert_op_before(barrier, next(iter(loop.body.block.ops)))
    assert not list(loops_of_others(func, plan))


def consumed(op: Operation) -> None:
    """Gives an operation to the consumers, too."""
    found = op.attributes.get(ROLES)
    roles = found.roles.data if isinstance(found, RolesAttr) else ()
    op.attributes[ROLES] = roles_attribute((*roles, role_attribute(CONSUMER)))


def test_consumers_may_run_a_loop_without_need() -> None:
    module = assigned(gemm(128, 128, 64), GPU)
    without = run(module, BORDER, GPU)
    for op in loops(kernel_of(module))[0].walk():
        if not isinstance(op, aa.DotOp):
            consumed(op)
    assert run(module, BORDER, GPU).count("nv_tileaa.for") == without.count("nv_tileaa.for") + 1


def test_loop_and_what_is_in_it_go_together() -> None:
    func = kernel_of(assigned(gemm(128, 128, 64), GPU))
    consumed(loops(func)[0])
    with pytest.raises(CompileError, match="has roles without consumer, which has to run it"):
        read(func, TARGET)
    func = kernel_of(assigned(gemm(128, 128, 64), GPU))
    consumed(next(op for op in func.walk() if isinstance(op, aa.TiledLoadOp)))
    with pytest.raises(CompileError, match="has the role consumer, which does not run it"):
        read(func, TARGET)


def test_loop_with_work_for_consumers_is_refused_without_them() -> None:
    func = kernel_of(assigned(of_iteration(), GPU))
    others = roles_attribute((role_attribute(PRODUCER), role_attribute(PRODUCT)))
    first(func, aa.ForOp)[ROLES] = others
    with pytest.raises(CompileError, match="'for' op has roles without consumer, which has to run"):
        read(func, TARGET)


def test_conversion_leaves_the_sum_of_a_loop_that_consumers_do_not_run() -> None:
    text = run(assigned(gemm(128, 128, 64), GPU), BORDER, GPU)
    consumers = text[text.index("consumer {") :]
    assert "nv_tileaa.for" not in consumers and "accumulator_load" in consumers
    kept = run(assigned(of_iteration(), GPU), BORDER, GPU)
    consumers = kept[kept.index("consumer {") :]
    assert consumers.index("nv_tileaa.for") < consumers.index("accumulator_load")
