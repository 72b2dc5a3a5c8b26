"""Kernels with roles of warps beside their operations, in front of the conversion."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from tileiras.codegen.target import GpuTarget, get_target
from tileiras.dialects import nv_tileaa as aa
from tileiras.driver import compile_module, read_source
from tileiras.ir_pass import CompileContext
from tileiras.options import CompileOptions
from tileiras.pipeline import select_steps
from tileiras.planning.model.kernel import RolePlan
from tileiras.planning.model.warp_roles import WarpRoles
from tileiras.planning.model.written import read_plan
from tileiras.planning.model.written_warp_roles import read_warp_roles
from tileiras.registry import load_pass
from tileiras.remarks import RemarkCollector
from tileiras.stages import print_stage

LAST, BORDER = "tileas-assign-warp-roles", "convert-tileaa-to-tileas"
TARGET = get_target("sm_90")


def assigned(source: bytes, gpu_name: str = "sm_90") -> ModuleOp:
    """A kernel with roles beside its operations."""
    module, target = read_source(source), get_target(gpu_name)
    options = CompileOptions(opt_level=3, gpu_name=gpu_name)
    context = CompileContext(target=target, options=options, remarks=RemarkCollector())
    for step in select_steps(options, target):
        load_pass(step.pass_name)().apply(context, module)
        if step.pass_name == LAST:
            return module
    raise AssertionError(f"there is no pass {LAST}")


def plan_of(func: aa.FuncOp, target: GpuTarget = TARGET) -> RolePlan:
    """What has been planned for a kernel."""
    plan = read_plan(func, target)
    assert plan is not None and plan.roles is not None
    return plan.roles


def read(func: aa.FuncOp, target: GpuTarget = TARGET) -> WarpRoles:
    """The roles that are written."""
    return read_warp_roles(func, plan_of(func, target), BORDER)


def run(module: ModuleOp, name: str, gpu_name: str = "sm_90") -> str:
    """What a pass makes of the text of a module."""
    text, options = print_stage(module).encode(), CompileOptions(gpu_name=gpu_name)
    return compile_module(text, options, "k.mlir", pass_names=(name,)).output.decode()


def first(func: aa.FuncOp, kind: type[Operation]) -> dict[str, Attribute]:
    """The attributes of the first operation of a kind."""
    return next(op.attributes for op in func.walk() if isinstance(op, kind))
