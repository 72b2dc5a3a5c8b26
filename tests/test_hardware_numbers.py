"""Numbers of a GPU are rows of `codegen/target`: what decides by them keeps none of its own.

A program cannot tell a latency from a limit, but it can ask who wrote a number to say what it is.
In planning and in passes that decide, every constant says that it is a policy (another number would
be as correct) or fixed (by the instruction set, a format or this compiler, on every target). No
constant anywhere has the name of something that hardware has, and none of the rows' own numbers
stands in the code a second time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tileiras.codegen.target import TARGET_NAMES, get_target

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tileiras"

EXPLAINED = ("planning", "analysis", "passes/nv_tileaa", "passes/cuda_tile")
"""Where every constant says what it is."""
CHECKED = ("planning", "analysis", "passes", "codegen/lowering")
"""Where no name and no number is one of hardware."""
KINDS = ("Policy: ", "Fixed: ")
HARDWARE = re.compile(
    r"LATENCY(?!_HINT)|CYCLES|BANDWIDTH|THROUGHPUT|CLOCK|FREQUENCY|MULTIPROCESSOR|SM_COUNT|GPCS?\b"
    r"|PER_CYCLE|PER_SM|PARTITIONS|REGISTER_UNIT|REGISTER_FILE|CACHE_SIZE|L2_|IN_FLIGHT|FLOPS"
    r"|MULTIPLY_ADDS|ISSUE_"
)
COMMON = 256
"""Numbers below, and powers of two, stand for too many things."""


def sources() -> list[Path]:
    """All sources of the package, in a fixed order."""
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """The path as shown in test ids."""
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a source."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


def sources_in(parts: tuple[str, ...]) -> list[Path]:
    """The sources of some parts of the package; `passes/nv_tileaa` is not `.._to_nv_tileas`."""
    folders = [PACKAGE / part for part in parts]
    return [path for path in sources() if any(folder in path.parents for folder in folders)]


def is_number(node: ast.expr | None) -> bool:
    """Whether an expression is made of numbers alone."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return bool(elements) and all(map(is_number, elements))
        case _:
            return False


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The module's numbers: their names, and the docstring below (empty where there is none)."""
    for statement, following in zip(tree.body, [*tree.body[1:], None]):
        match statement:
            case ast.Assign(targets=[target], value=value) if is_number(value):
                pass
            case ast.AnnAssign(target=target, value=value) if is_number(value):
                pass
            case _:
                continue
        match following:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield ast.unparse(target), text
            case _:
                yield ast.unparse(target), ""


def row_numbers() -> dict[int, str]:
    """The numbers of all targets that are not common ones, each with the field it is of."""
    found: dict[int, str] = {}
    for name in TARGET_NAMES:
        target = get_target(name)
        for record in (target, target.performance):
            for field, value in vars(record).items():
                is_common = not isinstance(value, int) or value < COMMON or value & (value - 1) == 0
                # A thread has 255 registers and a version is no number of a GPU.
                if not is_common and "version" not in field:
                    found.setdefault(value, field)
    return found


def repeated_numbers(tree: ast.Module, rows: dict[int, str]) -> list[str]:
    """Literals, products of literals included, that a row of a target has.

    Constants that are explained are what they say: 48 KiB may be a limit of anything.
    """
    found: list[str] = []
    explained = {name for name, text in constants(tree) if text.startswith(KINDS)}
    parts = [
        statement
        for statement in tree.body
        if not (
            isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in explained
        )
    ]
    for node in (inner for part in parts for inner in ast.walk(part)):
        if isinstance(node, ast.BinOp | ast.Constant) and is_number(node):
            value = eval(compile(ast.Expression(node), "", "eval"))
            if isinstance(value, int) and value in rows:
                found.append(f"line {node.lineno}: {value}, `{rows[value]}` of a target")
    return found


def test_constants_say_that_they_are_no_hardware() -> None:
    """By how their docstrings begin."""
    silent = [
        f"{name_of(path)}: {name}"
        for path in sources_in(EXPLAINED)
        for name, text in constants(tree_of(path))
        if not text.startswith(KINDS)
    ]
    assert not silent, f"expected a docstring that begins with {' or '.join(KINDS)}"


def test_no_constant_is_named_after_hardware() -> None:
    """Whatever its docstring says: latencies, rates and sizes of an SM are asked of the target."""
    names = [
        f"{name_of(path)}: {name}"
        for path in sources_in(CHECKED)
        for name, _ in constants(tree_of(path))
        if HARDWARE.search(name)
    ]
    assert not names, "expected a field of `GpuTarget` or `Performance`"


def test_no_number_of_a_target_is_repeated() -> None:
    """As 227 * 1024 would be, or 800."""
    rows = row_numbers()
    assert [
        f"{name_of(path)}: {said}"
        for path in sources_in(CHECKED)
        for said in repeated_numbers(tree_of(path), rows)
    ] == []


def test_what_the_checks_find() -> None:
    """A silent constant, one named after hardware, and a number of a row."""
    tree = ast.parse(
        'MOST, LEAST = 3, -1\n"""Policy: parts."""\n'
        'LOAD_LATENCY = 8 * 100\n"""Policy: of loads."""\n'
        "SILENT: int = 7\nNAMES = ('a',)\nUSUAL_LATENCY_HINT = 4\n'''Policy: of hints.'''\n"
    )
    assert list(constants(tree)) == [
        ("(MOST, LEAST)", "Policy: parts."),
        ("LOAD_LATENCY", "Policy: of loads."),
        ("SILENT", ""),
        ("USUAL_LATENCY_HINT", "Policy: of hints."),
    ]
    assert [bool(HARDWARE.search(name)) for name, _ in constants(tree)] == [
        *(False, True),
        *(False, False),
    ]
    rows = {7: "product_latency", 800: "memory_latency"}
    assert repeated_numbers(tree, rows) == ["line 5: 7, `product_latency` of a target"]
    assert repeated_numbers(ast.parse("wait(8 * 100)"), rows) == [
        "line 1: 800, `memory_latency` of a target"
    ]
    assert 227 * 1024 in row_numbers()
