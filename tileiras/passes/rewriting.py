"""Puts operations in the place of others: into the block, uses handed over, the old one erased.

erase_op(op)                    nobody uses its results
replace_op(op, values)          its results are these values from now on
replace_op_by(op, made)         .. those of an operation that is put where it stood
put_in_place(changed, func)     a changed copy of a kernel for the kernel, which is left whole
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from tileiras.dialects.nv_tileaa.nesting import op_block


def erase_op(op: Operation) -> None:
    """Takes an operation out of its block and erases it. Raises ValueError if it has users."""
    op.detach()
    op.erase()


def replace_op(op: Operation, values: Iterable[SSAValue]) -> None:
    """Hands the uses of each result over to a value, and erases the operation.

    There may be more values: those of a loop that carries more. Raises ValueError for a result that
    has users and no value.
    """
    for old, new in zip(op.results, values):
        old.replace_all_uses_with(new)
    erase_op(op)


def replace_op_by(op: Operation, *made: Operation) -> None:
    """Puts operations where one stands, of which the last has its results from now on."""
    op_block(op).insert_ops_before(made, op)
    replace_op(op, made[-1].results)


def put_in_place(changed: Operation, func: Operation) -> None:
    """Puts a changed copy of a kernel where the kernel stands, unless it is the same."""
    if changed is not func:
        op_block(func).insert_op_before(changed, func)
        func.detach()
