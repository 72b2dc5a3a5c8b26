"""What the passes that assign layouts decide, as attributes beside the operations of nv_tileaa.

    %x, %t = tiled_load %v[%i] {access = #nv_tileas.access<vector = 8, axis = 1,
                                                           layout = #blocked0>,
                                layouts = [#blocked0]}
    %d = dot %x, %b, %s        {mma = #nv_tileas.mma_sync<atom = ..., warps_m = 2, warps_n = 2>,
                                fragments = [#operand0, #operand1, #mma0],
                                operand_layouts = [#blocked0, #operand1, #mma0], layouts = [#mma0]}
    %r = reduce %d dim 1       {operand_layouts = [#mma0], layouts = [#linear0]}
    %e = exp %r                {layouts = [#linear0]}
    %o = loop                  {argument_layouts = [#mma0], layouts = [#mma0]}

`layouts`: where users find the tensors among an operation's results. `operand_layouts`: in which
layout an operation takes its tensors; one without takes them in the layout of its result, and an
access in that of the access. `argument_layouts`: of the tensors that come into its blocks. What is
made anew in each layout that is asked for (constants, ranges, splats, and reshapes, permutations
and broadcasts) has none of them. They last until `convert-tileaa-to-tileas` has acted on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.named_values import NamedValues
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr, parse_numbers_and_layout

if TYPE_CHECKING:
    from xdsl.parser import AttrParser

FRAGMENTS = "fragments"
"""Of a product: the layouts that its instructions want, operands in registers first, then sums."""
LAYOUTS, OPERAND_LAYOUTS, ARGUMENT_LAYOUTS = "layouts", "operand_layouts", "argument_layouts"
ACCESS = "access"
"""Of an access to memory: an `AccessAttr`."""
SMEM_LAYOUT = "smem_layout"
"""Of a load into a buffer that all threads read: where elements lie in it."""
IN_WORDS = "in_words"
"""Of a load through a view: bytes that move one by one become words, which users take as such."""
REMATERIALIZE = "rematerialize"
"""Of an operation whose result is computed again, not converted, where other layouts are wanted."""

NAMES = (
    FRAGMENTS,
    LAYOUTS,
    OPERAND_LAYOUTS,
    ARGUMENT_LAYOUTS,
    ACCESS,
    SMEM_LAYOUT,
    IN_WORDS,
    REMATERIALIZE,
)


@irdl_attr_definition
class MmaSyncAttr(NamedValues):
    """A product by mma.sync: its instruction, and how many warps lie along M and N.

    `widens`: the operands become f16 first. `before_loop` (lhs, rhs, both): these operands are the
    same in all iterations of the loop around, and become fragments in front of it.
    """

    name = "nv_tileas.mma_sync"
    required = ("atom", "warps_m", "warps_n")
    optional = ("widens", "before_loop")


@irdl_attr_definition
class FmaAttr(NamedValues):
    """A product by fused multiply-adds; of an operand `one` batch serves all, or it has `all`."""

    name = "nv_tileas.fma"
    required = ("lhs_batches", "rhs_batches")


@irdl_attr_definition
class AccessAttr(ParametrizedAttribute):
    """An access to memory: `vector` elements along `axis` move at once, by threads of `layout`."""

    name = "nv_tileas.access"
    vector: IntAttr
    axis: IntAttr
    layout: LayoutEncodingAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parses `<vector = 8, axis = 1, layout = #blocked0>`."""
        return parse_numbers_and_layout(parser, "vector", "axis")

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<vector = 8, axis = 1, layout = #blocked0>`."""
        printer.print_string(f"<vector = {self.vector.data}, axis = {self.axis.data}, layout = ")
        printer.print_attribute(self.layout)
        printer.print_string(">")

    def verify(self) -> None:
        """A dim of the layout, and elements to move."""
        rank = self.layout.data.rank
        if not 0 <= self.axis.data < max(1, rank):
            raise VerifyException(f"{self.name}: axis {self.axis.data} of a tile of rank {rank}")
        if self.vector.data < 1:
            raise VerifyException(f"{self.name}: {self.vector.data} elements at once")


@cache
def layout_attribute(layout: LinearLayout) -> LayoutEncodingAttr:
    """The attribute of a layout (interned)."""
    return LayoutEncodingAttr(layout)


@cache
def _one_layout(layout: LinearLayout) -> ArrayAttr[LayoutEncodingAttr]:
    return ArrayAttr((layout_attribute(layout),))


def layouts_attribute(layouts: Iterable[LinearLayout]) -> ArrayAttr[LayoutEncodingAttr]:
    """The attribute of several layouts."""
    found = tuple(layouts)
    if len(found) == 1:
        return _one_layout(found[0])
    return ArrayAttr(tuple(map(layout_attribute, found)))


@cache
def access_attribute(vector: int, axis: int, layout: LinearLayout) -> AccessAttr:
    """The attribute of an access (interned)."""
    return AccessAttr(IntAttr(vector), IntAttr(axis), layout_attribute(layout))
