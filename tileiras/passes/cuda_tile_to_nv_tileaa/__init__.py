"""The pass `convert-cudatile-to-tileaa`: tiles become tensors, memory order and facts explicit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Operation, Region

from tileiras.analysis.facts import analyze_entry
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.errors import CompileError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.options import PREFER_TMA, CompileOptions
from tileiras.passes.cuda_tile_to_nv_tileaa.converter import Converter
from tileiras.passes.cuda_tile_to_nv_tileaa.hints import hints_for
from tileiras.passes.cuda_tile_to_nv_tileaa.rules import RULES
from tileiras.passes.cuda_tile_to_nv_tileaa.types import convert_type


@dataclass(frozen=True)
class ConvertCudaTileToTileAAPass(IrPass):
    """Rebuilds every entry as an nv_tileaa function.

    Before   cuda_tile entries and globals inside one cuda_tile.module
    After    nv_tileaa.func and .global at top level; tiles are tensors, rank-0 tiles scalars
    Requires a verified cuda_tile module
    Leaves   nothing of cuda_tile; assume predicates are gone, their facts sit on memory operations
    """

    name = "convert-cudatile-to-tileaa"
    title: ClassVar[str] = "Convert cuda_tile to nv_tileaa"
    settles: ClassVar[bool] = False  # the border of the stage is its check

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Converts all entries and globals of the module `op`."""
        converted: list[Operation] = []
        for container in list(op.body.ops):
            if not isinstance(container, ct.ModuleOp):
                continue
            for item in container.body.block.ops:
                converted.append(_convert_item(item, ctx.options))
            container.detach()
        for item in converted:
            op.body.block.add_op(item)


def _convert_item(item: Operation, options: CompileOptions) -> Operation:
    """One entry or global at its new level."""
    if isinstance(item, ct.EntryOp):
        return _convert_entry(item, options)
    if isinstance(item, ct.GlobalOp):
        return aa.GlobalOp.create(properties=dict(item.properties), location=item.location)
    raise CompileError(f"'{item.name}' op is not supported at module level", place_of(item))


def _convert_entry(entry: ct.EntryOp, options: CompileOptions) -> aa.FuncOp:
    """The kernel function of an entry."""
    source = entry.body.block
    types = [convert_type(arg.type) for arg in source.args]
    block = Block(arg_types=types)
    prefers_tma = options.switch(PREFER_TMA)
    converter = Converter(RULES, analyze_entry(entry), options.gpu_name, prefers_tma)
    converter.map_values(source.args, block.args)
    converter.convert_block_into(source, block)
    properties = {
        "sym_name": entry.sym_name,
        "function_type": FunctionType.from_lists(types, []),
    }
    hints = hints_for(entry.optimization_hints, options.gpu_name)
    if hints is not None:
        properties["hints"] = hints
    return aa.FuncOp.create(properties=properties, regions=[Region(block)], location=entry.location)
