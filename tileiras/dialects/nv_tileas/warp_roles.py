"""What `tileas-assign-warp-roles` decides, as attributes beside the operations of nv_tileaa.

    func @gemm attributes {warp_roles = #nv_tileas.warp_roles<consumer = 8, producer = 1>} {
      %i = muli %x, %c  {roles = #nv_tileas.roles<producer, consumer>}
      for ...           {roles = #nv_tileas.roles<producer(arguments = [0]), consumer>,
                         prologue_fills = [#nv_tileas.prologue_fill<pipeline = 0>]} {
        %a = load ...   {roles = #nv_tileas.roles<producer, consumer>}
        %d = dot ...    {pending = 1 : i32, releases = array<i32: 0>}

An operation without `roles` is the consumers' alone. Beside products and what is around them stands
where roles meet: when products are finished, stages handed back, and sums committed. All of it
lasts until `convert-tileaa-to-tileas` has acted on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.attributes import IntTupleAttr
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.named_values import NamedValues
from tileiras.dialects.nv_tileas.assigned import AccessAttr, layout_attribute
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr

if TYPE_CHECKING:
    from xdsl.parser import AttrParser

WARP_ROLES, ROLES = "warp_roles", "roles"
"""Of the function: its roles, with their warps. Of an operation: the roles that run it."""
TILE_ORDER = "longest_tile_first"
"""Of the function: which tile block a CTA computes, where that is not the one of its number."""
KEPT_MAPS = "kept_maps"
"""Of the function: a CTA looks for tensor maps that an earlier one has made."""
AWAITS_FIRST, STARTS_OTHERS = "awaits_first", "starts_others"
"""Of a product: warpgroups but the first issue it when that has come to what starts the others: a
product that is finished, or a loop that begins."""
MULTICAST, APART, FOR_PEER = "multicast", "apart", "for_peer"
"""Of a load that the CTAs of a cluster share: its indices that the other CTA compares, by number,
and the bits of the rank in which CTAs differ that load different tiles. Of an operation: the
producer computes it for the other CTA, too."""
UNIFORM_WITH = "uniform_with"
"""Of a load: the place in its stage of one that may bring the same tile; both roles compare."""
PROLOGUE_FILLS = "prologue_fills"
"""Of a loop, a branch or a load: the stages that consumers fill before it."""
PENDING = "pending"
"""Of a product: how many may be unfinished when it has been issued, the newest ones. Where nothing
is said it is finished before the first reader of its sum."""
RELEASES = "releases"
"""Of a product, a loop or a branch: the pipelines that get a stage back behind it, by number."""
ACCUMULATORS = "accumulators"
"""Of a loop or a product: the sums in tensor memory that are acquired before it and committed
behind it, by their first columns. Consumers load them then."""
AHEAD = "ahead"
"""Of a product: the warp that issues products does so an iteration ahead of the others."""

NAMES = (
    WARP_ROLES,
    ROLES,
    TILE_ORDER,
    KEPT_MAPS,
    AWAITS_FIRST,
    STARTS_OTHERS,
    MULTICAST,
    APART,
    FOR_PEER,
    UNIFORM_WITH,
    PROLOGUE_FILLS,
    PENDING,
    RELEASES,
    ACCUMULATORS,
    AHEAD,
)

ENTRY, CONSUMER, PRODUCER, STORE, PRODUCT = "entry", "consumer", "producer", "store", "product"
"""All warps before they have roles; those that compute; that copies; that stores; that multiplies
into tensor memory."""
ROLE_NAMES = (ENTRY, CONSUMER, PRODUCER, STORE, PRODUCT)

_Layouts = ArrayAttr[LayoutEncodingAttr]
_NO_LAYOUTS: _Layouts = ArrayAttr(())
_NO_NUMBERS = IntTupleAttr(())


@irdl_attr_definition
class WarpRolesAttr(NamedValues):
    """The roles of a kernel's warps, and how many warps work in each."""

    name = "nv_tileas.warp_roles"
    required: ClassVar[tuple[str, ...]] = (CONSUMER, PRODUCER)
    optional: ClassVar[tuple[str, ...]] = (STORE, PRODUCT)


@irdl_attr_definition
class PrologueFillAttr(NamedValues):
    """Consumers fill the first `stages` of a pipeline with its first contents; all if none is said.

    `by_bytes`: with fewer predicates. `hurried`: in the first cycles of the kernel. `if_taken`:
    only where the branch that they come before is; without it stages get zeros where it is not.
    `at_start`: only where the loop over tiles in front of theirs runs no iteration. `first_tile`:
    for the first iteration of the loop over tiles around theirs.
    """

    name = "nv_tileas.prologue_fill"
    required: ClassVar[tuple[str, ...]] = ("pipeline",)
    optional: ClassVar[tuple[str, ...]] = (
        *("stages", "by_bytes", "hurried"),
        *("if_taken", "at_start", "first_tile"),
    )


@irdl_attr_definition
class RoleAttr(ParametrizedAttribute):
    """One role that runs an operation, and what it needs of it.

    `arguments`, `results`: the values that control flow carries for the role, by number (the number
    of an iteration aside). `argument_layouts`: of the tensors among these arguments. `layouts`: of
    the tensors among these results; of an operation without regions all in which the role makes its
    result. `access`: how the role's own load is done, if more than an
    element moves at once.
    """

    name = "nv_tileas.role"
    role: StringAttr
    arguments: IntTupleAttr
    results: IntTupleAttr
    argument_layouts: ArrayAttr[LayoutEncodingAttr]
    layouts: ArrayAttr[LayoutEncodingAttr]
    access: ArrayAttr[AccessAttr]

    @property
    def word(self) -> str:
        """The name of the role."""
        return self.role.data

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parses `<producer(arguments = [0], argument_layouts = [#blocked0])>`."""
        with parser.in_angle_brackets():
            return cls.parse_inner(parser)

    @classmethod
    def parse_inner(cls, parser: AttrParser) -> list[Attribute]:
        """Parses what stands in the brackets."""
        numbers = {"arguments": _NO_NUMBERS, "results": _NO_NUMBERS}
        lists: dict[str, Attribute] = {
            "argument_layouts": _NO_LAYOUTS,
            "layouts": _NO_LAYOUTS,
            "access": ArrayAttr(()),
        }
        square = parser.Delimiter.SQUARE

        def part() -> None:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            if name in numbers:
                found = parser.parse_comma_separated_list(square, parser.parse_integer)
                numbers[name] = IntTupleAttr(found)
            elif name in lists:
                values = parser.parse_comma_separated_list(square, parser.parse_attribute)
                lists[name] = ArrayAttr(values)
            else:
                known = ", ".join((*numbers, *lists))
                parser.raise_error(f"'{name}' of a role, expected one of {known}")

        role = StringAttr(parser.parse_identifier())
        parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, part)
        return [role, *numbers.values(), *lists.values()]

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<producer(arguments = [0], argument_layouts = [#blocked0])>`."""
        printer.print_string("<")
        self.print_inner(printer)
        printer.print_string(">")

    def print_inner(self, printer: Printer) -> None:
        """Prints what stands in the brackets."""
        printer.print_string(self.word)
        lists: tuple[tuple[str, Sequence[int | Attribute]], ...] = (
            ("arguments", self.arguments.data),
            ("results", self.results.data),
            ("argument_layouts", self.argument_layouts.data),
            ("layouts", self.layouts.data),
            ("access", self.access.data),
        )
        before = "("
        for name, values in lists:
            if values:
                printer.print_string(f"{before}{name} = [")
                printer.print_list(values, lambda value: _print_value(printer, value))
                printer.print_string("]")
                before = ", "
        printer.print_string(")" if before == ", " else "")

    def verify(self) -> None:
        """A role that there is; numbers that rise; no more layouts of arguments than arguments."""
        if self.word not in ROLE_NAMES:
            raise VerifyException(f"role {self.word}, expected one of {', '.join(ROLE_NAMES)}")
        for name, numbers in (("arguments", self.arguments.data), ("results", self.results.data)):
            if list(numbers) != sorted(set(numbers)) or any(number < 0 for number in numbers):
                raise VerifyException(f"{name} of a role are {list(numbers)}, expected rising ones")
        if len(self.argument_layouts) > len(self.arguments.data):
            raise VerifyException("a role has layouts of arguments that it does not carry")


def _print_value(printer: Printer, value: int | Attribute) -> None:
    if isinstance(value, int):
        printer.print_string(str(value))
    else:
        printer.print_attribute(value)


@irdl_attr_definition
class RolesAttr(ParametrizedAttribute):
    """The roles that run an operation: `<producer, consumer>`; nobody does where there are none."""

    name = "nv_tileas.roles"
    roles: ArrayAttr[RoleAttr]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        """Parses `<producer(layouts = [#blocked0]), consumer>`."""
        found = parser.parse_comma_separated_list(
            parser.Delimiter.ANGLE, lambda: RoleAttr.new(RoleAttr.parse_inner(parser))
        )
        return [ArrayAttr(found)]

    def print_parameters(self, printer: Printer) -> None:
        """Prints `<producer(layouts = [#blocked0]), consumer>`."""
        printer.print_string("<")
        printer.print_list(self.roles.data, lambda role: role.print_inner(printer))
        printer.print_string(">")

    def verify(self) -> None:
        """Each role once."""
        words = [role.word for role in self.roles]
        if len(set(words)) < len(words):
            raise VerifyException(f"roles {', '.join(words)}, expected each once")


@cache
def role_attribute(
    role: str,
    arguments: tuple[int, ...] = (),
    results: tuple[int, ...] = (),
    argument_layouts: tuple[LinearLayout, ...] = (),
    layouts: tuple[LinearLayout, ...] = (),
    access: AccessAttr | None = None,
) -> RoleAttr:
    """The attribute of a role (interned)."""
    return RoleAttr(
        StringAttr(role),
        IntTupleAttr(arguments),
        IntTupleAttr(results),
        ArrayAttr(tuple(map(layout_attribute, argument_layouts))),
        ArrayAttr(tuple(map(layout_attribute, layouts))),
        ArrayAttr(() if access is None else (access,)),
    )


@cache
def roles_attribute(roles: tuple[RoleAttr, ...]) -> RolesAttr:
    """The attribute of several roles (interned)."""
    return RolesAttr(ArrayAttr(roles))
