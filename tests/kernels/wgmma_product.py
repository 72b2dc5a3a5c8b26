"""One product by wgmma in one warpgroup, for any atom and placement of the operands.

The kernel `product(A, B, OUT)` loads both operands by TMA (or A from a buffer of fragments),
multiplies them once, and writes every thread's accumulators to `OUT[thread]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import SSAValue

from tileiras.codegen.atoms.shared_operands import Major, SharedOperand
from tileiras.codegen.atoms.wgmma import ROWS, WgmmaAtom, get_wgmma_atom
from tileiras.codegen.llvmir.async_builder import accumulator_type
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.tma_builder import TensorMapTable
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import bit_width, integer_type, pointer_type, vector_type

THREADS = 128
MAP_ELEMENTS = {"f16": "f16", "bf16": "bf16", "tf32": "f32"}


@dataclass(frozen=True)
class Product:
    """`A[64 * reps_m, k] * B[k, n]`; `a_major` None takes A's fragments from registers.

    In memory A is M by K if K-major, else K by M; B is N by K if K-major, else K by N.
    """

    atom: str
    k: int
    a_major: Major | None = "k"
    b_major: Major = "k"
    swizzle: int = 128
    reps_m: int = 1

    @property
    def row(self) -> WgmmaAtom:
        """The instruction."""
        return get_wgmma_atom(self.atom)

    @property
    def m(self) -> int:
        """Rows of A."""
        return ROWS * self.reps_m

    @property
    def operands(self) -> tuple[SharedOperand | None, SharedOperand]:
        """Where A and B lie in shared memory."""
        bits, k = self.row.family.operand_bits, self.k
        a = None
        if self.a_major is not None:
            a = SharedOperand(self.a_major, self.m, k, bits, self.swizzle)
        return a, SharedOperand(self.b_major, self.row.n, k, bits, self.swizzle)

    @property
    def accumulator_bytes(self) -> int:
        """Bytes of a thread's accumulators."""
        size = 2 if self.row.family.accumulator == "f16" else 4
        return self.reps_m * self.row.accumulator_elements * size


def product_module(product: Product, *, scale_d: bool = False) -> ModuleOp:
    """The kernel. With `scale_d` the accumulators hold garbage that a false `scale_d` ignores."""
    a, b_operand = product.operands
    size = b_operand.bytes + (a.bytes if a else 0)
    shared = GlobalOp.make("operands", size, 3, 1024)
    barrier = GlobalOp.make("arrived", 8, 3, 8)
    scratch = GlobalOp.make("scratch", 128, 3, 128)
    pointer = GlobalOp.make("maps_pointer", 8, 3, 8)
    table = TensorMapTable.make("maps", 2)
    func = FuncOp.make_kernel(
        "product", [pointer_type(1)] * 3, threads=THREADS, cluster_dim=(1, 1, 1)
    )
    module = ModuleOp([*table.globals, shared, barrier, scratch, pointer, func])
    b = ThreadBuilder(func.entry)
    places = (b.address_of(shared), b.address_of(barrier), b.address_of(pointer))
    _load(b, product, table, b.address_of(scratch), places, func.entry.args)
    _multiply(b, product, places[0], func.entry.args, scale_d)
    b.barrier()
    first = b.icmp("eq", b.thread_id(), b.i32(0))
    b.release_tensor_maps(table, b.load(places[2], pointer_type(1), 8), first)
    b.ret()
    module.verify()
    return module


def _load(
    b: ThreadBuilder,
    product: Product,
    table: TensorMapTable,
    scratch: SSAValue,
    places: tuple[SSAValue, SSAValue, SSAValue],
    args: Sequence[SSAValue],
) -> None:
    """Warp 0 builds the maps; one lane starts the copies; everyone waits."""
    buffer, barrier, pointer = places
    setup, lead, two_tiles = b.new_block(), b.new_block(), b.new_block()
    b.cond_br(b.icmp("ult", b.thread_id(), b.i32(32)), setup, two_tiles)
    b.at(setup)
    maps = b.claim_tensor_maps(table)
    wide = integer_type(64)
    family = product.row.family
    element = MAP_ELEMENTS.get(family.a_type, "u8")
    operands = [(i, o) for i, o in enumerate(product.operands) if o is not None]
    for index, operand in operands:
        sizes = [operand.span * operand.panels, operand.box[1]]
        b.fill_tensor_maps(
            scratch,
            1,
            b.ptrtoint(args[index], wide),
            [b.i32(size) for size in sizes],
            [b.i64(sizes[0] * operand.element_bits // 8)],
            [b.i32(extent) for extent in operand.box],
            element,
            product.swizzle,
        )
        b.publish_tensor_maps(scratch, b.tensor_map(maps, index), 1)
    b.cond_br(b.elect(), lead, two_tiles)
    b.at(lead)
    b.mbarrier_init(barrier, 1)
    b.fence_mbarrier_init()
    b.mbarrier_expect_tx(barrier, sum(operand.bytes for _, operand in operands))
    b.store(maps, pointer, 8)
    offset = 0
    for index, operand in operands:
        b.acquire_tensor_map(b.tensor_map(maps, index))
        for panel in range(operand.panels):
            coordinates = [b.i32(panel * operand.span), b.i32(0)]
            target = b.gep(buffer, offset + panel * operand.panel_bytes)
            b.tma_load(target, b.tensor_map(maps, index), coordinates, barrier)
        offset += operand.bytes
    b.br(two_tiles)
    b.at(two_tiles)
    b.barrier()
    b.mbarrier_wait(barrier, b.i32(0))


def _multiply(
    b: ThreadBuilder, product: Product, buffer: SSAValue, args: Sequence[SSAValue], scale_d: bool
) -> None:
    a, b_operand = product.operands
    family, thread = product.row.family, b.zext(b.thread_id(), integer_type(64))
    a_offsets, m_stride = None, 0
    if a is None:
        words = vector_type(i32, product.m * product.k * family.operand_bits // 32 // THREADS)
        size = bit_width(words) // 8
        a_value = b.load(b.gep(args[0], b.mul(thread, b.i64(size))), words, 16)
    else:
        a_value = b.operand_descriptor(buffer, a)
        a_offsets, m_stride = a.k_offsets, a.extent_offset(ROWS) if product.reps_m > 1 else 0
    start = b.gep(buffer, a.bytes if a else 0)
    out = b.gep(args[2], b.mul(thread, b.i64(product.accumulator_bytes)))
    old = None
    if scale_d:
        old = b.load(out, accumulator_type(product.atom, product.reps_m), 16)
    result = b.wgmma(
        product.atom,
        a_value,
        b.operand_descriptor(start, b_operand),
        old,
        a_offsets=a_offsets,
        b_offsets=b_operand.k_offsets,
        reps_m=product.reps_m,
        m_stride=m_stride,
        a_major=product.a_major or "k",
        b_major=product.b_major,
        scale_d=b.icmp("ult", b.thread_id(), b.i32(0)) if scale_d else None,
        fence=True,
        commit=True,
    )
    (result,) = b.wgmma_wait(0, result)
    b.store(result, out, 16)
