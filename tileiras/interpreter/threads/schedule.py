"""Programs that run side by side and wait for each other, in an order that a seed decides.

A program is a generator of `Wait`s: it gives one up wherever it may have to wait, and goes on when
its condition holds. Asynchronous copies land at any time in between.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.threads.values import Value

LANDS = 0.3
"""How likely it is that a copy lands before a program goes on."""


def always() -> bool:
    """The condition of a program that only lets others go first."""
    return True


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Wait:
    """What a program waits for, in words for a deadlock's message, and what it does then.

    `then` gives the result of the operation that waited.
    """

    until: Callable[[], bool] = always
    what: str = "its turn"
    then: Callable[[], Value | None] = _nothing


@dataclass
class _Waiting:
    """A program that has stopped, with whoever can say where it is."""

    program: Iterator[Wait]
    wait: Wait
    where: Callable[[], str]


class Schedule:
    """Runs programs to their ends, one at a time."""

    def __init__(self, seed: str):
        self._random = random.Random(seed)
        self._waiting: list[_Waiting] = []
        self._landing: list[Callable[[], None]] = []

    def start(self, program: Iterator[Wait], where: Callable[[], str]) -> None:
        """A further program, which begins when it is its turn."""
        self._waiting.append(_Waiting(program, Wait(), where))

    def land_later(self, copy: Callable[[], None]) -> None:
        """A copy under way."""
        self._landing.append(copy)

    def run(self) -> None:
        """Until all programs are over; raises InterpreterError where none can go on."""
        while self._waiting:
            ready = [item for item in self._waiting if item.wait.until()]
            if self._landing and (not ready or self._random.random() < LANDS):
                self._landing.pop(self._random.randrange(len(self._landing)))()
            elif ready:
                self._go_on(ready[0] if len(ready) == 1 else self._random.choice(ready))
            else:
                waits = "; ".join(f"{item.where()}: {item.wait.what}" for item in self._waiting)
                raise InterpreterError(f"all warp roles wait: {waits}")
        if self._landing:
            raise InterpreterError("a copy lands after the threads have returned")

    def _go_on(self, item: _Waiting) -> None:
        try:
            item.wait = next(item.program)
        except StopIteration:
            self._waiting.remove(item)
