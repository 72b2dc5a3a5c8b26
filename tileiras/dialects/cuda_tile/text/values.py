"""Uses and definitions of values while reading text, one scope per region."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects.cuda_tile.text.lexer import Token
from tileiras.dialects.cuda_tile.text.location_parser import LocationParser
from tileiras.dialects.cuda_tile.text.types import type_text


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


class ValueParser(LocationParser):
    """Parses names of values. A value must be defined before it is used."""

    def __init__(self, text: str, filename: str):
        super().__init__(text, filename)
        self._scopes: list[dict[str, tuple[SSAValue, ...]]] = [{}]

    def open_scope(self) -> None:
        """Enters a region: what is defined from now on is gone after `close_scope`."""
        self._scopes.append({})

    def close_scope(self) -> None:
        """Leaves a region."""
        self._scopes.pop()

    def define(self, name: str, values: Sequence[SSAValue], token: Token) -> None:
        """Gives values a name."""
        if any(name in scope for scope in self._scopes):
            self.fail(f"value '{name}' is defined twice", token)
        self._scopes[-1][name] = tuple(values)

    def use(self) -> Use:
        """`%name` or `%name#1`."""
        token = self.expect_kind("value", "a value")
        for scope in reversed(self._scopes):
            values = scope.get(token.text)
            if values is not None:
                break
        else:
            self.fail(f"value '{token.text}' is not defined", token)
        index = 0
        following = self.peek()
        if following.kind == "hash" and following.text[1:].isdigit():
            index = int(self.take().text[1:])
        elif len(values) > 1:
            self.fail(f"'{token.text}' is {len(values)} values, expected one such as #0", token)
        if index >= len(values):
            self.fail(f"'{token.text}' has {len(values)} values, not {index + 1}", token)
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
            found, expected = type_text(use.value.type), type_text(type)
            self.fail(f"'{use.token.text}' has type {found}, the text says {expected}", use.token)
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
            mnemonic = op.name.removeprefix("cuda_tile.")
            found = f"{count} names for the results of '{mnemonic}'"
            self.fail(f"found {found}, expected {len(op.results)}", groups[0].token)
        at = 0
        for group in groups:
            self.define(group.name, op.results[at : at + group.count], group.token)
            at += group.count
