"""The engine of the conversion: a linear rebuild, a value map, a rule per operation class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.analysis.facts import Facts
from tileiras.dialects.locations import place_of
from tileiras.errors import CompileError
from tileiras.passes.cuda_tile_to_nv_tileaa.types import convert_type
from tileiras.passes.op_builder import OpBuilder

Rule = Callable[["Converter", Any], Sequence[SSAValue]]
"""Emits the operations that replace one, and returns the values of its results."""


class Converter(OpBuilder):
    """Rebuilds blocks of cuda_tile operations as nv_tileaa operations.

    `facts` are the analysis results on the source values, `gpu_name` selects optimization hints.
    Accesses to views get hints for TMA if `prefers_tma` is True, against it if False.
    """

    def __init__(
        self,
        rules: Mapping[type[Operation], Rule],
        facts: Facts,
        gpu_name: str,
        prefers_tma: bool | None = None,
    ):
        super().__init__()
        self.rules = rules
        self.facts = facts
        self.gpu_name = gpu_name
        self.prefers_tma = prefers_tma
        self.values: dict[SSAValue, SSAValue] = {}

    def map_values(self, old: Sequence[SSAValue], new: Sequence[SSAValue]) -> None:
        """Records what the old values have become."""
        self.values.update(zip(old, new, strict=True))

    def value(self, old: SSAValue) -> SSAValue:
        """What a source value has become."""
        return self.values[old]

    def mapped(self, olds: Sequence[SSAValue]) -> list[SSAValue]:
        """What source values have become."""
        return [self.values[old] for old in olds]

    def emit_value(
        self,
        op_class: type[Operation],
        operands: Sequence[SSAValue],
        result_type: Attribute,
        properties: Mapping[str, Attribute] | None = None,
    ) -> SSAValue:
        """Appends an operation with one result and returns that."""
        return self.emit(op_class, operands, [result_type], properties).results[0]

    def convert_block_into(self, source: Block, target: Block) -> None:
        """Converts the operations of one block, in order, to the end of another."""
        outer_block, outer_location = self.block, self.location
        self.block = target
        for op in source.ops:
            self.location = op.location
            rule = self.rules.get(type(op))
            if rule is None:
                name = op.name.removeprefix("cuda_tile.")
                raise CompileError(f"'{name}' op is not supported yet", place_of(op))
            self.map_values(op.results, rule(self, op))
        self.block, self.location = outer_block, outer_location

    def convert_region(self, region: Region) -> Region:
        """A converted copy of a region of one block (or none)."""
        source = region.first_block
        if source is None:
            return Region()
        block = Block(arg_types=[convert_type(arg.type) for arg in source.args])
        self.map_values(source.args, block.args)
        self.convert_block_into(source, block)
        return Region(block)
