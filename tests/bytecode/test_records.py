"""Operation records: results, flags, attributes, operands and regions, byte by byte."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr

import tileiras.dialects.cuda_tile as ct
from tileiras.bytecode.records import MAX_REGION_DEPTH
from tileiras.dialects.cuda_tile.attributes import (
    AtomicRMWMode,
    IntegerOverflow,
    MemoryOrdering,
    MemoryScope,
    RoundingMode,
    Signedness,
)
from tileiras.dialects.cuda_tile.types import TOKEN
from tileiras.errors import BytecodeError

from .files import File, i32s, i64s

# Types from id 1 on: f32, tile<f32>, i32, tile<i32>, token.
SCALARS = [b"\x07", b"\x0d\x01\x00", b"\x03", b"\x0d\x03\x00", b"\x11"]
FLOAT, INT, TOKEN_ID = 2, 4, 5
RETURN = bytes([92, 0, 0])


def file(body: bytes, version=(13, 4), arguments=(FLOAT, INT, TOKEN_ID), **more) -> File:
    """An entry with a float %0, an int %1 and a token %2."""
    return File(body=body, version=version, types=SCALARS, arguments=list(arguments), **more)


def error_of(source: File) -> BytecodeError:
    """The error that reading raises."""
    with pytest.raises(BytecodeError) as info:
        source.read()
    return info.value


def test_flags_attributes_and_operands_in_order():
    op = file(bytes([2, FLOAT, 1, 3, 0, 0])).read_op()
    assert isinstance(op, ct.AddFOp)
    assert op.rounding_mode.data is RoundingMode.POSITIVE_INF
    assert op.flush_to_zero == UnitAttr()
    assert op.lhs is op.rhs
    assert str(op.result.type) == str(op.lhs.type)


def test_flag_not_set_leaves_unit_attribute_out():
    op = file(bytes([2, FLOAT, 0, 0, 0, 0])).read_op()
    assert isinstance(op, ct.AddFOp)
    assert op.flush_to_zero is None


def test_results_are_numbered_in_order():
    block = file(bytes([79, FLOAT, 0, 79, FLOAT, 3, *RETURN])).read()
    first, second, _ = block.ops
    assert second.operands[0] is first.results[0]


@pytest.mark.parametrize(
    ("version", "body", "mode"),
    [
        ((13, 1), bytes([106, FLOAT, 0]), RoundingMode.FULL),
        ((13, 2), bytes([106, FLOAT, 4, 0]), RoundingMode.APPROX),
        ((13, 2), bytes([23, FLOAT, 0]), RoundingMode.FULL),
        ((13, 3), bytes([23, FLOAT, 4, 0]), RoundingMode.APPROX),
    ],
)
def test_attribute_missing_in_older_files_has_its_default(version, body, mode):
    op = file(body, version).read_op()
    assert isinstance(op, ct.TanHOp | ct.ExpOp)
    assert op.rounding_mode.data is mode


def test_overflow_of_negi_exists_since_13_2():
    old = file(bytes([80, INT, 1]), (13, 1)).read_op()
    new = file(bytes([80, INT, 1, 1]), (13, 2)).read_op()
    assert isinstance(old, ct.NegIOp)
    assert isinstance(new, ct.NegIOp)
    assert old.overflow.data is IntegerOverflow.NONE
    assert new.overflow.data is IntegerOverflow.NO_SIGNED_WRAP


@pytest.mark.parametrize(
    ("version", "body", "saturating"),
    [
        ((13, 3), bytes([43, INT, 1, 6, 0]), False),
        ((13, 4), bytes([43, INT, 0, 1, 6, 0]), False),
        ((13, 4), bytes([43, INT, 1, 1, 6, 0]), True),
    ],
)
def test_flags_of_ftoi_exist_since_13_4(version, body, saturating):
    op = file(body, version).read_op()
    assert isinstance(op, ct.FToIOp)
    assert op.signedness.data is Signedness.SIGNED
    assert (op.saturating is not None) == saturating


def test_print_has_a_token_that_old_files_do_not_number():
    body = bytes([85, 0, 1, 1, 1, 79, FLOAT, 3])
    old = file(body[:5] + bytes([79, FLOAT, 0, 79, FLOAT, 3]), (13, 1), strings=[b"%d"]).read()
    print_op, first, second = old.ops
    assert isinstance(print_op, ct.PrintTkoOp)
    assert print_op.result_token.type == TOKEN
    assert print_op.format.data == "%d"
    assert second.operands[0] is first.results[0]


def test_print_takes_a_token_since_13_2():
    body = bytes([85, 1, TOKEN_ID, 1, 1, 1, 1, 2])
    op = file(body, (13, 2), strings=[b"%d"]).read_op()
    assert isinstance(op, ct.PrintTkoOp)
    assert op.token is not None
    assert [str(v.type) for v in op.args] == [str(op.operands[0].type)]


def test_segments_follow_the_flags():
    # mask and token of an atomic; then the token alone
    block = file(
        bytes([8, INT, TOKEN_ID, 3, 1, 1, 3, 1, 1, 1, 2])
        + bytes([8, INT, TOKEN_ID, 2, 4, 2, 9, 1, 1, 2])
    ).read()
    both, token_only = block.ops
    assert isinstance(both, ct.AtomicRMWTkoOp)
    assert isinstance(token_only, ct.AtomicRMWTkoOp)
    assert both.mask is both.arg
    assert both.token is not None
    assert both.mode.data is AtomicRMWMode.ADD
    assert token_only.mask is None
    assert token_only.token is both.token
    assert token_only.memory_ordering_semantics.data is MemoryOrdering.ACQ_REL
    assert token_only.memory_scope.data is MemoryScope.SYS


VIEW_13_1 = [b"\x0e\x01" + i64s(16, 16) + i64s(16, 1), b"\x0f" + i32s(4, 4) + b"\x06" + i32s(0, 1)]


@pytest.mark.parametrize(
    ("version", "inbounds", "expected"),
    [((13, 3), b"", (0, 0)), ((13, 4), b"\x02\x01\x00", (-1, 0))],
)
def test_inbounds_of_a_view_access(version, inbounds, expected):
    tensor, view = VIEW_13_1
    if version >= (13, 3):
        view = view[:1] + b"\x00" + view[1:]
    if version >= (13, 4):
        tensor = tensor[:1] + b"\x00" + tensor[1:]
    tile = b"\x0d\x01" + i64s(4, 4)
    body = bytes([62, 2, 8, TOKEN_ID, 0, 0]) + inbounds + bytes([0, 2, 1, 1])
    op = File(
        body=body, version=version, types=[*SCALARS, tensor, view, tile], arguments=[7, INT]
    ).read_op()
    assert isinstance(op, ct.LoadViewTkoOp)
    assert isinstance(op.inbounds, DenseArrayBase)
    assert op.inbounds.get_values() == expected
    assert len(op.index) == 2


def test_integers_are_read_by_their_width():
    cat = file(bytes([12, FLOAT, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0, 0])).read_op()
    alloca = file(bytes([113, FLOAT, 1, *([0xFF] * 9), 1, 16])).read_op()
    assert isinstance(cat, ct.CatOp)
    assert isinstance(alloca, ct.AllocaOp)
    assert cat.dim == IntegerAttr(-1, 32)
    assert alloca.num_elem == IntegerAttr(-1, 64)
    assert alloca.is_global is not None


def test_results_of_a_region_op_reuse_the_numbers_of_its_region():
    # %3 = loop iter(%0) { ^(%3): %4 = negf %3; break %4 }  ;  negf %3
    inner = bytes([79, FLOAT, 3, 10, 0, 1, 4])
    loop = bytes([65, 1, FLOAT, 1, 0, 1, 1, 1, FLOAT, 2]) + inner
    block = file(loop + bytes([79, FLOAT, 3]) + RETURN).read()
    op, use, _ = block.ops
    assert isinstance(op, ct.LoopOp)
    assert use.operands[0] is op.results[0]
    negation = op.body.block.first_op
    assert negation is not None
    assert negation.operands[0] is op.body.block.args[0]


def test_absent_else_is_a_region_without_blocks():
    body = bytes([50, 0, 1, 2, 1, 0, 1, 109, 0, 0, 0])
    op = file(body).read_op()
    assert isinstance(op, ct.IfOp)
    assert op.then_region.block.first_op is not None
    assert not op.else_region.blocks


@pytest.mark.parametrize(
    ("version", "body", "message"),
    [
        ((13, 4), [25], "unknown or unimplemented opcode: 25"),
        ((13, 4), [22], "unknown or unimplemented opcode: 22"),
        ((13, 1), [110], "unsupported opcode 110 for bytecode version 13.1"),
        ((13, 2), [111], "unsupported opcode 111 for bytecode version 13.2"),
        ((13, 3), [118], "unsupported opcode 118 for bytecode version 13.3"),
        ((13, 4), [123], "unsupported opcode 123 for bytecode version 13.4"),
        ((13, 5), [0x82, 0x80, 1], "opcode 0x4002 is preview content, which is not supported"),
        ((13, 4), [79, 9, 0], "type index 9 is out of range, there are 6"),
        ((13, 4), [79, FLOAT, 3], "operand index 3 is out of range, there are 3"),
        ((13, 4), [2, FLOAT, 2, 0, 0, 0], "unknown flags 0x2 of 'cuda_tile.addf'"),
        ((13, 4), [2, FLOAT, 0, 8, 0, 0], "invalid enum value 8 of 'rounding_mode'"),
        (
            (13, 3),
            [2, FLOAT, 0, 7, 0, 0],
            "enum value 7 is not available in bytecode version 13.3",
        ),
        ((13, 4), [83, FLOAT, 1, 255, 255, 255, 127, 0], "array contains unsupported value"),
        ((13, 4), [83, FLOAT, 1, 0, 0, 0, 128, 0], "array contains unsupported value"),
        ((13, 4), [12, FLOAT, 128, 128, 128, 128, 16, 0, 0], "does not fit in 32 bits"),
        ((13, 4), [50, 0, 1, 1, 0], "'cuda_tile.if' has 1 regions, expected 2"),
        ((13, 4), [16, FLOAT, 0], "constant index 0 is out of range, there are 0"),
        ((13, 4), [92, 127], "results of at least 1 bytes each do not fit"),
        ((13, 4), [92, 0, 127], "operands of at least 1 bytes each do not fit"),
        ((13, 4), [92, 0], "unexpected end of data"),
        ((13, 4), [65, 0, 0, 1, 1, 0, 127], "operations of at least 1 bytes each do not fit"),
        ((13, 4), [65, 0, 0, 1, 127], "blocks of at least 2 bytes each do not fit"),
        ((13, 4), [92] + [128] * 9 + [128, 0], "does not end within ten bytes"),
    ],
)
def test_malformed_record_is_refused(version, body, message):
    error = error_of(file(bytes(body), version))
    assert message in error.message
    assert error.offset is not None


def test_value_of_a_region_is_unknown_after_it():
    loop = bytes([65, 0, 0, 1, 1, 1, FLOAT, 1, 10, 0, 0])
    message = error_of(file(loop + bytes([79, FLOAT, 3]))).message
    assert "operand index 3 is out of range, there are 3" in message


def test_nesting_is_bounded():
    def nested(depth: int) -> bytes:
        return bytes([65, 0, 0, 1, 1, 0, 1]) * depth + bytes([10, 0, 0])

    assert file(nested(MAX_REGION_DEPTH)).read_op()
    message = error_of(file(nested(MAX_REGION_DEPTH + 1))).message
    assert f"regions are nested more than {MAX_REGION_DEPTH} deep" in message
    assert f"more than {MAX_REGION_DEPTH} deep" in error_of(file(nested(100_000))).message
