"""Runs hand-built kernels at every stage of the compiler, wherever a test runs one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.unchanged import changing
from tileiras.errors import CompileError, TargetError
from tileiras.interpreter import InterpreterError, RunLog, run_entry

LOOP_LIMIT = 10_000


def run_and_compare(
    module: ModuleOp, name: str, args: Sequence[Any], grid: tuple[int, int, int]
) -> RunLog:
    """`run_entry`, and the same after every pass up to nv_tileas: memory must come out equal.

    After every pass that changes something, that is: the others need no second run.

    Kernels that the compiler refuses, that race because they have no tokens, or whose arrays
    overlap are not compared.
    """
    converted, before = module.clone(), copied(args)
    log = run_entry(module, name, args, grid)
    if not is_comparable(args):
        return log
    from tests.kernels.stage_comparison import passes

    try:
        for step, _ in changing(converted, passes(converted, (), "sm_100")):
            found = copied(before)
            later = run_entry(converted, name, found, grid, loop_limit=LOOP_LIMIT)
            for wanted, array in zip(args, found, strict=True):
                if isinstance(wanted, np.ndarray) and wanted.tobytes() != array.tobytes():
                    raise AssertionError(f"memory differs after {step}")
            if len(later.failures) != len(log.failures):
                raise AssertionError(f"assertions differ after {step}")
    except (CompileError, TargetError):
        return log
    except InterpreterError as error:
        if "race at address" not in str(error):
            raise
    return log


def copied(args: Sequence[Any]) -> list[Any]:
    """Arguments with arrays of their own."""
    return [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]


def is_comparable(args: Sequence[Any]) -> bool:
    """Whether all arguments are numbers or arrays apart from each other."""
    if not all(isinstance(arg, int | float | np.ndarray | np.generic) for arg in args):
        return False
    arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
    pairs = ((a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    return not any(np.shares_memory(a, b) or np.may_share_memory(a, b) for a, b in pairs)
