"""Every row of the opcode table, in every version that has it: written, read, the same again."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import (
    IntegerType,
    ModuleOp,
)
from xdsl.ir import Block, SSAValue

import tileiras.dialects.cuda_tile as ct
from tests.bytecode.kernels import TILE, kernel, make, module_of
from tileiras.bytecode.format import VERSIONS
from tileiras.bytecode.opcodes import HIGHEST_OPCODE, OPERATIONS
from tileiras.bytecode.reader import read_module
from tileiras.bytecode.writer import write_module
from tileiras.dialects.cuda_tile.attributes import (
    RoundingMode,
    RoundingModeAttr,
)
from tileiras.errors import BytecodeError

I1, I32, I64 = IntegerType(1), IntegerType(32), IntegerType(64)

IDS = [row.cls.name.removeprefix("cuda_tile.") for row in OPERATIONS]


def describe(module: ModuleOp) -> list:
    """Everything about the operations of a module, values by number."""
    numbers: dict[SSAValue, int] = {}
    result = []
    for op in module.walk():
        for region in op.regions:
            for block in region.blocks:
                for arg in block.args:
                    numbers[arg] = len(numbers)
        for value in op.results:
            numbers[value] = len(numbers)
        operands = [numbers[value] for value in op.operands]
        shape = [[len(block.args) for block in region.blocks] for region in op.regions]
        result.append((op.name, operands, [r.type for r in op.results], op.properties, shape))
    return result


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("row", OPERATIONS, ids=IDS)
def test_operation_is_the_same_after_writing_and_reading(row, version):
    if row.since > version:
        bare = kernel(row, version=row.since)
        with pytest.raises(BytecodeError) as info:
            write_module(bare, version)
        assert f"'{row.cls.name}' operation requires bytecode version" in info.value.message
        return
    module = kernel(row, version=version)
    data = write_module(module, version)
    again = read_module(data)
    assert describe(again) == describe(module)
    assert write_module(again, version) == data


def test_table_has_every_operation_of_the_dialect():
    in_sections = {ct.EntryOp, ct.GlobalOp, ct.ModuleOp}
    assert {row.cls for row in OPERATIONS} | in_sections == set(ct.CudaTile.operations)


def test_highest_opcodes():
    assert list(HIGHEST_OPCODE.values()) == [109, 110, 117, 122, 125]


def test_operand_groups_match_the_operation_classes():
    for row in OPERATIONS:
        assert len(row.operands) == len(row.cls.get_irdl_definition().operands), row.cls.name


def test_attributes_match_the_operation_classes():
    for row in OPERATIONS:
        declared = row.cls.get_irdl_definition().properties
        assert {attr.key for attr in row.attrs} == set(declared) - {"operandSegmentSizes"}


@pytest.mark.parametrize(
    ("cls", "key", "version"),
    [
        (ct.ForOp, "unsignedCmp", (13, 1)),
        (ct.NegIOp, "overflow", (13, 1)),
        (ct.TanHOp, "rounding_mode", (13, 1)),
        (ct.ExpOp, "rounding_mode", (13, 2)),
        (ct.MmaFOp, "fast_acc", (13, 2)),
        (ct.FToIOp, "saturating", (13, 3)),
        (ct.LoadViewTkoOp, "inbounds", (13, 3)),
        (ct.StoreViewTkoOp, "inbounds", (13, 3)),
        (ct.AtomicRedViewTkoOp, "inbounds", (13, 4)),
    ],
)
def test_attribute_newer_than_the_version_is_not_dropped_silently(cls, key, version):
    row = next(row for row in OPERATIONS if row.cls is cls)
    module = kernel(row, version=(13, 5))
    with pytest.raises(BytecodeError) as info:
        write_module(module, version)
    message = f"'{cls.name}' attribute '{key}' requires bytecode version 13.{version[1] + 1}+, "
    assert info.value.message == message + f"but targeting 13.{version[1]}"


def test_print_token_is_not_dropped_silently():
    row = next(row for row in OPERATIONS if row.cls is ct.PrintTkoOp)
    with pytest.raises(BytecodeError, match="operand 'token' requires bytecode version 13.2"):
        write_module(kernel(row, version=(13, 2)), (13, 1))
    block = Block(arg_types=[TILE])
    printed = make(row, (13, 1), block.args[0], full=False)
    block.add_ops([printed, ct.ReturnOp.create(operands=[printed.results[0]])])
    with pytest.raises(BytecodeError, match="result token requires bytecode version 13.2"):
        write_module(module_of(block), (13, 1))


def test_enum_member_newer_than_the_version_is_not_written():
    block = Block(arg_types=[TILE])
    op = ct.FToFOp.create(
        operands=[block.args[0]],
        result_types=[TILE],
        properties={"rounding_mode": RoundingModeAttr(RoundingMode.NEAREST_AWAY)},
    )
    block.add_op(op)
    module = module_of(block)
    with pytest.raises(BytecodeError, match="rounding_mode 'nearest_away' requires bytecode"):
        write_module(module, (13, 3))
    assert describe(read_module(write_module(module, (13, 4)))) == describe(module)
