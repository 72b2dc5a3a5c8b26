"""The pass `convert-tileaa-to-tileas`: a kernel gets its warps, every tensor its layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, NoneAttr, TensorType, i32
from xdsl.ir import Block, Region

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileas import assigned
from tileiras.errors import CompileError
from tileiras.ir_pass import BrokenPromise, CompileContext, IrPass
from tileiras.passes.nv_tileaa_to_nv_tileas.explain import explain_plan
from tileiras.passes.nv_tileaa_to_nv_tileas.materialize_rules import MATERIALIZE_RULES
from tileiras.passes.nv_tileaa_to_nv_tileas.materializer import Materializer
from tileiras.passes.rewriting import put_in_place
from tileiras.planning.model.cta import CtaPlan
from tileiras.planning.model.written import read_plan

if TYPE_CHECKING:
    from tileiras.passes.nv_tileaa_to_nv_tileas.roles.consumer import ConsumerSide


@dataclass(frozen=True)
class ConvertTileAAToTileASPass(IrPass):
    """Moves layouts from attributes into types, and gives every role of warps its program.

    Where an operation takes an operand in another layout than it lies in, a `convert_layout` stands
    between, or the operand is computed again if it is marked `rematerialize`. Constants, ranges,
    splats, reshapes, permutations and broadcasts stand in front of their users, in the layouts that
    these want.

    Before   %x = tiled_load %v[%i] {access = <vector = 4, ..>, layouts = [#blocked0]} : tensor<..>
             %s = reduce %x {operand_layouts = [#linear0], layouts = [#linear1]} : tensor<..>
    After    %x = tiled_load %v[%i] {vector = 4, axis = 1} : tensor<.., #blocked0>
             %y = convert_layout %x : tensor<.., #blocked0> -> tensor<.., #linear0>
             %s = reduce %y : tensor<.., #linear0> -> tensor<.., #linear1>
    Requires nv_tileaa with the plan of `tileas-plan-cta`, the layouts of
             `tileas-assign-load-store-layouts`, the barriers of `insert-barriers` and the roles of
             `tileas-assign-warp-roles`; where a layout or a role is missing or fits nothing that is
             an error at the operation
    Leaves   the order of operations, scalars, control flow; where warps have roles, the plan of the
             kernel and of its pipelines, which have the least stages
    """

    name = "convert-tileaa-to-tileas"
    title: ClassVar[str] = "Convert nv_tileaa to nv_tileas"
    settles: ClassVar[bool] = False

    def verify_left(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Every tensor has a layout, and none stands beside an operation any more."""
        for inner in op.walk():
            blocks = [block for region in inner.regions for block in region.blocks]
            for value in (*inner.results, *(arg for block in blocks for arg in block.args)):
                if isinstance(value.type, TensorType) and isinstance(value.type.encoding, NoneAttr):
                    raise BrokenPromise(f"has a value of type {value.type}, without layout", inner)
            for name in assigned.NAMES:
                if name in inner.attributes:
                    raise BrokenPromise(f"has an attribute '{name}', which should be a type", inner)

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Converts all functions of the module."""
        target = ctx.require_target()
        for func in list(op.body.ops):
            if isinstance(func, aa.FuncOp):
                plan = read_plan(func, target)
                if plan is None:
                    raise CompileError(
                        f"kernel '{func.sym_name.data}' is not planned: {self.name} comes after "
                        "tileas-plan-cta",
                        place_of(func),
                    )
                placed = _place_func(func, plan)
                explain_plan(ctx.remarks, placed, plan)
                put_in_place(placed, func)


def _place_func(func: aa.FuncOp, plan: CtaPlan) -> aa.FuncOp:
    """The function with layouts, specialised if the plan says so."""
    if plan.roles is not None:
        from tileiras.passes.nv_tileaa_to_nv_tileas.roles.warp_roles import specialised

        return specialised(
            func,
            plan.roles,
            lambda consumer, entry, body: _place_body(func, plan, entry, body, consumer),
        )
    block = Block(arg_types=[arg.type for arg in func.body.block.args])
    _place_body(func, plan, block, block, None)
    properties = dict(func.properties)
    properties["num_warps"] = IntegerAttr(plan.num_warps, i32)
    return aa.FuncOp.create(properties=properties, regions=[Region(block)], location=func.location)


def _place_body(
    func: aa.FuncOp, plan: CtaPlan, entry: Block, body: Block, consumer: ConsumerSide | None
) -> None:
    """Places the operations of a function in `body`; `entry` has the new arguments."""
    materializer = Materializer(plan.num_warps, MATERIALIZE_RULES, consumer)
    source = func.body.block
    materializer.values.update(zip(source.args, entry.args, strict=True))
    materializer.place_block(source, body)
    if consumer is not None:
        from tileiras.passes.nv_tileaa_to_nv_tileas.roles.unused import erase_unused

        erase_unused(body)
