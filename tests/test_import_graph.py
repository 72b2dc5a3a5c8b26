"""No module reaches itself by imports; docs/imports.svg shows who imports whom."""

from __future__ import annotations

import xml.dom.minidom
from pathlib import Path

import pytest

from tests.import_graph import (
    circles,
    drawing,
    import_graph,
    import_graph_with_packages,
    in_order,
    rows,
)

DRAWING = Path(__file__).resolve().parent.parent / "docs" / "imports.svg"


def test_modules_do_not_import_each_other() -> None:
    """Not in functions either, nor for types only."""
    assert circles(import_graph()) == []


def test_packages_do_not_import_what_imports_them() -> None:
    """An `__init__` counts as imported by who imports a part of its package."""
    assert circles(import_graph_with_packages()) == []


def test_packages_are_in_the_graph() -> None:
    """Those of a module from outside, those that are named from inside, and no others."""
    graph = import_graph_with_packages()
    assert {"dialects", "dialects.nv_tileaa"} <= {*graph["passes.nv_tileaa.split_k"]}
    assert "codegen.lowering" not in graph["codegen.lowering.rules"]
    assert "dialects.cuda_tile" in graph["dialects.cuda_tile.text.formats"]


def test_circles_are_found() -> None:
    """Of any length, each once; what only leads into one is not in it."""
    graph = {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": [], "f": ["g"], "g": ["f"]}
    assert circles(graph) == [("a", "b", "c"), ("f", "g")]


def test_imports_of_every_kind_are_in_the_graph() -> None:
    """One at the top, one in a function, one for types only."""
    graph = import_graph()
    assert "ir_pass" in graph["passes.nv_tileas.order_producer"]
    assert "planning.warp_roles.assignment" in graph["passes.nv_tileaa.assign_warp_roles"]
    assert "codegen.target" in graph["passes.nv_tileaa.assign_warp_roles"]


def test_the_drawing_is_that_of_the_sources(pytestconfig: pytest.Config) -> None:
    wanted = drawing(rows())
    if pytestconfig.getoption("--bless"):
        DRAWING.write_text(wanted, encoding="utf-8")
    assert DRAWING.read_text(encoding="utf-8") == wanted
    assert xml.dom.minidom.parseString(wanted)


def test_rows_stand_above_what_they_import() -> None:
    order = in_order({"a": ["c"], "b": ["a", "c"], "c": []})
    assert order == ["b", "a", "c"]
    assert drawing({"b": ["a"], "a": []}).count('fill="#2f6fb0"') == 1


def test_rows_in_a_circle_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="a circle among a, b"):
        in_order({"a": ["b"], "b": ["a"], "c": []})
