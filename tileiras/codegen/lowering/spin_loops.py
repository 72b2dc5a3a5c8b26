"""Loops that do nothing but wait for other tile blocks: one thread goes round for all.

    loop { %old = atomic_cas %lock, 0, 1 acquire; if %old == 1 { } else { break }; continue }

All threads would agree about each round through shared memory and two barriers, between the atomic
that takes a lock and the first access that it guards. Here the first thread polls alone; the others
wait at the barrier that stands before whatever token order puts behind the loop.

Memory model (PTX ISA, "Causality order"): the first thread's `atom.acquire` synchronizes with the
release that it observes; the barrier orders that thread's atomic before what all other threads of
the CTA do behind it. Acquire patterns are cumulative over barriers, so this is what was there
before, without the rounds of the others. A failing round writes nothing: how long a thread sleeps
between rounds changes when it looks, not what it may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32
from xdsl.ir import Block, Operation, SSAValue

from tileiras.codegen.lowering.context import KernelLowering, LoopFrame, has_register
from tileiras.codegen.lowering.staging import memory_element, memory_form, register_form
from tileiras.codegen.lowering.types import register_type
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import MemoryOrdering
from tileiras.dialects.llvm.types import bit_width
from tileiras.dialects.nv_tileaa.elementwise import ElementwiseOp
from tileiras.dialects.nv_tileaa.memory import LoadBase

FIRST_SLEEP = 32
LONGEST_SLEEP = 256
"""Nanoseconds between two looks at memory; doubled each time, as waiting goes on. None in clusters,
one CTA of which waits for all: split-K 128x128x8192 7.05 us with them, 7.01 without, 7.53
and 7.11 in another run (H200).
"""
LEAST_CTAS, LEAST_CTAS_OF_LOOPS = 1, 2
"""Policy: CTAs of a kernel that waits, for which ptxas shall save registers on an SM.

Where it waits again and again, another one on the SM works meanwhile. Layer norm backward, us on
one H200 with one and two: 4096x5000 bf16 355 and 273, 4096x1024 f32 85 and 75, 2048x8192 f32 155
and 162.
"""

_SLOT_BYTES = 8
"""Shared memory for a scalar that the first thread hands on."""

_ATOMICS = (aa.AtomicCASOp, aa.AtomicRMWOp)
_HARMLESS = (aa.JoinMemTokensOp, aa.ConstantOp, aa.ContinueOp, aa.BreakOp, aa.YieldOp)

LowerBlock = Callable[[KernelLowering, Block], None]


def is_spin_loop(loop: aa.LoopOp) -> bool:
    """Whether all that a loop does is to read scalars that others may write, and to compare them.

    Barriers keep it from being one: then it does something that threads must agree about. So does
    the lack of a way out: nothing is known of what stands behind, and others would get there.
    """
    does_look = does_end = False
    for op in loop.walk():
        if op is loop or isinstance(op, aa.IfOp):
            continue
        if any(isinstance(value.type, TensorType) for value in (*op.operands, *op.results)):
            return False
        does_end |= isinstance(op, aa.BreakOp)
        if _looks_at_memory(op):
            does_look = True
        elif not isinstance(op, _HARMLESS) and not isinstance(op, ElementwiseOp):
            return False
    return does_look and does_end


def ctas_that_wait(func: aa.FuncOp) -> int | None:
    """CTAs of a kernel that shall fit an SM if tile blocks wait for each other, else None.

    ptxas would save registers for more of them by starting loads one after the other's arrival,
    while others wait for that; where tile blocks wait once, or one CTA runs several of them, more
    CTAs on an SM only wait as well.
    """
    loops = [op for op in func.walk() if isinstance(op, aa.LoopOp) and is_spin_loop(op)]
    if not loops:
        return None
    if isinstance(func.sharer_ctas, IntegerAttr):
        return func.sharer_ctas.value.data
    if func.lock_sharers is not None:
        return LEAST_CTAS
    is_repeated = all(isinstance(loop.parent_op(), aa.ForOp) for loop in loops)
    return LEAST_CTAS_OF_LOOPS if is_repeated else LEAST_CTAS


def _looks_at_memory(op: Operation) -> bool:
    """Whether an operation reads what others may have written meanwhile."""
    if isinstance(op, _ATOMICS):
        return True
    return isinstance(op, LoadBase) and op.ordering.data != MemoryOrdering.WEAK


def lower_spin_loop(ctx: KernelLowering, loop: aa.LoopOp, lower_block: LowerBlock) -> None:
    """The first thread goes round; what others need of its findings is handed on in memory."""
    source = loop.body.block
    results = [value for value in loop.results if has_register(value.type)]
    carried = [value for value in source.args if has_register(value.type)]
    used = [value for value in results if value.first_use is not None]
    region = ctx.scratch.region(_SLOT_BYTES * len(used)) if used else None
    inits = [ctx.value(value) for value in loop.init_values if has_register(value.type)]
    before = ctx.b.block
    with ctx.first_thread_alone():
        head = ctx.b.new_block([i32, *(ctx.lowered_type(value.type) for value in carried)])
        done = ctx.b.new_block([ctx.lowered_type(value.type) for value in results])
        ctx.values.update(zip(carried, head.args[1:], strict=True))
        ctx.values.update(zip(results, done.args, strict=True))
        ctx.b.br(head, [ctx.b.i32(FIRST_SLEEP), *inits])
        ctx.b.at(head)
        ctx.loops.append(LoopFrame(_after_a_nap(ctx, head), done))
        lower_block(ctx, source)
        ctx.loops.pop()
        ctx.b.at(done)
        for place, value in _slots(ctx, used, region):
            stored = memory_form(ctx, ctx.value(value))
            ctx.b.store(stored, place, bit_width(stored.type) // 8)
    ctx.waits.append((before, ctx.b.block))
    if used:
        ctx.b.barrier()
        for place, value in _slots(ctx, used, region):
            element = register_type(value.type)
            stored_type = memory_element(element)
            loaded = ctx.b.load(place, stored_type, bit_width(stored_type) // 8, volatile=True)
            ctx.values[value] = register_form(ctx, loaded, element)


def _after_a_nap(ctx: KernelLowering, head: Block) -> Callable[[Sequence[SSAValue]], None]:
    """What starts the next round: a pause, so that the memory serves who holds the lock.

    None where one CTA of a cluster waits for all: a GPU has room for few clusters, and a pause of
    theirs comes between two of them that take turns.
    """
    sleep = head.args[0]

    def next_iteration(values: Sequence[SSAValue]) -> None:
        b = ctx.b
        if ctx.cluster_size > 1:
            b.br(head, [sleep, *values])
            return
        b.inline_asm("nanosleep.u32 $0;", "r", None, [sleep], side_effects=True)
        doubled = b.shl(sleep, b.i32(1))
        limit = b.i32(LONGEST_SLEEP)
        b.br(head, [b.select(b.icmp("ult", doubled, limit), doubled, limit), *values])

    return next_iteration


def _slots(
    ctx: KernelLowering, used: Sequence[SSAValue], region: SSAValue | None
) -> Iterator[tuple[SSAValue, SSAValue]]:
    """Where each of the values that others need is handed on, and the value."""
    if region is not None:
        for index, value in enumerate(used):
            yield ctx.b.gep(region, index * _SLOT_BYTES), value
