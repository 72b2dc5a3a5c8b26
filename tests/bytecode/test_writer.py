"""Whole files: byte-exact round trips, numbering, what cannot be written."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from xdsl.ir import Block, Region

import tileiras.dialects.cuda_tile as ct
from tests.bytecode.modules import entry_op, global_op, module_of
from tileiras.bytecode.format import VERSIONS, Section
from tileiras.bytecode.reader import read_layout, read_module
from tileiras.bytecode.records import MAX_REGION_DEPTH
from tileiras.bytecode.writer import write_module
from tileiras.dialects.cuda_tile.attributes import SymbolVisibility
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import PointerType, TileType
from tileiras.errors import BytecodeError, UsageError

from .files import File, corpus_files, needs_corpus, split

I32, I64 = IntegerType(32), IntegerType(64)
SCALAR = TileType(I32)


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_module_is_read_back(version):
    data = write_module(module_of(), version)
    assert data[8:10] == bytes(version)
    assert str(read_module(data)) == str(module_of())


@pytest.mark.parametrize("version", VERSIONS)
def test_globals_and_several_entries_are_read_back(version):
    address = ct.GetGlobalOp.create(
        properties={"name": SymbolRefAttr("g")}, result_types=[TileType(PointerType(I32))]
    )
    module = module_of(global_op(), entry_op(name="a"), entry_op(address, name="b"))
    data = write_module(module, version)
    again = read_module(data)
    assert str(again) == str(module)
    assert write_module(again, version) == data


def test_sections_are_in_the_clients_order():
    data = write_module(module_of(global_op(), entry_op(), producer=StringAttr("me")))
    assert list(split(data)) == [
        Section.FUNC,
        Section.GLOBAL,
        Section.CONSTANT,
        Section.DEBUG,
        Section.TYPE,
        Section.STRING,
        Section.PRODUCER,
    ]


def test_first_types_are_i1_and_i32():
    assert read_layout(write_module(module_of())).types == (IntegerType(1), I32)


def test_equal_things_are_stored_once():
    constants = [
        ct.ConstantOp.create(
            properties={"value": DenseAttr(SCALAR, b"abcd")}, result_types=[SCALAR]
        )
        for _ in range(2)
    ]
    layout = read_layout(write_module(module_of(entry_op(*constants))))
    assert layout.constants == (b"abcd",)
    assert layout.types.count(SCALAR) == 1


def test_layout_keeps_what_nothing_refers_to():
    source = File(types=[b"\x09", b"\x08"], strings=[b"unused"], constants=[b"abcd"])
    data = source.build()
    layout = read_layout(data)
    assert layout.strings == (b"k", b"unused")
    written = write_module(read_module(data), layout=layout)
    assert {**split(written), Section.DEBUG: b""} == {
        **split(data),
        Section.DEBUG: b"",
        Section.FUNC: split(written)[Section.FUNC],
    }


def test_unknown_version_is_a_usage_error():
    with pytest.raises(UsageError, match="cannot write bytecode version 13.6"):
        write_module(module_of(), (13, 6))


def nested(depth: int) -> ct.LoopOp:
    """Loops in loops."""
    op = ct.BreakOp.create()
    for _ in range(depth):
        op = ct.LoopOp.create(regions=[Region(Block([op]))])
    assert isinstance(op, ct.LoopOp)
    return op


def test_nesting_is_bounded_as_in_the_reader():
    read_module(write_module(module_of(entry_op(nested(MAX_REGION_DEPTH)))))
    with pytest.raises(BytecodeError, match=f"nested more than {MAX_REGION_DEPTH} regions deep"):
        write_module(module_of(entry_op(nested(MAX_REGION_DEPTH + 1))))


def undefined_use() -> ct.NegFOp:
    """An operation whose operand no block defines."""
    stray = Block(arg_types=[SCALAR])
    return ct.NegFOp.create(operands=[stray.args[0]], result_types=[SCALAR])


@pytest.mark.parametrize(
    ("module", "version", "message"),
    [
        (ModuleOp([]), (13, 4), "expected a module that holds exactly one 'cuda_tile.module'"),
        (
            module_of(ModuleOp([])),
            (13, 4),
            "'builtin.module' cannot be written at the top level of Tile IR bytecode",
        ),
        (
            module_of(entry_op(ModuleOp([]))),
            (13, 4),
            "'builtin.module' cannot be written as Tile IR bytecode",
        ),
        (
            module_of(producer=StringAttr("me")),
            (13, 2),
            "'cuda_tile.module' producer requires bytecode version 13.3+, but targeting 13.2",
        ),
        (
            module_of(global_op(constant=True)),
            (13, 2),
            "'cuda_tile.global' private or constant requires bytecode version 13.3+, "
            "but targeting 13.2",
        ),
        (
            module_of(global_op(SymbolVisibility.PRIVATE)),
            (13, 1),
            "'cuda_tile.global' private or constant requires bytecode version 13.3+, "
            "but targeting 13.1",
        ),
        (
            module_of(entry_op(arg_attrs=ArrayAttr([UnitAttr()]))),
            (13, 4),
            "'cuda_tile.entry' argument attributes requires bytecode version 13.5+, "
            "but targeting 13.4",
        ),
        (
            module_of(entry_op(arg_attrs=ArrayAttr([UnitAttr()]))),
            (13, 5),
            "attribute unit cannot be written as Tile IR bytecode",
        ),
        (
            module_of(entry_op(undefined_use())),
            (13, 4),
            "'cuda_tile.negf' uses a value that is not defined before it",
        ),
        (
            module_of(entry_op(ct.AddFOp.create(result_types=[SCALAR]))),
            (13, 4),
            "'cuda_tile.addf' lacks the attribute 'rounding_mode'",
        ),
        (
            module_of(entry_op(ct.NegFOp.create(result_types=[SCALAR]))),
            (13, 4),
            "'cuda_tile.negf' has 0 operands, expected 1",
        ),
        (
            module_of(entry_op(ct.NegFOp.create())),
            (13, 4),
            "'cuda_tile.negf' has 0 results, expected 1",
        ),
        (
            module_of(entry_op(ct.LoopOp.create())),
            (13, 4),
            "'cuda_tile.loop' has 0 regions, expected 1",
        ),
        (
            module_of(entry_op(ct.MakeTensorViewOp.create())),
            (13, 4),
            "'cuda_tile.make_tensor_view' needs operandSegmentSizes of 3 groups",
        ),
        (
            module_of(entry_op(ct.AssertOp.create(properties={"message": UnitAttr()}))),
            (13, 4),
            "'cuda_tile.assert' attribute 'message' cannot be unit",
        ),
    ],
)
def test_what_cannot_be_written_is_an_error(module, version, message):
    with pytest.raises(BytecodeError) as info:
        write_module(module, version)
    assert info.value.message == message


@needs_corpus
def test_corpus_is_written_back_byte_by_byte():
    different = []
    for path in corpus_files():
        data = path.read_bytes()
        if write_module(read_module(data), layout=read_layout(data)) != data:
            different.append(path.name)
    assert not different


@needs_corpus
def test_numbering_by_first_use_is_the_clients_in_nearly_all_files():
    """The client registers a few types earlier than it uses them: see docs/bytecode.md."""
    paths = corpus_files()[::4]
    different = []
    for path in paths:
        data = path.read_bytes()
        if write_module(read_module(data), (data[8], data[9])) != data:
            different.append(path.name)
    assert len(different) <= len(paths) // 50
