"""The values of a function by name, and the layouts of its tensors in CuTe's notation.

Only what shows layouts imports this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects.assembly.names import ValueNames
from tileiras.dialects.nv_tileas.cute_layouts import decomposed
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.dialects.nv_tileas.memdesc import MemDescType


@dataclass(frozen=True)
class Named:
    """A value, its name in the text, and the operation that makes it or has it as an argument."""

    value: SSAValue
    name: str
    op: Operation

    def __str__(self) -> str:
        """`%tile = nv_tileas.tiled_load : 64x32xf16`."""
        made = self.value.owner is self.op
        how = f" = {self.op.name}" if made else f" of {self.op.name}"
        return f"{self.name}{how} : {type_text(self.value)}"


def named_values(func: Operation) -> Iterator[Named]:
    """All values of a function in the order of the text, as its text names them."""
    names = ValueNames()
    names.name_all(func)
    for op in func.walk():
        values: list[SSAValue] = list(op.results)
        for region in op.regions:
            for block in region.blocks:
                values += block.args
        for value in values:
            yield Named(value, names.use(value), op)


def type_text(value: SSAValue) -> str:
    """A tensor's or tile's sizes and elements."""
    type = value.type
    if isinstance(type, TensorType):
        return "x".join([*map(str, type.get_shape()), str(type.element_type)])
    if isinstance(type, MemDescType):
        return "x".join([*map(str, type.shape), str(type.element_type)])
    return str(type)


def decomposed_lines(func: Operation) -> list[str]:
    """The layouts of all tensors of a function that have one, in the order of the text."""
    lines: list[str] = []
    for named in named_values(func):
        layout = layout_of(named.value.type)
        if layout is not None:
            lines.append(str(named))
            lines += [f"  {part:<6} {text}" for part, text in decomposed(layout)]
    return lines
