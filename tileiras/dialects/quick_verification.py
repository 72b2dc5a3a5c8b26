"""Verification of single operations by tables.

xDSL reads the definition of an operation's class again for each operation that it verifies: 10 to
40 microseconds. Most definitions only ask for numbers of operands, results and regions and for
classes of properties. Here that is noted once for a class; what the table takes, xDSL would take,
and everything else is given to xDSL, which says what is wrong. Checks that a class has of its own
and those of traits stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation
from xdsl.irdl import (
    AnyAttr,
    AnyRange,
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    BaseAttr,
    EqIntConstraint,
    IRDLOperation,
    OpDef,
    OptAttributeDef,
    OptionalDef,
    OptPropertyDef,
    RangeLengthConstraint,
    RangeOf,
    RegionDef,
    SingleBlockRegionDef,
    VariadicDef,
)
from xdsl.traits import OpTrait

_Definitions = Sequence[tuple[str, Any]]
_Accepts = Callable[[Operation], bool]
_met: dict[type[Operation], None] = {}
"""The classes whose definitions have been looked at."""


def verify_alone(op: Operation) -> None:
    """What `op.verify` does, without the operations that are nested in it. Raises its errors."""
    if type(op) not in _met:
        use_table(type(op))
    op.verify(verify_nested_ops=False)


def use_table(operation: type[Operation]) -> None:
    """Lets the definition of a class verify by a table, if there is one for it."""
    _met[operation] = None
    if not issubclass(operation, IRDLOperation):
        return
    definition = operation.get_irdl_definition()
    if "verify" in vars(definition):
        return
    accepts = _table_of(definition)
    if accepts is not None:
        vars(definition)["verify"] = _by_table(definition, accepts)


def _by_table(definition: OpDef, accepts: _Accepts) -> Callable[[Operation], None]:
    in_full = definition.verify
    known: frozenset[OpTrait] = frozenset()
    asked: tuple[OpTrait, ...] = ()

    def verify(op: Operation) -> None:
        nonlocal known, asked
        if not accepts(op):
            in_full(op)
            return
        traits = definition.traits.traits
        if traits is not known:  # traits may be added to a class
            known, asked = traits, tuple(t for t in traits if type(t).verify is not OpTrait.verify)
        for trait in asked:
            trait.verify(op)

    return verify


def _table_of(definition: OpDef) -> _Accepts | None:
    """Whether an operation is as defined, traits left out; None for what is not understood."""
    operands, results = definition.operands, definition.results
    operand_sizes = _sizes_of(definition, AttrSizedOperandSegments)
    result_sizes = _sizes_of(definition, AttrSizedResultSegments)
    operand_range = None if operand_sizes else _range_of(operands)
    result_range = None if result_sizes else _range_of(results)
    others = len(definition.options) - bool(operand_sizes) - bool(result_sizes)
    regions = [described for _, described in definition.regions]
    if (
        others
        or definition.successors
        or not (operand_sizes or operand_range)
        or not (result_sizes or result_range)
        or not all(_takes_any(described) for _, described in (*operands, *results))
        or not all(type(described) in (RegionDef, SingleBlockRegionDef) for described in regions)
        or not all(_is_any(described.entry_args) for described in regions)
    ):
        return None
    properties = _values_of(definition.properties, OptPropertyDef)
    attributes = _values_of(definition.attributes, OptAttributeDef)
    if properties is None or attributes is None:
        return None
    single = [type(described) is SingleBlockRegionDef for described in regions]

    def accepts(op: Operation) -> bool:
        count = len(op.operands)
        if operand_range is not None:
            if not operand_range[0] <= count <= operand_range[1]:
                return False
        elif operand_sizes is not None and operand_sizes(op) != count:
            return False
        count = len(op.results)
        if result_range is not None:
            if not result_range[0] <= count <= result_range[1]:
                return False
        elif result_sizes is not None and result_sizes(op) != count:
            return False
        if len(op.regions) != len(single) or op.successors:
            return False
        for region, is_single in zip(op.regions, single, strict=True):
            block = region.first_block
            if is_single and (block is None or block.next_block is not None):
                return False
        given = op.properties
        return properties(given) == len(given) and attributes(op.attributes) >= 0

    return accepts


_MOST = 1 << 62
"""Fixed: more values than an operation has."""


def _range_of(defined: _Definitions) -> tuple[int, int] | None:
    """The least and the largest number of values; None where some belong together."""
    several = [described for _, described in defined if isinstance(described, VariadicDef)]
    count = len(defined)
    if not several:
        return count, count
    if len(several) > 1:
        return None
    return count - 1, count if isinstance(several[0], OptionalDef) else _MOST


def _sizes_of(
    definition: OpDef, kind: type[AttrSizedOperandSegments | AttrSizedResultSegments]
) -> Callable[[Operation], int] | None:
    """How many values the segments of an operation have; -1 for segments that are wrong.

    None for a class without segments.
    """
    option = next((option for option in definition.options if isinstance(option, kind)), None)
    if option is None:
        return None
    defined = definition.operands if kind is AttrSizedOperandSegments else definition.results
    most = [
        _range_of([(name, described)]) or (1, 1) if isinstance(described, VariadicDef) else (1, 1)
        for name, described in defined
    ]
    known: dict[bytes, int] = {}

    def sizes(op: Operation) -> int:
        segments: Any = option.container(op).get(option.attribute_name)
        made_of: object = type(segments)
        if made_of is not DenseArrayBase or segments.elt_type != i32:
            return -1
        data: bytes = segments.data.data
        found = known.get(data)
        if found is None:
            found = known[data] = _total(segments.get_values(), most)
        return found

    return sizes


def _total(sizes: Sequence[int], most: Sequence[tuple[int, int]]) -> int:
    """The sum of sizes that lie within their ranges; -1 for others."""
    if len(sizes) != len(most):
        return -1
    if not all(low <= size <= high for size, (low, high) in zip(sizes, most, strict=True)):
        return -1
    return sum(sizes)


def _takes_any(described: Any) -> bool:
    """Whether a definition of operands or results takes all types."""
    constraint = described.constr
    if not isinstance(described, VariadicDef) and type(constraint) is RangeLengthConstraint:
        one = constraint.length
        return type(one) is EqIntConstraint and one.value == 1 and _is_any(constraint.constraint)
    return _is_any(constraint)


def _is_any(constraint: Any) -> bool:
    """Whether a constraint of a range takes everything."""
    if type(constraint) is RangeOf:
        return type(constraint.constr) is AnyAttr
    return type(constraint) is AnyRange


def _values_of(
    defined: dict[str, Any], optional: type[object]
) -> Callable[[dict[str, Any]], int] | None:
    """How many of the values given are defined; -1 if one is missing or wrong.

    None where constraints belong together.
    """
    rows: list[tuple[str, bool, type[object], Any]] = []
    for name, described in defined.items():
        constraint = described.constr
        wanted = constraint.attr if type(constraint) is BaseAttr else object
        if type(constraint) in (BaseAttr, AnyAttr):
            constraint = None
        elif constraint.variables():
            return None
        rows.append((name, isinstance(described, optional), wanted, constraint))

    def values(given: dict[str, Any]) -> int:
        found = 0
        for name, may_lack, wanted, constraint in rows:
            value = given.get(name)
            if value is None:
                if may_lack and name not in given:
                    continue
                return -1
            if type(value) is not wanted and not isinstance(value, wanted):
                return -1
            if constraint is not None and not constraint.verifies(value):
                return -1
            found += 1
        return found

    return values
