"""Thread builder methods of asynchronous hardware: mbarriers, clusters, wgmma.

    b.mbarrier_wait(full, parity)
    acc = b.wgmma("m64n256k16_f32_f16", a, b, acc, a_offsets=(0, 32), b_offsets=(0, 2048),
                  b_major="mn", fence=True, commit=True, wait=1)
    b.mbarrier_arrive(empty, predicate=is_first_thread)

Values that asynchronous instructions write go through the fences and waits as operands and results,
so that nothing moves across; see docs/hopper.md. TMA is in `tma_builder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase, f16, f32, i32
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.atoms.wgmma import get_wgmma_atom
from tileiras.codegen.llvmir.memory_builder import MemoryBuilder
from tileiras.codegen.llvmir.op_emitter import properties_of
from tileiras.dialects.llvm.types import integer_type, pointer_type, vector_type
from tileiras.dialects.llvm.vectors import IndicesAttr
from tileiras.dialects.nvvm import cluster, mbarrier, wgmma
from tileiras.errors import InternalError

if TYPE_CHECKING:
    from tileiras.codegen.atoms.shared_operands import Major, SharedOperand

SWIZZLE_CODES = {0: 0, 128: 1, 64: 2, 32: 3}
"""Swizzle spans in bytes and their codes in bits 62-63 of a descriptor."""
_ELEMENTS: dict[str, Attribute] = {"f32": f32, "f16": f16, "s32": i32}
_ADDRESS_MASK = 0x3FFF


def segments(*groups: Sequence[SSAValue]) -> dict[str, Attribute]:
    """The property that says how many operands each group of an op has."""
    sizes = [len(group) for group in groups]
    return {"operandSegmentSizes": DenseArrayBase.from_list(i32, sizes)}


def optional(value: SSAValue | None) -> tuple[SSAValue, ...]:
    """An optional operand as a group."""
    return () if value is None else (value,)


def accumulator_type(atom: str, reps_m: int = 1) -> Attribute:
    """The vector type of one thread's accumulators of `reps_m` instructions."""
    row = get_wgmma_atom(atom)
    return vector_type(_ELEMENTS[row.family.accumulator], reps_m * row.accumulator_elements)


class AsyncBuilder(MemoryBuilder):
    """mbarriers, clusters and wgmma; pointers are shared memory pointers unless said otherwise."""

    # mbarriers

    def mbarrier_init(self, barrier: SSAValue, count: int) -> None:
        """Makes an mbarrier (8 bytes) whose phases complete after `count` arrivals."""
        self.append(mbarrier.MbarrierInitOp, (barrier,), (), properties_of(count=count))

    def mbarrier_arrive(
        self,
        barrier: SSAValue,
        count: int = 1,
        cluster_cta: SSAValue | None = None,
        predicate: SSAValue | None = None,
        *,
        drops: bool = False,
    ) -> None:
        """Arrives `count` times, at the barrier of CTA rank `cluster_cta` if given; `drops`: for
        all phases to come.
        """
        groups = ((barrier,), optional(cluster_cta), optional(predicate))
        properties = segments(*groups) | properties_of(count=count, drops=drops)
        self.append(mbarrier.MbarrierArriveOp, sum(groups, ()), (), properties)

    def mbarrier_expect_tx(
        self,
        barrier: SSAValue,
        size: int,
        predicate: SSAValue | None = None,
        skipped: SSAValue | None = None,
    ) -> None:
        """Announces `size` bytes of TMA writes to the current phase and arrives once.

        So many fewer as `skipped` (i32) says, if given.
        """
        rest = None if skipped is None else self.sub(self.i32(size), skipped)
        groups = ((barrier,), optional(predicate), optional(rest))
        properties = segments(*groups) | properties_of(bytes=size)
        self.append(mbarrier.MbarrierExpectTxOp, sum(groups, ()), (), properties)

    def mbarrier_wait(self, barrier: SSAValue, parity: SSAValue, of_cluster: bool = False) -> None:
        """Waits for the phase of this parity (i32, 0 or 1); on a new barrier 1 does not wait."""
        properties = properties_of(of_cluster=of_cluster)
        self.append(mbarrier.MbarrierWaitOp, (barrier, parity), (), properties)

    def mbarrier_try_wait(
        self, barrier: SSAValue, parity: SSAValue, of_cluster: bool = False
    ) -> SSAValue:
        """Whether the phase of this parity is over (i1), which may take a while to answer."""
        properties = properties_of(of_cluster=of_cluster)
        return self.value(
            mbarrier.MbarrierTryWaitOp, (barrier, parity), integer_type(1), properties
        )

    def mbarrier_arrive_copies(self, barrier: SSAValue, expected: bool = True) -> None:
        """Arrives once this thread's earlier `cp_async` copies have landed.

        Where that is not `expected`, the barrier's phase expects one arrival more from now on.
        """
        properties = properties_of(unexpected=not expected)
        self.append(mbarrier.MbarrierArriveCopiesOp, (barrier,), (), properties)

    def fence_mbarrier_init(self) -> None:
        """After the inits, before the barrier that lets others use them."""
        self.append(mbarrier.FenceMbarrierInitOp)

    def fence_proxy_async(
        self, space: str = "shared::cta", predicate: SSAValue | None = None
    ) -> None:
        """Between ordinary stores to shared memory and TMA or wgmma that read it (each writer), and
        between ordinary loads from there and TMA that writes it (each reader).
        """
        properties = properties_of(space=space)
        self.append(mbarrier.FenceProxyAsyncOp, optional(predicate), (), properties)

    # clusters and registers

    def cluster_arrive(self, relaxed: bool = False) -> None:
        """Arrives at the cluster's barrier."""
        self.append(cluster.ClusterArriveOp, (), (), properties_of(relaxed=relaxed))

    def cluster_wait(self) -> None:
        """Waits for all threads of the cluster."""
        self.append(cluster.ClusterWaitOp)

    def mapa(self, pointer: SSAValue, rank: SSAValue) -> SSAValue:
        """The same shared address in CTA `rank` of the cluster, as a pointer of space 7."""
        return self.value(
            cluster.MapSharedOp, (pointer, rank), pointer_type(cluster.SHARED_CLUSTER)
        )

    def store_async(
        self, pointer: SSAValue, rank: SSAValue, words: Sequence[SSAValue], barrier: SSAValue
    ) -> None:
        """Stores words into the shared memory of CTA `rank`, counted at its mbarrier."""
        self.append(cluster.StoreAsyncOp, (pointer, barrier, rank, *words))

    def try_cancel(
        self, pointer: SSAValue, barrier: SSAValue, predicate: SSAValue, of_cluster: bool
    ) -> None:
        """Asks for a cluster that has not started; the answer's 16 bytes are counted at `barrier`.

        `of_cluster`: the answer is for all CTAs of this cluster.
        """
        properties = properties_of(of_cluster=of_cluster)
        self.append(cluster.TryCancelOp, (pointer, barrier, predicate), (), properties)

    def query_cancel(self, pointer: SSAValue) -> SSAValue:
        """An answer as four words: whether there was a cluster, and x, y, z of its first CTA."""
        type = vector_type(i32, cluster.ANSWER_WORDS)
        return self.value(cluster.QueryCancelOp, (pointer,), type)

    def take_number(
        self,
        table: SSAValue,
        slots: int,
        state: SSAValue,
        own: SSAValue,
        limits: tuple[SSAValue, SSAValue],
        predicate: SSAValue,
    ) -> tuple[SSAValue, SSAValue]:
        """The new state, and the number after `own`, from the first to the end of `limits`.

        One thread, where the predicate holds.
        """
        operands = (table, state, own, *limits, predicate)
        types, properties = (i32, i32), properties_of(slots=slots)
        made = self.append(cluster.TakeNumberOp, operands, types, properties)
        return made.results[0], made.results[1]

    def setmaxnreg(self, registers: int, action: str) -> None:
        """`inc` or `dec` the registers per thread of this warpgroup (24 to 256, steps of 8)."""
        properties = properties_of(registers=registers, action=action)
        self.append(cluster.SetMaxRegistersOp, (), (), properties)

    # wgmma

    def smem_descriptor(
        self, pointer: SSAValue, leading_bytes: int, stride_bytes: int, swizzle: int
    ) -> SSAValue:
        """A wgmma matrix descriptor (i64) of shared memory; `swizzle` is 0, 32, 64 or 128 bytes."""
        address = self.ptrtoint(pointer, integer_type(32))
        units = self.and_(self.lshr(address, self.i32(4)), self.i32(_ADDRESS_MASK))
        fields = SWIZZLE_CODES[swizzle] << 62
        fields |= (leading_bytes >> 4 & _ADDRESS_MASK) << 16
        fields |= (stride_bytes >> 4 & _ADDRESS_MASK) << 32
        return self.or_(self.zext(units, integer_type(64)), self.i64(fields))

    def operand_descriptor(self, pointer: SSAValue, operand: SharedOperand) -> SSAValue:
        """The descriptor of an operand that starts at `pointer`."""
        return self.smem_descriptor(
            pointer, operand.leading_bytes, operand.stride_bytes, operand.swizzle
        )

    def advance_descriptor(self, descriptor: SSAValue, offset: SSAValue | int) -> SSAValue:
        """The descriptor `offset` bytes further, a multiple of 16 (i64 if it is a value)."""
        if isinstance(offset, int):
            return self.add(descriptor, self.i64(offset >> 4))
        return self.add(descriptor, self.lshr(offset, self.i64(4)))

    def wgmma(
        self,
        atom: str,
        a: SSAValue,
        b: SSAValue,
        accumulator: SSAValue | None,
        *,
        a_offsets: Sequence[int] | None = None,
        b_offsets: Sequence[int] = (0,),
        reps_m: int = 1,
        m_stride: int = 0,
        a_major: Major = "k",
        b_major: Major = "k",
        scale_d: SSAValue | None = None,
        fence: bool = False,
        commit: bool = False,
        wait: int | None = None,
    ) -> SSAValue:
        """`a * b + accumulator` for `reps_m` blocks of 64 rows and one K step per offset.

        `a` is a descriptor or fragments (K repeats inside M repeats), `b` a descriptor; offsets and
        `m_stride` are bytes in A and B. `accumulator` None means zero, and so does a `scale_d` (i1)
        that is false. `fence`, `commit` and `wait` put those around the instructions, which saves
        taking the accumulator apart each time. Without `wait` use `wgmma_wait` before the result.
        """
        row = get_wgmma_atom(atom)
        if (a_major == "mn" or b_major == "mn") and not row.family.transposes:
            raise InternalError(f"{atom}: operands must be K-major", where="thread builder")
        groups = ((a,), (b,), optional(accumulator), optional(scale_d))
        properties = segments(*groups) | properties_of(
            atom=atom,
            a_offsets=IndicesAttr(tuple(a_offsets or (0,) * len(b_offsets))),
            b_offsets=IndicesAttr(tuple(b_offsets)),
            reps_m=reps_m,
            m_stride=m_stride,
            a_transposed=a_major == "mn",
            b_transposed=b_major == "mn",
            fence=fence,
            commit=commit,
            wait=wait,
        )
        return self.value(
            wgmma.WgmmaOp, sum(groups, ()), accumulator_type(atom, reps_m), properties
        )

    def wgmma_fence(self, *values: SSAValue) -> tuple[SSAValue, ...]:
        """Before the first wgmma that reads registers of `values`; use what it returns."""
        types = [value.type for value in values]
        return tuple(self.append(wgmma.WgmmaFenceOp, values, types).results)

    def wgmma_commit(self) -> None:
        """Closes the current group of wgmma."""
        self.append(wgmma.WgmmaCommitOp)

    def wgmma_wait(
        self, pending: int, *values: SSAValue, moved: bool = False
    ) -> tuple[SSAValue, ...]:
        """Waits until `pending` groups are left; use the accumulators that it returns."""
        types = [value.type for value in values]
        properties = properties_of(pending=pending, moved=moved)
        return tuple(self.append(wgmma.WgmmaWaitOp, values, types, properties).results)
