"""Every family of ops goes through LLVM and ptxas, on an old, the middle and a new target."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import bf16, f16, f32, f64, i32, i64
from xdsl.ir import Attribute, SSAValue

from tests.kernels.thread_programs import TARGETS, cubin, in_child, ptx_text
from tileiras.codegen.atoms.mma import MMA_ATOMS
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.intrinsics import INTRINSICS, IntrinsicRow
from tileiras.codegen.llvmir.memory_builder import MemoryOrder
from tileiras.codegen.target import TARGET_NAMES, get_target
from tileiras.dialects.llvm import arithmetic
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import bit_width, integer_type, pointer_type, vector_type

FLOATS = (f16, bf16, f32, f64)
INTEGERS = tuple(integer_type(width) for width in (8, 16, 32, 64))
_BY_NAME = {
    "half": f16,
    "bfloat": bf16,
    "float": f32,
    "double": f64,
    **{f"i{width}": integer_type(width) for width in (8, 16, 32, 64)},
}


def _load(b: ThreadBuilder, pointer: SSAValue, type: Attribute) -> SSAValue:
    return b.load(pointer, type, bit_width(type) // 8)


def _store(b: ThreadBuilder, value: SSAValue, pointer: SSAValue) -> None:
    b.store(value, pointer, bit_width(value.type) // 8)


def _all_arithmetic(b: ThreadBuilder, args) -> None:
    for lanes in (1, 4):
        for types, ops in (
            (FLOATS, arithmetic.FLOAT_BINARY_OPS),
            (INTEGERS, arithmetic.INTEGER_BINARY_OPS),
        ):
            for type in types:
                vector = vector_type(type, lanes)
                lhs, rhs = _load(b, args[0], vector), _load(b, args[1], vector)
                for op in ops:
                    lhs = b.value(op, (lhs, rhs), vector)
                _store(b, lhs, args[3])


def _all_casts(b: ThreadBuilder, args) -> None:
    for source in FLOATS:
        value = _load(b, args[0], vector_type(source, 2))
        for target in FLOATS:
            if bit_width(target) != bit_width(source):
                wider = bit_width(target) > bit_width(source)
                _store(b, (b.fpext if wider else b.fptrunc)(value, target), args[3])
        for integer in INTEGERS:
            whole = _load(b, args[1], vector_type(integer, 2))
            for to_integer in (b.fptosi, b.fptoui):
                _store(b, to_integer(value, integer), args[3])
            for to_float in (b.sitofp, b.uitofp):
                _store(b, to_float(whole, source), args[3])


def _all_comparisons(b: ThreadBuilder, args) -> None:
    for type in (*FLOATS, *INTEGERS):
        lhs = _load(b, args[0], vector_type(type, 2))
        rhs = _load(b, args[1], vector_type(type, 2))
        predicates = arithmetic.FLOAT_PREDICATES
        compare = b.fcmp
        if type in INTEGERS:
            predicates, compare = arithmetic.INTEGER_PREDICATES, b.icmp
        for predicate in predicates:
            lhs = b.select(compare(predicate, lhs, rhs), lhs, rhs)
        _store(b, lhs, args[3])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("body", [_all_arithmetic, _all_casts, _all_comparisons])
def test_elementwise_ops_lower_for_every_type(body, target: str) -> None:
    outcome = in_child(lambda: cubin(body, target))
    assert outcome.status == 0, outcome.errors


def _intrinsic_source(row: IntrinsicRow, element: Attribute) -> Attribute:
    """Operand type of a row: conversions (`i2f`, `ull2d`, `d2f`) read another type."""
    family = row.name.removeprefix("llvm.nvvm.").partition(".")[0]
    sources = {"i2": i32, "ui2": i32, "ll2": i64, "ull2": i64, "d2": f64}
    return next((t for key, t in sources.items() if family.startswith(key)), element)


def _all_intrinsics(b: ThreadBuilder, args) -> None:
    for row in INTRINSICS.values():
        for name in row.types:
            for lanes in (1, 4):
                result = vector_type(_BY_NAME[name], lanes)
                source = vector_type(_intrinsic_source(row, _BY_NAME[name]), lanes)
                if row.name.endswith(".sat"):
                    result = vector_type(i32, lanes)
                values = [_load(b, args[i], source) for i in range(row.arity)]
                b.store(b.intrinsic(row.name, result, values), args[3], 4)


@pytest.mark.parametrize("target", TARGETS)
def test_every_intrinsic_of_the_table_lowers(target: str) -> None:
    outcome = in_child(lambda: cubin(_all_intrinsics, target))
    assert outcome.status == 0, outcome.errors


# memory


@pytest.mark.parametrize("lanes", [1, 2, 8])
@pytest.mark.parametrize("type", [*INTEGERS, *FLOATS], ids=str)
def test_masked_accesses_are_as_wide_as_alignment_allows(type: Attribute, lanes: int) -> None:
    vector = vector_type(type, lanes)
    size = bit_width(vector) // 8

    def body(b: ThreadBuilder, args) -> None:
        guard = b.icmp("slt", b.thread_id(), args[4])
        value = b.masked_load(args[0], guard, vector, size, b.zero(vector))
        b.masked_store(value, args[1], guard, size)

    ptx = ptx_text(body)
    pieces = max(1, size // 16)
    assert ptx.count("ld.global") == ptx.count("st.global") == pieces
    assert ptx.count("@%p1 ld.global") == pieces
    cubin(body)


def test_masked_access_of_unaligned_data_goes_by_element() -> None:
    def body(b: ThreadBuilder, args) -> None:
        guard = b.icmp("slt", b.thread_id(), args[4])
        vector = vector_type(f16, 4)
        b.masked_store(b.masked_load(args[0], guard, vector, 2), args[1], guard, 2)

    assert ptx_text(body).count("ld.global.b16") == 4


def test_gather_reads_one_group_per_pointer_under_its_own_guard() -> None:
    def body(b: ThreadBuilder, args) -> None:
        offsets = b.mul(b.splat(args[4], 4), b.dense(i32, [0, 8, 16, 24]))
        pointers = b.gep(args[0], b.sext(offsets, i64))
        guards = b.icmp("slt", offsets, b.dense(i32, [5, 6, 7, 8]))
        type = vector_type(f32, 8)
        value = b.masked_load(pointers, guards, type, 8, b.const_float(type, -0.0))
        b.masked_store(value, pointers, guards, 8)

    ptx = ptx_text(body)
    assert ptx.count("ld.global.v2.b32") == ptx.count("st.global.v2.b32") == 4
    cubin(body)


def test_pointers_can_be_loaded_and_stored_under_a_guard() -> None:
    def body(b: ThreadBuilder, args) -> None:
        guard = b.icmp("slt", b.thread_id(), args[4])
        type = vector_type(pointer_type(1), 2)
        b.masked_store(b.masked_load(args[0], guard, type, 16), args[1], guard, 16)

    assert "ld.global.v2.b64" in ptx_text(body)
    cubin(body)


@pytest.mark.parametrize(
    ("load", "store", "expected"),
    [
        (MemoryOrder("relaxed", "gpu"), MemoryOrder("relaxed", "sys"), "ld.relaxed.gpu.global"),
        (MemoryOrder("acquire", "gpu"), MemoryOrder("release", "gpu"), "st.release.gpu.global"),
        (MemoryOrder("volatile"), MemoryOrder("volatile"), "ld.volatile.global.v4.b32"),
        (MemoryOrder(cache=".nc"), MemoryOrder(cache=".cs"), "ld.global.nc.v4.b32"),
    ],
    ids=["relaxed", "acquire-release", "volatile", "cache-hints"],
)
def test_memory_orders_are_spelled_in_ptx(load, store, expected: str) -> None:
    def body(b: ThreadBuilder, args) -> None:
        value = b.masked_load(args[0], None, vector_type(f32, 4), 16, order=load)
        b.masked_store(value, args[1], None, 16, store)

    assert expected in ptx_text(body)
    cubin(body)


def _shared_round_trip(b: ThreadBuilder, args) -> None:
    shared = b.inttoptr(b.i64(0), pointer_type(3))
    b.store(b.thread_id(), b.gep(shared, b.zext(b.lane_id(), i64)), 4)
    b.barrier()
    b.barrier(1, 64)
    b.fence("acq_rel", "device")
    _store(b, _load(b, shared, i32), args[0])


def _warp_ops(b: ThreadBuilder, args) -> None:
    for type in (f16, f32, f64, i64, vector_type(bf16, 8), vector_type(integer_type(8), 2)):
        value = _load(b, args[0], type)
        for mode in ("idx", "bfly", "up", "down"):
            value = b.shfl(mode, value, 1)
        _store(b, value, args[1])
    number = _load(b, args[0], i32)
    for kind in ("add", "umin", "umax", "min", "max", "and", "or", "xor"):
        number = b.redux(kind, number)
    votes = [b.vote(mode, b.icmp("eq", number, args[4])) for mode in ("all", "any", "uni")]
    number = b.add(number, b.vote("ballot", votes[0]))
    _store(b, b.select(b.and_(votes[1], votes[2]), number, args[4]), args[2])


def _async_copies(b: ThreadBuilder, args) -> None:
    shared = b.inttoptr(b.i64(0), pointer_type(3))
    b.cp_async(shared, args[0], 4)
    b.cp_async(shared, args[0], 8, source_bytes=args[4])
    b.cp_async(shared, args[0], 16, "cg", args[4])
    b.cp_async(shared, args[0], 16, "cg", ignore=b.icmp("eq", args[4], b.i32(0)))
    b.cp_async_commit()
    b.cp_async_wait(0)
    for count in (1, 2, 4):
        for transposed in (False, True):
            b.store(b.ldmatrix(shared, count, transposed), args[1], 4)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("body", [_shared_round_trip, _warp_ops, _async_copies])
def test_thread_ops_assemble(body, target: str) -> None:
    assert cubin(body, target).cubin.startswith(b"\x7fELF")


def test_hopper_thread_ops_assemble() -> None:
    def body(b: ThreadBuilder, args) -> None:
        # Not a constant address: ptxas 13.5 fails with C7907 on `stmatrix` to one.
        shared = b.inttoptr(b.zext(args[4], i64), pointer_type(3))
        b.griddepcontrol("wait")
        for count in (1, 2, 4):
            b.stmatrix(_load(b, args[0], vector_type(i32, count)), shared, count == 2)
        rank = b.add(b.sreg("cluster.ctarank"), b.sreg("clusterid.x"))
        _store(b, b.select(b.elect(), rank, b.sreg("nclusterid.y")), args[1])
        b.griddepcontrol("launch_dependents")

    cubin(body, "sm_90", threads=128, cluster_dim=(2,), blocks_are_clusters=True)
    cubin(body, "sm_120", threads=128, cluster_dim=(1,), blocks_are_clusters=True)


def test_every_target_assembles_a_kernel() -> None:
    for name in TARGET_NAMES:
        result = cubin(lambda b, args: _store(b, b.thread_id(), args[0]), name, threads=128)
        assert result.kernels[0].name == "k" and result.registers > 0


def test_static_shared_memory_up_to_the_targets_limit_assembles() -> None:
    from tests.kernels.thread_programs import OPTIONS, kernel_module
    from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
    from tileiras.codegen.llvmir.printer import print_module
    from tileiras.codegen.ptxas_backend import ptx_to_cubin
    from tileiras.errors import CompileError

    def assemble(size: int, name: str) -> int:
        tile = GlobalOp.make("tile", size, 3, 16)

        def body(b: ThreadBuilder, args) -> None:
            b.store(b.thread_id(), b.address_of(tile), 4, volatile=True)

        module = kernel_module(body)
        module.body.block.insert_op_before(tile, module.body.block.first_op)
        target = get_target(name)
        ptx = llvm_ir_to_ptx(print_module(module, target, OPTIONS), target, OPTIONS)
        return ptx_to_cubin(ptx, target, OPTIONS).kernels[0].shared

    for name in ("sm_80", "sm_90"):
        limit = get_target(name).static_shared_limit
        assert assemble(limit, name) >= limit
        with pytest.raises(CompileError, match="too much shared data"):
            assemble(limit + 2048, name)


# matrices

_FRAGMENTS = {
    "f16": f16,
    "bf16": bf16,
    "tf32": f32,
    "f32": f32,
    "f64": f64,
    "s32": i32,
    "s8": integer_type(8),
    "u8": integer_type(8),
    "e4m3": integer_type(8),
    "e5m2": integer_type(8),
}


INSTRUCTIONS = [atom for atom in MMA_ATOMS.values() if atom.scaling is None and not atom.parts]


@pytest.mark.parametrize("name", [atom.name for atom in INSTRUCTIONS])
def test_every_mma_atom_assembles_alone_and_as_a_grid(name: str) -> None:
    atom = MMA_ATOMS[name]
    operand, accumulator = _FRAGMENTS[atom.a_type], _FRAGMENTS[atom.accumulator]

    def body(b: ThreadBuilder, args) -> None:
        def fragment(pointer: SSAValue, type: Attribute, count: int) -> SSAValue:
            return b.load(pointer, vector_type(type, count), 4)

        a = fragment(args[0], operand, atom.a_elements)
        rhs = fragment(args[1], operand, atom.b_elements)
        c = fragment(args[2], accumulator, atom.c_elements)
        b.store(b.mma_sync(name, a, rhs, c), args[3], 4)
        a = fragment(args[0], operand, atom.a_elements * 6)
        rhs = fragment(args[1], operand, atom.b_elements * 4)
        c = fragment(args[2], accumulator, atom.c_elements * 6)
        b.store(b.mma_tile(name, a, rhs, c, (3, 2, 2)), args[3], 4)

    ptx = ptx_text(body, "sm_90")
    assert ptx.count(f"{atom.mnemonic} ") == 13
    cubin(body, "sm_90")


# math library


@pytest.mark.parametrize(
    ("name", "type", "arity"),
    [
        ("__nv_sinf", f32, 1),
        ("__nv_sin", f64, 1),
        ("__nv_powf", f32, 2),
        ("__nv_pow", f64, 2),
        ("__nv_logf", f32, 1),
        ("__nv_tanh", f64, 1),
    ],
)
def test_libdevice_functions_are_linked_in(name: str, type: Attribute, arity: int) -> None:
    def body(b: ThreadBuilder, args) -> None:
        vector = vector_type(type, 2)
        operands = [_load(b, args[i], vector) for i in range(arity)]
        _store(b, b.libdevice(name, *operands), args[3])

    assert ".extern" not in ptx_text(body)
    cubin(body)


def test_separate_multiply_and_add_are_not_contracted() -> None:
    def body(b: ThreadBuilder, args) -> None:
        x, y, z = (_load(b, args[i], vector_type(f32, 4)) for i in range(3))
        _store(b, b.fadd(b.fmul(x, y), z), args[3])

    ptx = ptx_text(body)
    assert "fma" not in ptx and ptx.count("mul.rn.f32") == ptx.count("add.rn.f32") == 4
