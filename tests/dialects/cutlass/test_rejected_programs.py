"""Bad programs with operations of `cutlass`: what is said, and where."""

from __future__ import annotations

import pytest

from tests.kernels.cute_operations import INT, A, row
from tests.kernels.cute_rejections import check_accepted, check_rejected, identity
from tests.kernels.cutlass_operations import (
    ANSWERS,
    CONSUMER,
    COUNTER,
    EXAMPLES,
    PIPELINE,
    PRODUCER,
    ROUNDS,
    SCHEDULER,
    SEQUENCE,
    STORAGE,
    STORES,
    WORKS,
)
from tileiras.dialects.cutlass.dialect import OPERATIONS
from tileiras.errors import BytecodeError
from tileiras.ir_text import parse_text

SHORT = STORAGE.replace("8:1", "7:1")
APART = STORAGE.replace("8:1", "8:2")
WORDS = STORAGE.replace("i64", "i32")
FILLS = "!cutlass.pipeline_state<2, producer>"
OTHER = "!cutlass.pipeline_state<3, producer>"


def _bad(name: str, operands: list[str], message: str, result: str = "") -> tuple[str, ...]:
    return (*row(f"cutlass.{name}", operands, result), message)


BAD: tuple[tuple[str, ...], ...] = (
    _bad("make_pipeline", [SHORT], "8 mbarriers lie side by side, found 7:1", PIPELINE),
    _bad("make_pipeline", [APART], "8 mbarriers lie side by side, found 8:2", PIPELINE),
    _bad("make_pipeline", [WORDS], "mbarriers are i64 in smem, found i32, smem", PIPELINE),
    _bad("make_pipeline", [], "8 mbarriers need storage", PIPELINE),
    _bad("make_pipeline", [STORAGE], "no mbarriers are needed, there is storage", STORES),
    _bad("make_pipeline", [STORAGE], "expected !cutlass.pipeline", PRODUCER),
    _bad("pipeline_init_wait", [INT(1)], "has 1 operands, expected 0"),
    _bad("make_pipeline_state", [INT(0)], "has 1 operands, expected 0", PRODUCER),
    _bad("advance", [PIPELINE], "expected !cutlass.pipeline_state"),
    *(
        _bad(name, [PIPELINE], "expected !cutlass.pipeline_state")
        for name in ("state_index", "state_phase", "state_count")
    ),
    *(
        bad
        for name in ("producer_acquire", "producer_commit", "producer_tail", "producer_get_barrier")
        for bad in (
            _bad(name, [PIPELINE, OTHER], "the pipeline has 4 stages, the state is one of 3"),
            _bad(name, [PIPELINE, CONSUMER], "expected the state of a producer, found that of a"),
            _bad(name, [PRODUCER, PIPELINE], "operand 0 is !cutlass.pipeline_state<4, producer>"),
        )
    ),
    *(
        bad
        for name in ("consumer_wait", "consumer_release", "consumer_get_barrier")
        for bad in (
            _bad(name, [PIPELINE, ROUNDS], "the pipeline has 4 stages, the state is one of 2"),
            _bad(name, [PIPELINE, PRODUCER], "expected the state of a consumer, found that of a"),
        )
    ),
    *(
        _bad(name, [STORES, ROUNDS], "TMA itself consumes what is stored, nobody waits")
        for name in ("consumer_wait", "consumer_release")
    ),
    _bad("producer_try_acquire", [PIPELINE, OTHER], "the state is one of 3", "!cute.bool<?>"),
    _bad("producer_try_acquire", [STORES, FILLS], "has no barriers", "!cute.bool<?>"),
    _bad("consumer_try_wait", [PIPELINE, PRODUCER], "the state of a consumer", "!cute.bool<?>"),
    _bad("producer_acquire", [PIPELINE, PRODUCER, INT(1)], "expected !cute.bool"),
    _bad("consumer_release", [PIPELINE, CONSUMER, INT(8)], "a cluster has CTAs 0 to 7, found 8"),
    _bad(
        "consumer_release",
        [PIPELINE.replace("tma_async", "tma_umma"), CONSUMER, INT(0)],
        "tensor cores release the stage of their own CTA",
    ),
    _bad("consumer_get_barrier", [STORES, ROUNDS], "of kind tma_store has no barriers"),
    _bad(
        "make_tile_scheduler", ["!cute.shape<(4,8)>"], "tiles are (M,N,L), found (4, 8)", SCHEDULER
    ),
    _bad("make_tile_scheduler", ["!cute.shape<((4,2),8,1)>"], "tiles are (M,N,L)", SCHEDULER),
    _bad("make_tile_scheduler", [A], "expected !cute.shape", SCHEDULER),
    *(
        _bad(name, [PIPELINE], "expected !cutlass.tile_scheduler")
        for name in ("initial_work", "work_step", "work_count")
    ),
    _bad(
        "fetch_next_work",
        [SCHEDULER, COUNTER.replace("i32", "f32")],
        "the counter is an i32 in gmem, found f32 in gmem",
        INT("?"),
    ),
    _bad(
        "consumer_release",
        [PIPELINE.replace("tma_async", "tma_umma_2sm"), CONSUMER, INT(0)],
        "tensor cores release the stage of their own CTA",
    ),
    _bad(
        "consumer_release",
        ["!cutlass.pipeline<umma_async_2sm, 4, 0, (1,8)>", CONSUMER, INT(0)],
        "stages of a pair are released in its first CTA",
    ),
    _bad("consumer_release", [WORKS, CONSUMER, INT(0)], "released in the first CTA of the cluster"),
    _bad("producer_acquire", [WORKS, PRODUCER], "are acquired by 'cutlass.request_next_work'"),
    _bad("request_next_work", [PIPELINE, PRODUCER, ANSWERS], "through a pipeline clc, found tma"),
    _bad("request_next_work", [WORKS, CONSUMER, ANSWERS], "expected the state of a producer"),
    _bad("request_next_work", [WORKS, PRODUCER, WORDS], "an answer is 4 words of i32 in smem"),
    _bad(
        "get_next_work",
        [SCHEDULER, WORKS, CONSUMER, ANSWERS.replace("(4,4)", "(4,2)")],
        "4 answers of 4 words lie side by side",
        INT("?"),
    ),
    _bad("get_next_work", [SCHEDULER, WORKS, PRODUCER, ANSWERS], "state of a consumer", INT("?")),
    _bad("is_valid_work", [SCHEDULER, SCHEDULER], "expected !cute.int", "!cute.bool<?>"),
    _bad("get_current_work", [SCHEDULER], "has 1 operands, expected 2"),
    _bad("make_sequence_barrier", [STORAGE], "6 mbarriers lie side by side, found 8:1", SEQUENCE),
    *(
        bad
        for name in ("sequence_wait", "sequence_arrive")
        for bad in (
            _bad(name, [SEQUENCE, INT(3), ROUNDS], "there is no group 3 among 3"),
            _bad(name, [SEQUENCE, INT(0), CONSUMER], "expected a consumer's state of 2 stages"),
            _bad(
                name,
                [SEQUENCE, INT(0), ROUNDS.replace("consumer", "producer")],
                "expected a consumer's state of 2 stages, found '2, producer'",
            ),
        )
    ),
)
"""(operation, operands' types, result's type, static parameters, message)."""

TYPES: tuple[tuple[str, str], ...] = (
    ("pipeline<tma, 4, 8192, (1,8)>", "a pipeline is async, cp_async, tma_async"),
    ("pipeline<tma_async, 65, 8192, (1,8)>", "a pipeline has 1 to 64 stages, found 65"),
    ("pipeline<tma_async, 4, 0, (1,8)>", "TMA brings 1 to 1048575 bytes to tma_async, found 0"),
    ("pipeline<clc, 4, 32, (1,8)>", "an answer has 16 bytes, found 32"),
    ("pipeline<async, 4, 128, (1,8)>", "TMA brings 0 bytes to async, found 128"),
    ("pipeline<async, 4, 0, (0,8)>", "1 to 1048575 arrive in a phase, found (0, 8)"),
    ("pipeline<async, 4, 0>", "expected 'kind, stages, bytes, (P,C)'"),
    ("pipeline<async, four, 0, (1,1)>", "expected a number of stages, found 'four'"),
    ("pipeline_state<4, reader>", "a state is of a producer or a consumer, found 'reader'"),
    ("pipeline_state<0, producer>", "a state has 1 to 64 stages, found 0"),
    ("pipeline_state<4>", "expected 'stages, role'"),
    ("tile_scheduler<0, m>", "groups have at least 1 tile, found 0"),
    ("tile_scheduler<2, k>", "a scheduler goes along m or n, found 'k'"),
    ("tile_scheduler<2>", "expected 'swizzle, m or n'"),
    ("sequence_barrier<1, 1, 32>", "2 to 64 groups, found 1 and 1"),
    ("sequence_barrier<1, 2, 0>", "1 to 1048575 arrive in a phase, found 0"),
    ("sequence_barrier<1, 2>", "expected 'depth, groups, arrivals'"),
)
"""Types, and what is wrong with them."""


def program(name: str, operands: str, result: str, statics: str) -> str:
    """A kernel with one operation, and values for its operands."""
    arguments, lines, uses = [], [], []
    for number, kind in enumerate(operands.split("|") if operands else []):
        use = f"%v{number}"
        uses.append(use)
        match kind.partition("<")[0]:
            case "!cute.tensor":
                lines.append(f"{use} = cute.alloc() -> {kind}")
            case "!cutlass.pipeline_state":
                lines.append(f"{use} = cutlass.make_pipeline_state() -> {kind}")
            case "!cutlass.pipeline":
                storage = "" if "tma_store" in kind else f"%t{number}"
                lines.append(f"%t{number} = cute.alloc() -> {STORAGE}")
                lines.append(f"{use} = cutlass.make_pipeline({storage}) -> {kind}")
            case "!cutlass.tile_scheduler":
                lines.append(f"%t{number} = cute.static() -> !cute.shape<(4,8,1)>")
                lines.append(f"{use} = cutlass.make_tile_scheduler(%t{number}) -> {kind}")
            case "!cutlass.sequence_barrier":
                lines.append(f"%t{number} = cute.alloc() -> {STORAGE.replace('8:1', '6:1')}")
                lines.append(f"{use} = cutlass.make_sequence_barrier(%t{number}) -> {kind}")
            case "!cute.ptr":
                arguments.append(f"{use}: {kind}")
            case "!cute.bool":
                lines.append(f"{use} = cute_nvgpu.elect_sync()")
            case "!cute.int" | "!cute.shape" if "?" in kind:
                lines.append(f"%t{number} = cute.thread_idx<0>()")
                leaves = ", ".join([f"%t{number}"] * kind.count("?"))
                made = f"cute.make_shape({leaves}) -> {kind}" if "shape" in kind else None
                lines.append(f"{use} = {made or f'cute.tuple_add(%t{number}, %t{number})'}")
            case _:
                lines.append(f"{use} = cute.static() -> {kind}")
    call = f"{name}({', '.join(uses)}){f' -> {result}' if result else ''}"
    lines.append(f"%r = {call}" if result else call)
    head = f"cute.func @k({', '.join(arguments)}) threads 256 {{"
    return "\n".join([head, *lines, "cute.return\n}"])


@pytest.mark.parametrize("bad", BAD, ids=identity)
def test_says_what_is_wrong_and_where(bad: tuple[str, ...]) -> None:
    """The message names the operation, and the place is its line."""
    check_rejected(program(*bad[:4]), bad[0], bad[4])


@pytest.mark.parametrize("good", EXAMPLES, ids=identity)
def test_accepts_the_example(good: tuple[str, ...]) -> None:
    """In the same kernel; its text says the same again."""
    check_accepted(program(*good), good[0])


def test_every_operation_is_rejected_somehow() -> None:
    """None is accepted whatever it gets."""
    assert {op.name for op in OPERATIONS} == {bad[0] for bad in BAD}


@pytest.mark.parametrize(("kind", "message"), TYPES)
def test_types_say_what_is_wrong_with_them(kind: str, message: str) -> None:
    """Where they are read."""
    text = f"cute.func @k(%a: !cutlass.{kind}) threads 1 {{\ncute.return\n}}"
    with pytest.raises(BytecodeError) as raised:
        parse_text(text)
    assert message in raised.value.message
    assert raised.value.location is not None
    assert raised.value.location.line == 1
