"""Structured control flow becomes blocks and branches; carried values become block arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.lowering.context import KernelLowering, LoopFrame, has_register
from tileiras.codegen.lowering.spin_loops import is_spin_loop, lower_spin_loop
from tileiras.codegen.lowering.tma_stores import finish_stores, give_maps_back
from tileiras.codegen.lowering.variables import free_heap
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.nv_tileas.tcgen05 import Tcgen05DotOp, Tcgen05DotScaledOp
from tileiras.dialects.nv_tileas.wgmma import WgmmaDotOp, WgmmaDotsOp
from tileiras.errors import InternalError

_DOTS = (tas.MmaDotOp, tas.FmaDotOp, Tcgen05DotOp, Tcgen05DotScaledOp, WgmmaDotOp, WgmmaDotsOp)

LowerBlock = Callable[[KernelLowering, Block], None]


def runtime_values(ctx: KernelLowering, values: Sequence[SSAValue]) -> list[SSAValue]:
    """What the values have become, without tokens."""
    return [ctx.value(value) for value in values if has_register(value.type)]


def block_for(ctx: KernelLowering, values: Sequence[SSAValue]) -> Block:
    """A block whose arguments stand for the given values (tokens aside)."""
    carried = [value for value in values if has_register(value.type)]
    block = ctx.b.new_block([ctx.lowered_type(value.type) for value in carried])
    ctx.values.update(zip(carried, block.args, strict=True))
    return block


def lower_if(ctx: KernelLowering, op: Operation, lower_block: LowerBlock) -> None:
    """Branches to one of two blocks; both meet again unless they leave for elsewhere."""
    if not isinstance(op, aa.IfOp):
        raise InternalError("the rule of if got another operation")
    then_source, else_source = op.then_region.first_block, op.else_region.first_block
    if then_source is None:
        raise InternalError("an if has no then block", where="lowering")
    then_block = ctx.b.new_block()
    else_block = ctx.b.new_block() if else_source is not None else None
    merge = block_for(ctx, op.results)
    condition = ctx.value(op.condition)
    ctx.b.cond_br(condition, then_block, merge if else_block is None else else_block)
    for source, block in ((then_source, then_block), (else_source, else_block)):
        if source is None or block is None:
            continue
        ctx.start_block(block)
        lower_block(ctx, source)
        last = source.last_op
        if isinstance(last, aa.YieldOp):
            ctx.b.br(merge, runtime_values(ctx, last.operands))
        elif last is None:
            ctx.b.br(merge)
    ctx.start_block(merge)


def lower_for(ctx: KernelLowering, op: Operation, lower_block: LowerBlock) -> None:
    """Head: compare; body; next iteration: add the step."""
    if not isinstance(op, aa.ForOp):
        raise InternalError("the rule of for got another operation")
    source = op.body.block
    if ctx.roles.is_store_warp and ctx.roles.store_loop is op:
        from tileiras.codegen.lowering.store_warp import start_store_loop

        start_store_loop(ctx, op)
    upper, step = ctx.value(op.upper_bound), ctx.value(op.step)
    head = block_for(ctx, source.args)
    body, done = ctx.b.new_block(), block_for(ctx, op.results)
    no_unroll = op.no_unroll is not None or _has_dot(op)
    ctx.b.br(head, [ctx.value(op.lower_bound), *runtime_values(ctx, op.init_values)])
    ctx.start_block(head)
    counter, *carried = head.args
    predicate = "ult" if op.unsigned_cmp is not None else "slt"
    ctx.b.cond_br(ctx.b.icmp(predicate, counter, upper), body, done, (), carried)

    def next_iteration(values: Sequence[SSAValue]) -> None:
        if op.takes_over is None:
            following = ctx.b.add(counter, step)
        else:
            from tileiras.codegen.lowering.taken_blocks import next_block

            following = next_block(ctx, upper)
        ctx.b.br(head, [following, *values], no_unroll=no_unroll)

    ctx.start_block(body)
    if op.takes_over is not None:
        from tileiras.codegen.lowering.taken_blocks import ask

        ask(ctx)
    ctx.loops.append(LoopFrame(next_iteration, done))
    lower_block(ctx, source)
    ctx.loops.pop()
    ctx.start_block(done)
    if op.takes_over is not None:
        from tileiras.codegen.lowering.taken_blocks import wait_for_readers

        wait_for_readers(ctx)


def _has_dot(op: Operation) -> bool:
    """Whether a matrix product is in the loop: ptxas would unroll it at great cost for no gain."""
    return any(isinstance(inner, _DOTS) for inner in op.walk())


def lower_loop(ctx: KernelLowering, op: Operation, lower_block: LowerBlock) -> None:
    """A body that repeats until a break."""
    if not isinstance(op, aa.LoopOp):
        raise InternalError("the rule of loop got another operation")
    if is_spin_loop(op):
        lower_spin_loop(ctx, op, lower_block)
        return
    source = op.body.block
    head, done = block_for(ctx, source.args), block_for(ctx, op.results)
    no_unroll = op.no_unroll is not None
    ctx.b.br(head, runtime_values(ctx, op.init_values))

    def next_iteration(values: Sequence[SSAValue]) -> None:
        ctx.b.br(head, values, no_unroll=no_unroll)

    ctx.start_block(head)
    ctx.loops.append(LoopFrame(next_iteration, done))
    lower_block(ctx, source)
    ctx.loops.pop()
    ctx.start_block(done)


def lower_continue(ctx: KernelLowering, op: Operation) -> None:
    """On to the next iteration of the innermost loop."""
    ctx.loops[-1].next_iteration(runtime_values(ctx, op.operands))


def lower_break(ctx: KernelLowering, op: Operation) -> None:
    """Out of the innermost loop."""
    ctx.b.br(ctx.loops[-1].exit, runtime_values(ctx, op.operands))


def lower_return(ctx: KernelLowering, op: Operation) -> None:
    """The tile block is done; a producer gives back its tensor maps, others the heap.

    If consumers store by TMA, they give the maps back: they are the last to need them. The store
    warp, if there is one, does it when the producer needs them no more.
    """
    maps = ctx.roles.maps
    if ctx.roles.is_product_warp:
        ctx.b.ret()
        return
    own = ctx.roles.own_store_maps
    if ctx.roles.is_store_warp and own is not None and own.store_pointer is not None:
        from tileiras.codegen.lowering.store_warp import give_own_maps_back

        give_own_maps_back(ctx, own)
    elif ctx.roles.is_store_warp and maps is not None:
        give_maps_back(ctx, maps)
    elif not ctx.roles.is_producer:
        if maps is not None and maps.ready is not None and maps.done is None:
            finish_stores(ctx, maps)
        free_heap(ctx)
        if ctx.roles.tensor_memory is not None:
            from tileiras.codegen.lowering.tensor_memory import deallocate

            deallocate(ctx)
    elif maps is not None and maps.done is not None:
        ctx.b.mbarrier_arrive(maps.done, predicate=ctx.roles.elected(ctx))
    elif maps is not None and maps.pointer is not None and maps.ready is None:
        ctx.b.release_tensor_maps(maps.table, maps.pointer, ctx.roles.elected(ctx))
    ctx.b.ret()
