"""`ThreadBuilder`: how lowerings write one thread's program in the `llvm` and `nvvm` dialects.

    b = ThreadBuilder(func.entry, location)
    x = b.load(pointer, vector_type(f32, 4), align=16)
    b.store(b.fadd(x, x), pointer, align=16)
    b.ret()

Values are scalars or vectors alike. Integer constants, trivial identities, and extracts of shuffles
and inserts are folded while building, so that IR stays small. Methods are spread over its bases:
`op_emitter` (constants), `arithmetic_builder`, `vector_builder`, `memory_builder`,
`async_builder` (mbarriers, wgmma), `tma_builder`; here are calls, control flow and threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, i32
from xdsl.ir import Attribute, Block, SSAValue

from tileiras.codegen.llvmir.async_builder import optional, segments
from tileiras.codegen.llvmir.folding import splat_bits_of
from tileiras.codegen.llvmir.op_emitter import properties_of, string_attr
from tileiras.codegen.llvmir.tma_builder import TmaBuilder
from tileiras.dialects.llvm.calls import CallIntrinsicOp, CallOp, InlineAsmOp
from tileiras.dialects.llvm.control import BrOp, CondBrOp, ReturnOp
from tileiras.dialects.llvm.types import (
    bit_width,
    integer_type,
    is_integer,
    is_pointer,
    lanes_of,
    scalar_of,
    vector_type,
    with_scalar,
)
from tileiras.dialects.nvvm import copies, matrix, threads
from tileiras.errors import InternalError

if TYPE_CHECKING:
    from tileiras.codegen.atoms.matrix_tiles import MatrixTiles


class Quotient(NamedTuple):
    """What a signed division gives: rounded to zero, its remainder, and rounded down."""

    to_zero: SSAValue
    rest: SSAValue
    down: SSAValue


class ThreadBuilder(TmaBuilder):
    """Builds ops at the end of a block; see the module's docstring."""

    # calls

    def intrinsic(
        self, name: str, result_type: Attribute | None, args: Sequence[SSAValue]
    ) -> SSAValue | None:
        """Calls an LLVM intrinsic by its base name (`llvm.fma`, `llvm.nvvm.add.rz.f`).

        Scalar-only ones are applied per lane. The name must be in `llvmir.intrinsics`.
        """
        return self._call(CallIntrinsicOp, name, result_type, args)

    def unary_intrinsic(self, name: str, *args: SSAValue) -> SSAValue:
        """An intrinsic whose result has the first operand's type."""
        return self._call_value(CallIntrinsicOp, name, args)

    def call(
        self, name: str, result_type: Attribute | None, args: Sequence[SSAValue]
    ) -> SSAValue | None:
        """Calls a function (`__nv_sinf`, `vprintf`); libdevice's are applied per lane."""
        return self._call(CallOp, name, result_type, args)

    def libdevice(self, name: str, *args: SSAValue) -> SSAValue:
        """A libdevice function whose result has the first operand's type, per lane."""
        return self._call_value(CallOp, name, args)

    def _call_value(
        self, op: type[CallIntrinsicOp | CallOp], name: str, args: Sequence[SSAValue]
    ) -> SSAValue:
        return self.value(op, args, args[0].type, {"callee": string_attr(name)})

    def _call(
        self,
        op: type[CallIntrinsicOp | CallOp],
        name: str,
        result_type: Attribute | None,
        args: Sequence[SSAValue],
    ) -> SSAValue | None:
        types = () if result_type is None else (result_type,)
        call = self.append(op, args, types, {"callee": string_attr(name)})
        return call.results[0] if call.results else None

    def inline_asm(
        self,
        template: str,
        constraints: str,
        result_type: Attribute | None,
        args: Sequence[SSAValue],
        *,
        side_effects: bool = False,
        convergent: bool = False,
        elementwise: bool = False,
    ) -> SSAValue | None:
        """PTX text with LLVM's constraints (`=r,r,b,l,~{memory}`); outputs are `$0..`, then inputs.

        `elementwise`: the text is for one lane; vector operands and result are taken apart and put
        together again.
        """
        properties = properties_of(
            template=template,
            constraints=constraints,
            has_side_effects=side_effects,
            convergent=convergent,
            elementwise=elementwise,
        )
        types = () if result_type is None else (result_type,)
        asm = self.append(InlineAsmOp, args, types, properties)
        return asm.results[0] if asm.results else None

    # control flow

    def new_block(self, arg_types: Sequence[Attribute] = ()) -> Block:
        """A new block at the end of the current function; the insertion point stays."""
        region = self.block.parent
        if region is None:
            raise InternalError("the current block is in no function", where="thread builder")
        block = Block(arg_types=tuple(arg_types))
        region.add_block(block)
        return block

    def br(self, target: Block, args: Sequence[SSAValue] = (), *, no_unroll: bool = False) -> None:
        """Jumps; `args` become the target's block arguments. `no_unroll` on a back edge."""
        self.append(BrOp, args, (), properties_of(no_unroll=no_unroll), (target,))

    def cond_br(
        self,
        condition: SSAValue,
        then_block: Block,
        else_block: Block,
        then_args: Sequence[SSAValue] = (),
        else_args: Sequence[SSAValue] = (),
        *,
        no_unroll: bool = False,
        is_rare: bool = False,
    ) -> None:
        """Jumps to one of two blocks, rarely to the first; a constant condition: a plain jump."""
        known = splat_bits_of(condition)
        if known is not None:
            target, args = (then_block, then_args) if known else (else_block, else_args)
            self.br(target, args, no_unroll=no_unroll)
            return
        sizes = DenseArrayBase.from_list(i32, [1, len(then_args), len(else_args)])
        properties = properties_of(operandSegmentSizes=sizes, no_unroll=no_unroll, is_rare=is_rare)
        operands = (condition, *then_args, *else_args)
        self.append(CondBrOp, operands, (), properties, (then_block, else_block))

    # divisions

    divides_quickly: bool = False
    """Whether divisions of unknown scalars look for the easy cases first, see `divide_quickly`."""
    _divided_in: Block | None = None
    _divided: Mapping[tuple[SSAValue, SSAValue], Quotient] = {}

    def divide_quickly(self, lhs: SSAValue, rhs: SSAValue) -> Quotient:
        """Signed i32: a shift if the divisor is a power of two, nothing if it is larger, or `sdiv`.

        The number of a tile block is divided by numbers of tiles. With all corrections that takes
        some 200 cycles (H200), several of which stand before a kernel's first load. What is built
        next stands in a new block; there the same numbers are not divided again.
        """
        known = dict(self._divided) if self.block is self._divided_in else {}
        if (lhs, rhs) not in known:
            known[lhs, rhs] = self._divide(lhs, rhs)
            self._divided_in, self._divided = self.block, known
        return known[lhs, rhs]

    def _divide(self, lhs: SSAValue, rhs: SSAValue) -> Quotient:
        zero, mask = self.i32(0), self.sub(rhs, self.i32(1))
        is_positive = self.icmp("sge", self.or_(lhs, mask), zero)
        is_power = self.icmp("eq", self.and_(rhs, mask), zero)
        is_larger = self.icmp("ult", lhs, rhs)
        easy, hard, after = self.new_block(), self.new_block(), self.new_block([i32] * 3)
        self.cond_br(self.and_(is_positive, self.or_(is_power, is_larger)), easy, hard)
        self.at(easy)
        exponent = self.sub(self.i32(31), self.unary_intrinsic("llvm.ctlz", rhs))
        quotient = self.select(is_larger, zero, self.lshr(lhs, exponent))
        rest = self.select(is_larger, lhs, self.and_(lhs, mask))
        self.br(after, [quotient, rest, quotient])
        self.at(hard)
        quotient = self.sdiv(lhs, rhs)
        rest = self.sub(lhs, self.mul(quotient, rhs))
        is_below = self.icmp("slt", self.xor(lhs, rhs), zero)
        step = self.sext(self.and_(self.icmp("ne", rest, zero), is_below), i32)
        self.br(after, [quotient, rest, self.add(quotient, step)])
        self.at(after)
        return Quotient(*after.args)

    def ret(self) -> None:
        """Ends the kernel."""
        self.append(ReturnOp)

    # threads

    def sreg(self, register: str) -> SSAValue:
        """A special register as i32, such as `tid.x`, `ctaid.y`, `clusterid.x`, `laneid`."""
        return self.value(threads.ReadSregOp, (), i32, properties_of(register=register))

    def thread_id(self) -> SSAValue:
        """Thread index in the CTA, i32 (one-dimensional blocks)."""
        return self.sreg("tid.x")

    def lane_id(self) -> SSAValue:
        """Lane in the warp, i32: thread id modulo 32."""
        return self.and_(self.thread_id(), self.i32(31))

    def warp_id(self) -> SSAValue:
        """Warp in the CTA, i32: thread id / 32. Trap: `%warpid` is not this."""
        return self.lshr(self.thread_id(), self.i32(5))

    cta_barrier: tuple[int, int | None] = (0, None)
    """Where `barrier()` waits: barrier number and threads (None: the whole CTA)."""

    def barrier(self, number: int | None = None, count: int | None = None) -> None:
        """Waits at `cta_barrier`, or at a named barrier for `count` threads."""
        if number is None:
            number, count = self.cta_barrier
        self.append(threads.BarrierOp, (), (), properties_of(id=number, threads=count))

    def group_barrier(self, first: int, group: SSAValue, count: int) -> None:
        """Waits at the named barrier `first + group` for `count` threads."""
        self.append(threads.BarrierOp, (group,), (), properties_of(id=first, threads=count))

    def warp_barrier(self) -> None:
        """All threads of the warp meet, and see what the others have done to memory."""
        self.append(threads.WarpBarrierOp)

    def barrier_arrive(self, number: int, count: int) -> None:
        """Arrives at a named barrier without waiting."""
        self.append(threads.BarrierArriveOp, (), (), properties_of(id=number, threads=count))

    def shfl(self, mode: str, value: SSAValue, offset: SSAValue | int) -> SSAValue:
        """Another lane's `value` (any scalar or vector type): idx, bfly, up or down by `offset`.

        Values are packed into 32-bit words, one `shfl.sync` each. All 32 lanes must take part.
        """
        if isinstance(offset, int):
            offset = self.i32(offset)
        properties = properties_of(mode=mode, clamp=0 if mode == "up" else 31)
        words = self._to_words(value)
        moved = self.value(threads.ShflOp, (words, offset), words.type, properties)
        return self._from_words(moved, value.type)

    def vote(self, mode: str, predicate: SSAValue) -> SSAValue:
        """all, any, uni give i1; ballot gives the i32 mask of lanes."""
        type = integer_type(32 if mode == "ballot" else 1)
        return self.value(threads.VoteOp, (predicate,), type, {"mode": string_attr(mode)})

    def redux(self, kind: str, value: SSAValue) -> SSAValue:
        """Warp-wide i32 reduction: add umin umax min max and or xor, per vector lane."""
        return self.value(threads.ReduxOp, (value,), value.type, {"kind": string_attr(kind)})

    def elect(self) -> SSAValue:
        """True in one lane of the warp (needs `Feature.CLUSTER_LAUNCH`-class targets)."""
        return self.value(threads.ElectOp, (), integer_type(1))

    def _to_words(self, value: SSAValue) -> SSAValue:
        """Bits of a value as i32 or a vector of i32; odd sizes are zero-extended per element."""
        type, word = value.type, integer_type(32)
        if is_pointer(type):
            value = self.ptrtoint(value, integer_type(64))
        total, element = bit_width(value.type), bit_width(scalar_of(type))
        if total % 32:
            if not is_integer(value.type):
                value = self.bitcast(value, with_scalar(value.type, integer_type(element)))
            return self.zext(value, word)
        lanes = total // 32
        packed = word if lanes == 1 and lanes_of(type) is None else vector_type(word, lanes)
        return self.bitcast(value, packed)

    def _from_words(self, words: SSAValue, type: Attribute) -> SSAValue:
        element = bit_width(scalar_of(type))
        if bit_width(type) % 32:
            narrow = self.trunc(words, integer_type(element))
            return self.bitcast(narrow, type)
        if is_pointer(type):
            flat = with_scalar(type, integer_type(64))
            return self.inttoptr(self.bitcast(words, flat), scalar_of(type))
        return self.bitcast(words, type)

    # matrices and copies

    def mma_sync(self, atom: str, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """One mma.sync: `a * b + c`; `atom` is a row of `codegen.atoms.mma`."""
        return self.value(matrix.MmaSyncOp, (a, b, c), c.type, {"atom": string_attr(atom)})

    def mma_tile(
        self, atom: str, a: SSAValue, b: SSAValue, c: SSAValue, reps: tuple[int, int, int]
    ) -> SSAValue:
        """A grid of (M, N, K) repeats of an atom on whole fragments; order: `MmaTileOp`."""
        m, n, k = reps
        properties = properties_of(atom=atom, reps_m=m, reps_n=n, reps_k=k)
        return self.value(matrix.MmaTileOp, (a, b, c), c.type, properties)

    def mma_scaled_tile(
        self,
        atom: str,
        operands: tuple[SSAValue, SSAValue, SSAValue],
        scales: tuple[SSAValue, SSAValue],
        reps: tuple[int, int, int],
        blocks: int,
        step: int,
    ) -> SSAValue:
        """A grid of repeats of a block-scaled atom on A, B and C; see `MmaScaledTileOp`."""
        m, n, k = reps
        properties = properties_of(
            atom=atom, reps_m=m, reps_n=n, reps_k=k, blocks=blocks, step=step
        )
        type = operands[2].type
        return self.value(matrix.MmaScaledTileOp, (*operands, *scales), type, properties)

    def ldmatrix(self, pointer: SSAValue, count: int, transposed: bool = False) -> SSAValue:
        """`count` 8x8 matrices of 16-bit elements from shared memory: vector<count x i32>."""
        properties = properties_of(count=count, transposed=transposed)
        type = vector_type(integer_type(32), count)
        return self.value(matrix.LdMatrixOp, (pointer,), type, properties)

    def stmatrix(self, value: SSAValue, pointer: SSAValue, transposed: bool = False) -> None:
        """Stores vector<count x i32> as 8x8 matrices of 16-bit elements (`Feature.STMATRIX`)."""
        properties = properties_of(count=lanes_of(value.type) or 0, transposed=transposed)
        self.append(matrix.StMatrixOp, (value, pointer), (), properties)

    def store_matrices(
        self, value: SSAValue, base: SSAValue, thread_offset: SSAValue, tiles: MatrixTiles
    ) -> None:
        """A thread's fragment into shared memory at `base`, by stmatrix.

        `thread_offset` (i32, bytes) is the `^` of `tiles.lane` and `tiles.warp` over the set bits
        of lane and warp.
        """
        words = self.bitcast(value, vector_type(integer_type(32), bit_width(value.type) // 32))
        for group, pointer in enumerate(self._matrix_pointers(base, thread_offset, tiles)):
            part = self.slice(words, group * tiles.count, tiles.count)
            self.stmatrix(part, pointer, tiles.transposed)

    def _matrix_pointers(
        self, base: SSAValue, thread_offset: SSAValue, tiles: MatrixTiles
    ) -> list[SSAValue]:
        """This thread's address for each group: offset bits that the thread changes are `^`ed."""
        rows: dict[int, SSAValue] = {}
        pointers: list[SSAValue] = []
        for offset in tiles.offsets:
            mixed = offset & tiles.thread_mask
            if mixed not in rows:
                flipped = self.xor(thread_offset, self.i32(mixed))
                rows[mixed] = self.gep(base, self.zext(flipped, integer_type(64)))
            pointers.append(self.gep(rows[mixed], offset - mixed))
        return pointers

    def cp_async(
        self,
        target: SSAValue,
        source: SSAValue,
        size: int,
        cache: str = "ca",
        source_bytes: SSAValue | None = None,
        ignore: SSAValue | None = None,
    ) -> None:
        """Starts a copy of 4, 8 or 16 bytes global to shared; what is not read becomes zero."""
        groups = ((target,), (source,), optional(source_bytes), optional(ignore))
        properties = segments(*groups) | properties_of(bytes=size, cache=cache)
        self.append(copies.CpAsyncOp, sum(groups, ()), (), properties)

    def cp_async_commit(self) -> None:
        """Closes the current group of copies."""
        self.append(copies.CpAsyncCommitOp)

    def cp_async_wait(self, pending: int = 0) -> None:
        """Waits until at most `pending` groups are unfinished."""
        self.append(copies.CpAsyncWaitOp, (), (), {"pending": IntAttr(pending)})

    def griddepcontrol(self, action: str) -> None:
        """`wait` or `launch_dependents` (needs a cluster-launch target)."""
        self.append(copies.GridDependencyOp, (), (), {"action": string_attr(action)})
