"""Functions and globals: headers by version, hints, what cannot be an entry."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import IntegerAttr, IntegerType

import tileiras.dialects.cuda_tile as ct
from tileiras.bytecode.format import Section
from tileiras.bytecode.reader import read_module
from tileiras.dialects.cuda_tile.attributes import SymbolVisibility
from tileiras.errors import BytecodeError

from .files import File, i64s, join, split

RETURN = bytes([92, 0, 0])
HINTS = bytes([11, 1, 1, 10, 1, 2, 1, 1, 4])
"""`<sm_90 = {occupancy = 4}>` with type 1 = i32."""


def entry_of(head: bytes, version=(13, 4)) -> ct.EntryOp:
    """The entry that a function header (without name and type) makes."""
    source = File(version=version, types=[b"\x03"], strings=[b"sm_90", b"occupancy"])
    function = bytes([1, 0, 0]) + head + bytes([len(RETURN)]) + RETURN
    data = join(version, split(source.build()) | {Section.FUNC: function})
    (kernels,) = read_module(data).body.ops
    assert isinstance(kernels, ct.ModuleOp)
    entry = kernels.body.block.first_op
    assert isinstance(entry, ct.EntryOp)
    return entry


def test_entry_without_hints():
    entry = entry_of(bytes([2, 0]))
    assert entry.sym_name.data == "k"
    assert entry.optimization_hints is None
    assert [op.name for op in entry.body.block.ops] == ["cuda_tile.return"]


@pytest.mark.parametrize(
    ("version", "head"),
    [((13, 1), bytes([6, 0]) + HINTS), ((13, 5), bytes([2, 0]) + HINTS + bytes([6, 0]))],
)
def test_entry_with_hints(version, head):
    hints = entry_of(head, version).optimization_hints
    assert hints is not None
    assert hints.value.data["sm_90"].data["occupancy"] == IntegerAttr(4, IntegerType(32))


def test_flags_without_meaning_are_ignored_before_13_4():
    assert entry_of(bytes([0x82, 0]), (13, 3)).sym_name.data == "k"


def test_hints_of_13_5_that_are_empty_count_as_none():
    assert entry_of(bytes([2, 0, 11, 0, 6, 0]), (13, 5)).optimization_hints is None


def test_argument_attributes_of_13_5():
    entry = entry_of(bytes([2, 0, 11, 0, 6, 1, 3, 1]), (13, 5))
    assert entry.arg_attrs is not None
    assert entry.arg_attrs.data == (IntegerAttr.from_bool(True),)


@pytest.mark.parametrize(
    ("head", "version", "message"),
    [
        ([0, 0], (13, 4), "un-expected non-entry function 'k'"),
        ([3, 0], (13, 4), "entry 'k' must have public symbol visibility"),
        ([10, 0], (13, 4), "unknown function flags 0xa"),
        ([6, 0, 11, 0, 6, 0], (13, 5), "unknown function flags 0x6"),
        ([6, 0, 6, 0], (13, 4), "expected optimization hints, got array"),
        ([2, 0, 11, 0, 11, 0], (13, 5), "expected argument attributes, got cuda_tile.optimiz"),
        ([2, 1], (13, 4), "location index 1 without a debug section"),
    ],
)
def test_bad_function_header_is_refused(head, version, message):
    with pytest.raises(BytecodeError) as info:
        entry_of(bytes(head), version)
    assert message in info.value.message


def test_function_of_another_type_is_refused():
    data = File(types=[b"\x03"]).build()
    sections = split(data)
    sections[Section.FUNC] = bytes([1, 0, 1, 2, 0, 3]) + RETURN
    with pytest.raises(BytecodeError, match="a function cannot be of type i32"):
        read_module(join((13, 4), sections))


def global_of(payload: bytes, version) -> ct.GlobalOp:
    """The global of a file with one."""
    source = File(
        version=version,
        types=[b"\x03", b"\x0d\x01" + i64s(2)],
        strings=[b"g"],
        constants=[b"abcdefgh", b"abc"],
        sections={Section.GLOBAL: payload},
    )
    (kernels,) = read_module(source.build()).body.ops
    assert isinstance(kernels, ct.ModuleOp)
    op = kernels.body.block.first_op
    assert isinstance(op, ct.GlobalOp)
    return op


def test_global_is_public_and_mutable_in_old_files():
    op = global_of(bytes([1, 1, 2, 0, 16]), (13, 2))
    assert op.sym_name.data == "g"
    assert op.alignment.value.data == 16
    assert op.value.raw.data == b"abcdefgh"
    assert op.symbol_visibility.data is SymbolVisibility.PUBLIC
    assert op.constant is None


def test_global_says_visibility_and_constness_since_13_3():
    op = global_of(bytes([1, 1, 2, 0, 0, 1, 1]), (13, 3))
    assert op.symbol_visibility.data is SymbolVisibility.PRIVATE
    assert op.constant is not None


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ([1, 1, 2, 0, 0, 2, 0], "symbol visibility 2 is out of range"),
        ([1, 1, 2, 1, 0, 0, 0], "failed to validate buffer size and format: 3 bytes"),
        ([1, 1, 2, 2, 0, 0, 0], "constant index 2 is out of range, there are 2"),
        ([1, 1, 2], "globals of at least 4 bytes each do not fit"),
    ],
)
def test_malformed_global_is_refused(payload, message):
    with pytest.raises(BytecodeError) as info:
        global_of(bytes(payload), (13, 4))
    assert message in info.value.message
