"""Every operation of the four dialects has a form that says all of it.

Operations are made from their definitions: the text does not ask whether they verify.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    Float8E4M3FNType,
    FunctionType,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    bf16,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Region
from xdsl.irdl import IRDLOperation

from tests.dialects.assembly.structured_text import BRANCHES, STRUCTURED
from tileiras.dialects.assembly import parse_module, print_module
from tileiras.dialects.assembly.forms_compiler import FOLLOWS, Form, attribute_class, form_of
from tileiras.dialects.assembly.structured_writers import WRITERS
from tileiras.dialects.cuda_tile.attributes import IntTupleAttr, PaddingValue, PaddingValueAttr
from tileiras.dialects.cuda_tile.constants import DenseAttr, FloatBitsAttr
from tileiras.dialects.cuda_tile.types import DYNAMIC, TileType
from tileiras.dialects.enum_attribute import EnumAttribute
from tileiras.dialects.layout.blocked import blocked
from tileiras.dialects.llvm.memory import BytesAttr
from tileiras.dialects.llvm.vectors import IndicesAttr
from tileiras.dialects.nv_tileaa.arithmetic import AddFOp, AddIOp
from tileiras.dialects.nv_tileaa.control_flow import FuncOp, ReduceOp
from tileiras.dialects.nv_tileaa.math import FmaShareAttr
from tileiras.dialects.nv_tileaa.types import MemRefType, TiledViewType
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr, encoded
from tileiras.dialects.nv_tileas.ways import InRegistersAttr
from tileiras.ir_text import register_dialects
from tileiras.registry import DIALECTS, resolve

LAYOUT = blocked((16, 64), (1, 0), 8, 4)
TENSOR = encoded(f32, LAYOUT)
MEMREF = MemRefType(f32, (DYNAMIC, 64), (DYNAMIC, 1))
VIEW = TiledViewType.new(
    [
        MEMREF,
        IntTupleAttr((16, 64)),
        IntTupleAttr((1, 0)),
        IntTupleAttr((16, 32)),
        PaddingValueAttr(PaddingValue.ZERO),
        IntTupleAttr((0,)),
    ]
)

VALUES: dict[type[Attribute], Attribute] = {
    IntAttr: IntAttr(4),
    IntegerAttr: IntegerAttr(2, i32),
    StringAttr: StringAttr("word"),
    UnitAttr: UnitAttr(),
    IntTupleAttr: IntTupleAttr((1, -2)),
    IndicesAttr: IndicesAttr((0, -1)),
    BytesAttr: BytesAttr(b"\x00\xff"),
    ArrayAttr: ArrayAttr([IntegerAttr(0, i32)]),
    DictionaryAttr: DictionaryAttr({"latency": IntegerAttr(2, i32)}),
    DenseAttr: DenseAttr(TileType(f32, (2,)), bytes(8)),
    SymbolRefAttr: SymbolRefAttr("there"),
    LayoutEncodingAttr: LayoutEncodingAttr(LAYOUT),
    FmaShareAttr: FmaShareAttr.of(pairs=1, of=8),
}
"""A value of each kind of property."""

OPERATIONS: list[type[IRDLOperation]] = [
    op
    for dialect in ("nv_tileaa", "nv_tileas", "llvm", "nvvm")
    for op in resolve(DIALECTS[dialect]).operations
]
FORMED = [op for op in OPERATIONS if op.name not in WRITERS]


def property_value(name: str, op_class: type[IRDLOperation]) -> Attribute:
    """Some value that a property may have."""
    if name == "inbounds":
        return DenseArrayBase.from_list(i1, [-1, 0])
    if name == "permutation":
        return DenseArrayBase.from_list(i32, [1, 0])
    if name == "base_align":
        return IntegerAttr(16, i64)
    if name == "by":
        return InRegistersAttr()
    cls: Any = attribute_class(op_class.get_irdl_definition().properties[name].constr)
    assert cls is not None, f"{op_class.name} takes anything as {name}"
    if issubclass(cls, EnumAttribute):
        return cls(list(cls.enum_type)[-1])
    return VALUES[cls]


def types_of(form: Form, count: dict[str, int]) -> dict[str, list[Attribute]]:
    """Types for all values, those that follow from others as the form says."""
    types: dict[str, list[Attribute]] = {}
    views = {rule.of for rule in form.rules.values() if rule.function == "memref"}
    for name in (*form.written[0], *form.written[1]):
        types[name] = [VIEW if name in views else TENSOR] * count[name]
    if form.functional:
        types = {name: [TENSOR] * number for name, number in count.items()}
    for name, rule in form.rules.items():
        if rule.fixed is not None:
            types[name] = [rule.fixed] * count[name]
        else:
            sources: list[Any] = [FOLLOWS[rule.function](type) for type in types[rule.of]]
            types[name] = sources if len(sources) > 1 else sources * count[name]
    return types


def build(op_class: type[IRDLOperation], full: bool) -> ModuleOp:
    """A module with one operation: with all that it may have, or with the least."""
    form = form_of(op_class)
    several = 2 if full else 0
    size = {"one": 1, "optional": int(full), "many": several}
    cardinalities = {**form.operands, **form.results}
    count = {name: size[kind] for name, kind in cardinalities.items()}
    if form.functional:
        for name, kind in form.results.items():
            count[name] = 1 if kind == "one" else count[name]
    types = types_of(form, count)
    operands = [type for name in form.operands for type in types[name]]
    results = [type for name in form.results for type in types[name]]
    block = Block(arg_types=operands)
    names = form.kinds if full else sorted(form.required)
    properties = {name: property_value(name, op_class) for name in names}
    for name in form.segments:
        values = form.operands if name.startswith("operand") else form.results
        sizes = [len(types[value]) for value in values]
        properties[name] = DenseArrayBase.from_list(i32, sizes)
    definition = op_class.get_irdl_definition()
    optional = [type(region).__name__.startswith("Opt") for _, region in definition.regions]
    regions = [
        Region(Block(arg_types=[f32] if full else []))
        for is_optional in optional
        if full or not is_optional
    ]
    block.add_op(
        op_class.create(
            operands=block.args, result_types=results, properties=properties, regions=regions
        )
    )
    return module_of(block)


def module_of(block: Block) -> ModuleOp:
    """A module with a function of one block."""
    kind = FunctionType.from_lists([argument.type for argument in block.args], [])
    properties = {"sym_name": StringAttr("f"), "function_type": kind}
    return ModuleOp([FuncOp.create(properties=properties, regions=[Region(block)])])


def read(text: str) -> ModuleOp:
    """The module of a text, which is not verified."""
    context = Context()
    register_dialects(context)
    return parse_module(context, text, "k.mlir").module


@pytest.mark.parametrize("full", [True, False], ids=["full", "least"])
@pytest.mark.parametrize("op_class", FORMED, ids=[op.name for op in FORMED])
def test_operation_is_read_as_it_was_printed(op_class: type[IRDLOperation], full: bool) -> None:
    """In its own form, and printed again the same."""
    module = build(op_class, full)
    text = print_module(module)
    assert f'"{op_class.name}"' not in text, f"only generic form says it all:\n{text}"
    again = read(text)
    assert module.is_structurally_equivalent(again), text
    assert print_module(again) == text


def test_every_operation_has_a_form_of_its_own_or_from_the_table() -> None:
    """None is forgotten: those left out above are tested by examples."""
    assert {op.name for op in OPERATIONS} == {op.name for op in FORMED} | WRITERS.keys()


@pytest.mark.parametrize(
    "text",
    [
        STRUCTURED.replace("!memref0 = !nv_tileaa.memref<?x64xf32, strides = [?, 1]>\n", ""),
        BRANCHES,
    ],
)
def test_control_flow_and_constants_are_read_as_printed(text: str) -> None:
    """Functions, loops, branches, constants: the operations with a syntax of their own."""
    assert print_module(read(text)) == text


def test_types_are_not_repeated_where_they_follow() -> None:
    """One type for an addition; a tensor names its layout by an alias."""
    text = print_module(build(AddFOp, False))
    assert "%0 = nv_tileaa.addf %arg0, %arg1" in text
    assert text.count(": tensor<16x64xf32, #blocked0>") == 3  # two arguments and the operation


def test_what_a_form_cannot_say_is_printed_in_generic_form() -> None:
    """An addition of different types does not verify, and is shown as it is."""
    properties = {"overflow": property_value("overflow", AddIOp)}
    block = Block(arg_types=[i32, i64])
    block.add_op(AddIOp.create(operands=block.args, result_types=[i32], properties=properties))
    text = print_module(module_of(block))
    assert '"nv_tileaa.addi"(%arg0, %arg1)' in text
    assert print_module(read(text)) == text


IDENTITIES = [
    (IntegerAttr(-5, i64), "-5 : i64"),
    (IntegerAttr.from_bool(True), "true : i1"),
    (FloatBitsAttr(0x80000000, f32), "-0.000000e+00 : f32"),
    (FloatBitsAttr(0x7FC00001, f32), "0x7FC00001 : f32"),
    (FloatBitsAttr(0xFF80, bf16), "0xFF80 : bf16"),
    (FloatBitsAttr(0x38, Float8E4M3FNType()), "1.000000e+00 : f8E4M3FN"),
    (IntegerAttr(0xFFFFFFFF, i32), None),
    (FloatBitsAttr(1 << 32, f32), None),
    (FloatBitsAttr(0, i32), None),
    (StringAttr("word"), None),
]
"""A number and its text; None: the operation is printed in generic form."""


@pytest.mark.parametrize(("value", "number"), IDENTITIES)
def test_identities_are_numbers(value: Attribute, number: str | None) -> None:
    """Bit for bit; what no number says stays an attribute."""
    block = Block(arg_types=[f32])
    properties = {"dim": IntegerAttr(0, i32), "identities": ArrayAttr([value])}
    body = Region(Block(arg_types=[f32, f32]))
    block.add_op(
        ReduceOp.create(
            operands=block.args, result_types=[f32], properties=properties, regions=[body]
        )
    )
    module = module_of(block)
    text = print_module(module)
    assert (f"dim 0 identities [{number}]" in text) == (number is not None), text
    assert module.is_structurally_equivalent(read(text))
