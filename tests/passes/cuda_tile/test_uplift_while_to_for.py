"""uplift-while-to-for: loops that count give what they gave, wherever they begin and end."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.pass_runs import run_passes
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.text import parse_module, print_module
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.interpreter import run_entry
from tileiras.passes.cuda_tile.uplift_while_to_for import UpliftWhileToForPass

KERNEL = """
cuda_tile.module @m {{
  entry @count(%first: tile<i32>, %n: tile<i32>, %out: tile<ptr<i32>>) {{
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %step = constant <i32: {step}> : tile<i32>
    %last = addi %out, %zero : tile<i32>
    %end:3 = loop iter_values(%s = %zero, %i = %first, %u = %t)
        : tile<i32>, tile<i32>, token -> tile<i32>, tile<i32>, token {{
      %bound = subi %n, %three : tile<i32>
      %test = cmpi {test}, {signedness} : tile<i32> -> tile<i1>
      if %test {{
        {then}
      }} else {{
        {otherwise}
      }}
      %w = muli %s, %three : tile<i32>
      %x = addi %w, %i : tile<i32>
      %odd = andi %i, %three : tile<i32>
      %is = cmpi equal %odd, %zero, signed : tile<i32> -> tile<i1>
      %j = addi %step, %i {promise} : tile<i32>
      if %is {{
        continue %s, %j, %u : tile<i32>, tile<i32>, token
      }}
      continue %x, %j, %u : tile<i32>, tile<i32>, token
    }}
    %a = store_ptr_tko weak %out, %end#0 token=%end#2 : tile<ptr<i32>>, tile<i32> -> token
    {second}
    return
  }}
}}
""".replace("    %last = addi %out, %zero : tile<i32>\n", "")
LEAVE = "break %s, %i, %u : tile<i32>, tile<i32>, token"
SECOND = """%q = offset %out, %step : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %b = store_ptr_tko weak %q, %end#1 token=%a : tile<ptr<i32>>, tile<i32> -> token"""
TESTS = {
    "less": ("less_than %i, %bound", False),
    "greater": ("greater_than %bound, %i", False),
    "reached": ("greater_than_or_equal %i, %bound", True),
    "passed": ("less_than_or_equal %bound, %i", True),
}


def source(test: str, step: int, signedness: str) -> str:
    """A loop that counts to n - 3, sums up, and gives its counter where the step is 1."""
    text, leaves_in_then = TESTS[test]
    promise = "overflow<no_wrap>" if step > 1 else ""
    return KERNEL.format(
        test=text,
        signedness=signedness,
        step=step,
        then=LEAVE if leaves_in_then else "",
        otherwise="" if leaves_in_then else LEAVE,
        promise=promise,
        second=SECOND if step == 1 else "",
    )


@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("step", [1, 2, 7])
@pytest.mark.parametrize("test", TESTS)
def test_results_are_those_of_the_loop(test: str, step: int, signedness: str) -> None:
    text = source(test, step, signedness)
    module, rewritten = parse_module(text), parse_module(text)
    UpliftWhileToForPass().apply(None, rewritten)  # pyright: ignore[reportArgumentType]
    verify_module(rewritten)
    assert any(isinstance(op, ct.ForOp) for op in rewritten.walk())
    assert not any(isinstance(op, ct.LoopOp) for op in rewritten.walk())
    firsts = (0, 1, 5) if signedness == "unsigned" else (-9, 0, 1, 5)
    for first in firsts:
        for n in (3, 4, 8, 9, 30):
            wanted, got = np.zeros(2, np.int32), np.zeros(2, np.int32)
            run_entry(module, "count", [first, n, wanted], (1, 1, 1))
            run_entry(rewritten, "count", [first, n, got], (1, 1, 1))
            assert list(got) == list(wanted), (first, n)


def test_the_pipeline_runs_it_before_loops_are_unrolled() -> None:
    text = run_passes(source("less", 1, "signed").encode(), "canonicalize", "uplift-while-to-for")
    assert "for %loopIdx in" in text and "= loop iter_values" not in text
    assert print_module(parse_module(text))
