"""How tiles go from threads to threads: attributes that the lowering only carries out.

    %y = convert_layout %x {by = #nv_tileas.shuffles<rounds = 2, elements = 1>}
    %z = convert_layout %x {by = #nv_tileas.through_smem<store = 4, load = 1, layout = #linear2>}
    %r = reduce %x dim 1 {steps = [#nv_tileas.combine<in = registers, strides = [1, 2]>,
                                   #nv_tileas.combine<in = lanes, strides = [4, 8, 16]>,
                                   #nv_tileas.regroup<layout = #linear3, by = [...]>,
                                   #nv_tileas.combine<in = registers, strides = [1, 2]>]}
    %s = scan %x dim 0 {totals = #nv_tileas.regroup<layout = #linear3, by = [...]>}
    %e = extract %x[%i] {by = #nv_tileas.through_smem<...>}     where some threads hold no part

`tileas-legalize-reduce` writes `steps` and `totals`, `tileas-materialize-convert-layout` the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import AnyOf, BaseAttr, irdl_attr_definition
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.conversion import check_convertible
from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.offsets import storage_bytes, vector_elements
from tileiras.dialects.layout.plans import RegisterPermutation, WarpShuffle
from tileiras.dialects.layout.shuffles import plan_in_warp
from tileiras.dialects.named_values import NamedValues, parse_name
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr, parse_numbers_and_layout

if TYPE_CHECKING:
    from xdsl.parser import AttrParser

BY = "by"
"""How a tile is converted: of `convert_layout`, of an `extract` of which threads hold no part."""
STEPS = "steps"
"""Of a `reduce`: `combine`, `redux`, `find` and `regroup`, in order."""
TOTALS = "totals"
"""Of a `scan` over several warps: the `regroup` of what each of them has in all."""
UNITS = {"registers": "register", "lanes": "lane"}


@irdl_attr_definition
class InRegistersAttr(ParametrizedAttribute):
    """Every thread has the elements already: registers are named anew."""

    name = "nv_tileas.in_registers"


@irdl_attr_definition
class ShufflesAttr(NamedValues):
    """Lanes of a warp exchange registers in so many `rounds`; `elements` of them travel as one."""

    name = "nv_tileas.shuffles"
    required: ClassVar[tuple[str, ...]] = ("rounds", "elements")


@irdl_attr_definition
class ThroughSmemAttr(ParametrizedAttribute):
    """Threads store the tile to shared memory, meet, and load it.

    `layout` maps offsets, in elements, to coordinates; its swizzle keeps both sides free of bank
    conflicts. `store` and `load` elements move at once.
    """

    name = "nv_tileas.through_smem"
    store: IntAttr
    load: IntAttr
    layout: LayoutEncodingAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parses `<store = 4, load = 1, layout = #linear2>`."""
        return parse_numbers_and_layout(parser, "store", "load")

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<store = 4, load = 1, layout = #linear2>`."""
        printer.print_string(f"<store = {self.store.data}, load = {self.load.data}, layout = ")
        printer.print_attribute(self.layout)
        printer.print_string(">")

    def verify(self) -> None:
        """A map of offsets to all of a tile, and vectors."""
        layout = self.layout.data
        if layout.in_dims != ("offset",) or not layout.is_surjective:
            raise VerifyException(f"{self.name}: {layout} is no map of offsets to a tile")
        for count in (self.store.data, self.load.data):
            if count < 1 or count & (count - 1):
                raise VerifyException(f"{self.name}: {count} elements at once")


WayAttr = InRegistersAttr | ShufflesAttr | ThroughSmemAttr
"""How a tile is converted."""
WAYS = (InRegistersAttr, ShufflesAttr, ThroughSmemAttr)
IS_WAY = AnyOf(tuple(map(BaseAttr, WAYS)))


def check_way(way: WayAttr, source: LinearLayout, target: LinearLayout, bits: int) -> None:
    """VerifyException where a tile of elements of `bits` cannot go that way between layouts."""
    try:
        check_convertible(source, target)
    except LayoutError as error:
        raise VerifyException(str(error)) from error
    match way:
        case ThroughSmemAttr():
            if way.layout.data.shape != source.shape:
                raise VerifyException(f"by {way.name}, where a tile of another shape lies")
            for what, count, layout in (
                ("stores", way.store.data, source),
                ("loads", way.load.data, target),
            ):
                most = vector_elements(layout, way.layout.data, bits)
                if count > most:
                    raise VerifyException(f"by {way.name}, which {what} {count}, at most {most}")
        case ShufflesAttr():
            found = plan_in_warp(source, target, bits)
            if not isinstance(found, WarpShuffle):
                raise VerifyException(f"by {way.name}, but warps do not hold what they need")
            if way != shuffles(found):
                raise VerifyException(f"by {way}, expected {shuffles(found)}")
        case InRegistersAttr():
            if not isinstance(plan_in_warp(source, target, bits), RegisterPermutation):
                raise VerifyException(f"by {way.name}, but threads do not hold what they need")


def shuffles(plan: WarpShuffle) -> ShufflesAttr:
    """The attribute of an exchange within warps."""
    return ShufflesAttr.of(rounds=len(plan.rounds), elements=plan.pack)


def smem_bytes(way: Attribute, bits: int) -> int:
    """Shared memory that a tile of elements of `bits` takes on its way, 0 for most."""
    if not isinstance(way, ThroughSmemAttr):
        return 0
    return way.layout.data.size * storage_bytes(bits)


@irdl_attr_definition
class CombineAttr(ParametrizedAttribute):
    """Elements that lie `strides` apart along the dim are combined, one stride after the other.

    `in` registers of a thread, or in lanes of a warp by shuffles, after which all of the lanes have
    the result. `in_order`: lanes take the element that comes first as the first operand; others
    take their own. Strides count what is left of the dim since the last `regroup`.
    """

    name = "nv_tileas.combine"
    unit: StringAttr
    strides: IntTupleAttr
    in_order: IntAttr

    @property
    def of_unit(self) -> str:
        """The input dim of layouts: register or lane."""
        return UNITS[self.unit.data]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parses `<in = lanes, strides = [4, 8]>`."""
        with parser.in_angle_brackets():
            parse_name(parser, "in")
            unit = StringAttr(parser.parse_identifier())
            parser.parse_punctuation(",")
            parse_name(parser, "strides")
            square = parser.Delimiter.SQUARE
            strides = parser.parse_comma_separated_list(square, parser.parse_integer)
            in_order = parser.parse_optional_punctuation(",") is not None
            if in_order:
                parser.parse_keyword("in_order")
            return [unit, IntTupleAttr(tuple(strides)), IntAttr(int(in_order))]

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<in = lanes, strides = [4, 8]>`."""
        strides = ", ".join(map(str, self.strides.data))
        order = ", in_order" if self.in_order.data else ""
        printer.print_string(f"<in = {self.unit.data}, strides = [{strides}]{order}>")

    def verify(self) -> None:
        """A known unit, and powers of two."""
        if self.unit.data not in UNITS:
            raise VerifyException(f"{self.name}: in {self.unit.data}, expected registers or lanes")
        for stride in self.strides.data:
            if stride < 1 or stride & (stride - 1):
                raise VerifyException(f"{self.name}: a stride of {stride}, no power of two")


@irdl_attr_definition
class ReduxAttr(NamedValues):
    """The elements of all lanes of a warp are combined by one instruction, `redux.sync` of a
    `kind`.
    """

    name = "nv_tileas.redux"
    required: ClassVar[tuple[str, ...]] = ("kind",)


@irdl_attr_definition
class FindAttr(NamedValues):
    """Of all registers along the dim the extreme number is found, then the first that has it.

    `kind` is that of the number; places count up along the dim. A comparison for each element, and
    one choice, instead of those of the body.
    """

    name = "nv_tileas.find"
    required: ClassVar[tuple[str, ...]] = ("kind",)


@irdl_attr_definition
class RegroupAttr(ParametrizedAttribute):
    """What is left goes to threads of another `layout`, the partial results of each operand `by`
    its way.
    """

    name = "nv_tileas.regroup"
    layout: LayoutEncodingAttr
    by: ArrayAttr[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parses `<layout = #linear3, by = [#nv_tileas.in_registers]>`."""
        with parser.in_angle_brackets():
            parse_name(parser, "layout")
            layout = parser.parse_attribute()
            parser.parse_punctuation(",")
            parse_name(parser, "by")
            square = parser.Delimiter.SQUARE
            ways = parser.parse_comma_separated_list(square, parser.parse_attribute)
            return [layout, ArrayAttr(ways)]

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<layout = #linear3, by = [#nv_tileas.in_registers]>`."""
        printer.print_string("<layout = ")
        printer.print_attribute(self.layout)
        printer.print_string(", by = ")
        printer.print_attribute(self.by)
        printer.print_string(">")

    def verify(self) -> None:
        """Ways, one for each operand."""
        for way in self.by.data:
            if not isinstance(way, WAYS):
                raise VerifyException(f"{self.name}: {way} is no way of a conversion")


StepAttr = CombineAttr | ReduxAttr | FindAttr | RegroupAttr
"""A step of a reduction."""
