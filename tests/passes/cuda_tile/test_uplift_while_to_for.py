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


OTHER = """
cuda_tile.module @m {{
  entry @count(%first: tile<i32>, %n: tile<i32>, %out: tile<ptr<i32>>) {{
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <i32: {start}> : tile<i32>
    %scale = constant <i32: {scale}> : tile<i32>
    %end:3 = loop iter_values(%s = %first, %i = %start, %c = %n)
        : tile<i32>, tile<i32>, tile<i32> -> tile<i32>, tile<i32>, tile<i32> {{
      {body}
    }}
    %a = store_ptr_tko weak %out, %end#0 token=%t : tile<ptr<i32>>, tile<i32> -> token
    %q = offset %out, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %b = store_ptr_tko weak %q, %end#1 token=%a : tile<ptr<i32>>, tile<i32> -> token
    %r = offset %q, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %d = store_ptr_tko weak %r, %end#2 token=%b : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}
"""
WORK = """%w = muli %s, %scale : tile<i32>
      %x = addi %w, %i : tile<i32>
      %j = addi %i, %one : tile<i32>
      %e = subi %c, %scale : tile<i32>"""
NEXT = "%x, %j, %e : tile<i32>, tile<i32>, tile<i32>"
BODIES = {
    "ask last": f"""{WORK}
      %m = muli %j, %scale : tile<i32>
      %no = cmpi greater_than_or_equal %m, %n, signed : tile<i32> -> tile<i1>
      if %no {{ break {NEXT} }}
      continue {NEXT}""",
    "ask last whether more": f"""{WORK}
      %more = cmpi greater_than %n, %j, signed : tile<i32> -> tile<i1>
      if %more {{ }} else {{ break {NEXT} }}
      continue {NEXT}""",
    "down": f"""%more = cmpi greater_than %c, %zero, signed : tile<i32> -> tile<i1>
      if %more {{ }} else {{ break %s, %i, %c : tile<i32>, tile<i32>, tile<i32> }}
      {WORK}
      continue {NEXT}""",
    "down, one path shorter": f"""%known = assume div_by<1>, %c : tile<i32>
      %no = cmpi less_than_or_equal %known, %zero, signed : tile<i32> -> tile<i1>
      if %no {{ break %s, %i, %known : tile<i32>, tile<i32>, tile<i32> }}
      {WORK}
      if %no {{ continue %s, %j, %e : tile<i32>, tile<i32>, tile<i32> }}
      continue {NEXT}""",
}


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("scale", [1, 4, 64])
@pytest.mark.parametrize("body", BODIES)
def test_other_tests_give_what_the_loop_gave(body: str, scale: int, start: int) -> None:
    text = OTHER.format(body=BODIES[body], scale=scale, start=start)
    module, rewritten = parse_module(text), parse_module(text)
    UpliftWhileToForPass().apply(None, rewritten)  # pyright: ignore[reportArgumentType]
    verify_module(rewritten)
    assert not any(isinstance(op, ct.LoopOp) for op in rewritten.walk())
    for n in (-65, -1, 0, 1, 3, 4, 5, 63, 64, 65, 200):
        wanted, got = np.zeros(3, np.int32), np.zeros(3, np.int32)
        run_entry(module, "count", [7, n, wanted], (1, 1, 1))
        run_entry(rewritten, "count", [7, n, got], (1, 1, 1))
        assert list(got) == list(wanted), n


LEFT = {
    "a scale that may overflow": ("ask last", {"scale": 3}),
    "a start that may overflow": ("ask last", {"start": 2**30}),
    "a start below zero": ("ask last", {"start": -3}),
    "up instead of down": ("down", {"scale": -4}),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_not_sure_stays_a_loop(case: str) -> None:
    body, numbers = LEFT[case]
    text = OTHER.format(body=BODIES[body], **{"scale": 4, "start": 0} | numbers)
    module = parse_module(text)
    UpliftWhileToForPass().apply(None, module)  # pyright: ignore[reportArgumentType]
    assert any(isinstance(op, ct.LoopOp) for op in module.walk())


def test_what_is_seen_before_it_is_asked_stays_a_loop() -> None:
    body = BODIES["ask last"].replace("%no =", 'print_tko "%d", %i : tile<i32> -> token\n%no =')
    module = parse_module(OTHER.format(body=body, scale=4, start=0))
    UpliftWhileToForPass().apply(None, module)  # pyright: ignore[reportArgumentType]
    assert any(isinstance(op, ct.LoopOp) for op in module.walk())
