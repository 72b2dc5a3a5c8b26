"""Small kernels of the last stage: what they compute, and what the machine does not let pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import (
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
    bf16,
    f32,
    i8,
    i32,
    i64,
)
from xdsl.ir import Operation, SSAValue

from tests.kernels.thread_programs import kernel_module
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.tma_builder import TensorMapTable
from tileiras.dialects.llvm import LLVM
from tileiras.dialects.llvm.control import BrOp, CondBrOp, FuncOp, ReturnOp
from tileiras.dialects.llvm.memory import DebugValueOp, GlobalOp
from tileiras.dialects.llvm.types import pointer_type
from tileiras.dialects.nvvm import NVVM
from tileiras.interpreter import DeviceBuffer, InterpreterError, SimulatedMemory, run_entry
from tileiras.interpreter.errors import UnknownOperationError
from tileiras.interpreter.threads import run_kernel
from tileiras.interpreter.threads.calls import CALLEES
from tileiras.interpreter.threads.rules import RULES

Body = Callable[[ThreadBuilder, Sequence[SSAValue]], None]


def with_shared(body: Callable[..., None], size: int = 1024, **launch: Any) -> ModuleOp:
    """A kernel `k(pointer, i32)` with a variable of shared memory, which `body` gets, too."""
    shared = GlobalOp.make("buffer", size, 3, 16)

    def build(b: ThreadBuilder, args: Sequence[SSAValue]) -> None:
        body(b, args, b.address_of(shared))

    module = kernel_module(build, pointers=1, **{"threads": 64, **launch})
    block = module.body.block
    assert block.first_op is not None
    block.insert_op_before(shared, block.first_op)
    return module


def run(module: ModuleOp, array: np.ndarray, number: int = 0, **options: Any) -> np.ndarray:
    """Runs one CTA; returns the array."""
    run_kernel(module, None, [array, number], (1, 1, 1), **options)
    return array


def place_of(b: ThreadBuilder, pointer: SSAValue, index: SSAValue) -> SSAValue:
    """The address of an element of 4 bytes."""
    return b.gep(pointer, b.mul(index, b.i32(4)))


def reverses(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
    """Element i to 63 - i by way of shared memory."""
    thread = b.thread_id()
    mine = b.load(place_of(b, args[0], thread), i32, 4)
    b.store(mine, place_of(b, shared, thread), 4)
    b.barrier()
    other = b.load(place_of(b, shared, b.sub(b.i32(63), thread)), i32, 4)
    b.store(other, place_of(b, args[0], thread), 4)


def test_threads_exchange_through_shared_memory() -> None:
    array = np.arange(64, dtype=np.int32)
    assert run(with_shared(reverses), array).tolist() == list(range(63, -1, -1))


def test_what_a_debugger_is_told_changes_nothing() -> None:
    def body(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
        told = {"variable": StringAttr("n"), "element": StringAttr("i32"), "parameter": IntAttr(2)}
        b.append(DebugValueOp, [args[1]], (), told)
        reverses(b, args, shared)

    array = np.arange(64, dtype=np.int32)
    assert run(with_shared(body), array).tolist() == list(range(63, -1, -1))


def test_a_missing_barrier_is_a_race_that_names_its_place() -> None:
    module = with_shared(reverses)
    (barrier,) = [op for op in module.walk() if op.name == "nvvm.barrier"]
    barrier.detach()
    load = [op for op in module.walk() if op.name == "llvm.load"][-1]
    load.location = FileLineColLoc(StringAttr("k.py"), IntAttr(7), IntAttr(3))
    with pytest.raises(InterpreterError) as caught:
        run(module, np.arange(64, dtype=np.int32))
    assert caught.value.render() == (
        'loc("k.py":7:3): error: llvm.load: race: read of what another thread wrote since the last '
        "barrier, byte 252 of 'buffer'"
    )


def test_run_entry_takes_the_last_stage_as_any_other() -> None:
    memory = SimulatedMemory()
    buffer = memory.upload(np.arange(64, dtype=np.int32))
    log = run_entry(with_shared(reverses), "k", [buffer, 0], (1, 1, 1), memory)
    assert (log.printed, log.failures) == ([], [])
    data = memory.read_bytes(buffer.address, 256).view(np.int32)
    assert data.tolist() == list(range(63, -1, -1))


def test_arrays_with_strides_and_plain_addresses_are_arguments() -> None:
    memory = SimulatedMemory()
    buffer = memory.upload(np.arange(64, dtype=np.int32))
    run_entry(with_shared(reverses), None, [buffer.address, 0], (1, 1, 1), memory)
    assert memory.read_bytes(buffer.address, 4).view(np.int32) == 63


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("other", [0, 0], "no entry 'other', found: k"),
        (None, [0], "entry 'k' takes 2 arguments, got 1"),
        (None, [0, np.zeros(4)], "argument 1 is memory, expected a 'i32'"),
        (None, [0, DeviceBuffer(0, 4)], "argument 1 is memory"),
        (None, [0, 1.5], "argument 1 is 1.5, expected the bits of a 'i32'"),
        (None, [0, np.float64(1)], "argument 1 has 8 bytes, expected 'i32'"),
    ],
)
def test_wrong_arguments_are_refused(name: str | None, args: list[Any], message: str) -> None:
    with pytest.raises(InterpreterError, match=message):
        run_entry(with_shared(reverses), name, args, (1, 1, 1))


@pytest.mark.parametrize(
    ("type_", "given", "bits"),
    [
        (f32, 1.5, 0x3FC00000),
        (bf16, 1, 0x3F80),
        (i32, -1, 0xFFFFFFFF),
        (i8, ml_dtypes.float8_e4m3fn(1), 0x38),
    ],
)
def test_scalars_are_converted_to_the_parameter(type_: Any, given: Any, bits: int) -> None:
    func = FuncOp.make_kernel("k", [pointer_type(1), type_], threads=32)
    b = ThreadBuilder(func.entry)
    b.store(func.entry.args[1], func.entry.args[0], 1)
    b.ret()
    out = np.zeros(1, np.uint32)
    run_entry(ModuleOp([func]), None, [out, given], (1, 1, 1))
    assert out[0] == bits


def test_accesses_out_of_bounds_name_the_allocation() -> None:
    with pytest.raises(InterpreterError, match="llvm.load: access of .* out of bounds"):
        run(with_shared(reverses), np.arange(32, dtype=np.int32))


def test_misaligned_accesses_are_refused() -> None:
    def body(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
        b.store(b.i32(0), b.gep(args[0], 2), 4)

    with pytest.raises(InterpreterError, match="llvm.store: misaligned write of 4 bytes at 0x"):
        run(with_shared(body), np.zeros(4, np.int32))


def test_threads_may_write_one_value_to_one_place_but_not_two() -> None:
    def body(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
        b.store(args[1], shared, 4)
        b.barrier()
        b.store(b.thread_id(), shared, 4)

    with pytest.raises(InterpreterError, match="two threads write different bytes to one place"):
        run(with_shared(body), np.zeros(4, np.int32))


def branching(condition: Callable[[ThreadBuilder, SSAValue], SSAValue]) -> ModuleOp:
    """Threads for which a condition on their number holds write 1, the others 2."""

    def body(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
        thread = b.thread_id()
        left, right, join = b.new_block(), b.new_block(), b.new_block([i32])
        b.cond_br(condition(b, thread), left, right)
        for block, number in ((left, 1), (right, 2)):
            b.at(block)
            b.br(join, [b.i32(number)])
        b.at(join)
        b.store(join.args[0], place_of(b, args[0], thread), 4)

    return with_shared(body)


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (lambda b, thread: b.icmp("eq", thread, b.i32(0)), [1] + [2] * 63),
        (lambda b, thread: b.icmp("eq", thread, b.i32(40)), [2] * 40 + [1] + [2] * 23),
        (lambda b, thread: b.icmp("ult", thread, b.i32(32)), [1] * 32 + [2] * 32),
        (lambda b, thread: b.elect(), ([1] + [2] * 31) * 2),
        (lambda b, thread: b.icmp("ult", thread, b.i32(64)), [1] * 64),
    ],
)
def test_some_threads_go_another_way_and_come_back(condition: Any, wanted: list[int]) -> None:
    assert run(branching(condition), np.zeros(64, np.int32)).tolist() == wanted


def test_threads_that_disagree_at_random_are_refused() -> None:
    module = branching(lambda b, thread: b.icmp("ult", thread, b.i32(7)))
    with pytest.raises(InterpreterError, match="cond_br: threads go different ways at a branch"):
        run(module, np.zeros(64, np.int32))


def counting(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
    """A loop of as many rounds as the argument says."""
    header, after = b.new_block([i32]), b.new_block()
    b.br(header, [b.i32(0)])
    b.at(header)
    following = b.add(header.args[0], b.i32(1))
    b.cond_br(b.icmp("ult", following, args[1]), header, after, [following])
    b.at(after)
    b.store(following, args[0], 4)


def test_loops_end_or_are_given_up() -> None:
    module = with_shared(counting)
    assert run(module, np.zeros(1, np.int32), 10, loop_limit=9) == 10
    with pytest.raises(InterpreterError, match="the loop did not end within 8 rounds"):
        run(module, np.zeros(1, np.int32), 10, loop_limit=8)


def roles_that(wait: Callable[[ThreadBuilder, SSAValue], None]) -> Any:
    """The last warp stores a number, which the first one reads behind its `wait`."""

    def write(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
        barrier, thread = b.gep(shared, 512), b.thread_id()
        first, both = b.new_block(), b.new_block()
        b.cond_br(b.icmp("eq", thread, b.i32(0)), first, both)
        b.at(first)
        b.mbarrier_init(barrier, 32)
        b.br(both)
        b.at(both)
        b.barrier()
        producer, consumer = b.new_block(), b.new_block()
        b.cond_br(b.icmp("uge", thread, b.i32(32)), producer, consumer)
        b.at(producer)
        b.store(thread, place_of(b, shared, thread), 4)
        b.mbarrier_arrive(barrier)
        b.ret()
        b.at(consumer)
        wait(b, barrier)
        number = b.load(place_of(b, shared, b.add(thread, b.i32(32))), i32, 4)
        b.store(number, place_of(b, args[0], thread), 4)

    return write


def ask_again(b: ThreadBuilder, barrier: SSAValue) -> None:
    """Asks until the answer is yes."""
    again, after = b.new_block(), b.new_block()
    b.br(again)
    b.at(again)
    b.cond_br(b.mbarrier_try_wait(barrier, b.i32(0)), after, again)
    b.at(after)


roles = roles_that(lambda b, barrier: b.mbarrier_wait(barrier, b.i32(0)))
asking_roles = roles_that(ask_again)


@pytest.mark.parametrize("seed", range(4))
def test_roles_tell_each_other_by_mbarriers(seed: int) -> None:
    found = run(with_shared(roles), np.zeros(32, np.int32), seed=seed)
    assert found.tolist() == list(range(32, 64))


@pytest.mark.parametrize("seed", range(4))
def test_roles_may_ask_instead_of_waiting(seed: int) -> None:
    found = run(with_shared(asking_roles), np.zeros(32, np.int32), seed=seed)
    assert found.tolist() == list(range(32, 64))


def without(module: ModuleOp, name: str) -> ModuleOp:
    """A module without the last operation of a name."""
    [op for op in module.walk() if op.name == name][-1].detach()
    return module


def test_roles_that_are_not_told_wait_forever() -> None:
    module = without(with_shared(roles), "nvvm.mbarrier_arrive")
    with pytest.raises(InterpreterError, match="threads 0 to 31 at nvvm.mbarrier_wait: .* 32 arri"):
        run(module, np.zeros(32, np.int32))


def test_roles_that_do_not_wait_race_or_read_nothing() -> None:
    module = without(with_shared(roles), "nvvm.mbarrier_wait")
    found: dict[str, None] = {}
    for seed in range(8):
        with pytest.raises(InterpreterError) as caught:
            run(module, np.zeros(32, np.int32), seed=seed)
        found[caught.value.message.split(",")[0]] = None
    assert sorted(found) == [
        "llvm.load: race: read of what another thread wrote since the last barrier",
        "llvm.load: read of shared memory that nobody has written",
    ]


def sends(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
    """CTA 1 stores its threads' numbers into CTA 0, which passes them on."""
    barrier, thread = b.gep(shared, 512), b.thread_id()
    rank = b.sreg("cluster.ctarank")
    lead, ready = b.new_block(), b.new_block()
    b.cond_br(b.icmp("eq", thread, b.i32(0)), lead, ready)
    b.at(lead)
    b.mbarrier_init(barrier, 1)
    b.mbarrier_expect_tx(barrier, 256)
    b.br(ready)
    b.at(ready)
    b.cluster_arrive()
    b.cluster_wait()
    sender, receiver, over = b.new_block(), b.new_block(), b.new_block()
    b.cond_br(b.icmp("eq", rank, b.i32(1)), sender, receiver)
    b.at(sender)
    b.store_async(place_of(b, shared, thread), b.i32(0), [thread], barrier)
    b.br(over)
    b.at(receiver)
    b.mbarrier_wait(barrier, b.i32(0))
    number = b.load(place_of(b, shared, b.sub(b.i32(63), thread)), i32, 4)
    b.store(number, place_of(b, args[0], thread), 4)
    b.br(over)
    b.at(over)


def test_ctas_of_a_cluster_send_to_each_other() -> None:
    module = with_shared(sends, cluster_dim=(2, 1, 1), blocks_are_clusters=True)
    assert run(module, np.zeros(64, np.int32)).tolist() == list(range(63, -1, -1))


def asks_for_a_cluster(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
    """The first thread asks; all threads wait, and add what they read to 7."""
    barrier, thread = b.gep(shared, b.i32(512)), b.thread_id()
    first = b.icmp("eq", thread, b.i32(0))
    start, after = b.new_block(), b.new_block()
    b.cond_br(first, start, after)
    b.at(start)
    b.mbarrier_init(barrier, 1)
    b.br(after)
    b.at(after)
    b.barrier()
    b.mbarrier_expect_tx(barrier, 16, first)
    b.try_cancel(shared, barrier, first, of_cluster=False)
    b.mbarrier_wait(barrier, b.i32(0))
    answer = b.query_cancel(shared)
    total = b.i32(7)
    for word in range(4):
        total = b.add(total, b.extract(answer, word))
    b.store(total, place_of(b, args[0], thread), 4)


def test_no_cluster_is_left_to_take_over() -> None:
    module = with_shared(asks_for_a_cluster)
    assert run(module, np.zeros(64, np.int32)).tolist() == [7] * 64


def test_what_is_no_answer_is_noticed() -> None:
    def body(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
        b.store(b.thread_id(), place_of(b, shared, b.thread_id()), 4)
        b.barrier()
        found = b.extract(b.query_cancel(shared), 0)
        b.store(found, place_of(b, args[0], b.thread_id()), 4)

    with pytest.raises(InterpreterError, match="is no answer"):
        run(with_shared(body), np.zeros(64, np.int32))


def test_a_grid_must_be_made_of_clusters() -> None:
    module = with_shared(sends, cluster_dim=(2, 1, 1))
    with pytest.raises(InterpreterError, match=r"grid of \(1, 1, 1\) CTAs is not made of clusters"):
        run(module, np.zeros(64, np.int32))


def test_memory_that_is_not_freed_is_noticed() -> None:
    def body(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
        lead, over = b.new_block(), b.new_block()
        b.cond_br(b.icmp("eq", b.thread_id(), b.i32(0)), lead, over)
        b.at(lead)
        b.call("malloc", pointer_type(0), [b.i64(16)])
        b.br(over)
        b.at(over)

    with pytest.raises(InterpreterError, match="1 allocations of the heap are not freed"):
        run(with_shared(body), np.zeros(4, np.int32))


def test_the_runtime_is_called_by_one_thread() -> None:
    def body(b: ThreadBuilder, args: Sequence[SSAValue], shared: SSAValue) -> None:
        b.call("malloc", pointer_type(0), [b.i64(16)])

    with pytest.raises(InterpreterError, match="malloc is called by 64 threads"):
        run(with_shared(body), np.zeros(4, np.int32))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda b: b.inline_asm("brkpt;", "", None, [], side_effects=True), "PTX 'brkpt;'"),
        (lambda b: b.libdevice("__nv_j0f", b.const_float(f32, 1.0)), "no function __nv_j0f"),
        (lambda b: b.unary_intrinsic("llvm.ctpop", b.thread_id()), "has no intrinsic ctpop"),
    ],
)
def test_what_is_unknown_is_named(body: Callable[[ThreadBuilder], Any], message: str) -> None:
    module = with_shared(lambda b, args, shared: body(b))
    with pytest.raises(UnknownOperationError, match=message):
        run(module, np.zeros(4, np.int32))


STRUCTURE: tuple[type[Operation], ...] = (FuncOp, GlobalOp, BrOp, CondBrOp, ReturnOp)
"""What stands in modules or ends blocks."""


TENSOR_MEMORY = [op for op in NVVM.operations if op.name.startswith("nvvm.tcgen05.")]
"""What only the PTX machine runs: its rules for tensor memory are those of the instructions."""


def test_every_operation_of_the_last_stage_has_a_rule() -> None:
    operations = [*LLVM.operations, *NVVM.operations]
    missing = {op.name for op in operations if op not in RULES and op not in STRUCTURE}
    assert missing == {op.name for op in TENSOR_MEMORY}
    assert not any(op in RULES for op in STRUCTURE)


def test_the_device_runtime_is_complete() -> None:
    from tileiras.codegen.llvmir.intrinsics import RUNTIME_FUNCTIONS

    assert [name for name in RUNTIME_FUNCTIONS if name not in CALLEES] == []


def asking(b: ThreadBuilder, table: TensorMapTable, scratch: SSAValue, args: Any) -> None:
    """CTA i looks for maps made from number i in lane 0, says whether it found any, keeps such."""
    found, numbers = args
    at = b.shl(b.zext(b.sreg("ctaid.x"), i64), b.i64(2))
    number, lane = b.load(b.gep(numbers, at), i32, 4), b.lane_id()
    b.fill_tensor_maps(scratch, 1, b.i64(1 << 32), [b.i32(8)], [], [b.i32(8)], "f32", 0)
    words = [b.select(b.icmp("eq", lane, b.i32(0)), number, b.i32(5)), b.i32(9)]
    own = b.select(b.icmp("ult", lane, b.i32(1)), lane, b.i32(0))
    kept = b.kept_maps(table, b.i32(1), own)
    b.store(b.zext(b.find_tensor_maps(kept, [number, b.i32(9)]), i32), b.gep(found, at), 4)
    b.keep_tensor_maps(kept, scratch, words, 1)


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [([3, 3, 3], [0, 1, 1]), ([3, 4, 3], [0, 0, 1]), ([3, 4, 4, 3], [0, 0, 0, 1])],
)
def test_maps_that_are_kept_are_found_by_who_asks_for_the_same(
    numbers: list[int], wanted: list[int]
) -> None:
    table = TensorMapTable.make("maps", 1, 4, keeps=True)
    scratch = GlobalOp.make("scratch", 128, 3, 128)
    func = FuncOp.make_kernel("k", [pointer_type(1), pointer_type(1)], threads=32)
    b = ThreadBuilder(func.entry)
    asking(b, table, b.address_of(scratch), func.entry.args)
    b.ret()
    found = np.full(len(numbers), 7, np.int32)
    module = ModuleOp([*table.globals, scratch, func])
    run_kernel(module, None, [found, np.array(numbers, np.int32)], (len(numbers), 1, 1))
    assert found.tolist() == wanted
