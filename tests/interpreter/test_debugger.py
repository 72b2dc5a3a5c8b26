"""The debugger: where a program stops, what is seen there, how a run goes on and ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileiras.driver import compile_module, read_source
from tileiras.interpreter import Debugger, InterpreterError
from tileiras.options import CompileOptions

VECTOR_ADD = Path(__file__).resolve().parents[2] / "examples" / "vector_add.mlir"
BLOCK, FIRST, SUM = "%15", "%18", "%22"
"""The values `x`, `at` and `sum` of the example, as they are counted."""


def arguments() -> list[Any]:
    """1500 elements: two tile blocks, the second one not full."""
    a = np.arange(1500, dtype=np.float32)
    return [a, np.ones_like(a), np.zeros_like(a), 1500]


def debugger(args: list[Any], source: bytes | None = None) -> Debugger:
    """Vector addition, not yet started."""
    module = read_source(source or VECTOR_ADD.read_bytes(), "vector_add.mlir")
    return Debugger(module, "vector_add", args, (2, 1, 1))


def test_stops_at_a_name_in_every_block() -> None:
    args = arguments()
    session = debugger(args)
    session.stop_at("addf")
    stops = []
    for stop in session:
        stops.append((stop.name, stop.block))
        np.testing.assert_array_equal(stop.operands()[1][:400], np.ones(400))
        assert SUM not in stop.values() and stop.value(BLOCK) == stop.block[0]
        assert stop.value("3") == 1500
    assert stops == [("addf", (0, 0, 0)), ("addf", (1, 0, 0))]
    np.testing.assert_array_equal(args[2], args[0] + 1)
    assert session.log.printed == [] and session.run() is None


def test_stops_at_a_line_or_a_number_and_steps() -> None:
    line = 1 + VECTOR_ADD.read_text().split("addf")[0].count("\n")
    session = debugger(arguments())
    session.stop_at(("vector_add.mlir", line))
    stop = session.run()
    assert stop is not None and stop.name == "addf"
    assert stop.location is not None and stop.location.line == line
    number, values = stop.number, stop.values()
    stop = session.step()
    assert stop is not None and stop.number == number + 1 and stop.name == "store_view_tko"
    np.testing.assert_array_equal(stop.value(SUM), values[FIRST] + 1)
    session.clear()
    assert session.run() is None
    again = debugger(arguments())
    again.stop_at(number)
    assert [found.name for found in again] == ["addf", "addf"]


def test_values_that_were_looked_at_are_copies() -> None:
    args = arguments()
    session = debugger(args)
    session.stop_at("store_view_tko")
    for stop in session:
        stop.value(SUM)[:] = 7
    np.testing.assert_array_equal(args[2], args[0] + 1)


def test_later_stages_can_be_stopped() -> None:
    options = CompileOptions(gpu_name="sm_90", emit="nv_tileaa")
    text = compile_module(VECTOR_ADD.read_bytes(), options).output
    session = debugger(arguments(), text)
    session.stop_at("nv_tileaa.addf")
    assert [stop.block[0] for stop in session] == [0, 1]


def test_a_run_can_be_given_up() -> None:
    """At a stop and before the start; nothing is written."""
    args = arguments()
    session = debugger(args)
    session.end()
    session = debugger(args)
    session.stop_at("return")
    assert session.run() is not None
    session.end()
    assert session.run() is None and not args[2].any()
    with pytest.raises(InterpreterError, match="the program has not run to its end"):
        _ = session.log


def test_what_is_not_there_is_told() -> None:
    session = debugger(arguments())
    for place in ("mulf", 10_000, ("vector_add.mlir", 1000), ("other.mlir", 5)):
        with pytest.raises(InterpreterError, match="no operation is at"):
            session.stop_at(place)
    session.stop_at("addf")
    stop = session.run()
    assert stop is not None
    with pytest.raises(InterpreterError, match="no value '%nothing' at this point, found: %0, %1"):
        stop.value("nothing")
    session.end()


def test_errors_of_the_program_reach_who_runs_it() -> None:
    args = arguments()
    args[2] = args[2][:100].copy()
    session = debugger(args)
    with pytest.raises(InterpreterError, match="out of bounds"):
        session.run()
    assert session.run() is None
    text = compile_module(
        VECTOR_ADD.read_bytes(), CompileOptions(gpu_name="sm_90", emit="llvm-dialect")
    )
    with pytest.raises(InterpreterError, match="stage llvm-dialect cannot be stopped"):
        debugger(args, text.output)
