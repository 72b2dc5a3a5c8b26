"""The device runtime's functions, called by one thread: printf, assertions, the heap."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
from simulated_ops import Machine, Value

from tileiras.interpreter import SimulatedMemory

MOST_ARGUMENTS = 32
_CONVERSION = re.compile(r"%(?:%|(?P<form>[-+ #0]*\d*(?:\.\d*)?)(?P<long>ll)?(?P<kind>[a-zA-Z]))")


def call_runtime(machine: Machine, op: Any) -> Value | None:
    """Calls a function of the runtime."""
    if op.callee.data.startswith("__nv_"):
        raise NotImplementedError(f"the simulator has no {op.callee.data} of libdevice")
    if machine.threads != 1:
        raise RuntimeError(f"{op.callee.data} is called by {machine.threads} threads")
    arguments = [int(machine.values[value][0]) for value in op.arguments]
    match op.callee.data:
        case "vprintf":
            text = _formatted(machine.memory, *arguments)
            machine.log.printed.append(text)
            return np.array([len(text)], np.uint64)
        case "__assertfail":
            message, file, line, function, _ = arguments
            strings = [_c_string(machine.memory, place) for place in (message, file, function)]
            machine.log.failures.append((strings[0], strings[1], line, strings[2]))
            return None
        case "malloc":
            place = machine.memory.allocate(arguments[0]).address
            machine.log.live_heap.append(place)
            return np.array([place], np.uint64)
        case "free":
            machine.log.live_heap.remove(arguments[0])
            return None
        case name:
            raise NotImplementedError(f"the simulator has no function {name}")


def _c_string(memory: SimulatedMemory, place: int) -> str:
    data = bytearray()
    while byte := int(memory.read_bytes(place, 1)[0]):
        data.append(byte)
        place += 1
    return data.decode()


def _formatted(memory: SimulatedMemory, format: int, buffer: int) -> str:
    """The text of a C format with arguments laid out as in a struct."""
    offset = count = 0

    def take(size: int, code: str) -> Any:
        nonlocal offset, count
        offset = -(-offset // size) * size
        (value,) = struct.unpack(code, bytes(memory.read_bytes(buffer + offset, size)))
        offset, count = offset + size, count + 1
        return value

    def expand(match: re.Match[str]) -> str:
        kind = match["kind"]
        if kind is None:
            return "%"
        if kind == "c":
            return chr(take(4, "<i"))
        if kind in "eEfgGaA":
            return f"%{match['form']}{kind}" % take(8, "<d")
        size = 8 if match["long"] else 4
        code = {4: "iI", 8: "qQ"}[size][kind in "uoxX"]
        letter = "d" if kind in "iu" else kind
        return f"%{match['form']}{letter}" % take(size, "<" + code)

    text = _CONVERSION.sub(expand, _c_string(memory, format))
    if count > MOST_ARGUMENTS:
        raise RuntimeError(f"printf with {count} arguments")
    return text
