"""The command `tileiras-layout`: evaluates expressions of the layout algebra, and draws layouts."""

from __future__ import annotations

import sys
from argparse import Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from tileiras.argument_parser import CommandParser
from tileiras.dialects.cute.algebra.banks import bank_conflicts, vector_width
from tileiras.dialects.cute.algebra.drawing import (
    MAX_CELLS,
    SEVERAL_CELLS,
    Drawing,
    Grid,
    bank_grid,
    html,
    index_grid,
    svg,
    table,
    thread_grid,
)
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.expressions import (
    Value,
    evaluate,
    layout_of_text,
    value_text,
)
from tileiras.dialects.cute.algebra.int_tuples import is_static
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.linear import distributed_from_linear
from tileiras.dialects.cute.algebra.swizzles import ComposedLayout
from tileiras.dialects.layout.errors import LayoutError
from tileiras.dialects.layout.mma import Operand, mma_fragments
from tileiras.errors import TileirasError
from tileiras.layout_command.notes import access_text

EXAMPLES = """examples:
  tileiras-layout '(8,(2,4)):(4,(1,16))'
  tileiras-layout 'composition((8,4):(4,1), 4:2)'
  tileiras-layout 'S<3,3,3> o 0 o (8,64):(64,1)' --bits 16 --svg swizzle.svg
  tileiras-layout '((4,8),2):((16,1),8)' --tile 8,8 --html tv.html
  tileiras-layout --mma 16,8,16 --bits 16 --operand A
  tileiras-layout --dump k.mlir
  tileiras-layout --dump k.mlir '%tile' --access mma_dot --html tile.html"""


def parser() -> CommandParser:
    """The options of the command."""
    made = CommandParser(
        prog="tileiras-layout",
        description="Evaluate an expression of CuTe's layout algebra; print and draw layouts.",
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "expression",
        nargs="?",
        help="a layout, swizzle, tuple or function; with --dump a value, operation or alias",
    )
    made.add_argument(
        "--dump", metavar="FILE", help="layouts of a module of any stage that has some"
    )
    made.add_argument("--tile", metavar="M,N", help="the layout is (thread, value) -> index in MxN")
    made.add_argument("--bits", type=int, metavar="N", help="elements of N bits in shared memory")
    made.add_argument(
        "--access",
        metavar="TV",
        help="count the bank conflicts of a TV layout, or of a value of the dump",
    )
    made.add_argument("--mma", metavar="M,N,K", help="the layout of an operand of mma.sync")
    made.add_argument("--operand", choices=("A", "B", "C"), default="A", help="which (default A)")
    made.add_argument("--svg", metavar="FILE", help="draw the table")
    made.add_argument("--html", metavar="FILE", help="draw the table as a page")
    made.add_argument("--no-table", action="store_true", help="print the value only")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; 0, or 1 with a message for an expression that has no value."""
    try:
        _run(parser().parse_args(arguments))
    except TileirasError as error:
        print(error.render(), file=sys.stderr)
        return 1
    except (AlgebraError, LayoutError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(options: Namespace) -> None:
    if options.dump is not None:
        _run_dump(options)
        return
    value, tile = _value(options)
    title = value_text(value)
    print(title)
    notes = _notes(options, value)
    for note in notes:
        print(note)
    wants_drawing = options.svg or options.html
    if not isinstance(value, (Layout, ComposedLayout)) or not _is_static(value):
        if wants_drawing or tile is not None:
            raise AlgebraError(f"only static layouts are drawn, found {title}")
        return
    grid = _grid(options, value, tile)
    if not options.no_table:
        print(table(grid), end="")
    if options.svg:
        Path(options.svg).write_text(svg(grid, title), encoding="utf-8")
    if options.html:
        Path(options.html).write_text(html(title, [Drawing(grid, title, notes)]), encoding="utf-8")


def _run_dump(options: Namespace) -> None:
    """The layouts of a dump: all of them in short, or those that are asked for."""
    from tileiras.driver import read_source
    from tileiras.file_io import read_input
    from tileiras.layout_command.dump import entries, selected
    from tileiras.layout_command.shown import access_notes, access_of, drawing_of, lines

    if options.mma is not None or options.tile is not None or options.bits is not None:
        raise AlgebraError("--mma, --tile and --bits are for expressions, a dump knows its own")
    found = entries(read_source(read_input(options.dump), options.dump))
    access = None if options.access is None else access_of(options.access, found)
    chosen = found if options.expression is None else selected(found, options.expression)
    drawings: dict[tuple[object, ...], Drawing] = {}
    wants_drawing = options.svg or options.html
    wants_table = options.expression is not None and not options.no_table
    most = MAX_CELLS if len({one.place for one in chosen}) == 1 else SEVERAL_CELLS
    for entry in chosen:
        said = access_notes(entry, access)
        print(*lines(entry), *(f"  {note}" for note in said), sep="\n")
        if not (wants_drawing or wants_table) or entry.place in drawings:
            continue
        drawing = drawing_of(entry, said, most)
        if drawing is not None:
            drawings[entry.place] = drawing
            if wants_table:
                print(table(drawing.grid), end="")
    made = list(drawings.values())
    if wants_drawing and not made:
        raise AlgebraError("only static layouts are drawn, found none")
    if options.svg:
        if len(made) > 1:
            raise AlgebraError(
                f"--svg draws one layout, found {len(made)}: name one, or use --html"
            )
        Path(options.svg).write_text(svg(made[0].grid, made[0].title), encoding="utf-8")
    if options.html:
        Path(options.html).write_text(html(options.dump, made), encoding="utf-8")


def _value(options: Namespace) -> tuple[Value, tuple[int, int] | None]:
    """The value and, of a TV layout, its tile."""
    if options.mma is None:
        if options.expression is None:
            raise AlgebraError("expected an expression, or --mma")
        tile = None if options.tile is None else _numbers(options.tile, 2)
        return evaluate(options.expression), None if tile is None else (tile[0], tile[1])
    if options.expression is not None:
        raise AlgebraError("expected an expression or --mma, found both")
    m, n, k = _numbers(options.mma, 3)
    which: Operand = options.operand
    linear = mma_fragments(m, n, k, options.bits or 16).operand(which)
    return distributed_from_linear(linear), (linear.shape[0], linear.shape[1])


def _numbers(text: str, count: int) -> tuple[int, ...]:
    """`8,16` as numbers from 1 on."""
    parts = text.split(",")
    if len(parts) != count or not all(part.isdecimal() and int(part) > 0 for part in parts):
        shown = ",".join(["16"] * count)
        raise AlgebraError(f"expected {count} numbers, such as {shown}, found '{text}'")
    return tuple(int(part) for part in parts)


def _is_static(value: Layout | ComposedLayout) -> bool:
    outer = value.outer if isinstance(value, ComposedLayout) else value
    return is_static(outer.shape) and is_static(outer.stride)


def _notes(options: Namespace, value: Value) -> list[str]:
    """What is said of an access to shared memory."""
    if options.access is None:
        return []
    if not isinstance(value, (Layout, ComposedLayout)) or not _is_static(value):
        raise AlgebraError(f"an access is to a static layout, found {value_text(value)}")
    if options.bits is None:
        raise AlgebraError("--access needs --bits, the width of elements")
    access = layout_of_text(options.access)
    vector = vector_width(access, value, options.bits)
    fronts = bank_conflicts(access, value, options.bits, vector)
    return [access_text(str(access), vector, fronts)]


def _grid(options: Namespace, value: Layout | ComposedLayout, tile: tuple[int, int] | None) -> Grid:
    """The cells that the options ask for."""
    if tile is not None:
        if not isinstance(value, Layout):
            raise AlgebraError(f"a TV layout has no swizzle, found {value}")
        return thread_grid(value, tile)
    return index_grid(value) if options.bits is None else bank_grid(value, options.bits)


def option_names() -> list[tuple[str, str, str]]:
    """Name, help and placeholder of each option, for completion in shells."""
    return parser().option_names()
