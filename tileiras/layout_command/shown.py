"""Layouts of a dump as tables and drawings, with the bank conflicts of who reaches them."""

from __future__ import annotations

from tileiras.dialects.cute.algebra.banks import bank_conflicts, vector_width
from tileiras.dialects.cute.algebra.drawing import (
    Drawing,
    Grid,
    bank_grid,
    cropped,
    held_grid,
    index_grid,
    offset_grid,
    thread_grid,
    tmem_grid,
)
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.expressions import layout_of_text
from tileiras.dialects.cute.algebra.int_tuples import is_static
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.linear import distributed_from_linear, distributed_linear
from tileiras.dialects.cute.algebra.swizzles import AnyLayout, ComposedLayout
from tileiras.dialects.layout.offsets import bank_conflicts as linear_conflicts
from tileiras.dialects.layout.offsets import vector_elements
from tileiras.layout_command.dump import REGISTERS, SMEM, TMEM, Access, Entry, selected
from tileiras.layout_command.notes import access_text


def lines(entry: Entry) -> list[str]:
    """What an entry is, in CuTe's notation."""
    where = f"@{entry.function} " if entry.function else ""
    return [where + entry.title, *(f"  {name:<6} {text}" for name, text in entry.parts())]


def is_drawn(layout: AnyLayout | None) -> bool:
    """Whether a layout has numbers only."""
    if layout is None:
        return False
    outer = layout.outer if isinstance(layout, ComposedLayout) else layout
    return is_static(outer.shape) and is_static(outer.stride) and _counts(outer)


def _counts(layout: Layout) -> bool:
    """Whether indices are numbers, not coordinates."""
    return all(isinstance(stride, int) for _, stride in layout.pairs)


def grid_of(entry: Entry) -> Grid | None:
    """Its cells; None of a layout that is not known until run time, or gives coordinates."""
    layout, linear = entry.layout, entry.linear
    if linear is not None:
        if entry.kind == REGISTERS:
            return held_grid(linear)
        return offset_grid(linear, entry.bits)
    if layout is None or not is_drawn(layout):
        return None
    if entry.kind == TMEM and isinstance(layout, Layout):
        return tmem_grid(layout)
    if entry.kind == SMEM:
        return bank_grid(layout, entry.bits)
    if entry.kind == REGISTERS and isinstance(layout, Layout):
        rows = entry.tile[0] if len(entry.tile) > 1 else 1
        size = 1
        for extent in entry.tile:
            size *= extent
        return thread_grid(layout, (rows, size // rows))
    return index_grid(layout)


def drawing_of(entry: Entry, notes: list[str], most: int) -> Drawing | None:
    """The drawing of an entry, its first rows and columns where it is large."""
    whole = grid_of(entry)
    if whole is None:
        return None
    grid = cropped(whole, most)
    if (len(grid), len(grid[0])) != (len(whole), len(whole[0])):
        size = f"{len(grid)} x {len(grid[0])} of {len(whole)} x {len(whole[0])} elements"
        notes = [*notes, f"the first {size}"]
    first, *more = lines(entry)
    return Drawing(grid, first, [*(line.strip() for line in more), *notes])


def access_of(word: str, found: list[Entry]) -> tuple[str, Entry | Layout]:
    """Who accesses: a (thread, value) layout, or a value of the dump that is in registers."""
    try:
        return word, layout_of_text(word)
    except AlgebraError:
        for entry in selected(found, word):
            if entry.kind == REGISTERS:
                return entry.title.partition(" ")[0], entry
    raise AlgebraError(f"'{word}' is in no registers, expected a TV layout or a value that is")


def access_notes(entry: Entry, given: tuple[str, Entry | Layout] | None) -> list[str]:
    """The width of vectors and the bank conflicts of all who are known to reach a tile."""
    if entry.kind != SMEM:
        return []
    notes = [_of_bits(entry, access) for access in entry.accesses]
    if given is not None:
        notes.append(_of_given(entry, *given))
    return notes


def _of_bits(entry: Entry, access: Access) -> str:
    assert entry.linear is not None
    vector = access.vector or vector_elements(access.layout, entry.linear, entry.bits)
    fronts = linear_conflicts(access.layout, entry.linear, entry.bits, vector)
    return access_text(access.who, vector, fronts)


def _of_given(entry: Entry, who: str, access: Entry | Layout) -> str:
    """An access that the command line names: over bits where both sides are, else by addresses."""
    if isinstance(access, Entry):
        if access.linear is not None and entry.linear is not None:
            return _of_bits(entry, Access(who, access.linear))
        layout = access.layout
        if access.linear is not None:
            layout = distributed_from_linear(access.linear)
    else:
        layout = access
        if entry.layout is None and entry.linear is not None:
            return _of_bits(entry, Access(who, distributed_linear(layout, entry.tile)))
    if not isinstance(layout, Layout) or entry.layout is None or not is_drawn(entry.layout):
        raise AlgebraError(f"an access is of a static layout to a static layout, found {who}")
    vector = vector_width(layout, entry.layout, entry.bits)
    return access_text(who, vector, bank_conflicts(layout, entry.layout, entry.bits, vector))
