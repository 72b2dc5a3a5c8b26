"""The pass `hoist-loads`: a branch's load starts before what decides about the branch.

    turn = load %turns                                  turn = load %turns
    if turn == 0 { store %total, %out[%i] }      ->     old = load %out[%i]
    else { old = load %out[%i]; ... }                   if turn == 0 { ... } else { ... }

Two trips to memory, one after the other, become one: what counts where tile blocks wait for this
one, with a lock in its hands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.memory import StoreBase, TiledStoreBase
from tileiras.dialects.nv_tileaa.nesting import enclosing, op_block
from tileiras.dialects.nv_tileaa.views import memref_of, view_type_of
from tileiras.ir_pass import CompileContext, IrPass

TiledAccess = aa.TiledLoadOp | aa.TiledStoreOp
WRITES = (
    StoreBase,
    TiledStoreBase,
    aa.AtomicCASOp,
    aa.AtomicRMWOp,
    aa.TiledAtomicRedOp,
    aa.MultimemStoreOp,
    aa.MultimemReduceOp,
)
MAX_STEPS = 16
"""Policy: operations between a load and the condition that it decides, about."""


@dataclass(frozen=True)
class HoistLoadsPass(IrPass):
    """Moves loads out of a branch to before it, so that they are under way with its condition.

    Before   %c = f(load ..); if %c { .. } else { %x = tiled_load %v[%i] .. }
             %a = tiled_load ..; %d = dot %a, ..; %b = tiled_load %w[0, 0]; %e = dot %b, %d
    After    %c = f(load ..); %x = tiled_load %v[%i]; if %c { .. } else { .. }
             %a = tiled_load ..; %b = tiled_load %w[0, 0]; %d = dot %a, ..; %e = dot %b, %d
    Requires nv_tileaa; a kernel that it changes loses its strategy
    Leaves   loads of elements that the other branch does not access: that memory may not exist;
             loads ordered after something in their branch; branches whose condition needs no load;
             loads behind products that are large, or not the same for all tile blocks
    """

    name = "hoist-loads"
    title: ClassVar[str] = "Hoist loads out of branches, and in front of products"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Goes through all branches, inner ones first."""
        branches = [branch for branch in op.walk(reverse=True) if isinstance(branch, aa.IfOp)]
        for branch in branches:
            if _is_loaded(branch.condition, branch.parent_block()) and _hoist(branch):
                _forget_strategy(branch)
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp) and _has_products(func.body.block):
                from tileiras.passes.nv_tileaa.loads_before_products import move_loads

                move_loads(func.body.block, ctx.require_target())


def _has_products(block: Block) -> bool:
    """Whether products stand in a block itself."""
    return any(isinstance(op, aa.ProductOp) for op in block.ops)


def _forget_strategy(branch: aa.IfOp) -> None:
    """The kernel is another one now."""
    from tileiras.planning.strategy import drop_strategy

    func = enclosing(branch, aa.FuncOp)
    if isinstance(func, aa.FuncOp):
        drop_strategy(func)


def _hoist(branch: aa.IfOp) -> bool:
    """Moves what may be moved out of one branch; False if that is nothing."""
    blocks = [region.block for region in branch.regions if region.blocks]
    if len(blocks) != 2:
        return False
    has_moved = False
    for mine, other in (blocks, blocks[::-1]):
        accesses = list(_accesses(other))
        for load in list(_accesses(mine)):
            if not isinstance(load, aa.TiledLoadOp) or not _may_move(load, branch):
                continue
            is_there = any(_same_elements(load, access) for access in accesses)
            if is_there and _are_writes_ordered(other):
                _move(load, branch)
                _order_after(other, load)
                has_moved = True
    return has_moved


def _accesses(block: Block) -> Iterator[TiledAccess]:
    """The accesses that take place whenever the block is entered."""
    for op in block.ops:
        if op.regions:
            return
        if isinstance(op, TiledAccess):
            yield op


def _is_loaded(condition: SSAValue, block: Block | None) -> bool:
    """Whether a value of this block is computed from what one of its operations reads."""
    pending = [condition]
    for _ in range(MAX_STEPS):
        if not pending:
            return False
        value = pending.pop()
        if not isinstance(value, OpResult) or value.op.parent_block() is not block:
            continue
        match value.op:
            case aa.LoadOp() | aa.TiledLoadOp() | aa.AtomicRMWOp() | aa.AtomicCASOp():
                return True
            case ElementwiseOp() | aa.UnsplatOp() | aa.ReshapeOp():
                pending += value.op.operands
            case _:
                pass
    return False


def _are_writes_ordered(side: Block) -> bool:
    """Whether every write of the other side has a token, to order it after the load."""
    writes = [op for op in side.walk() if isinstance(op, WRITES)]
    return all(any(isinstance(v.type, aa.MemTokenType) for v in op.operands) for op in writes)


def _may_move(load: aa.TiledLoadOp, branch: aa.IfOp) -> bool:
    """Whether all that a load waits for is there before the branch."""
    if load.ordering.data != MemoryOrdering.WEAK or view_type_of(load.view).sparse_dim is not None:
        return False
    needed = [*memref_of(load.view).results, *load.indices]
    if load.token is not None:
        needed.append(load.token)
    return not any(_is_inside(value, branch) for value in needed)


def _is_inside(value: SSAValue, branch: aa.IfOp) -> bool:
    owner: Operation | Block | None = value.owner
    return owner is not None and branch.is_ancestor(owner)


def _same_elements(load: aa.TiledLoadOp, other: TiledAccess) -> bool:
    """Whether two accesses touch the same elements, and are promised the same bounds."""
    if memref_of(load.view) is not memref_of(other.view):
        return False
    mine, its = view_type_of(load.view), view_type_of(other.view)
    shapes = [(type.tile_shape, type.dim_map, type.steps, type.sparse_dim) for type in (mine, its)]
    if shapes[0] != shapes[1] or load.inbounds != other.inbounds:
        return False
    return tuple(load.indices) == tuple(other.indices)


def _move(load: aa.TiledLoadOp, branch: aa.IfOp) -> None:
    """Puts a load and its view in front of the branch."""
    block, view = branch.parent_block(), load.view.owner
    if block is None or not isinstance(view, Operation):
        return
    for op in (view, load):
        if branch.is_ancestor(op):
            op.detach()
            block.insert_op_before(op, branch)


def _order_after(side: Block, load: aa.TiledLoadOp) -> None:
    """What the other side writes, and what follows it, must not overtake the load now."""
    for op in list(side.walk()):
        if isinstance(op, WRITES) or op is side.last_op:
            for index, operand in enumerate(op.operands):
                if isinstance(operand.type, aa.MemTokenType):
                    both = aa.JoinMemTokensOp.create(
                        operands=[operand, load.result_token],
                        result_types=[operand.type],
                        location=op.location,
                    )
                    op_block(op).insert_op_before(both, op)
                    op.operands[index] = both.result


__all__ = ["HoistLoadsPass"]
