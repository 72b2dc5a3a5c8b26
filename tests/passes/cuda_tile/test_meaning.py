"""canonicalize and cse keep the meaning: random programs run the same before and after."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.interpreter import run_entry
from tileiras.passes.canonicalization import canonicalize
from tileiras.passes.cuda_tile.cse import eliminate_common_subexpressions

TILE = "tile<8xi32>"
BINARY = (
    "addi {}, {}",
    "subi {}, {}",
    "muli {}, {}",
    "mulhii {}, {}",
    "andi {}, {}",
    "ori {}, {}",
    "xori {}, {}",
    "maxi {}, {} signed",
    "maxi {}, {} unsigned",
    "mini {}, {} signed",
    "mini {}, {} unsigned",
)
COMPARISONS = ("equal", "not_equal", "less_than", "greater_than_or_equal")


class ProgramWriter:
    """Writes straight-line programs on 8-element integer tiles, with branches and loops."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        """A new value."""
        self.count += 1
        return f"%n{self.count}"

    def constant(self, type: str = TILE) -> str:
        """A constant that folds easily."""
        name = self.name()
        value = self.random.choice((0, 0, 1, 1, 2, 3, -1, -7, 2**31 - 1, -(2**31)))
        self.lines.append(f"{name} = constant <i32: {value}> : {type}")
        return name

    def step(self, values: list[str]) -> str:
        """One more value from the ones that are there."""
        pick = self.random.choice
        name = self.name()
        left, right = pick(values), pick([*values, self.constant()])
        match self.random.randrange(7):
            case 0:
                self.lines.append(f"{name} = {pick(('negi', 'absi'))} {left} : {TILE}")
            case 1:
                self.lines.append(f"{name}c = constant <i32: {pick((1, 2, 5, 31))}> : {TILE}")
                op = pick(("shli {}, {}", "shri {}, {} signed", "shri {}, {} unsigned"))
                self.lines.append(f"{name} = {op.format(left, name + 'c')} : {TILE}")
            case 2:
                self.lines.append(f"{name}c = constant <i32: {pick((1, 3, 8))}> : {TILE}")
                rounding = pick(("zero", "positive_inf", "negative_inf"))
                op = pick((f"divi {{}}, {{}} signed rounding<{rounding}>", "remi {}, {} unsigned"))
                self.lines.append(f"{name} = {op.format(left, name + 'c')} : {TILE}")
            case 3:
                self.lines.append(
                    f"{name}c = cmpi {pick(COMPARISONS)} {left}, {right}, signed : "
                    f"{TILE} -> tile<8xi1>"
                )
                arms = f"{pick(values)}, {pick(values)}"
                self.lines.append(f"{name} = select {name}c, {arms} : tile<8xi1>, {TILE}")
            case 4:
                self.lines.append(f"{name}e = exti {left} signed : {TILE} -> tile<8xi64>")
                self.lines.append(f"{name} = trunci {name}e : tile<8xi64> -> {TILE}")
            case _:
                self.lines.append(f"{name} = {pick(BINARY).format(left, right)} : {TILE}")
        return name

    def branch(self, values: list[str]) -> str:
        """An if on a scalar, known or not."""
        name = self.name()
        known = self.random.choice(("%flag", "true", "false"))
        condition = known
        if known != "%flag":
            condition = f"{name}k"
            self.lines.append(f"{condition} = constant <i1: {known}> : tile<i1>")
        self.lines.append(f"{name} = if {condition} -> ({TILE}) {{")
        self.lines.append(f"yield {self.step(values)} : {TILE}")
        self.lines.append("} else {")
        self.lines.append(f"yield {self.step(values)} : {TILE}")
        self.lines.append("}")
        return name

    def loop(self, values: list[str]) -> str:
        """A short loop, which may run never or once."""
        name = self.name()
        for bound, choices in (("l", (0, 1)), ("u", (0, 1, 2, 3)), ("s", (1, 2))):
            value = self.random.choice(choices)
            self.lines.append(f"{name}{bound} = constant <i32: {value}> : tile<i32>")
        self.lines.append(
            f"{name} = for {name}i in ({name}l to {name}u, step {name}s) : tile<i32> "
            f"iter_values({name}a = {self.random.choice(values)}) -> ({TILE}) {{"
        )
        self.lines.append(f"continue {self.step([*values, f'{name}a'])} : {TILE}")
        self.lines.append("}")
        return name

    def program(self) -> str:
        """A program that loads a tile and stores a value."""
        values = ["%data", self.constant(), self.constant()]
        for _ in range(self.random.randint(4, 14)):
            make = self.random.choice((self.step, self.step, self.step, self.branch, self.loop))
            values.append(make(values))
        body = "\n".join(self.lines)
        return (
            "entry @k(%p: tile<ptr<i32>>, %q: tile<ptr<i32>>, %flag: tile<i1>) {\n"
            "%one = reshape %p : tile<ptr<i32>> -> tile<1xptr<i32>>\n"
            "%all = broadcast %one : tile<1xptr<i32>> -> tile<8xptr<i32>>\n"
            "%steps = iota : tile<8xi32>\n"
            "%ps = offset %all, %steps : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>\n"
            "%qone = reshape %q : tile<ptr<i32>> -> tile<1xptr<i32>>\n"
            "%qall = broadcast %qone : tile<1xptr<i32>> -> tile<8xptr<i32>>\n"
            "%qs = offset %qall, %steps : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>\n"
            f"%data, %t = load_ptr_tko weak %ps : tile<8xptr<i32>> -> {TILE}, token\n{body}\n"
            f"%d = store_ptr_tko weak %qs, {values[-1]} token=%t : "
            f"tile<8xptr<i32>>, {TILE} -> token\n}}\n"
        )


def run(text: str, optimised: bool, flag: int) -> np.ndarray:
    """What the program stores."""
    module = parse_module(text)
    if optimised:
        canonicalize(module)
        eliminate_common_subexpressions(module)
        canonicalize(module)
        verify_module(module)
    data = np.array([0, 1, -1, 5, 2**31 - 1, -(2**31), 77, -3], dtype=np.int32)
    stored = np.zeros(8, dtype=np.int32)
    run_entry(module, "k", [data, stored, flag], (1, 1, 1))
    return stored


@pytest.mark.parametrize("seed", range(60))
def test_random_program_means_the_same(seed: int) -> None:
    """Before and after, on both sides of its branches."""
    text = ProgramWriter(seed).program()
    verify_module(parse_module(text))
    for flag in (0, 1):
        np.testing.assert_array_equal(run(text, True, flag), run(text, False, flag))
