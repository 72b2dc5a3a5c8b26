"""A debugger: runs an entry on the CPU and stops at operations, with every value at hand.

Programs of the stages cuda_tile, nv_tileaa and nv_tileas can be stopped. The program runs in a
thread of its own that waits while it is stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import Semaphore, Thread
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Operation, SSAValue

from tileiras.dialects.cuda_tile.structure import EntryOp, ModuleOp
from tileiras.dialects.locations import place_of
from tileiras.dialects.nv_tileaa import FuncOp
from tileiras.errors import SourceLocation
from tileiras.interpreter.errors import InterpreterError, short_name
from tileiras.interpreter.execution import DEFAULT_LOOP_LIMIT, Argument, run_entry
from tileiras.interpreter.memory import SimulatedMemory
from tileiras.interpreter.state import RunLog, TensorView, TileView
from tileiras.interpreter.threads import kernels_of

Place = str | int | tuple[str, int]
"""Where to stop: an operation's name (`addf`), its number, or (part of a file's name, line)."""


class _EndedEarlyError(Exception):
    """Unwinds a program that shall not run on."""


@dataclass
class Stop:
    """A program that is about to run an operation.

    `number` is the operation's place in the module, counted from 0 as the text has them; `block` is
    the tile block (x, y, z).
    """

    op: Operation
    number: int
    block: tuple[int, int, int]
    _env: dict[SSAValue, Any] = field(repr=False)
    _names: dict[SSAValue, int] = field(repr=False)

    @property
    def name(self) -> str:
        """The operation's mnemonic."""
        return short_name(self.op)

    @property
    def location(self) -> SourceLocation | None:
        """Where it stands in the source, if that is known."""
        return place_of(self.op)

    def operands(self) -> list[Any]:
        """The values that it is about to use (numpy arrays in the shape of their tiles)."""
        return [_copied(self._env[operand]) for operand in self.op.operands]

    def values(self) -> dict[str, Any]:
        """All values computed so far, by name: `%0` is the first value of the entry's text.

        Parameters are counted first, then the results of its operations and the arguments of their
        regions, as they stand in the text; a program's own names are not kept when it is read.
        """
        known = ((ssa, n) for ssa, n in self._names.items() if ssa in self._env)
        return {f"%{n}": _copied(self._env[ssa]) for ssa, n in known}

    def value(self, name: str) -> Any:
        """The value of this name, with or without `%`; raises InterpreterError for another."""
        found = self.values()
        key = f"%{name.removeprefix('%')}"
        if key not in found:
            raise InterpreterError(f"no value '{key}' at this point, found: {', '.join(found)}")
        return found[key]


def _copied(value: Any) -> Any:
    """A value that later operations do not change; views and tokens as they are."""
    if value is None or isinstance(value, TensorView | TileView):
        return value
    return value.copy() if hasattr(value, "copy") else value


class Debugger:
    """One run of an entry over a grid, which stops where it is asked to.

        debugger = Debugger(module, None, [a, b, out, 1500], grid=(2, 1, 1))
        debugger.stop_at("addf")
        for stop in debugger:
            print(stop.block, stop.operands())

    Arguments and errors are those of `run_entry`. Memory is updated in the arrays at the end.
    """

    def __init__(
        self,
        module: builtin.ModuleOp | ModuleOp,
        entry_name: str | None,
        args: Sequence[Argument],
        grid: tuple[int, int, int],
        memory: SimulatedMemory | None = None,
        loop_limit: int = DEFAULT_LOOP_LIMIT,
    ):
        if isinstance(module, builtin.ModuleOp) and kernels_of(module):
            raise InterpreterError("a program of stage llvm-dialect cannot be stopped")
        self._numbers = {op: number for number, op in enumerate(module.walk())}
        self._names: dict[SSAValue, int] = {}
        self._wanted: list[Place] = []
        self._steps = False
        self._stop: Stop | None = None
        self._log: RunLog | None = None
        self._error: BaseException | None = None
        self._ends = False
        self._run_on, self._stopped = Semaphore(0), Semaphore(0)

        def run() -> None:
            self._run_on.acquire()
            try:
                if not self._ends:
                    self._log = run_entry(
                        module, entry_name, args, grid, memory, loop_limit, self._watch
                    )
            except _EndedEarlyError:
                pass
            except BaseException as error:  # noqa: BLE001 - raised again by who waits
                self._error = error
            self._stop = None
            self._ends = True
            self._stopped.release()

        self._thread = Thread(target=run, name="debugged program", daemon=True)
        self._thread.start()

    @property
    def log(self) -> RunLog:
        """What was printed and asserted; raises InterpreterError before the end."""
        if self._log is None:
            raise InterpreterError("the program has not run to its end")
        return self._log

    def stop_at(self, place: Place) -> None:
        """Stops before operations of a name, that of a number, or those of (file, line).

        Raises InterpreterError where no operation of the program is meant.
        """
        if not any(_is_at(op, number, place) for op, number in self._numbers.items()):
            raise InterpreterError(f"no operation is at {place!r}")
        self._wanted.append(place)

    def clear(self) -> None:
        """Stops nowhere any more."""
        self._wanted.clear()

    def run(self) -> Stop | None:
        """Runs on to the next place to stop at; None at the end of the grid."""
        return self._go(steps=False)

    def step(self) -> Stop | None:
        """Runs one operation, or into its region; None at the end of the grid."""
        return self._go(steps=True)

    def end(self) -> None:
        """Gives the run up: nothing more runs, arrays are not updated."""
        if not self._ends:
            self._ends = True
            self._run_on.release()
            self._thread.join()

    def __iter__(self) -> Iterator[Stop]:
        """All further stops."""
        while (stop := self.run()) is not None:
            yield stop

    def _go(self, steps: bool) -> Stop | None:
        """Lets the program run until it stops; raises what it raised."""
        if self._ends:
            return None
        self._steps = steps
        self._run_on.release()
        self._stopped.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._stop

    def _watch(self, op: Operation, block: tuple[int, int, int], env: dict[SSAValue, Any]) -> None:
        """Called in the program's thread before every operation."""
        number = self._numbers[op]
        if not self._steps and not any(_is_at(op, number, place) for place in self._wanted):
            return
        if not self._names:
            self._names = _numbered(op)
        self._stop = Stop(op, number, block, env, self._names)
        self._stopped.release()
        self._run_on.acquire()
        if self._ends:
            raise _EndedEarlyError("the run was given up")


def _numbered(op: Operation) -> dict[SSAValue, int]:
    """The values of the entry that an operation is in, in the order of the text."""
    while not isinstance(op, EntryOp | FuncOp):
        parent = op.parent_op()
        if parent is None:
            break
        op = parent
    found: dict[SSAValue, int] = {}
    for inner in op.walk():
        blocks = [block for region in inner.regions for block in region.blocks]
        for value in (*inner.results, *(argument for block in blocks for argument in block.args)):
            found[value] = len(found)
    return found


def _is_at(op: Operation, number: int, place: Place) -> bool:
    """Whether an operation is meant by a place."""
    if isinstance(place, int):
        return number == place
    if isinstance(place, str):
        return place in (op.name, short_name(op))
    found = place_of(op)
    return found is not None and found.line == place[1] and found.filename.endswith(place[0])
