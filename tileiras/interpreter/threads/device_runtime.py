"""The device runtime's functions, called by one thread: printf, assertions, the heap."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tileiras.errors import SourceLocation
from tileiras.interpreter.errors import InterpreterError
from tileiras.interpreter.memory import SimulatedMemory
from tileiras.interpreter.state import AssertionFailure
from tileiras.interpreter.threads.state import Lockstep
from tileiras.interpreter.threads.values import Value

MOST_ARGUMENTS = 32
"""CUDA C++ Programming Guide, "Formatted Output": arguments of one printf besides the format."""
_CONVERSION = re.compile(r"%(?:%|(?P<form>[-+ #0]*\d*(?:\.\d*)?)(?P<long>ll)?(?P<kind>[a-zA-Z]))")

Function = Callable[[Lockstep, list[int]], int | None]
"""A function's effect: what it returns for the arguments of the thread."""


def call_by_one_thread(act: Function, run: Lockstep, op: Any) -> Value | None:
    """Calls a function; more threads at once would each do it again."""
    if run.count != 1:
        raise InterpreterError(f"{op.callee.data} is called by {run.count} threads")
    result = act(run, [int(run.values[value][0]) for value in op.arguments])
    return None if result is None else np.array([result], np.uint64)


def _print(run: Lockstep, arguments: list[int]) -> int:
    text = _formatted(run.memory, *arguments)
    run.cta.launch.log.printed.append(text)
    return len(text)


def _fail(run: Lockstep, arguments: list[int]) -> None:
    """A failed assertion; the run goes on, as that of the tile interpreter does.

    `elements` stay empty: the kernel prints which they are. The function's name stands where the
    source has none.
    """
    message, file, line, _, _ = arguments
    text, name = _c_string(run.memory, message), _c_string(run.memory, file)
    place = SourceLocation(name, line, 1) if name else None
    run.cta.launch.log.failures.append(AssertionFailure(text, run.cta.index, (), place))


def _allocate(run: Lockstep, arguments: list[int]) -> int:
    place = run.memory.allocate(arguments[0]).address
    run.cta.launch.heap.append(place)
    return place


def _free(run: Lockstep, arguments: list[int]) -> None:
    if arguments[0] not in run.cta.launch.heap:
        raise InterpreterError(f"free of {arguments[0]:#x}, which malloc did not give")
    run.cta.launch.heap.remove(arguments[0])


FUNCTIONS: dict[str, Function] = {
    "vprintf": _print,
    "__assertfail": _fail,
    "malloc": _allocate,
    "free": _free,
}
"""Functions by name."""


def _c_string(memory: SimulatedMemory, place: int) -> str:
    data = bytearray()
    while byte := int(memory.read_bytes(place, 1)[0]):
        data.append(byte)
        place += 1
    return data.decode()


class _Arguments:
    """The arguments of printf, laid out as in a struct."""

    def __init__(self, memory: SimulatedMemory, place: int):
        self._memory, self._place, self._offset = memory, place, 0
        self.count = 0

    def take(self, size: int, code: str) -> Any:
        """The next one, of so many bytes, which it is aligned to."""
        self._offset = -(-self._offset // size) * size
        data = self._memory.read_bytes(self._place + self._offset, size)
        self._offset, self.count = self._offset + size, self.count + 1
        return struct.unpack(code, bytes(data))[0]


def _formatted(memory: SimulatedMemory, format_: int, buffer: int) -> str:
    """The text of a C format."""
    arguments = _Arguments(memory, buffer)

    def expand(match: re.Match[str]) -> str:
        kind = match["kind"]
        if kind is None:
            return "%"
        if kind == "c":
            return chr(arguments.take(4, "<i"))
        if kind in "eEfgGaA":
            return f"%{match['form']}{kind}" % arguments.take(8, "<d")
        size = 8 if match["long"] else 4
        code = {4: "iI", 8: "qQ"}[size][kind in "uoxX"]
        letter = "d" if kind in "iu" else kind
        return f"%{match['form']}{letter}" % arguments.take(size, "<" + code)

    text = _CONVERSION.sub(expand, _c_string(memory, format_))
    if arguments.count > MOST_ARGUMENTS:
        raise InterpreterError(f"printf with {arguments.count} arguments")
    return text
