"""The plan of a whole kernel, from which the conversion to nv_tileas is made."""

from __future__ import annotations

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.options import CompileOptions
from tileiras.planning.model.cta import CtaPlan
from tileiras.planning.resources.warps import plan_cta


def has_products(func: aa.FuncOp) -> bool:
    """Whether there is a matrix product: other kernels are not specialised."""
    return any(isinstance(op, aa.ProductOp) for op in func.walk())


def plan_kernel(
    func: aa.FuncOp, target: GpuTarget, options: CompileOptions, num_warps: int = 0
) -> CtaPlan:
    """Specialised warps where a strategy was chosen, else (and at -O0) warps that all do the same.

    With `num_warps` they do so in any case, and are so many. Raises CompileError where no
    strategy has been chosen yet (`planning.strategy`).
    """
    if num_warps:
        return plan_cta(func, target, num_warps)
    if options.opt_level > 0 and has_products(func):
        from tileiras.planning.stores import plan_with_stores

        roles = plan_with_stores(func, target, options)
        if roles is not None:
            return CtaPlan(roles.shape.consumer_warps, target, roles)
    return plan_cta(func, target)
