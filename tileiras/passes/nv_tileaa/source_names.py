"""What the Python source of a kernel calls its values, by their places in it.

Bytecode has no names of variables, but places: file, line and column of the expression that made
an operation. Debuggers need the source anyway. So the names are read from it, where it still is
what the program was made from: a function of the right name begins at the right line.
"""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, field

MAX_BYTES = 16 << 20
"""Policy: larger files are no sources."""

Place = tuple[int, int]
"""Line from 1 and column from 0, in bytes, as Python counts them."""


@dataclass(frozen=True)
class SourceVariable:
    """A variable that an expression is assigned to; `axis` where the expression is `f(axis)`."""

    name: str
    axis: int | None = None


@dataclass(frozen=True)
class FunctionNames:
    """Names of one function: its parameters that are no constants, assignments, loop variables.

    `hidden` are variables that get a value which nobody can place, such as a copy of another one: a
    debugger would show what they had before. `seen` are the targets of the assignments noted.
    """

    parameters: tuple[str, ...]
    assigned: dict[Place, SourceVariable] = field(default_factory=dict)
    loops: dict[Place, str] = field(default_factory=dict)
    seen: list[ast.expr] = field(default_factory=list)
    hidden: frozenset[str] = frozenset()

    def without(self, hidden: frozenset[str]) -> FunctionNames:
        """The names, of which these are hidden."""
        assigned = {at: one for at, one in self.assigned.items() if one.name not in hidden}
        loops = {at: name for at, name in self.loops.items() if name not in hidden}
        return FunctionNames(self.parameters, assigned, loops, self.seen, hidden)


class SourceFiles:
    """Sources that were read, each once."""

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module | None] = {}

    def function(self, path: str, name: str, line: int) -> FunctionNames | None:
        """The names of the function that begins at the line; None if it is not there."""
        if path not in self._trees:
            self._trees[path] = _parsed(path)
        tree = self._trees[path]
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.FunctionDef) and node.name == name:
                first = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
                if first <= line <= node.lineno:
                    return _names_of(node)
        return None


def _parsed(path: str) -> ast.Module | None:
    """The file's syntax tree; None where there is no Python to be read."""
    if not (os.path.isabs(path) and path.endswith(".py") and os.path.isfile(path)):
        return None
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        return ast.parse(data) if len(data) <= MAX_BYTES else None
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _names_of(function: ast.FunctionDef) -> FunctionNames:
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    names = FunctionNames(tuple(arg.arg for arg in arguments if not _is_constant(arg)))
    stores: list[ast.Name] = []
    statements: list[ast.AST] = list(function.body)
    while statements:
        node = statements.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            continue
        statements += ast.iter_child_nodes(node)
        match node:
            case ast.Assign(targets=[target], value=value):
                _assign(names, target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                _assign(names, target, value)
            case ast.NamedExpr(target=target, value=value):
                _assign(names, target, value)
            case ast.AugAssign(target=ast.Name(id=name) as target):
                names.assigned[_place(node)] = SourceVariable(name)
                names.seen.append(target)
            case ast.For(target=ast.Name(id=name) as target):
                names.loops[_place(node)] = name
                names.seen.append(target)
            case ast.Name(ctx=ast.Store()):
                stores.append(node)
    hidden = [store.id for store in stores if not any(store is seen for seen in names.seen)]
    return names.without(frozenset(hidden))


def _assign(names: FunctionNames, target: ast.expr, value: ast.expr) -> None:
    """Notes `target = value`, of tuples each part. No operation makes copies of variables."""
    match target, value:
        case ast.Name(), ast.Name() | ast.Attribute():
            return
        case ast.Name(id=name), _:
            names.assigned[_place(value)] = SourceVariable(name, _axis(value))
            names.seen.append(target)
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            for one, its in zip(targets, values, strict=True):
                _assign(names, one, its)


def _axis(value: ast.expr) -> int | None:
    """The only argument of a call, where it is a number."""
    match value:
        case ast.Call(args=[ast.Constant(value=int() as axis)], keywords=[]):
            return axis
        case ast.Call(args=[], keywords=[ast.keyword(value=ast.Constant(value=int() as axis))]):
            return axis
    return None


def _is_constant(argument: ast.arg) -> bool:
    """Whether a parameter is annotated as a compile-time constant."""
    if argument.annotation is None:
        return False
    nodes = ast.walk(argument.annotation)
    names = [getattr(node, "attr", getattr(node, "id", "")) for node in nodes]
    return any(name.startswith("Constant") for name in names)


def _place(node: ast.expr | ast.stmt) -> Place:
    return node.lineno, node.col_offset
