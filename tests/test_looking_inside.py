"""The listing in docs/looking-inside.md is what the compiler prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.driver import compile_module
from tileiras.options import CompileOptions

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "looking-inside.md"
START, END = "```mlir\n", "```\n"


def test_listing_is_current(request: pytest.FixtureRequest) -> None:
    """`make bless` writes it anew."""
    source = (ROOT / "examples" / "vector_add.mlir").read_bytes()
    options = CompileOptions(gpu_name="sm_90", emit="nv_tileas")
    text = compile_module(source, options).output.decode()
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    shown, _, after = rest.partition(END)
    if request.config.getoption("--bless"):
        PAGE.write_text(f"{before}{START}{text}{END}{after}", encoding="utf-8")
        return
    assert shown == text
