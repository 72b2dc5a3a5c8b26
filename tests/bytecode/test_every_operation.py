"""Every row of the opcode table, in every version that has it: written, read, the same again."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    Float32Type,
    FunctionType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

import tileiras.dialects.cuda_tile as ct
from tileiras.bytecode.format import VERSIONS
from tileiras.bytecode.opcodes import HIGHEST_OPCODE, OPERATIONS, plan
from tileiras.bytecode.reader import read_module
from tileiras.bytecode.records import segment_sizes
from tileiras.bytecode.schema import Arity, Attr, Kind, OpRow
from tileiras.bytecode.writer import write_module
from tileiras.dialects.cuda_tile.attributes import (
    DivByAttr,
    OptimizationHintsAttr,
    RoundingMode,
    RoundingModeAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr, FloatBitsAttr
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.errors import BytecodeError

I1, I32, I64 = IntegerType(1), IntegerType(32), IntegerType(64)
TILE = TileType(I32, (2,))
HINTS = OptimizationHintsAttr(
    DictionaryAttr(
        {"sm_90": DictionaryAttr({"allow_tma": IntegerAttr(0, I1), "latency": IntegerAttr(3, I32)})}
    )
)
SAMPLES: dict[Kind, Attribute] = {
    Kind.INT32: IntegerAttr(5, I32),
    Kind.INT64: IntegerAttr(-6, I64),
    Kind.BOOL: IntegerAttr.from_bool(True),
    Kind.STRING: StringAttr("text"),
    Kind.SYMBOL: SymbolRefAttr("text"),
    Kind.CONSTANT: DenseAttr(TILE, b"abcdefgh"),
    Kind.INT32_ARRAY: DenseArrayBase.from_list(I32, [1, 0, -7]),
    Kind.BOOL_ARRAY: DenseArrayBase.from_list(I1, [True, False]),
    Kind.ARRAY: ArrayAttr([IntegerAttr(-1, I32), FloatBitsAttr(0x3F800000, Float32Type())]),
    Kind.HINTS: HINTS,
    Kind.TAGGED: DivByAttr(IntAttr(8), NoneAttr(), NoneAttr()),
}

IDS = [row.cls.name.removeprefix("cuda_tile.") for row in OPERATIONS]


def sample(attr: Attr) -> Attribute:
    """A value of an attribute, not its default; of enums the second member, as old as the enum."""
    if attr.enum is not None:
        members = list(attr.enum.enum_type)  # type: ignore
        return attr.enum(members[1])
    return SAMPLES.get(attr.kind) or attr.default or NoneAttr()


def make(row: OpRow, version: tuple[int, int], operands: SSAValue, full: bool) -> Operation:
    """An operation of a row that a version can express, with or without all that is optional."""
    record = plan(row, version)
    properties: dict[str, Attribute] = {}
    for attr, _ in record.attrs:
        if full or not attr.flagged:
            properties[attr.key] = sample(attr)
    for attr in record.missing:
        properties[attr.key] = attr.default or DenseArrayBase.from_list(I1, [False, False])
    sizes = []
    for operand, _ in record.operands:
        size = {Arity.ONE: 1, Arity.OPTIONAL: int(full), Arity.ANY: 2}[operand.arity]
        sizes.append(0 if operand.name in record.absent else size)
    if record.segmented:
        properties["operandSegmentSizes"] = segment_sizes(tuple(sizes))
    results = row.results if row.results >= 0 else 2
    types = [TILE] * results if not record.late_results else list(record.late_results)
    regions = [
        Region(Block([ct.YieldOp.create()], arg_types=[TILE])) if full else Region()
        for _ in range(row.regions)
    ]
    return row.cls.create(
        operands=[operands] * sum(sizes),
        result_types=types,
        properties=properties,
        regions=regions,
    )


def kernel(*rows: OpRow, version: tuple[int, int]) -> ModuleOp:
    """A module with one entry that holds every row twice: bare, and with everything optional."""
    block = Block(arg_types=[TILE])
    for row in rows:
        block.add_op(make(row, version, block.args[0], full=False))
        block.add_op(make(row, version, block.args[0], full=True))
    block.add_op(ct.ReturnOp.create())
    return module_of(block)


def module_of(*blocks: Block) -> ModuleOp:
    """A module with one entry."""
    entry = ct.EntryOp.create(
        properties={
            "sym_name": StringAttr("k"),
            "function_type": FunctionType.from_lists([a.type for a in blocks[0].args], []),
        },
        regions=[Region(blocks)],
    )
    kernels = ct.ModuleOp.create(
        properties={"sym_name": StringAttr("kernels")}, regions=[Region(Block([entry]))]
    )
    return ModuleOp([kernels])


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
