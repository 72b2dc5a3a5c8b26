"""Uses and definitions of values while reading text, one scope per region."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects.cuda_tile.text.lexer import Token
from tileiras.dialects.cuda_tile.text.recovery import ConsequenceError, RecoveringParser
from tileiras.dialects.cuda_tile.type_text import full_type_text
from tileiras.excerpts import shown_input
from tileiras.suggestions import did_you_mean


@dataclass(frozen=True)
class Use:
    """A value and the token that named it."""

    value: SSAValue
    token: Token


@dataclass(frozen=True)
class ResultGroup:
    """`%name` or `%name:2` on the left of an operation."""

    name: str
    count: int
    token: Token


def segment_sizes(*groups: Sequence[SSAValue] | SSAValue | None) -> DenseArrayBase:
    """The property that says how operands fall into groups."""
    sizes = []
    for group in groups:
        if group is None:
            sizes.append(0)
        else:
            sizes.append(1 if isinstance(group, SSAValue) else len(group))
    return DenseArrayBase.from_list(i32, sizes)


def flattened(*groups: Sequence[SSAValue] | SSAValue | None) -> list[SSAValue]:
    """The operands of all groups, in order."""
    values: list[SSAValue] = []
    for group in groups:
        if isinstance(group, SSAValue):
            values.append(group)
        elif group is not None:
            values.extend(group)
    return values


class ValueParser(RecoveringParser):
    """Parses names of values. A value must be defined before it is used."""

    def __init__(self, text: str, filename: str):
        super().__init__(text, filename)
        self._scopes: list[dict[str, tuple[SSAValue, ...]]] = [{}]
        self._definitions_at: dict[SSAValue, Token] = {}

    def open_scope(self) -> None:
        """Enters a region: what is defined from now on is gone after `close_scope`."""
        self._scopes.append({})

    def close_scope(self) -> None:
        """Leaves a region."""
        self._scopes.pop()

    def define(self, name: str, values: Sequence[SSAValue], token: Token) -> None:
        """Gives values a name."""
        shown = shown_input(name)
        for scope in self._scopes:
            if name in scope:
                related = self._definition(scope[name], f"'{shown}' is defined here first")
                self.fail(f"value '{shown}' is defined twice", token, related=related)
        self._scopes[-1][name] = tuple(values)
        for value in values:
            self._definitions_at[value] = token

    def _definition(self, values: Sequence[SSAValue], text: str) -> tuple[str, Token] | None:
        """A note at the place where values were defined."""
        token = self._definitions_at.get(values[0]) if values else None
        return None if token is None else (text, token)

    def use(self) -> Use:
        """`%name` or `%name#1`."""
        token = self.peek()
        if token.kind != "value":
            self.fail(f"found {token.shown}, expected a value", label="an operand is missing here")
        self.take()
        for scope in reversed(self._scopes):
            values = scope.get(token.text)
            if values is not None:
                break
        else:
            if token.text in self.broken:
                raise ConsequenceError("", self.place(token.start))
            known = [name[1:] for scope in reversed(self._scopes) for name in scope]
            label = did_you_mean(token.text[1:], known, "%")
            self.fail(f"value '{shown_input(token.text)}' is not defined", token, label)
        index = 0
        following = self.peek()
        if following.kind == "hash" and following.text[1:].isdigit():
            index = self.number(self.take().text[1:], following)
        elif len(values) > 1:
            found = f"'{shown_input(token.text)}' is {len(values)} values"
            self.fail(f"{found}, expected one such as #0", token)
        if index >= len(values):
            found = f"'{shown_input(token.text)}' has {len(values)} values"
            self.fail(f"{found}, not {index + 1}", token)
        return Use(values[index], token)

    def uses(self) -> list[Use]:
        """`%a, %b, ..`, at least one."""
        found = [self.use()]
        while self.accept(","):
            found.append(self.use())
        return found

    def use_list(self) -> list[Use]:
        """`[%a, %b]`, possibly empty."""
        return self.listed("[", "]", self.use)  # type: ignore[return-value]

    def check_type(self, use: Use, type: Attribute) -> SSAValue:
        """The value, whose type must be the one that the text says."""
        if use.value.type != type:
            said, known = full_type_text(type), full_type_text(use.value.type)
            name = shown_input(use.token.text)
            text = f"use of value '{name}' expects different type than prior uses"
            related = self._definition([use.value], f"'{name}' has type '{known}' from here")
            self.fail(f"{text}: '{said}' vs '{known}'", use.token, related=related)
        return use.value

    def check_types(self, uses: Sequence[Use], types: Sequence[Attribute]) -> list[SSAValue]:
        """The values, whose types must be those that the text says."""
        if len(uses) != len(types):
            token = uses[0].token if uses else None
            self.fail(f"found {len(types)} types, expected {len(uses)} (one per operand)", token)
        return [self.check_type(use, type) for use, type in zip(uses, types)]

    def typed(self, uses: Sequence[Use]) -> list[SSAValue]:
        """`: T, T, ..`, one type per value."""
        self.expect(":")
        return self.check_types(uses, self.types())

    def uniform(self, uses: Iterable[Use]) -> tuple[list[SSAValue], Attribute]:
        """`: T`, the type of all values."""
        self.expect(":")
        type = self.type()
        return [self.check_type(use, type) for use in uses], type

    def result_groups(self) -> list[ResultGroup]:
        """`%a, %b:2 =`, if it is there."""
        groups: list[ResultGroup] = []
        if self.peek().kind != "value":
            return groups
        while True:
            token = self.take()
            count = self.integer("a number of results") if self.accept(":") else 1
            groups.append(ResultGroup(token.text, count, token))
            if not self.accept(","):
                break
            if self.peek().kind != "value":
                self.fail(f"found {self.peek().shown}, expected the name of a result")
        self.expect("=")
        return groups

    def bind_results(self, op: Operation, groups: Sequence[ResultGroup]) -> None:
        """Names the results of an operation."""
        count = sum(group.count for group in groups)
        if groups and count != len(op.results):
            results = len(op.results)
            defined = f"operation defines {results} result{'' if results == 1 else 's'}"
            self.fail(f"{defined} but was provided {count} to bind", groups[0].token)
        at = 0
        for group in groups:
            self.define(group.name, op.results[at : at + group.count], group.token)
            at += group.count
