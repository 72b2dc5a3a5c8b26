"""Puts operations in the place of others: into the block, uses handed over, the old one erased.

erase(op)                 nobody uses it
replace(op, values)       its results are these values from now on
replace_by(op, made)      its results are those of an operation that is put where it stood
put_in_place(changed, func)    the same of a kernel, which has no results and is left as it was
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from tileiras.dialects.nv_tileaa.nesting import op_block


def erase(op: Operation) -> None:
    """Takes an operation out of its block and erases it. Nobody uses its results any more."""
    op.detach()
    op.erase()


def replace(op: Operation, values: Iterable[SSAValue]) -> None:
    """Hands the uses of each result over to a value, and erases the operation."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    erase(op)


def replace_by(op: Operation, *made: Operation) -> None:
    """Puts operations where one stands; the last one has its results from now on."""
    op_block(op).insert_ops_before(made, op)
    replace(op, made[-1].results)


def put_in_place(changed: Operation, func: Operation) -> None:
    """Puts a changed copy of a kernel where the kernel stands, unless it is the same."""
    if changed is not func:
        op_block(func).insert_op_before(changed, func)
        func.detach()
