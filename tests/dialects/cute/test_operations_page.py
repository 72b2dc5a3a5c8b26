"""The pages of the operations of CuTe's dialects; `--bless` writes them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.kernels.prose import wrapped
from tileiras.dialects.cute import dialect as cute
from tileiras.dialects.cute import types as cute_types
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute_nvgpu import dialect as cute_nvgpu
from tileiras.dialects.cute_nvgpu import types as cute_nvgpu_types
from tileiras.dialects.cutlass import dialect as cutlass
from tileiras.dialects.cutlass import types as cutlass_types

DOCS = Path(__file__).parents[3] / "docs"
HEAD = """# Operations of the {name} dialect

Made from the classes of `tileiras/dialects/{name}` by
`tests/dialects/cute/test_operations_page.py`. [cute.md](cute.md) says how programs are written. `|`
separates kinds of operands, `?` marks one that may be left out, `*` one that may come any number of
times; `<n>` is the number of static parameters.
"""
PAGES = {
    "cute-operations.md": ("cute", cute, cute_types),
    "cute-nvgpu-operations.md": ("cute_nvgpu", cute_nvgpu, cute_nvgpu_types),
    "cutlass-operations.md": ("cutlass", cutlass, cutlass_types),
}


def _operands(op: type[CuteOp]) -> str:
    """The signature of a row operation."""
    parts = (f"`{'|'.join(each.kinds)}{each.count}`" for each in op.SIGNATURE.operands)
    counts = op.SIGNATURE.statics
    statics = "" if not counts[-1] else f"`<{counts[0]}{'..' if len(counts) > 1 else ''}>` "
    return f"{statics}{', '.join(parts)}".strip()


def page(name: str, dialect: ModuleType, types: ModuleType) -> str:
    """The page's text."""
    lines = [HEAD.format(name=name), "## Types", ""]
    lines += [f"- `!{each.name}`: {' '.join(str(each.__doc__).split())}" for each in types.TYPES]
    for chapter in dialect.CHAPTERS:
        title = str(chapter.__doc__).splitlines()[0]
        heading = chapter.__name__.rpartition(".")[2].replace("_", " ").capitalize()
        lines += ["", f"## {heading}", "", title, ""]
        for op in chapter.OPERATIONS:
            says = " ".join(str(op.__doc__).split("\n\n")[0].split())
            lines.append(f"- `{op.name}`: {says}")
            if issubclass(op, CuteOp):
                operands, result = _operands(op), op.SIGNATURE.result
                lines += [f"    - Operands: {operands}"] if operands else []
                lines += [f"    - Result: `{result}`"] if result else []
    return wrapped("\n".join(lines))


@pytest.mark.parametrize("name", PAGES)
def test_page_is_of_these_operations(name: str, pytestconfig: pytest.Config) -> None:
    """Blessed, or made by hand: the same text."""
    made = page(*PAGES[name])
    if pytestconfig.getoption("--bless"):
        (DOCS / name).write_text(made)
    assert (DOCS / name).read_text() == made
