"""A kernel with one tile a block, as a persistent one: tile blocks divide those of the grid by a
static tile scheduler.

    %x = get_program_id 0                      %n = get_grid_size 0; ...  %p = get_program_id 0
    views; loop over K; store          ->      views; for %t in [%p, %n) step get_num_programs 0 {
                                               %x = %t; loop over K; store }

There are as many tile blocks as SMs then (`static_tile_scheduler`); the others that are launched
leave at once. So a CTA loads the next tile while it stores one, and none waits for another one to
end.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    IntegerOverflow,
    IntegerOverflowAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.passes.nv_tileaa.part_builder import ScalarBuilder
from tileiras.planning.strategy import without_strategy

_UNSIGNED = SignednessAttr(Signedness.UNSIGNED)
_QUOTIENT = {"rounding": RoundingModeAttr(RoundingMode.ZERO), "signedness": _UNSIGNED}
_WRAPPING = {"overflow": IntegerOverflowAttr(IntegerOverflow.NONE)}


def with_static_tile_scheduler(
    func: aa.FuncOp, *, may_have_several: bool = False
) -> aa.FuncOp | None:
    """A copy of the kernel that loops over tile blocks, None if it is not one as described.

    It may have several loops one after the other only if that is said. Whether tile blocks may do
    each other's work is for the caller to know.
    """
    return _with_tile_loop(func, "static_tile_scheduler", may_have_several)


def with_dynamic_tile_scheduler(func: aa.FuncOp) -> aa.FuncOp | None:
    """The same, with a loop that takes over tile blocks that have not started."""
    return _with_tile_loop(func, "dynamic_tile_scheduler")


def _with_tile_loop(
    func: aa.FuncOp, scheduler: str, may_have_several: bool = False
) -> aa.FuncOp | None:
    loops = [op for op in func.walk() if isinstance(op, aa.ForOp | aa.LoopOp)]
    products = [op for op in func.walk() if isinstance(op, aa.ProductOp)]
    returns = [op for op in func.walk() if isinstance(op, aa.ReturnOp)]
    if len(returns) != 1 or not products or (len(loops) > 1 and not may_have_several):
        return None
    if any(loop.parent_op() is not func for loop in loops):
        return None
    if any(op.parent_op() not in loops for op in products):
        return None
    changed = without_strategy(func)
    source = changed.body.block
    numbers = [op for op in changed.walk() if isinstance(op, aa.GetProgramIdOp)]
    if not numbers or any(op.parent_op() is not changed for op in numbers):
        return None
    for op in list(changed.walk()):
        if isinstance(op, aa.GetNumProgramsOp):
            properties, location = op.properties, op.location
            size = aa.GetGridSizeOp.create(
                result_types=[i32], properties=properties, location=location
            )
            Rewriter.replace_op(op, size)
    varying = _varying(list(source.ops), numbers)
    _put_into_loop(source, varying, numbers, scheduler == "dynamic_tile_scheduler")
    changed.properties[scheduler] = UnitAttr()
    return changed


def _varying(ops: Sequence[Operation], numbers: Sequence[Operation]) -> dict[Operation, None]:
    """What is done for each tile: all that depends on it, and whatever is no pure computation."""
    found: dict[Operation, None] = dict.fromkeys(numbers)
    for op in ops:
        made = (value.owner for inner in op.walk() for value in inner.operands)
        if op.regions or not op.has_trait(Pure) or any(owner in found for owner in made):
            found[op] = None
    return found


def _put_into_loop(
    source: Block,
    varying: dict[Operation, None],
    numbers: Sequence[Operation],
    takes_over: bool,
) -> None:
    """Moves what varies into a loop over tiles, whose number decides the numbers of the block."""
    end = source.last_op
    before, inside = ScalarBuilder(), ScalarBuilder()
    before.location = inside.location = numbers[0].location
    axes = {
        op.axis.value.data
        for op in numbers
        if isinstance(op, aa.GetProgramIdOp) and op.result.first_use is not None
    }
    sizes = [before.place(aa.GetGridSizeOp, axis) for axis in range(3)]
    total = sizes[0]
    # Tile blocks that differ in nothing that they ask for do the same.
    if axes <= {0}:
        sizes = sizes[:1]
    else:
        total = before.binary(aa.MulIOp, before.binary(aa.MulIOp, *sizes[:2]), sizes[2])
    first = before.place(aa.GetProgramIdOp, 0)
    step = total if takes_over else before.place(aa.GetNumProgramsOp, 0)
    how = {"takes_over": UnitAttr()} if takes_over else {}
    inside.block = body = Block(arg_types=[i32])
    places = _places(inside, body.args[0], sizes)
    for op in numbers:
        if isinstance(op, aa.GetProgramIdOp) and op.axis.value.data in axes:
            op.result.replace_all_uses_with(places[op.axis.value.data])
    for op in list(source.ops):
        if op in varying and op is not end:
            op.detach()
            if op in numbers:
                op.erase()
            else:
                body.add_op(op)
    inside.emit(aa.ContinueOp)
    before.emit(aa.ForOp, [first, total, step], (), how, [Region(body)])
    if end is not None:
        before.put_before(end)


def _places(builder: ScalarBuilder, number: SSAValue, sizes: Sequence[SSAValue]) -> list[SSAValue]:
    """The numbers along all axes of the tile block with a number among all, x fastest."""
    found: list[SSAValue] = []
    for size in sizes[:-1]:
        rest = builder.emit(aa.DivIOp, [number, size], [i32], _QUOTIENT).results[0]
        whole = builder.binary(aa.MulIOp, rest, size)
        found.append(builder.emit(aa.SubIOp, [number, whole], [i32], _WRAPPING).results[0])
        number = rest
    return [*found, number]
