"""What puts operations in the place of others: uses go over, and nothing that is used is erased."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects import nv_tileaa as aa
from tileiras.errors import InternalError
from tileiras.ir_text import parse_text
from tileiras.passes.rewriting import erase_op, put_in_place, replace_op, replace_op_by
from tileiras.stages import print_stage

TEXT = """builtin.module {
  nv_tileaa.func @k(%n: i32) {
    %a = nv_tileaa.addi %n, %n : i32
    %b = nv_tileaa.muli %a, %n : i32
    %f = nv_tileaa.int_to_fp %b signed : i32 to f32
    nv_tileaa.return
  }
}
"""


def parsed() -> tuple[ModuleOp, aa.FuncOp, aa.AddIOp, aa.MulIOp]:
    """The module, its kernel, the sum and the product."""
    module = parse_text(TEXT)
    [func] = [op for op in module.walk() if isinstance(op, aa.FuncOp)]
    [sum_] = [op for op in module.walk() if isinstance(op, aa.AddIOp)]
    [product] = [op for op in module.walk() if isinstance(op, aa.MulIOp)]
    return module, func, sum_, product


def test_results_are_other_values() -> None:
    module, func, sum_, product = parsed()
    replace_op(sum_, [func.body.block.args[0]])
    assert product.operands[0] is func.body.block.args[0]
    assert "addi" not in print_stage(module)


def test_more_values_are_those_of_a_loop_that_carries_more() -> None:
    _, func, sum_, product = parsed()
    number = func.body.block.args[0]
    replace_op(sum_, [number, number])
    assert list(product.operands) == [number, number]


def test_a_result_with_users_wants_a_value() -> None:
    _, _, sum_, _ = parsed()
    with pytest.raises(ValueError, match="still has uses"):
        replace_op(sum_, [])


def test_operations_stand_where_the_other_one_stood() -> None:
    module, _, sum_, product = parsed()
    number = sum_.operands[0]
    first = aa.MulIOp.create(operands=[number, number], result_types=[number.type])
    second = aa.MulIOp.create(operands=[first.results[0], number], result_types=[number.type])
    replace_op_by(sum_, first, second)
    assert product.operands[0] is second.results[0]
    assert first.next_op is second and second.next_op is product
    assert "addi" not in print_stage(module)
    alone = aa.MulIOp.create(operands=[number, number], result_types=[number.type])
    with pytest.raises(InternalError, match="'nv_tileaa.muli' is in no block"):
        replace_op_by(alone, first)


def test_what_is_used_is_not_erased() -> None:
    module, _, sum_, product = parsed()
    with pytest.raises(ValueError, match="still has uses"):
        erase_op(sum_)
    [last] = [use.operation for use in product.results[0].uses]
    erase_op(last)
    assert "int_to_fp" not in print_stage(module)


def test_a_kernel_is_left_whole() -> None:
    module, func, _, _ = parsed()
    put_in_place(func, func)
    assert list(module.body.ops) == [func]
    changed = func.clone()
    put_in_place(changed, func)
    assert list(module.body.ops) == [changed]
    assert func.parent is None and changed.is_structurally_equivalent(func)
