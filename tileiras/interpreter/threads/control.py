"""Runs the blocks of a function: jumps, threads that part and meet again, warp roles that split
off.

A program is some threads that run in lockstep. Where a branch sends them different ways, they do
what lies on either way one after the other, up to the block where the ways meet. If they never
meet again, which is how warp roles begin, the threads become programs of their own.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects.llvm.control import BrOp, CondBrOp, ReturnOp
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.threads.flow import ControlFlow
from tileiras.interpreter.threads.rules import rule_of
from tileiras.interpreter.threads.schedule import Wait
from tileiras.interpreter.threads.state import WARP, Lockstep, ProgramState
from tileiras.interpreter.threads.values import Value

WARPGROUP = 4 * WARP


@dataclass
class _Jump:
    """The block that comes next and what it is given."""

    target: Block
    values: Sequence[Value]


@dataclass
class _Way:
    """Threads that take one side of a branch."""

    rows: np.ndarray
    jump: _Jump


_Steps = Generator[Wait, None, _Jump | None]


class Program:
    """Threads of a CTA on their way through a function."""

    def __init__(self, flow: ControlFlow, run: Lockstep, loop_limit: int):
        self._flow = flow
        self._run = run
        self._loop_limit = loop_limit
        self._at: Operation | None = None

    def start(self, block: Block, values: Sequence[Value]) -> None:
        """Puts the program on the schedule, to begin at a block."""
        self._run.schedule.start(self._to_the_end(_Jump(block, values)), self._where)

    def _to_the_end(self, jump: _Jump) -> Generator[Wait, None, None]:
        run = self._run
        if (yield from self._walk(run, jump, None)) is not None:
            raise InterpreterError("the program does not return")
        run.cta.live_threads -= run.count
        program = run.program
        if any(program.bulk_groups[program.bulk_read :]):
            raise InterpreterError(f"{self._where()}: bulk stores are not read at the end")
        # What was read is written when the grid ends (PTX ISA, "cp.async.bulk.wait_group").
        for copy in chain.from_iterable(program.bulk_groups):
            copy(True)

    def _where(self) -> str:
        """The threads and the operation that they have come to."""
        ids = self._run.ids
        name = self._at.name if self._at is not None else "the beginning"
        cta = f"CTA {self._run.cta.rank}, " if self._run.cta.cluster.size > 1 else ""
        return f"{cta}threads {ids[0]} to {ids[-1]} at {name}"

    def _walk(self, run: Lockstep, jump: _Jump, until: Block | None) -> _Steps:
        """From a jump to one to `until`, which is returned, or to the end of the threads."""
        while jump.target is not until:
            run.values.update(zip(jump.target.args, jump.values, strict=True))
            following = yield from self._run_block(run, jump.target)
            if following is None:
                return None
            self._count_rounds(run.program, jump.target, following.target)
            jump = following
        return jump

    def _count_rounds(self, program: ProgramState, source: Block, target: Block) -> None:
        if not self._flow.goes_round(source, target):
            program.rounds[target] = 0
            return
        program.rounds[target] += 1
        if program.rounds[target] > self._loop_limit:
            rounds = f"the loop did not end within {self._loop_limit} rounds"
            raise InterpreterError(rounds, target.first_op)

    def _run_block(self, run: Lockstep, block: Block) -> _Steps:
        values = run.values
        for op in block.ops:
            self._at = op
            match op:
                case ReturnOp():
                    return None
                case BrOp():
                    return _Jump(op.target, run.operands(op.arguments))
                case CondBrOp():
                    return (yield from self._branch(run, op))
                case _:
                    try:
                        result = rule_of(op)(run, op)
                        if isinstance(result, Wait):
                            yield result
                            self._at = op
                            result = result.then()
                    except InterpreterError as error:
                        raise error.located(op) from error
                    if result is not None:
                        values[op.results[0]] = result
        raise InterpreterError("a block without a terminator", block.last_op)

    def _branch(self, run: Lockstep, op: CondBrOp) -> _Steps:
        taken = run.values[op.condition] != 0
        then = _Jump(op.then_block, run.operands(op.then_arguments))
        otherwise = _Jump(op.else_block, run.operands(op.else_arguments))
        if taken.all():
            return then
        if not taken.any():
            return otherwise
        ways = [_way(run, op, taken, then), _way(run, op, ~taken, otherwise)]
        if not any(_may_go_alone(run.ids[way.rows]) for way in ways):
            raise InterpreterError("threads go different ways at a branch", op)
        block = op.parent_block()
        meeting = self._flow.meeting_block(block) if block is not None else None
        if meeting is None:
            jump = self._split(run, sorted(ways, key=lambda way: way.rows[0]))
            yield Wait()
            return jump
        return (yield from self._part(run, ways, meeting))

    def _part(self, run: Lockstep, ways: Sequence[_Way], meeting: Block) -> _Steps:
        """Both ways, one after the other, up to where they meet."""
        passed: list[Value | None] = [None] * len(meeting.args)
        for way in ways:
            end = yield from self._walk(run.only(way.rows), way.jump, meeting)
            if end is None:
                raise InterpreterError("some of the threads return alone", meeting.first_op)
            for position, value in enumerate(end.values):
                found = passed[position]
                if found is None:
                    found = np.zeros((run.count, *value.shape[1:]), value.dtype)
                    passed[position] = found
                found[way.rows] = value
        return _Jump(meeting, [value for value in passed if value is not None])

    def _split(self, run: Lockstep, ways: Sequence[_Way]) -> _Jump:
        """The first threads go on, the others are programs of their own from here."""
        whole = run.values
        for way in ways[1:]:
            self._split_off(run, whole, way)
        first = ways[0]
        # Warpgroups of consumers take turns, which they cannot in lockstep.
        for start in range(WARPGROUP, len(first.rows), WARPGROUP):
            part = slice(start, start + WARPGROUP)
            jump = _Jump(first.jump.target, [value[part] for value in first.jump.values])
            self._split_off(run, whole, _Way(first.rows[part], jump))
        rows = first.rows[:WARPGROUP]
        kept = run.only(rows)
        run.ids, run.values = kept.ids, kept.values
        return _Jump(first.jump.target, [value[:WARPGROUP] for value in first.jump.values])

    def _split_off(self, run: Lockstep, values: dict[SSAValue, Value], way: _Way) -> None:
        clock = run.clock.child(run.cta.cluster.number_program())
        state = ProgramState(clock, rounds=dict(run.program.rounds))
        threads = Lockstep(run.cta, run.ids, state, values.copy()).only(way.rows)
        Program(self._flow, threads, self._loop_limit).start(way.jump.target, way.jump.values)


def _way(run: Lockstep, op: CondBrOp, chosen: np.ndarray, jump: _Jump) -> _Way:
    rows = np.flatnonzero(chosen)
    return _Way(rows, _Jump(jump.target, [value[rows] for value in jump.values]))


def _may_go_alone(ids: np.ndarray) -> bool:
    """Whether these threads may do something that others do not: one, leaders of warps, warps.

    A branch that goes by anything else is a condition that should be the same everywhere.
    """
    if len(ids) == 1 or not (ids % WARP).any():
        return True
    warps = ids.reshape(-1, WARP) if len(ids) % WARP == 0 else np.empty((0, WARP), ids.dtype)
    return bool(len(warps)) and bool((warps == warps[:, :1] + np.arange(WARP)).all())
