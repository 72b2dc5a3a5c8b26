"""The parts of the machine on their own: clocks, control flow, shared memory, schedule, values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerType, f16, f32, i8, i16, i32, i64
from xdsl.ir import Attribute

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.types import vector_type
from tileiras.interpreter import InterpreterError
from tileiras.interpreter.threads.clocks import Clock
from tileiras.interpreter.threads.flow import ControlFlow
from tileiras.interpreter.threads.meeting import Mbarrier, MeetingPoint
from tileiras.interpreter.threads.schedule import Schedule, Wait
from tileiras.interpreter.threads.shared import FIRST_ADDRESS, SharedMemory, lay_out
from tileiras.interpreter.threads.swizzles import swizzled
from tileiras.interpreter.threads.tensor_maps import TensorMap
from tileiras.interpreter.threads.values import from_bytes, signed, to_bytes, unsigned


def knows(clock: Clock, time: int, program: int) -> bool:
    """Whether a clock knows an access to be over."""
    return not clock.is_unknown(np.array([time]), np.array([program]))[0]


def test_a_program_knows_its_own_past_once_its_threads_have_met() -> None:
    clock = Clock(0, 2)
    time = clock.now
    assert not knows(clock, time, 0)
    clock.meet()
    assert knows(clock, time, 0) and not knows(clock, clock.now, 0)


def test_what_is_released_is_known_to_those_who_acquire_it_and_nothing_later() -> None:
    one, other = Clock(0, 2), Clock(1, 2)
    before = one.now
    told = one.release()
    after = one.now
    assert not knows(other, before, 0)
    other.acquire(told)
    assert knows(other, before, 0) and not knows(other, after, 0)


def test_what_others_told_is_passed_on() -> None:
    first, second, third = (Clock(number, 3) for number in range(3))
    time = first.now
    second.acquire(first.release())
    third.acquire(second.release())
    assert knows(third, time, 0)


def test_a_child_knows_what_was_before_it() -> None:
    parent = Clock(0, 2)
    before = parent.now
    child = parent.child(1)
    assert knows(child, before, 0) and not knows(child, parent.now, 0)


def test_an_mbarrier_completes_with_all_arrivals_and_bytes() -> None:
    barrier = Mbarrier(count=2, pending=2)
    barrier.bytes = 16
    barrier.arrive(2)
    assert not barrier.has_passed(0)
    barrier.bytes -= 16
    barrier.settle()
    assert barrier.has_passed(0) and not barrier.has_passed(1)


def test_too_many_arrivals_are_refused() -> None:
    with pytest.raises(InterpreterError, match="more arrivals than the 1 that are expected"):
        Mbarrier(count=1, pending=1).arrive(2)
    with pytest.raises(InterpreterError, match="64 threads arrive where 32 are expected"):
        MeetingPoint().arrive(64, 32, np.zeros(1, np.int64))


def diamond() -> tuple[FuncOp, dict[str, object]]:
    """entry -> loop; loop -> left or right; both -> join; join -> loop or exit."""
    func = FuncOp.make_kernel("k", [IntegerType(1)], threads=32)
    b = ThreadBuilder(func.entry)
    names = ("loop", "left", "right", "join", "exit")
    blocks = {name: b.new_block() for name in names}
    condition = func.entry.args[0]
    b.br(blocks["loop"])
    for name, targets in (
        ("loop", ("left", "right")),
        ("left", ("join",)),
        ("right", ("join",)),
        ("join", ("loop", "exit")),
    ):
        b.at(blocks[name])
        if len(targets) == 1:
            b.br(blocks[targets[0]])
        else:
            b.cond_br(condition, blocks[targets[0]], blocks[targets[1]])
    b.at(blocks["exit"])
    b.ret()
    return func, dict(blocks)


def test_ways_meet_at_the_first_common_block() -> None:
    func, blocks = diamond()
    flow = ControlFlow(func)
    assert flow.meeting_block(blocks["loop"]) is blocks["join"]  # type: ignore[arg-type]
    assert flow.meeting_block(blocks["join"]) is blocks["exit"]  # type: ignore[arg-type]


def test_only_jumps_back_go_round() -> None:
    func, blocks = diamond()
    flow = ControlFlow(func)
    assert flow.goes_round(blocks["join"], blocks["loop"])  # type: ignore[arg-type]
    assert not flow.goes_round(func.entry, blocks["loop"])  # type: ignore[arg-type]
    assert not flow.goes_round(blocks["left"], blocks["join"])  # type: ignore[arg-type]


def test_ways_that_return_apart_do_not_meet() -> None:
    func = FuncOp.make_kernel("k", [IntegerType(1)], threads=32)
    b = ThreadBuilder(func.entry)
    left, right = b.new_block(), b.new_block()
    b.cond_br(func.entry.args[0], left, right)
    for block in (left, right):
        b.at(block)
        b.ret()
    assert ControlFlow(func).meeting_block(func.entry) is None


MEMORY = {"first": 8, "second": 4}
THREADS = np.arange(4)


def place(thread: int) -> np.ndarray:
    """The address of a thread's byte."""
    return np.array([FIRST_ADDRESS + thread])


def test_variables_lie_apart() -> None:
    places = lay_out(MEMORY)
    assert (len(places["first"]), len(places["second"])) == (8, 4)
    assert places["second"].start % 1024 == 0 and places["second"].start >= places["first"].stop


def shared() -> tuple[SharedMemory, Clock]:
    """A memory in which thread i has written byte i."""
    memory, clock = SharedMemory(lay_out(MEMORY)), Clock(0, 2)
    memory.store(clock, THREADS, FIRST_ADDRESS + THREADS, np.full((4, 1), 7, np.uint8))
    return memory, clock


def test_a_thread_reads_what_it_wrote() -> None:
    memory, clock = shared()
    assert memory.load(clock, THREADS[:1], place(0), 1) == 7


def test_reading_what_another_wrote_is_a_race_until_they_met() -> None:
    memory, clock = shared()
    with pytest.raises(InterpreterError, match="race: read of .* last barrier, byte 1 of 'first'"):
        memory.load(clock, THREADS[:1], place(1), 1)
    clock.meet()
    assert memory.load(clock, THREADS[:1], place(1), 1) == 7


def test_writing_what_another_read_is_a_race_until_they_met() -> None:
    memory, clock = shared()
    clock.meet()
    memory.load(clock, THREADS[:1], place(1), 1)
    data = np.zeros((1, 1), np.uint8)
    with pytest.raises(InterpreterError, match="race: write to what another thread read"):
        memory.store(clock, THREADS[1:2], place(1), data)
    clock.meet()
    memory.store(clock, THREADS[1:2], place(1), data)


def test_programs_that_told_each_other_nothing_race() -> None:
    memory, clock = shared()
    other = Clock(1, 2)
    with pytest.raises(InterpreterError, match="race: read"):
        memory.load(other, THREADS[:1] + 32, place(0), 1)
    other.acquire(clock.release())
    assert memory.load(other, THREADS[:1] + 32, place(0), 1) == 7


def test_two_threads_do_not_write_one_byte_at_once() -> None:
    memory, clock = SharedMemory(lay_out(MEMORY)), Clock(0, 1)
    with pytest.raises(InterpreterError, match="two threads write one byte at once"):
        memory.store(clock, THREADS[:2], np.repeat(place(0), 2), np.zeros((2, 1), np.uint8))


def test_what_nobody_wrote_is_not_read() -> None:
    memory, clock = shared()
    with pytest.raises(InterpreterError, match="nobody has written, byte 5 of 'first'"):
        memory.load(clock, THREADS[:1], place(5), 1)


def test_access_outside_is_refused() -> None:
    memory, clock = shared()
    with pytest.raises(InterpreterError, match="outside of the CTA's shared memory"):
        memory.load(clock, THREADS[:1], place(1 << 20), 1)


def test_bulk_copies_see_what_was_shown_to_them() -> None:
    memory, _ = shared()
    places = np.arange(4)
    with pytest.raises(InterpreterError, match="starts from bytes that it does not see"):
        memory.start_copy(places)
    memory.show_to_async_proxy([places])
    memory.start_copy(places)


def test_what_a_bulk_copy_reads_is_not_written() -> None:
    memory, clock = shared()
    memory.show_to_async_proxy([np.arange(4)])
    memory.start_copy(np.arange(4))
    with pytest.raises(InterpreterError, match="race: written while a bulk copy reads it"):
        memory.store(clock, THREADS[:1], place(0), np.zeros((1, 1), np.uint8))
    assert memory.end_copy(np.arange(4)).tolist() == [7] * 4
    memory.store(clock, THREADS[:1], place(0), np.zeros((1, 1), np.uint8))


def turns(log: list[str], name: str, steps: int) -> Iterator[Wait]:
    """A program that writes its name so many times."""
    for _ in range(steps):
        log.append(name)
        yield Wait()


def test_the_seed_decides_the_order_and_all_orders_come_up() -> None:
    def order(seed: str) -> str:
        log: list[str] = []
        schedule = Schedule(seed)
        for name in "ab":
            schedule.start(turns(log, name, 2), str)
        schedule.run()
        return "".join(log)

    assert order("1") == order("1")
    found = {order(str(seed)) for seed in range(100)}
    assert found == {"aabb", "abab", "abba", "baab", "baba", "bbaa"}


def test_programs_that_all_wait_are_named() -> None:
    schedule = Schedule("0")
    schedule.start(iter([Wait(lambda: False, "the end of time")]), lambda: "thread 3")
    with pytest.raises(InterpreterError, match="all warp roles wait: thread 3: the end of time"):
        schedule.run()


def test_copies_land_before_their_waiters_go_on() -> None:
    log: list[str] = []

    def waiting() -> Iterator[Wait]:
        schedule.land_later(lambda: log.append("landed"))
        yield Wait(lambda: bool(log))
        log.append("went on")

    schedule = Schedule("0")
    schedule.start(waiting(), lambda: "")
    schedule.run()
    assert log == ["landed", "went on"]


def test_a_copy_that_nobody_waits_for_is_an_error() -> None:
    def program() -> Iterator[Wait]:
        schedule.land_later(lambda: None)
        return
        yield

    schedule = Schedule("0")
    schedule.start(program(), lambda: "")
    with pytest.raises(InterpreterError, match="lands after the threads have returned"):
        schedule.run()


@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_swizzles_move_chunks_within_lines(span: int) -> None:
    address = np.arange(2048)
    moved = swizzled(address, span)
    assert sorted(moved.tolist()) == address.tolist()
    assert (moved % 16 == address % 16).all()
    line = max(span, 16)
    assert (moved // line == address // line).all()
    assert (moved == address).all() == (span == 0)


def test_boxes_know_which_elements_are_inside() -> None:
    box = TensorMap(1000, (5, 2), (16,), (4, 2), "f16", 0)
    addresses, inside = box.elements((3, 0))
    assert inside.tolist() == [True, True, False, False] * 2
    assert addresses[inside].tolist() == [1006, 1008, 1022, 1024]


@pytest.mark.parametrize("element", [i8, i16, i32, i64, f16, f32])
@pytest.mark.parametrize("lanes", [None, 1, 3])
def test_bytes_of_values_come_back(element: Attribute, lanes: int | None) -> None:
    type_ = element if lanes is None else vector_type(element, lanes)
    bits = 2**63 - 1 if element == i64 else 0xFF
    value = np.arange(4 * (lanes or 1), dtype=np.uint64) * np.uint64(37) & np.uint64(bits)
    value = value if lanes is None else value.reshape(4, lanes)
    np.testing.assert_array_equal(from_bytes(to_bytes(value, type_), type_), value)


@given(st.integers(-(2**31), 2**31 - 1))
def test_signed_numbers_come_back(number: int) -> None:
    assert signed(unsigned(np.array([number]), i32), 32).tolist() == [number]
