"""Layouts as tables and as drawings: a cell for each coordinate (row, column).

A layout of one mode is one row; of more than two, modes from the second on make the columns.
Colours tell what belongs together: the thread of a TV layout, the bank of an offset in shared
memory, else the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from tileiras.dialects.cute.algebra.banks import BANKS
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import static
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, ComposedLayout
from tileiras.dialects.layout.offsets import BANK_BYTES

MAX_CELLS = 1 << 14
"""Cells of a table or drawing: more than anybody reads."""
CELL_WIDTH, CELL_HEIGHT, MARGIN = 56, 32, 36
COLOURS = 32
"""Hues; neighbours in number are far apart on the circle of colours."""
HUE_STEP = 137


@dataclass(frozen=True)
class Cell:
    """What stands in a cell, and the number that gives its colour."""

    text: str
    colour: int


Grid = list[list[Cell]]


def _shape(layout: AnyLayout) -> tuple[int, int]:
    """Rows and columns of a layout."""
    outer = layout.outer if isinstance(layout, ComposedLayout) else layout
    size = outer.static_size
    if size > MAX_CELLS:
        raise AlgebraError(f"{layout} has {size} elements, tables have at most {MAX_CELLS}")
    rows = outer[0].static_size if outer.rank > 1 else 1
    return rows, size // rows


def index_grid(layout: AnyLayout) -> Grid:
    """The index of each coordinate; coloured by index."""
    rows, columns = _shape(layout)
    texts = [[str(layout(row + rows * column)) for column in range(columns)] for row in range(rows)]
    return [
        [Cell(text, int(text) if text.lstrip("-").isdigit() else 0) for text in line]
        for line in texts
    ]


def bank_grid(layout: AnyLayout, element_bits: int) -> Grid:
    """The offset of each coordinate in shared memory; coloured by the bank that it lies in."""
    rows, columns = _shape(layout)
    return [
        [
            _bank_cell(static(layout(row + rows * column), "an offset"), element_bits)
            for column in range(columns)
        ]
        for row in range(rows)
    ]


def _bank_cell(offset: int, element_bits: int) -> Cell:
    bank = offset * element_bits // (8 * BANK_BYTES) % BANKS
    return Cell(f"{offset} b{bank}", bank)


def thread_grid(thread_value: Layout, tile: tuple[int, int]) -> Grid:
    """Which thread holds each element of a tile, and as which of its values; coloured by thread.

    AlgebraError unless the layout is (thread, value) -> column-major index in the tile. An element
    that several threads hold shows the first one with a `+`.
    """
    if thread_value.rank != 2:
        raise AlgebraError(f"a TV layout is (thread, value), found {thread_value}")
    rows, columns = tile
    if thread_value.static_size > MAX_CELLS or rows * columns > MAX_CELLS:
        raise AlgebraError(f"tables have at most {MAX_CELLS} cells")
    threads, values = thread_value.modes
    grid = [[Cell("", 0) for _ in range(columns)] for _ in range(rows)]
    for thread in range(threads.static_size):
        for value in range(values.static_size):
            index = static(threads(thread) + values(value), "an index in a tile")
            if not 0 <= index < rows * columns:
                raise AlgebraError(f"{thread_value} leaves the tile of {rows} x {columns}")
            row, column = index % rows, index // rows
            found = grid[row][column]
            if not found.text:
                grid[row][column] = Cell(f"T{thread} V{value}", thread)
            elif not found.text.endswith("+"):
                grid[row][column] = Cell(found.text + "+", found.colour)
    return grid


def table(grid: Grid) -> str:
    """The grid as aligned text."""
    width = max((len(cell.text) for line in grid for cell in line), default=1)
    return "\n".join(" ".join(cell.text.rjust(width) for cell in line) for line in grid) + "\n"


def svg(grid: Grid, title: str) -> str:
    """The grid as an SVG drawing with the numbers of rows and columns."""
    rows, columns = len(grid), len(grid[0])
    width, height = MARGIN + columns * CELL_WIDTH, 2 * MARGIN + rows * CELL_HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11" text-anchor="middle">',
        f"<title>{escape(title)}</title>",
        f'<text x="{MARGIN}" y="20" text-anchor="start" font-size="13">{escape(title)}</text>',
    ]
    for column in range(columns):
        x = MARGIN + column * CELL_WIDTH + CELL_WIDTH // 2
        lines.append(f'<text x="{x}" y="{2 * MARGIN - 8}" fill="#666">{column}</text>')
    for row, cells in enumerate(grid):
        top = 2 * MARGIN + row * CELL_HEIGHT
        middle = top + CELL_HEIGHT // 2 + 4
        lines.append(f'<text x="{MARGIN // 2}" y="{middle}" fill="#666">{row}</text>')
        for column, cell in enumerate(cells):
            left = MARGIN + column * CELL_WIDTH
            lines.append(
                f'<g><rect x="{left}" y="{top}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}" '
                f'fill="{_fill(cell)}" stroke="#444"/>'
                f'<text x="{left + CELL_WIDTH // 2}" y="{middle}">{escape(cell.text)}</text></g>'
            )
    return "\n".join([*lines, "</svg>"]) + "\n"


def html(grid: Grid, title: str, notes: list[str]) -> str:
    """A page with the drawing and what else is known."""
    said = "".join(f"<p>{escape(note)}</p>\n" for note in notes)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title></head>\n<body>\n{said}{svg(grid, title)}</body></html>\n"
    )


def _fill(cell: Cell) -> str:
    """A light colour; none for a cell that nothing has."""
    if not cell.text:
        return "white"
    hue = cell.colour % COLOURS * HUE_STEP % 360
    light = 72 + 12 * (cell.colour // COLOURS % 2)
    return f"hsl({hue},70%,{light}%)"
