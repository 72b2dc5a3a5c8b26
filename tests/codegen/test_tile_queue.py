"""Queues of launches that run at the same time: every number is drawn once, whoever runs when.

What the compiler prints is run here instruction by instruction, a thread chosen at random each
time. The launches meet in few slots, start and end at different times, and draw from slots that
others gave back.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest
from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from tests.kernels.thread_programs import OPTIONS, kernel_module
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.target import get_target

WORD = (1 << 64) - 1
TABLE = 4096
_OUTPUTS, _INPUTS = ("$0", "$1"), ("$2", "$3", "$4", "$5", "$6", "$7")
_RUNS = 60
ARITHMETIC: dict[str, Callable[[int, int, int], int]] = {
    "mov": lambda a, b, c: a,
    "cvt": lambda a, b, c: a,
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "and": lambda a, b, c: a & b,
    "or": lambda a, b, c: a | b,
    "xor": lambda a, b, c: a ^ b,
    "shl": lambda a, b, c: a << b,
    "mad": lambda a, b, c: a * b + c,
}


@cache
def instructions(slots: int) -> tuple[str, ...]:
    """What is printed for a number, labels and instructions one by one."""

    def body(b: ThreadBuilder, args: Sequence[SSAValue]) -> None:
        number, holds = args[1], b.const_bits(i1, 1)
        state, taken = b.take_number(args[0], slots, number, number, (number, number), holds)
        b.store(b.add(state, taken), args[0], 4)

    text = print_module(kernel_module(body, pointers=1), get_target("sm_90"), OPTIONS)
    [asm] = re.findall(r'asm sideeffect[^"]*"(\{[^"]*take[^"]*|\{[^"]*gridid[^"]*)"', text)
    inside = asm.replace("${:uid}", "").strip("{} ")
    spread = re.sub(r"(\w+_): ", r"\1:; ", inside)
    return tuple(line.strip() for line in spread.split(";") if line.strip())


@dataclass
class Launch:
    """Threads that draw the numbers from `first` to `end`, and what they have got."""

    id: int
    first: int
    end: int
    numbers: list[int] = field(default_factory=list[int])
    static: int = 0


@dataclass
class Thread:
    """A thread of a launch, before or in the middle of an instruction list."""

    launch: Launch
    own: int
    state: int = 0

    def run(self, program: Sequence[str], memory: dict[int, int]) -> Iterator[None]:
        """Draws until there is no more; stops before every instruction."""
        while True:
            registers = dict(
                zip(_INPUTS, (TABLE, self.state, self.own, self.launch.first, self.launch.end, 1))
            )
            yield from _run(program, registers, memory, self.launch.id)
            self.state, self.own = (registers[name] for name in _OUTPUTS)
            if self.own >= self.launch.end:
                return
            self.launch.numbers.append(self.own)


def _run(
    program: Sequence[str], registers: dict[str, int], memory: dict[int, int], grid: int
) -> Iterator[None]:
    """One pass through the instructions."""
    labels = {line[:-1]: place for place, line in enumerate(program) if line.endswith(":")}
    place = 0

    def value(name: str) -> int:
        if re.fullmatch(r"-?\d+", name):
            return int(name) & WORD
        return grid if name == "%gridid" else registers.get(name, 0)

    while place < len(program):
        line = program[place]
        place += 1
        if line.endswith(":") or line.startswith(".reg"):
            continue
        guard, _, rest = (
            line.rpartition("@")[2].partition(" ") if line[0] == "@" else ("", "", line)
        )
        if guard and bool(value(guard.lstrip("!"))) == guard.startswith("!"):
            continue
        name, _, operands = rest.partition(" ")
        if name == "bra":
            place = labels[operands]
            continue
        yield
        _step(name, [item.strip() for item in operands.split(",")], registers, memory, value)


def _step(
    name: str,
    operands: list[str],
    registers: dict[str, int],
    memory: dict[int, int],
    value: Callable[[str], int],
) -> None:
    """One instruction but branches."""
    kind, bits = name.split(".")[0], 64 if re.search(r"64$|wide", name) else 32
    if kind in ("atom", "ld", "st", "red"):
        _access(name, operands, registers, memory, value)
        return
    target, *names = operands
    a, *others = (1 - value(item[1:]) if item[0] == "!" else value(item) for item in names)
    b, c = (*others, 0, 0)[:2]
    if kind == "setp":
        compared = {"eq": a == b, "ne": a != b, "gt": a > b, "le": a <= b}[name.split(".")[1]]
        registers[target] = int(compared and (".and." not in name or bool(c)))
        return
    registers[target] = ARITHMETIC[kind](a, b, c) & ((1 << bits) - 1)


def _access(
    name: str,
    operands: list[str],
    registers: dict[str, int],
    memory: dict[int, int],
    value: Callable[[str], int],
) -> None:
    """One access to the table."""
    kind = name.split(".")[0]
    at = next(item for item in operands if item[0] == "[")
    base, _, offset = at.strip("[]").partition("+")
    address = value(base) + int(offset or 0)
    assert address % 8 == 0 and address >= TABLE
    before, rest = memory.get(address, 0), operands[operands.index(at) + 1 :]
    after = before
    if kind == "st":
        after = value(rest[0])
    elif ".cas." in name:
        after = value(rest[1]) if before == value(rest[0]) else before
    elif ".add." in name:
        after = before + value(rest[0]) & WORD
    elif ".and." in name:
        after = before & value(rest[0])
    memory[address] = after
    if kind in ("atom", "ld"):
        registers[operands[0]] = before


def drawn(
    program: Sequence[str], launches: Sequence[Launch], chance: random.Random
) -> dict[int, int]:
    """Runs launches, of which some start when others have ended; what is left in memory."""
    memory: dict[int, int] = {}
    waiting = [(launch, Thread(launch, own)) for launch in launches for own in range(launch.first)]
    chance.shuffle(waiting)
    running: list[Iterator[None]] = []
    while waiting or running:
        if waiting and (not running or chance.random() < 0.02):
            running.append(waiting.pop()[1].run(program, memory))
        thread = chance.choice(running)
        for _ in range(chance.choice((1, 1, 4, 40))):
            if next(thread, "end") == "end":
                running.remove(thread)
                break
    return memory


def wrong(slots: int, change: Callable[[str], str] = lambda line: line) -> int:
    """In how many runs some launch got other numbers than its own, each once."""
    program = [change(line) for line in instructions(slots)]
    found = 0
    for seed in range(_RUNS):
        chance = random.Random(seed)
        ids = chance.sample(range(1, 40), 6)
        launches = [Launch(id * chance.choice((1, slots)), 0, 0) for id in ids]
        launches = list({launch.id: launch for launch in launches}.values())
        for launch in launches:
            launch.first = chance.randint(1, 4)
            launch.end = launch.first + chance.randint(1, 9)
        memory = drawn(program, launches, chance)
        are_right = all(
            sorted(launch.numbers) == list(range(launch.first, launch.end)) for launch in launches
        )
        found += not are_right or (slots > 4 and any(memory.values()))
    return found


@pytest.mark.parametrize("slots", [1, 2, 4, 8, 256])
def test_launches_that_meet_draw_their_own_numbers(slots: int) -> None:
    """And leave an empty table, unless it was full: then a launch has a static schedule."""
    assert wrong(slots) == 0


def test_a_launch_that_was_alone_leaves_nothing() -> None:
    launch = Launch(7, 3, 20)
    memory = drawn(instructions(256), [launch], random.Random(0))
    assert sorted(launch.numbers) == list(range(3, 20)) and not any(memory.values())


MUTANTS: dict[str, Callable[[str], str]] = {
    "slots that are passed are not counted": lambda line: line.replace(
        "add.s64 new, w, 1", "add.s64 new, w, 0"
    ),
    "numbers go on in the next launch": lambda line: (
        line.replace("st.relaxed", "ld.relaxed") if line.startswith("st.") else line
    ),
    "whose slot it is nobody looks at": lambda line: line.replace(
        "setp.le.u64 p, new", "setp.ne.u64 p, mine"
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_what_would_be_wrong_is_seen(name: str) -> None:
    """The same without a part of it."""
    change = MUTANTS[name]
    if name.startswith("numbers go on"):
        change = _without_reset
    assert wrong(2, change) > 0


def _without_reset(line: str) -> str:
    return "mov.b64 w, 0" if line.startswith("st.relaxed") else line


def test_a_table_is_in_global_memory() -> None:
    def body(b: ThreadBuilder, args: Sequence[SSAValue]) -> None:
        number, holds = args[1], b.const_bits(i1, 1)
        b.take_number(args[0], 3, number, number, (number, number), holds)

    with pytest.raises(VerifyException, match="3 slots"):
        kernel_module(body, pointers=1).verify()
