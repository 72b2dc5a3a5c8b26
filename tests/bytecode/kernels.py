"""Kernels that tests of the container write and read."""

from __future__ import annotations

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
from tileiras.bytecode.opcodes import plan
from tileiras.bytecode.records import segment_sizes
from tileiras.bytecode.schema import Arity, Attr, Kind, OpRow
from tileiras.dialects.cuda_tile.attributes import (
    DivByAttr,
    OptimizationHintsAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr, FloatBitsAttr
from tileiras.dialects.cuda_tile.types import TileType

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
