"""When products are finished, as attributes beside them, and back."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.warp_roles import PENDING
from tileiras.planning.layouts.written import contradiction
from tileiras.planning.model.dots import WgmmaDot
from tileiras.planning.model.kernel import HopperPlan
from tileiras.planning.model.warp_roles import WarpRoles
from tileiras.planning.schedule.unfinished_products import finishes_at_once, most_unfinished


def write_products(roles: WarpRoles) -> None:
    """Says beside products how many may be unfinished."""
    for dot, pending in roles.pending.items():
        dot.attributes[PENDING] = IntegerAttr(pending, i32)


def read_products(func: aa.FuncOp, plan: HopperPlan, roles: WarpRoles) -> None:
    """Notes how many products may be unfinished. Raises CompileError where they may not be."""
    for op in func.body.walk():
        if PENDING in op.attributes:
            roles.pending[op] = _read_pending(op, plan)
    for planned in plan.dots.values():
        if not isinstance(planned, WgmmaDot):
            continue
        if planned.dot not in roles.pending and finishes_at_once(planned):
            raise contradiction(planned.dot, f"has no '{PENDING}', and threads take part in it")
        for other in plan.products_sharing_stages(planned):
            if roles.pending.get(other.dot) != roles.pending.get(planned.dot):
                said = "of another product of its stage"
                raise contradiction(other.dot, f"has another '{PENDING}' than that {said}")


def _read_pending(op: Operation, plan: HopperPlan) -> int:
    """How many products may be unfinished behind one."""
    planned, pending = plan.dots.get(op), op.attributes[PENDING]
    if not isinstance(planned, WgmmaDot) or not isinstance(pending, IntegerAttr):
        raise contradiction(op, f"has '{PENDING}', and is no product by wgmma")
    number, most = pending.value.data, most_unfinished(planned, plan)
    if not 0 <= number <= most:
        raise contradiction(op, f"leaves {number} products unfinished, at most {most} may be")
    return number
