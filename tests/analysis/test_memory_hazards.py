"""Where barriers go: between conflicting accesses that tokens order, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FunctionType,
    NoneAttr,
    StringAttr,
    TensorType,
    f32,
    i1,
    i32,
)
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis.memory_hazards import find_hazards, same_elements
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWMode,
    AtomicRMWModeAttr,
    IntTupleAttr,
    MemoryOrdering,
    MemoryOrderingAttr,
    MemoryScope,
    MemoryScopeAttr,
    PaddingValue,
    PaddingValueAttr,
)
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, MemRefType, PointerType, TiledViewType

POINTERS = TensorType(PointerType(f32), [64])
VALUES = TensorType(f32, [64])
SCALAR_POINTER = PointerType(f32)
VIEW = TiledViewType(
    MemRefType(f32, (1024,), (1,)),
    IntTupleAttr((64,)),
    IntTupleAttr((0,)),
    IntTupleAttr((64,)),
    NoneAttr(),
    IntTupleAttr(()),
)
WEAK, ACQUIRE, RELEASE = MemoryOrdering.WEAK, MemoryOrdering.ACQUIRE, MemoryOrdering.RELEASE
ACQ_REL, RELAXED = MemoryOrdering.ACQ_REL, MemoryOrdering.RELAXED


class Kernel:
    """A function with pointers %p, %q, a tile %v, a view, an index, a condition and bounds."""

    def __init__(self) -> None:
        types = [POINTERS, POINTERS, VALUES, VIEW, i32, i1, i32]
        self.block = Block(arg_types=types)
        self.p, self.q, self.v, self.view, self.index, self.cond, self.n = self.block.args
        self.func = aa.FuncOp.create(
            properties={
                "sym_name": StringAttr("kernel"),
                "function_type": FunctionType.from_lists(types, []),
            },
            regions=[Region(self.block)],
        )
        self.blocks = [self.block]

    def add(self, op: Any) -> Any:
        """Adds an operation to the innermost open block."""
        self.blocks[-1].add_op(op)
        return op

    def load(
        self, token: SSAValue | None = None, pointers: Any = None, ordering: Any = WEAK
    ) -> aa.LoadOp:
        """A load through %p or other pointers."""
        return self.add(
            aa.LoadOp.build(
                operands=[pointers or self.p, None, None, token],
                properties={"ordering": MemoryOrderingAttr(ordering)},
                result_types=[VALUES, MEM_TOKEN],
            )
        )

    def store(
        self, token: SSAValue | None = None, pointers: Any = None, ordering: Any = WEAK
    ) -> aa.StoreOp:
        """A store of %v through %p or other pointers."""
        return self.add(
            aa.StoreOp.build(
                operands=[pointers or self.p, self.v, None, token],
                properties={"ordering": MemoryOrderingAttr(ordering)},
                result_types=[MEM_TOKEN],
            )
        )

    def tiled_load(self, token: SSAValue | None, index: SSAValue) -> aa.TiledLoadOp:
        """A load through the view."""
        return self.add(
            aa.TiledLoadOp.build(
                operands=[self.view, [index], token],
                properties={
                    "ordering": MemoryOrderingAttr(WEAK),
                    "inbounds": DenseArrayBase.from_list(i1, [0]),
                },
                result_types=[VALUES, MEM_TOKEN],
            )
        )

    def tiled_store(self, token: SSAValue | None, index: SSAValue) -> aa.TiledStoreOp:
        """A store of %v through the view."""
        return self.add(
            aa.TiledStoreOp.build(
                operands=[self.v, self.view, [index], token],
                properties={
                    "ordering": MemoryOrderingAttr(WEAK),
                    "inbounds": DenseArrayBase.from_list(i1, [0]),
                },
                result_types=[MEM_TOKEN],
            )
        )

    def atomic(self, token: SSAValue | None, ordering: Any) -> aa.AtomicRMWOp:
        """An atomic addition through %p."""
        return self.add(
            aa.AtomicRMWOp.build(
                operands=[self.p, self.v, None, token],
                properties={
                    "ordering": MemoryOrderingAttr(ordering),
                    "scope": MemoryScopeAttr(MemoryScope.DEVICE),
                    "mode": AtomicRMWModeAttr(AtomicRMWMode.ADDF),
                },
                result_types=[VALUES, MEM_TOKEN],
            )
        )

    def token(self) -> SSAValue:
        """A fresh token."""
        return self.add(aa.CreateMemTokenOp.build(result_types=[MEM_TOKEN])).result

    def join(self, *tokens: SSAValue) -> SSAValue:
        """A joined token."""
        op = aa.JoinMemTokensOp.build(operands=[list(tokens)], result_types=[MEM_TOKEN])
        return self.add(op).result

    def open_for(self, *inits: SSAValue) -> Sequence[SSAValue]:
        """Starts a counted loop; returns its carried values."""
        block = Block(arg_types=[i32, *(init.type for init in inits)])
        op = aa.ForOp.build(
            operands=[self.n, self.n, self.n, list(inits)],
            result_types=[[init.type for init in inits]],
            regions=[Region(block)],
        )
        self.add(op)
        self.blocks.append(block)
        return block.args[1:]

    def open_loop(self, *inits: SSAValue) -> Sequence[SSAValue]:
        """Starts an endless loop; returns its carried values."""
        block = Block(arg_types=[init.type for init in inits])
        op = aa.LoopOp.build(
            operands=[list(inits)],
            result_types=[[init.type for init in inits]],
            regions=[Region(block)],
        )
        self.add(op)
        self.blocks.append(block)
        return block.args

    def close_loop(self, *values: SSAValue) -> Sequence[SSAValue]:
        """Ends the loop body; returns the results of the loop."""
        self.add(aa.ContinueOp.build(operands=[list(values)]))
        loop = self.blocks.pop().parent_op()
        assert loop is not None
        return loop.results

    def branch(self, fill_then: Any, fill_else: Any, results: int = 1) -> Sequence[SSAValue]:
        """An if; each filler adds operations and returns the operands of the terminator."""
        regions = []
        for fill in (fill_then, fill_else):
            block = Block()
            self.blocks.append(block)
            ended = fill()
            if not isinstance(ended, Operation):
                self.add(aa.YieldOp.build(operands=[ended]))
            self.blocks.pop()
            regions.append(Region(block))
        op = aa.IfOp.build(
            operands=[self.cond], result_types=[[MEM_TOKEN] * results], regions=regions
        )
        return self.add(op).results

    def barriers(self, same_threads: Any = None) -> tuple[Operation, ...]:
        """Where barriers are needed."""
        if self.block.last_op is None or not isinstance(self.block.last_op, aa.ReturnOp):
            self.block.add_op(aa.ReturnOp.create())
        return find_hazards(self.func, same_threads).before


def always(first: Operation, second: Operation) -> bool:
    """Every element belongs to one thread, in all accesses."""
    return True


def test_load_after_store_waits() -> None:
    k = Kernel()
    load = k.load(k.store().result_token)
    assert k.barriers() == (load,)


def test_store_after_load_waits() -> None:
    k = Kernel()
    store = k.store(k.load().result_token)
    assert k.barriers() == (store,)


def test_store_after_store_waits_even_through_other_pointers() -> None:
    k = Kernel()
    store = k.store(k.store().result_token, k.q)
    assert k.barriers() == (store,)


def test_load_after_load_does_not_wait() -> None:
    k = Kernel()
    k.load(k.load().result_token)
    assert k.barriers() == ()


def test_accesses_without_token_order_do_not_wait() -> None:
    k = Kernel()
    k.store(k.token())
    k.load(k.token())
    k.load()
    assert k.barriers() == ()


def test_order_goes_through_joins_fences_and_prints() -> None:
    k = Kernel()
    joined = k.join(k.load().result_token, k.store(pointers=k.q).result_token)
    fenced = k.add(aa.FenceAliasOp.build(operands=[joined], result_types=[MEM_TOKEN])).result
    printed = k.add(
        aa.PrintOp.build(
            operands=[[], fenced],
            properties={"format": StringAttr("here")},
            result_types=[MEM_TOKEN],
        )
    ).result
    store = k.store(printed)
    assert k.barriers() == (store,)


def test_one_barrier_covers_everything_before_it() -> None:
    k = Kernel()
    first, other = k.store(), k.store(pointers=k.q)
    load = k.load(first.result_token)
    k.load(other.result_token, k.q)
    assert k.barriers() == (load,)


def test_second_conflict_after_a_barrier_needs_another() -> None:
    k = Kernel()
    load = k.load(k.store().result_token)
    store = k.store(load.result_token)
    assert k.barriers() == (load, store)


def test_atomics_in_token_order_wait() -> None:
    k = Kernel()
    second = k.atomic(k.atomic(None, RELAXED).result_token, RELAXED)
    assert k.barriers() == (second,)


def test_scalar_accesses_count() -> None:
    k = Kernel()
    pointer = k.add(aa.UnsplatOp.build(operands=[k.p], result_types=[SCALAR_POINTER])).result
    load = k.load(k.store(pointers=pointer).result_token, pointer)
    assert k.barriers() == (load,)


def test_store_carried_around_a_loop_waits_once_per_iteration() -> None:
    k = Kernel()
    (token,) = k.open_for(k.token())
    store = k.store(token)
    k.close_loop(store.result_token)
    assert k.barriers() == (store,)


def test_store_in_a_loop_without_carried_token_does_not_wait() -> None:
    k = Kernel()
    k.open_for()
    k.store(k.token())
    k.close_loop()
    assert k.barriers() == ()


def test_load_and_store_in_a_loop_wait_for_each_other() -> None:
    k = Kernel()
    (token,) = k.open_for(k.token())
    load = k.load(token)
    store = k.store(load.result_token)
    k.close_loop(store.result_token)
    assert k.barriers() == (load, store)


def test_conflict_with_earlier_store_only_waits_before_the_loop() -> None:
    k = Kernel()
    store = k.store()
    (token,) = k.open_for(store.result_token)
    k.open_for()
    k.load(token)
    k.close_loop()
    (loop_token,) = k.close_loop(token)
    (barrier,) = k.barriers()
    assert barrier is loop_token.owner


def test_barrier_in_the_loop_makes_the_one_before_it_superfluous() -> None:
    k = Kernel()
    (token,) = k.open_for(k.store().result_token)
    store = k.store(token)
    k.close_loop(store.result_token)
    assert k.barriers() == (store,)


def test_barrier_of_a_later_round_makes_one_of_an_earlier_superfluous() -> None:
    k = Kernel()
    (token,) = k.open_for(k.token())
    first = k.store()
    carried = k.load(token, k.q)
    k.load(first.result_token)
    last = k.store(k.token(), k.q)
    k.close_loop(last.result_token)
    assert k.barriers() == (carried,)


def test_result_of_a_loop_is_behind_its_accesses() -> None:
    k = Kernel()
    (token,) = k.open_for(k.token())
    load = k.load(token)
    (after,) = k.close_loop(load.result_token)
    store = k.store(after)
    assert k.barriers() == (store,)


def test_loop_left_by_break_passes_its_tokens() -> None:
    k = Kernel()
    (token,) = k.open_loop(k.token())
    load = k.load(token)

    def leave() -> Operation:
        return k.add(aa.BreakOp.build(operands=[[load.result_token]]))

    k.branch(leave, list, results=0)
    (after,) = k.close_loop(token)
    store = k.store(after)
    assert k.barriers() == (store,)


def test_branches_join() -> None:
    k = Kernel()
    fresh = k.token()
    (token,) = k.branch(lambda: [k.store().result_token], lambda: [fresh])
    load = k.load(token)
    assert k.barriers() == (load,)


def test_barrier_in_both_branches_covers_what_follows() -> None:
    k = Kernel()
    store = k.store()
    loads: list[aa.LoadOp] = []

    def read() -> list[SSAValue]:
        loads.append(k.load(store.result_token))
        return [loads[-1].result_token]

    (token,) = k.branch(read, read)
    k.load(k.join(store.result_token, token))
    assert k.barriers() == tuple(loads)


def test_barrier_in_one_branch_does_not_cover_what_follows() -> None:
    k = Kernel()
    store = k.store()
    inner: list[aa.LoadOp] = []

    def read() -> list[SSAValue]:
        inner.append(k.load(store.result_token))
        return [inner[0].result_token]

    k.branch(read, lambda: [store.result_token])
    load = k.load(store.result_token)
    assert k.barriers() == (inner[0], load)


def test_branch_that_returns_does_not_join() -> None:
    k = Kernel()
    store = k.store()

    def leave() -> Operation:
        k.store(pointers=k.q)
        return k.add(aa.ReturnOp.create())

    k.branch(leave, list, results=0)
    load = k.load(store.result_token)
    assert k.barriers() == (load,)


def test_release_waits_for_loads_and_acquire_is_waited_for() -> None:
    k = Kernel()
    release = k.store(k.load().result_token, k.q, RELEASE)
    acquire = k.load(k.token(), k.q, ACQUIRE)
    after = k.load(acquire.result_token)
    assert k.barriers(always) == (release, after)


def test_acq_rel_atomic_is_both() -> None:
    k = Kernel()
    atomic = k.atomic(k.load(pointers=k.q).result_token, ACQ_REL)
    after = k.load(atomic.result_token, k.q)
    assert k.barriers(always) == (atomic, after)


def test_acquire_that_nothing_follows_needs_no_barrier() -> None:
    k = Kernel()
    k.load(None, k.p, ACQUIRE)
    k.load(None, k.q)
    assert k.barriers() == ()


def test_same_elements_in_the_same_threads_do_not_wait() -> None:
    k = Kernel()
    load = k.tiled_load(None, k.index)
    k.tiled_store(load.result_token, k.index)
    assert k.barriers(always) == ()
    assert k.barriers(lambda first, second: False) != ()


def test_other_index_waits_even_in_the_same_threads() -> None:
    k = Kernel()
    store = k.tiled_store(k.tiled_load(None, k.index).result_token, k.n)
    assert k.barriers(always) == (store,)


def test_same_index_of_another_iteration_waits() -> None:
    k = Kernel()
    token, index = k.open_for(k.token(), k.index)
    load = k.tiled_load(token, index)
    store = k.tiled_store(load.result_token, index)
    k.close_loop(store.result_token, k.n)
    assert k.barriers(always) == (load,)


def test_same_elements_in_all_iterations_do_not_wait() -> None:
    k = Kernel()
    (token,) = k.open_for(k.token())
    store = k.tiled_store(k.tiled_load(token, k.index).result_token, k.index)
    k.close_loop(store.result_token)
    assert k.barriers(always) == ()


def test_same_elements_compares_views_indices_and_pointers() -> None:
    k = Kernel()
    load, store = k.tiled_load(None, k.index), k.tiled_store(None, k.index)
    assert same_elements(load, store)
    assert not same_elements(load, k.tiled_store(None, k.n))
    assert same_elements(k.load(), k.store())
    assert not same_elements(k.load(), k.store(pointers=k.q))
    assert not same_elements(load, k.load())


def scalar_atomic(k: Kernel, token: SSAValue, ordering: Any) -> aa.AtomicRMWOp:
    """An atomic addition to one place."""
    pointer = k.block.insert_arg(SCALAR_POINTER, len(k.block.args))
    return k.add(
        aa.AtomicRMWOp.build(
            operands=[pointer, pointer, None, token],
            properties={
                "ordering": MemoryOrderingAttr(ordering),
                "scope": MemoryScopeAttr(MemoryScope.DEVICE),
                "mode": AtomicRMWModeAttr(AtomicRMWMode.ADD),
            },
            result_types=[i32, MEM_TOKEN],
        )
    )


def test_what_one_thread_does_for_all_is_in_order():
    k = Kernel()
    (token,) = k.open_loop(k.token())
    atomic = scalar_atomic(k, token, ACQUIRE)
    k.close_loop(atomic.result_token)
    k.add(aa.ReturnOp.create())
    assert k.barriers() == ()


def test_all_threads_wait_for_the_acquire_of_one_and_it_releases_for_all():
    k = Kernel()
    acquire = scalar_atomic(k, k.token(), ACQUIRE)
    between = scalar_atomic(k, acquire.result_token, RELAXED)
    load = k.tiled_load(between.result_token, k.index)
    release = scalar_atomic(k, load.result_token, RELEASE)
    k.add(aa.ReturnOp.create())
    assert k.barriers() == (load, release)


def test_loop_does_not_age_what_is_outside():
    """The loads of earlier iterations are behind a barrier; this one's is not ordered before."""
    k = Kernel()
    (token,) = k.open_for(k.token())
    load = k.tiled_load(None, k.index)
    (inner,) = k.open_for(token)
    atomic = scalar_atomic(k, inner, RELAXED)
    k.close_loop(atomic.result_token)
    release = scalar_atomic(k, k.join(load.result_token, token), RELEASE)
    k.close_loop(release.result_token)
    k.add(aa.ReturnOp.create())
    assert k.barriers() == (release,)


def test_views_that_differ_in_padding_have_the_same_elements():
    k = Kernel()
    memref = k.block.insert_arg(VIEW.memref, len(k.block.args))
    zero = PaddingValueAttr(PaddingValue.ZERO)
    dims = (VIEW.memref, VIEW.tile_dims, VIEW.dim_map_dims)
    padded = TiledViewType(*dims, VIEW.step_dims, zero, VIEW.sparse)
    halves = TiledViewType(*dims, IntTupleAttr((32,)), VIEW.padding, VIEW.sparse)
    accesses = []
    for type, access in ((VIEW, k.tiled_store), (padded, k.tiled_load), (halves, k.tiled_load)):
        view = k.add(aa.BlockTileOp.create(operands=[memref], result_types=[type]))
        op = access(None, k.n)
        op.operands[list(op.operands).index(k.view)] = view.result
        accesses.append(op)
    store, load, other = accesses
    assert same_elements(load, store)
    assert not same_elements(load, other)
