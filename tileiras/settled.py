"""Whether a pass has left what it promises, for `--verify-each`: nothing to do for itself.

Most passes look for something and change it until there is none: products without a layout, loads
that could stand further up, accesses that want a barrier between them. Such a pass, run again on
what it left, changes nothing (`IrPass.settles`). That holds of passes that write decisions, too:
whoever decides again must find what is written. So one check serves them all, and it cannot lag
behind what the pass does. Passes of another kind say themselves what they leave
(`IrPass.verify_left`).
"""

from __future__ import annotations

from itertools import zip_longest

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileiras.dialects.locations import place_of
from tileiras.errors import InternalError
from tileiras.ir_pass import BrokenPromise, CompileContext, IrPass


def verify_left(ir_pass: IrPass, ctx: CompileContext, module: ModuleOp) -> None:
    """Raises InternalError, with its place, where a pass has not left what it promises."""
    try:
        ir_pass.verify_left(ctx, module)
    except BrokenPromise as error:
        op = error.operation
        raise InternalError(f"'{op.name}' op {error}", place_of(op), ir_pass.name) from error
    if ir_pass.settles:
        _verify_settled(ir_pass, ctx, module)


def _verify_settled(ir_pass: IrPass, ctx: CompileContext, module: ModuleOp) -> None:
    """Runs the pass again on a copy: nothing may come of it."""
    again = module.clone()
    ir_pass.apply(CompileContext(target=ctx.target, options=ctx.options), again)
    if module.is_structurally_equivalent(again):
        return
    op = _first_difference(module, again)
    raise InternalError(
        f"'{op.name}' op is not as the pass leaves it: run again, it changes this operation",
        place_of(op),
        ir_pass.name,
    )


def _first_difference(module: ModuleOp, again: ModuleOp) -> Operation:
    """The first operation that is another one in the copy, or lies elsewhere."""
    last: Operation = module
    for op, other in zip_longest(module.walk(), again.walk()):
        if op is None:
            return last
        if other is None or not _alike(op, other):
            return op
        last = op
    return module


def _alike(op: Operation, other: Operation) -> bool:
    """Whether two operations are the same, but for the values that they take."""
    return (
        op.name == other.name
        and op.attributes == other.attributes
        and op.properties == other.properties
        and [v.type for v in op.operands] == [v.type for v in other.operands]
        and [v.type for v in op.results] == [v.type for v in other.results]
    )
