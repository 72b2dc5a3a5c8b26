"""The layout of products by multiply-adds: square blocks, read without bank conflicts."""

from __future__ import annotations

import pytest

from tileiras.codegen.lowering.fma_operands import plan_factor
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.layout.offsets import bank_conflicts
from tileiras.dialects.layout.outer_product import outer_product

SHAPES = [
    ((64, 64), 4),
    ((128, 128), 8),
    ((16, 16), 4),
    ((2, 2), 1),
    ((1, 256), 2),
    ((256, 1), 2),
    ((4, 8), 8),
    ((2, 16, 256), 8),
    ((8, 1, 64), 4),
    ((32, 4, 4), 1),
]


@pytest.mark.parametrize(("shape", "warps"), SHAPES)
def test_every_element_is_held(shape: tuple[int, ...], warps: int):
    layout = outer_product(shape, warps)
    assert layout.shape == shape
    assert layout.is_surjective
    assert layout.in_size("warp") == warps and layout.in_size("lane") == 32


@pytest.mark.parametrize(("shape", "warps"), SHAPES)
def test_nothing_is_held_twice_while_threads_lack_work(shape: tuple[int, ...], warps: int):
    layout = outer_product(shape, warps)
    assert layout.size == layout.in_size("register") or layout.without_register_duplicates() == (
        layout
    )
    assert layout.in_size("register") == max(1, layout.size // (32 * warps))


@pytest.mark.parametrize(
    ("shape", "warps", "block"), [((128, 128), 8, (8, 8)), ((2, 16, 256), 8, (4, 8))]
)
def test_blocks_of_threads_are_square(shape: tuple[int, ...], warps: int, block: tuple[int, int]):
    vectors = outer_product(shape, warps).basis("register")
    rows = sum(1 for vector in vectors if vector[-2])
    columns = sum(1 for vector in vectors if vector[-1])
    assert (1 << rows, 1 << columns) == block


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("shape", "depth", "warps"), [((64, 64), 32, 4), ((128, 128), 16, 8), ((2, 16, 256), 16, 8)]
)
def test_operands_are_written_and_read_without_conflicts(
    shape: tuple[int, ...], depth: int, warps: int, transposed: bool
):
    result = outer_product(shape, warps)
    for position, operand in ((1, (*shape[:-1], depth)), (2, (*shape[:-2], depth, shape[-1]))):
        order = list(reversed(range(len(shape))))
        if transposed:
            order[:2] = reversed(order[:2])
        source = blocked(operand, order, 4, warps)
        plan = plan_factor(source, result, position, 32, 1)
        assert plan.load_vector == 4
        assert bank_conflicts(source, plan.shared, 32, plan.store_vector) == 1
        assert bank_conflicts(plan.own, plan.shared, 32, plan.load_vector) == 1


def test_operand_of_one_batch_is_read_by_all():
    result = outer_product((2, 16, 64), 4)
    source = blocked((1, 16, 16), (2, 1, 0), 1, 4)
    plan = plan_factor(source, result, 1, 32, 1)
    assert plan.own.shape == (1, 16, 16)
    assert plan.shared.size == 256


@pytest.mark.parametrize("parts", [2, 4])
def test_parts_of_k_lie_behind_each_other(parts: int):
    result, source = outer_product((32, 32), 4), blocked((32, 64), (1, 0), 4, 4)
    plan = plan_factor(source, result, 1, 32, parts)
    depth = 64 // parts
    highest = plan.shared.basis("offset")[-(parts.bit_length() - 1) :]
    assert highest == tuple((0, depth << bit) for bit in range(parts.bit_length() - 1))
