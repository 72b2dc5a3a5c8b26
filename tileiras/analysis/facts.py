"""Integer and pointer facts of a kernel: one forward walk, loops to a fixpoint.

    facts = analyze_entry(entry)
    facts[load.source].contiguity, facts[load.source].divisibility, facts[load.mask].constancy

`lattice` says what a fact is, `integer_rules`, `bit_rules`, `shape_rules` and `pointer_rules` say
how operations transform facts, this module applies them and joins them where control flow joins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis.lattice import ValueFacts, join, make_facts, widen
from tileiras.analysis.op_rules import RULES
from tileiras.analysis.typed_facts import is_tracked, unknown_facts
from tileiras.dialects import cuda_tile as ct

MAX_ROUNDS = 6
"""Policy: walks over a loop body before what still changes is given up."""


class Facts:
    """What is known about every value of an entry; values nothing is known about included."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, ValueFacts] = {}

    def __getitem__(self, value: SSAValue) -> ValueFacts:
        known = self._known.get(value)
        return unknown_facts(value.type) if known is None else known

    def __setitem__(self, value: SSAValue, facts: ValueFacts) -> None:
        self._known[value] = facts


@dataclass
class _Frame:
    """A loop or if being walked: the operands with which its region is left, one list per exit."""

    op: Operation
    leaves: list[list[ValueFacts]] = field(default_factory=list)
    continues: list[list[ValueFacts]] = field(default_factory=list)


def analyze_entry(entry: ct.EntryOp) -> Facts:
    """Facts of all integer and pointer tiles and views of a kernel. Arguments are unknown."""
    facts = Facts()
    _Walk(facts).region(entry.body)
    return facts


class _Walk:
    """The forward walk; `frames` are the control-flow operations around the current one."""

    def __init__(self, facts: Facts):
        self.facts = facts
        self.frames: list[_Frame] = []

    def region(self, region: Region) -> None:
        """Walks the operations of a region; an empty region is nothing."""
        for block in region.blocks:
            for op in block.ops:
                self.operation(op)

    def operation(self, op: Operation) -> None:
        """Gives the results of one operation their facts, or records a terminator's operands."""
        rule = RULES.get(type(op))
        if rule is not None:
            for result, facts in zip(op.results, rule(op, self.facts)):
                self.facts[result] = facts
            return
        handler = _CONTROL_FLOW.get(type(op))
        if handler is not None:
            handler(self, op)

    def leave(self, op: Operation) -> None:
        """`yield` gives an if its results, `break` a loop."""
        targets = (ct.IfOp,) if isinstance(op, ct.YieldOp) else (ct.LoopOp,)
        frame = self._innermost(targets)
        if frame is not None:
            frame.leaves.append([self.facts[value] for value in op.operands])

    def next_iteration(self, op: Operation) -> None:
        """`continue` gives the loop around the values that the next iteration starts with."""
        frame = self._innermost((ct.ForOp, ct.LoopOp))
        if frame is not None:
            frame.continues.append([self.facts[value] for value in op.operands])

    def _innermost(self, kinds: tuple[type[Operation], ...]) -> _Frame | None:
        for frame in reversed(self.frames):
            if isinstance(frame.op, kinds):
                return frame
        return None

    def if_op(self, op: ct.IfOp) -> None:
        """Results are what holds for the yields of both branches that end in one."""
        frame = _Frame(op)
        self.frames.append(frame)
        for region in (op.then_region, op.else_region):
            self.region(region)
        self.frames.pop()
        self._set_results(op.results_, frame.leaves)

    def for_op(self, op: ct.ForOp) -> None:
        """A counted loop: its results are the carried values."""
        block = op.body.blocks[0]
        self.facts[block.args[0]] = self._induction_variable(op)
        carried = block.args[1:]
        self._fixpoint(op, block, carried, op.init_values)
        for result, value in zip(op.results_, carried):
            self.facts[result] = self.facts[value]

    def loop_op(self, op: ct.LoopOp) -> None:
        """A loop left by `break`, whose operands are the results."""
        block = op.body.blocks[0]
        frame = self._fixpoint(op, block, block.args, op.init_values)
        self._set_results(op.results_, frame.leaves)

    def _fixpoint(
        self,
        op: Operation,
        block: Block,
        carried: Sequence[SSAValue],
        inits: Sequence[SSAValue],
    ) -> _Frame:
        """Walks a body until what its carried values hold at the start is an invariant."""
        state = [
            self.facts[init] if is_tracked(init.type) else unknown_facts(init.type)
            for init in inits
        ]
        for _ in range(MAX_ROUNDS):
            frame = self._body(op, block, carried, state)
            following = list(_joined(state, frame.continues))
            if following == state:
                return frame
            state = following
        return self._body(op, block, carried, [unknown_facts(value.type) for value in carried])

    def _body(
        self, op: Operation, block: Block, carried: Sequence[SSAValue], state: list[ValueFacts]
    ) -> _Frame:
        """Walks a body once, with these facts about its carried values."""
        for value, facts in zip(carried, state):
            self.facts[value] = facts
        frame = _Frame(op)
        self.frames.append(frame)
        for inner in block.ops:
            self.operation(inner)
        self.frames.pop()
        return frame

    def _induction_variable(self, op: ct.ForOp) -> ValueFacts:
        """`lower + i * step`, below `upper`; the step is positive."""
        lower, upper = self.facts[op.lower_bound], self.facts[op.upper_bound]
        step = self.facts[op.step]
        divisor = min(lower.element_divisor, step.element_divisor)
        first, end = lower.range()[0], upper.range()[1]
        if op.unsigned_cmp is not None and (first < 0 or upper.range()[0] < 0):
            return make_facts((), lower.width, element_divisor=divisor)
        last = end - 1
        if lower.constant is not None and step.constant is not None and step.constant > 0:
            last -= (last - lower.constant) % step.constant
        bounds = (first, last) if lower.width > 1 else (None, None)
        return make_facts((), lower.width, element_divisor=divisor, bounds=bounds)

    def _set_results(self, results: Sequence[SSAValue], leaves: list[list[ValueFacts]]) -> None:
        """Joins the operands of all exits; without exits nothing is known (or ever runs)."""
        for position, result in enumerate(results):
            if leaves and is_tracked(result.type):
                facts = leaves[0][position]
                for other in islice(leaves, 1, None):
                    facts = join(facts, other[position])
                self.facts[result] = facts


def _joined(state: list[ValueFacts], exits: list[list[ValueFacts]]) -> Iterator[ValueFacts]:
    """The carried facts joined with those of every `continue`, bounds widened."""
    for position, facts in enumerate(state):
        for operands in exits:
            if facts.width:
                facts = widen(facts, operands[position])
        yield facts


_CONTROL_FLOW: dict[type[Operation], Callable[[_Walk, Any], None]] = {
    ct.IfOp: _Walk.if_op,
    ct.ForOp: _Walk.for_op,
    ct.LoopOp: _Walk.loop_op,
    ct.YieldOp: _Walk.leave,
    ct.BreakOp: _Walk.leave,
    ct.ContinueOp: _Walk.next_iteration,
}
