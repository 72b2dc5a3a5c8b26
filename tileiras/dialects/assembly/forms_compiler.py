"""Makes a form from a row of the table and the definition of its operation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from xdsl.dialects.builtin import IntegerType, StringAttr, TensorType, VectorType
from xdsl.ir import Attribute
from xdsl.irdl import (
    AttrConstraint,
    EqAttrConstraint,
    IRDLOperation,
    OptionalDef,
    OptPropertyDef,
    OptRegionDef,
    VariadicDef,
)

from tileiras.dialects.assembly.constants import element_type_of
from tileiras.dialects.assembly.forms import (
    CLASS_FORMS,
    DEFAULTS,
    FORMS,
    PROPERTY_KINDS,
    RESULT_TYPES,
    VALUE_TYPES,
    Row,
)
from tileiras.dialects.assembly.values import NAMED_KINDS, Kind, kind_of
from tileiras.dialects.enum_attribute import EnumAttribute
from tileiras.dialects.llvm.types import pointer_type
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN, TiledViewType, with_element
from tileiras.dialects.nv_tileas.pipeline import PIPELINE, TENSOR_MAP
from tileiras.errors import InternalError

DICTIONARY = "DICTIONARY"
"""The place in a body for the properties that it does not name."""
SEGMENTS = ("operandSegmentSizes", "resultSegmentSizes")
I1 = IntegerType(1)

FIXED_TYPES: dict[str, Attribute] = {
    "i1": I1,
    "i16": IntegerType(16),
    "i32": IntegerType(32),
    "i64": IntegerType(64),
    "token": MEM_TOKEN,
    "pipeline": PIPELINE,
    "tensor_map": TENSOR_MAP,
    "shared": pointer_type(3),
}
"""The types that rows name."""


def _in_shape_of(type: Attribute, element: Attribute) -> Attribute:
    """The type with another element: tensors keep their layout."""
    if isinstance(type, TensorType):
        return TensorType(element, type.get_shape(), type.encoding)
    if isinstance(type, VectorType):
        return VectorType(element, type.shape)
    return with_element(type, element)


FOLLOWS: dict[str, Callable[[Attribute], Attribute | None]] = {
    "same": lambda type: type,
    "i1": lambda type: _in_shape_of(type, I1),
    "element": element_type_of,
    "memref": lambda type: type.memref if isinstance(type, TiledViewType) else None,
}
"""How a type follows from another one."""


@dataclass(frozen=True)
class Rule:
    """A type that need not be written: `fixed`, or what `function` makes of the type of `of`."""

    fixed: Attribute | None = None
    of: str = ""
    function: str = "same"


@dataclass(frozen=True)
class Literal:
    """Text that stands for itself."""

    text: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Slot:
    """A place for an operand, a property or a region."""

    name: str
    role: str
    kind: Kind | None = None


@dataclass(frozen=True)
class Group:
    """A part that is there only if its first slot has something."""

    elements: tuple[Literal | Slot, ...]

    @property
    def anchor(self) -> Slot:
        """The first slot."""
        return next(element for element in self.elements if isinstance(element, Slot))


Element = Literal | Slot | Group


@dataclass(frozen=True)
class Form:
    """How the operations of one class are written and read."""

    op_class: type[IRDLOperation]
    elements: tuple[Element, ...]
    written: tuple[tuple[str, ...], tuple[str, ...]]
    """Values whose types are written, before and behind the arrow."""
    arrow: str
    """`->` or `to`."""
    rules: Mapping[str, Rule]
    functional: bool
    operands: Mapping[str, str]
    """Name -> "one", "optional" or "many", in the order of the definition."""
    results: Mapping[str, str]
    regions: tuple[str, ...]
    in_body: frozenset[str]
    """Properties that the body names."""
    kinds: Mapping[str, Kind]
    """Kinds of the other properties."""
    units: frozenset[str]
    required: frozenset[str]
    defaults: Mapping[str, Attribute]
    segments: tuple[str, ...] = field(default=())

    @property
    def has_dictionary(self) -> bool:
        """Whether the body has a place for the properties that it does not name."""
        return any(isinstance(e, Slot) and e.role == "dictionary" for e in self.elements)


def attribute_class(constraint: AttrConstraint) -> type[Attribute] | None:
    """The class of the attributes that a property takes, if there is one."""
    bases = constraint.get_bases()
    return next(iter(bases)) if bases is not None and len(bases) == 1 else None


def _cardinality(definition: object) -> str:
    if isinstance(definition, OptionalDef):
        return "optional"
    return "many" if isinstance(definition, VariadicDef) else "one"


def _row_for(op_class: type[IRDLOperation], values: Mapping[str, str]) -> Row:
    row = FORMS.get(op_class.name)
    if row is not None:
        return row
    for base in op_class.__mro__:
        row = CLASS_FORMS.get(f"{base.__module__}.{base.__qualname__}")
        if row is not None:
            return row
    return _default_row(values, op_class)


def _default_row(operands: Mapping[str, str], op_class: type[IRDLOperation]) -> Row:
    """All operands, separated by commas; those that may be missing with their names."""
    parts: list[str] = []
    many = [name for name, count in operands.items() if count == "many"]
    for name, count in operands.items():
        if count == "one":
            parts.append(f"{', ' if parts else ''}${name}")
        elif count == "many" and many == [name] and name == list(operands)[-1] and not parts:
            parts.append(f"${name}")
        elif count == "many":
            parts.append(f" <?{name} = [${name}] ?>")
        else:
            parts.append(f" <?{name} = ${name} ?>")
    regions = [name for name, _ in op_class.get_irdl_definition().regions]
    parts += [f" {name} ${name}" for name in regions]
    return Row("".join(parts).strip(), "*")


_PIECE = re.compile(r"<\?(?P<group>.*?)\?>|\$(?P<slot>\w+)(?::(?P<kind>\w+))?")
_NAME = re.compile(r"\w+")
_WORD = re.compile(r"->|\w+|[^\w\s]")


class _Compiler:
    """Puts a form together."""

    def __init__(self, op_class: type[IRDLOperation]):
        self.op_class = op_class
        self.definition = op_class.get_irdl_definition()
        self.operands = {name: _cardinality(d) for name, d in self.definition.operands}
        self.results = {name: _cardinality(d) for name, d in self.definition.results}
        self.regions = dict(self.definition.regions)
        self.properties = {
            name: d for name, d in self.definition.properties.items() if name not in SEGMENTS
        }
        self.in_body: set[str] = set()

    def elements(self, body: str) -> list[Element]:
        """The parts of a body."""
        found: list[Element] = []
        position = 0
        for match in _PIECE.finditer(body):
            self._literal(body[position : match.start()], found)
            position = match.end()
            if match["group"] is not None:
                names = [part["slot"] for part in _PIECE.finditer(match["group"])]
                if all(map(self.knows, names)):
                    inner = self.elements(match["group"])
                    found.append(Group(tuple(e for e in inner if not isinstance(e, Group))))
            else:
                found.append(self._slot(match["slot"], match["kind"]))
        self._literal(body[position:], found)
        return found

    def knows(self, name: str) -> bool:
        """Whether the operation has something of this name; rows of classes may name more."""
        return any(name in names for names in (self.operands, self.regions, self.properties))

    def _literal(self, text: str, found: list[Element]) -> None:
        if text:
            found.append(Literal(text, tuple(_WORD.findall(text))))

    def _slot(self, name: str, kind: str | None) -> Slot:
        if name in self.operands:
            return Slot(name, self.operands[name])
        if name in self.regions:
            optional = isinstance(self.regions[name], OptRegionDef)
            return Slot(name, "optional region" if optional else "region")
        if name == DICTIONARY:
            return Slot(name, "dictionary")
        definition = self.properties.get(name)
        if definition is None:
            raise InternalError(f"the row of {self.op_class.name} names '{name}', which it lacks")
        self.in_body.add(name)
        constraint = attribute_class(definition.constr)
        return Slot(name, "property", NAMED_KINDS[kind] if kind else kind_of(constraint))

    def rules(self, derived: str) -> dict[str, Rule]:
        """The rules of a row, those of names and those of the definition."""
        rules: dict[str, Rule] = {}
        for name, operand in (*self.definition.operands, *self.definition.results):
            fixed = _fixed_type(operand)
            if fixed is not None:
                rules[name] = Rule(fixed)
            elif name in VALUE_TYPES:
                rules[name] = Rule(FIXED_TYPES[VALUE_TYPES[name]])
        if self.op_class.name in RESULT_TYPES:
            rules["result"] = Rule(FIXED_TYPES[RESULT_TYPES[self.op_class.name]])
        for entry in filter(None, (part.strip() for part in derived.split(","))):
            name, _, rule = entry.partition("=")
            if rule in FIXED_TYPES:
                rules[name] = Rule(FIXED_TYPES[rule])
                continue
            function, _, of = rule.rstrip(")").rpartition("(")
            rules[name] = Rule(of=of, function=function or "same")
        return rules


def _fixed_type(definition: Any) -> Attribute | None:
    """The only type that a definition allows, if it is one."""
    constraint = definition.constr
    constraint = getattr(constraint, "constraint", constraint)
    constraint = getattr(constraint, "constr", constraint)
    if isinstance(constraint, EqAttrConstraint):
        return constraint.attr
    if not isinstance(constraint, AttrConstraint):
        return None
    base = attribute_class(constraint)
    for fixed in (PIPELINE, TENSOR_MAP, MEM_TOKEN):
        if base is type(fixed):
            return fixed
    return _parameterless(base)


def _parameterless(base: type[Attribute] | None) -> Attribute | None:
    """The only attribute of a class of ours without parameters."""
    if base is None or not base.name.startswith(("nv_tileaa.", "nv_tileas.")):
        return None
    definition = getattr(base, "get_irdl_definition", None)
    if definition is None or definition().parameters:
        return None
    return base.new([])  # pyright: ignore[reportAttributeAccessIssue]


@cache
def form_of(op_class: type[IRDLOperation]) -> Form:
    """The form of an operation's class, made when it is first asked for."""
    compiler = _Compiler(op_class)
    row = _row_for(op_class, compiler.operands)
    elements = compiler.elements(row.body)
    listed, _, derived = row.types.partition(";")
    rules = compiler.rules(derived)
    values = [*compiler.operands, *compiler.results]
    functional = listed.strip() == "functional"
    arrow = "to" if " to " in listed else "->"
    if listed.strip() == "*":
        before = tuple(name for name in compiler.operands if name not in rules)
        behind = tuple(name for name in compiler.results if name not in rules)
    elif functional:
        before, behind = (), ()
    else:
        left, _, right = listed.partition(f" {arrow} ")
        before, behind = tuple(_NAME.findall(left)), tuple(_NAME.findall(right))
    written = {*before, *behind}
    rules = {name: rule for name, rule in rules.items() if name not in written}
    values = [*compiler.operands, *compiler.results]
    missing = [name for name in values if name not in written and name not in rules]
    if missing and not functional:
        raise InternalError(f"the row of {op_class.name} has no type for {missing}")
    properties = compiler.properties
    required = frozenset(
        name for name, d in properties.items() if not isinstance(d, OptPropertyDef)
    )
    classes = {name: attribute_class(d.constr) for name, d in properties.items()}
    return Form(
        op_class,
        tuple(elements),
        (before, behind),
        arrow,
        rules,
        functional,
        compiler.operands,
        compiler.results,
        tuple(compiler.regions),
        frozenset(compiler.in_body),
        {name: _kind(name, classes[name]) for name in properties},
        frozenset(name for name, cls in classes.items() if cls is not None and cls.name == "unit"),
        required,
        _defaults(required, classes),
        tuple(name for name in SEGMENTS if name in compiler.definition.properties),
    )


def _kind(name: str, cls: type[Attribute] | None) -> Kind:
    """The kind of a property that stands in braces."""
    return NAMED_KINDS[PROPERTY_KINDS[name]] if name in PROPERTY_KINDS else kind_of(cls)


def _defaults(
    required: frozenset[str], classes: Mapping[str, type[Attribute] | None]
) -> dict[str, Attribute]:
    """The values that are left out."""
    found: dict[str, Attribute] = {}
    for name in sorted(required & DEFAULTS.keys()):
        cls: Any = classes[name]
        word = DEFAULTS[name]
        if cls is not None and issubclass(cls, EnumAttribute) and word in list(cls.enum_type):
            found[name] = cls(cls.enum_type(word))
        elif cls is StringAttr:
            found[name] = StringAttr(word)
    return found
