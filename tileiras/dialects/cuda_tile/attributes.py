"""Attributes of the cuda_tile dialect: enums, assume predicates, hints, bit-exact constants.

An enum's number in bytecode is the position of its member (Tile IR specification, "Enums").
"""

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DictionaryAttr, IntAttr, NoneAttr
from xdsl.ir import Data, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.str_enum import StrEnum

from tileiras.dialects.enum_attribute import EnumAttribute

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


class Signedness(StrEnum):
    """How an integer operation reads its operands."""

    UNSIGNED = "unsigned"
    SIGNED = "signed"


class IntegerOverflow(StrEnum):
    """Which overflows the program promises not to cause."""

    NONE = "none"
    NO_SIGNED_WRAP = "no_signed_wrap"
    NO_UNSIGNED_WRAP = "no_unsigned_wrap"
    NO_WRAP = "no_wrap"


class RoundingMode(StrEnum):
    """Rounding of a floating-point (or integer division) result."""

    NEAREST_EVEN = "nearest_even"
    ZERO = "zero"
    NEGATIVE_INF = "negative_inf"
    POSITIVE_INF = "positive_inf"
    APPROX = "approx"
    FULL = "full"
    NEAREST_INT_TO_ZERO = "nearest_int_to_zero"
    NEAREST_AWAY = "nearest_away"


class ComparisonPredicate(StrEnum):
    """The relation that a comparison tests."""

    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    LESS_THAN = "less_than"
    LESS_THAN_OR_EQUAL = "less_than_or_equal"
    GREATER_THAN = "greater_than"
    GREATER_THAN_OR_EQUAL = "greater_than_or_equal"


class ComparisonOrdering(StrEnum):
    """What a float comparison answers when an operand is NaN: unordered true, ordered false."""

    UNORDERED = "unordered"
    ORDERED = "ordered"


class MemoryOrdering(StrEnum):
    """Memory-ordering semantics of an access."""

    WEAK = "weak"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"


class MemoryScope(StrEnum):
    """The set of threads that an ordering concerns."""

    TL_BLK = "tl_blk"
    DEVICE = "device"
    SYS = "sys"


class AtomicRMWMode(StrEnum):
    """The operation of an atomic read-modify-write."""

    AND = "and"
    OR = "or"
    XOR = "xor"
    ADD = "add"
    ADDF = "addf"
    MAX = "max"
    MIN = "min"
    UMAX = "umax"
    UMIN = "umin"
    XCHG = "xchg"


class PaddingValue(StrEnum):
    """What a view load yields out of bounds."""

    ZERO = "zero"
    NEG_ZERO = "neg_zero"
    NAN = "nan"
    POS_INF = "pos_inf"
    NEG_INF = "neg_inf"


class SymbolVisibility(StrEnum):
    """Visibility of a global."""

    PUBLIC = "public"
    PRIVATE = "private"


class MultimemReductionKind(StrEnum):
    """The operation of a multimem reduction."""

    ADD = "add"
    MIN = "min"
    MAX = "max"
    AND = "and"
    OR = "or"
    XOR = "xor"
    UMIN = "umin"
    UMAX = "umax"


class PointerKind(StrEnum):
    """`ptr_attr` of pointers and tensor views."""

    NONE = "none"
    UNICAST = "unicast"
    MULTICAST = "multicast"


@irdl_attr_definition
class SignednessAttr(EnumAttribute[Signedness]):
    """`#cuda_tile.signedness<signed>`."""

    name = "cuda_tile.signedness"


@irdl_attr_definition
class IntegerOverflowAttr(EnumAttribute[IntegerOverflow]):
    """`#cuda_tile.overflow<none>`."""

    name = "cuda_tile.overflow"


@irdl_attr_definition
class RoundingModeAttr(EnumAttribute[RoundingMode]):
    """`#cuda_tile.rounding<zero>`."""

    name = "cuda_tile.rounding"


@irdl_attr_definition
class ComparisonPredicateAttr(EnumAttribute[ComparisonPredicate]):
    """`#cuda_tile.comparison_predicate<equal>`."""

    name = "cuda_tile.comparison_predicate"


@irdl_attr_definition
class ComparisonOrderingAttr(EnumAttribute[ComparisonOrdering]):
    """`#cuda_tile.comparison_ordering<ordered>`."""

    name = "cuda_tile.comparison_ordering"


@irdl_attr_definition
class MemoryOrderingAttr(EnumAttribute[MemoryOrdering]):
    """`weak`; a plain i32 in the public generic form."""

    name = "cuda_tile.memory_ordering_semantics"


@irdl_attr_definition
class MemoryScopeAttr(EnumAttribute[MemoryScope]):
    """`device`; a plain i32 in the public generic form."""

    name = "cuda_tile.memory_scope"


@irdl_attr_definition
class AtomicRMWModeAttr(EnumAttribute[AtomicRMWMode]):
    """`add`; a plain i32 in the public generic form."""

    name = "cuda_tile.atomic_rmw_mode"


@irdl_attr_definition
class PaddingValueAttr(EnumAttribute[PaddingValue]):
    """`padding_value = zero` of a view type."""

    name = "cuda_tile.padding_value"


@irdl_attr_definition
class SymbolVisibilityAttr(EnumAttribute[SymbolVisibility]):
    """`#cuda_tile.symbol_visibility<private>`."""

    name = "cuda_tile.symbol_visibility"


@irdl_attr_definition
class MultimemReductionKindAttr(EnumAttribute[MultimemReductionKind]):
    """Reduction kind of the multimem operations."""

    name = "cuda_tile.multimem_reduction_kind"


@irdl_attr_definition
class PointerKindAttr(EnumAttribute[PointerKind]):
    """`#cuda_tile.ptr_attr<none>`."""

    name = "cuda_tile.ptr_attr"


@irdl_attr_definition
class IntTupleAttr(Data[tuple[int, ...]]):
    """A tuple of integers (a shape, strides, a permutation): `[4, 8]`."""

    name = "cuda_tile.ints"

    def __init__(self, data: Sequence[int]):
        super().__init__(tuple(data))

    @classmethod
    def parse_parameter(cls, parser: "AttrParser") -> tuple[int, ...]:
        """Parses `<[4, 8]>`."""
        with parser.in_angle_brackets():
            values = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_integer()
            )
        return tuple(values)

    def print_parameter(self, printer: "Printer") -> None:
        """Prints `<[4, 8]>`."""
        printer.print_string("<[" + ", ".join(map(str, self.data)) + "]>")


@irdl_attr_definition
class OptimizationHintsAttr(ParametrizedAttribute):
    """`<sm_90 = {occupancy = 2}>`: architecture name (or `default`) to a dictionary of hints."""

    name = "cuda_tile.optimization_hints"
    value: DictionaryAttr


class AssumePredicateAttr(ParametrizedAttribute, ABC):
    """Base of the predicates that `assume` carries."""


@irdl_attr_definition
class DivByAttr(AssumePredicateAttr):
    """`div_by<16>` or `div_by<4, every 2 along 0>`.

    The first element of each group of `every` along `along` is divisible, the others increase by 1
    (pointers by the size of the pointee).
    """

    name = "cuda_tile.div_by"
    divisor: IntAttr
    every: IntAttr | NoneAttr
    along: IntAttr | NoneAttr


@irdl_attr_definition
class SameElementsAttr(AssumePredicateAttr):
    """`same_elements<[1, 4]>`: groups of that size hold equal elements."""

    name = "cuda_tile.same_elements"
    values: IntTupleAttr


@irdl_attr_definition
class BoundedAttr(AssumePredicateAttr):
    """`bounded<0, ?>`: inclusive signed bounds."""

    name = "cuda_tile.bounded"
    lb: IntAttr | NoneAttr
    ub: IntAttr | NoneAttr
