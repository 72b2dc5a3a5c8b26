"""Whether every value is defined before it is used, which xDSL's verifier does not ask."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects.locations import place_of
from tileiras.errors import BytecodeError


def check_dominance(module: ModuleOp) -> None:
    """Raises BytecodeError, with its place, for the first use that no definition comes before."""
    checker = _Dominance()
    for op in module.walk():
        for index, operand in enumerate(op.operands):
            if not checker.is_defined_before(operand, op):
                message = f"'{op.name}' op operand #{index} is used before it is defined"
                raise BytecodeError(message, place_of(op))


class _Dominance:
    """Answers for one module that does not change; orders and dominators are found once."""

    def __init__(self) -> None:
        self._orders: dict[Block, dict[Operation, int]] = {}
        self._dominators: dict[Region, dict[Block, Block]] = {}

    def is_defined_before(self, value: SSAValue, user: Operation) -> bool:
        """Whether a value is known where an operation stands."""
        owner = value.owner
        home = owner if isinstance(owner, Block) else owner.parent
        if home is None or home.parent is None:
            return False
        op, block = user, user.parent
        while block is not None and block.parent is not home.parent:
            parent = block.parent_op()
            if parent is None:
                return False
            op, block = parent, parent.parent
        if block is None:
            return False
        if block is not home:
            return self._dominates(home, block, home.parent)
        return isinstance(owner, Block) or self._order(home)[owner] < self._order(home)[op]

    def _order(self, block: Block) -> dict[Operation, int]:
        if block not in self._orders:
            self._orders[block] = {op: index for index, op in enumerate(block.ops)}
        return self._orders[block]

    def _dominates(self, first: Block, second: Block, region: Region) -> bool:
        """Whether all ways to one block lead through another; unreached blocks are none's care."""
        if region not in self._dominators:
            self._dominators[region] = _immediate_dominators(region)
        parents = self._dominators[region]
        if second not in parents:
            return True
        while parents[second] is not second:
            second = parents[second]
            if second is first:
                return True
        return False


def _immediate_dominators(region: Region) -> dict[Block, Block]:
    """Block -> the nearest one that dominates it; the entry is its own.

    Cooper, Harvey, Kennedy: "A simple, fast dominance algorithm".
    """
    order = _reverse_post_order(region.blocks[0])
    number = {block: index for index, block in enumerate(order)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for following in _successors(block):
            predecessors[following].append(block)
    found = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            nearest: Block | None = None
            for other in predecessors[block]:
                if other in found:
                    nearest = other if nearest is None else _common(nearest, other, found, number)
            if nearest is not None and found.get(block) is not nearest:
                found[block] = nearest
                changed = True
    return found


def _common(
    first: Block, second: Block, found: dict[Block, Block], number: dict[Block, int]
) -> Block:
    """The nearest block that dominates both."""
    while first is not second:
        while number[first] > number[second]:
            first = found[first]
        while number[second] > number[first]:
            second = found[second]
    return first


def _successors(block: Block) -> list[Block]:
    last = block.last_op
    return [] if last is None else list(last.successors)


def _reverse_post_order(entry: Block) -> list[Block]:
    done: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, rest = stack[-1]
        following = next(rest, None)
        if following is None:
            done.append(block)
            stack.pop()
        elif following not in seen:
            seen.add(following)
            stack.append((following, iter(_successors(following))))
    return done[::-1]
