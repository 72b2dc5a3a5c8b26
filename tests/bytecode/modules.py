"""Modules that tests of the writer make."""

from __future__ import annotations

from xdsl.dialects.builtin import (
    FunctionType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Block, Region

import tileiras.dialects.cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import SymbolVisibility, SymbolVisibilityAttr
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TileType

I32, I64 = IntegerType(32), IntegerType(64)


def global_op(visibility=SymbolVisibility.PUBLIC, constant: bool = False) -> ct.GlobalOp:
    """A global `g` of two i32."""
    properties = {
        "sym_name": StringAttr("g"),
        "value": DenseAttr(TileType(I32, (2,)), b"abcdefgh"),
        "alignment": IntegerAttr(16, I64),
        "symbol_visibility": SymbolVisibilityAttr(visibility),
    }
    if constant:
        properties["constant"] = UnitAttr()
    return ct.GlobalOp.create(properties=properties)


def entry_op(*ops, name: str = "k", arguments=(), **properties) -> ct.EntryOp:
    """An entry with a `return` at its end."""
    block = Block([*ops, ct.ReturnOp.create()], arg_types=arguments)
    return ct.EntryOp.create(
        properties={
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(list(arguments), []),
            **properties,
        },
        regions=[Region(block)],
    )


def module_of(*ops, **properties) -> ModuleOp:
    """A module of these entries and globals."""
    kernels = ct.ModuleOp.create(
        properties={"sym_name": StringAttr("kernels"), **properties},
        regions=[Region(Block(ops))],
    )
    return ModuleOp([kernels])
