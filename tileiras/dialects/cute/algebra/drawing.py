"""Layouts as tables and as drawings: a cell for each coordinate (row, column).

A layout of one mode is one row; of more than two, modes from the second on make the columns.
Colours tell what belongs together: the thread of a TV layout, the bank of an offset in shared
memory, else the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import prod

from tileiras.dialects.cute.algebra.banks import BANKS
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import static
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, ComposedLayout
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.offsets import BANK_BYTES

MAX_CELLS = 1 << 14
"""Cells of a table or drawing: more than anybody reads."""
SEVERAL_CELLS = 1 << 12
"""Cells of each where a page has several drawings."""
CELL_WIDTH, CELL_HEIGHT, MARGIN = 56, 32, 36
"""Pixels of a cell, which longer texts widen, and of what is around all cells."""
CHARACTER_WIDTH = 7
"""Pixels of a letter or digit, at most."""
TMEM_COLUMN_BITS = 16
"""The bits of an address of tensor memory that say the column; those above say the lane."""
WARP_LANES = 32
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


def held_grid(layout: LinearLayout) -> Grid:
    """As `thread_grid`, of {register, lane, warp} -> coordinates: any layout over bits."""
    rows, columns = _extents(layout.shape)
    grid = [[Cell("", 0) for _ in range(columns)] for _ in range(rows)]
    lanes = layout.in_size("lane")
    for warp in range(layout.in_size("warp")):
        for lane in range(lanes):
            start = layout.apply_index(lane=lane, warp=warp)
            thread = lane + lanes * warp
            for value in range(layout.in_size("register")):
                index = start ^ layout.apply_index(register=value)
                row, column = _cell_of(layout.coordinate(index), layout.shape)
                found = grid[row][column]
                if not found.text:
                    grid[row][column] = Cell(f"T{thread} V{value}", thread)
                elif not found.text.endswith("+"):
                    grid[row][column] = Cell(found.text + "+", found.colour)
    return grid


def offset_grid(layout: LinearLayout, element_bits: int) -> Grid:
    """As `bank_grid`, of {offset} -> coordinates: any layout over bits."""
    rows, columns = _extents(layout.shape)
    grid = [[Cell("", 0) for _ in range(columns)] for _ in range(rows)]
    for offset in range(layout.in_size("offset")):
        row, column = _cell_of(layout.apply(offset=offset), layout.shape)
        grid[row][column] = _bank_cell(offset, element_bits)
    return grid


def tmem_grid(layout: Layout) -> Grid:
    """The lane and column of tensor memory of each coordinate; coloured by warp and column."""
    rows, columns = layout[0].static_size, layout[1].static_size
    grid: Grid = []
    for row in range(rows):
        line: list[Cell] = []
        for column in range(columns):
            address = static(layout(row + rows * column), "an address of tensor memory")
            lane, place = address >> TMEM_COLUMN_BITS, address % (1 << TMEM_COLUMN_BITS)
            line.append(Cell(f"L{lane} C{place}", lane // WARP_LANES + place))
        grid.append(line)
    return grid


def cropped(grid: Grid, most: int = MAX_CELLS) -> Grid:
    """The first rows and columns of a grid of more cells than are drawn."""
    rows, columns = len(grid), len(grid[0])
    while rows * columns > most:
        rows, columns = (rows, -(-columns // 2)) if columns > rows else (-(-rows // 2), columns)
    return [line[:columns] for line in grid[:rows]]


def _extents(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tile; one of a single dim is a row."""
    return (shape[0], prod(shape[1:])) if len(shape) > 1 else (1, prod(shape))


def _cell_of(coordinate: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, int]:
    """Row and column of an element, the second dim the fastest of the columns."""
    if len(shape) < 2:
        return 0, sum(coordinate)
    column, step = 0, 1
    for place, extent in zip(coordinate[1:], shape[1:], strict=True):
        column, step = column + place * step, step * extent
    return coordinate[0], column


def table(grid: Grid) -> str:
    """The grid as aligned text."""
    width = max((len(cell.text) for line in grid for cell in line), default=1)
    return "\n".join(" ".join(cell.text.rjust(width) for cell in line) for line in grid) + "\n"


def svg(grid: Grid, title: str) -> str:
    """The grid as an SVG drawing with the numbers of rows and columns."""
    rows, columns = len(grid), len(grid[0])
    longest = max(len(cell.text) for line in grid for cell in line)
    cell_width = max(CELL_WIDTH, longest * CHARACTER_WIDTH)
    width, height = MARGIN + columns * cell_width, 2 * MARGIN + rows * CELL_HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11" text-anchor="middle">',
        f"<title>{escape(title)}</title>",
        f'<text x="{MARGIN}" y="20" text-anchor="start" font-size="13">{escape(title)}</text>',
    ]
    for column in range(columns):
        x = MARGIN + column * cell_width + cell_width // 2
        lines.append(f'<text x="{x}" y="{2 * MARGIN - 8}" fill="#666">{column}</text>')
    for row, cells in enumerate(grid):
        top = 2 * MARGIN + row * CELL_HEIGHT
        middle = top + CELL_HEIGHT // 2 + 4
        lines.append(f'<text x="{MARGIN // 2}" y="{middle}" fill="#666">{row}</text>')
        for column, cell in enumerate(cells):
            left = MARGIN + column * cell_width
            lines.append(
                f'<g><rect x="{left}" y="{top}" width="{cell_width}" height="{CELL_HEIGHT}" '
                f'fill="{_fill(cell)}" stroke="#444"/>'
                f'<text x="{left + cell_width // 2}" y="{middle}">{escape(cell.text)}</text></g>'
            )
    return "\n".join([*lines, "</svg>"]) + "\n"


@dataclass(frozen=True)
class Drawing:
    """A grid, what it shows, and what else is known of it."""

    grid: Grid
    title: str
    notes: list[str]


def html(title: str, drawings: list[Drawing]) -> str:
    """A page of drawings, each under what is known of it."""
    pieces: list[str] = []
    for drawing in drawings:
        said = "".join(f"<p>{escape(note)}</p>\n" for note in drawing.notes)
        pieces.append(f"<section>\n{said}{svg(drawing.grid, drawing.title)}</section>\n")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title></head>\n<body>\n{''.join(pieces)}</body></html>\n"
    )


def _fill(cell: Cell) -> str:
    """A light colour; none for a cell that nothing has."""
    if not cell.text:
        return "white"
    hue = cell.colour % COLOURS * HUE_STEP % 360
    light = 72 + 12 * (cell.colour // COLOURS % 2)
    return f"hsl({hue},70%,{light}%)"
