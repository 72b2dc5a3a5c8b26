"""The algebra costs nothing where it is not used, and little where it is."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded(script: str) -> list[str]:
    """The modules that a script has imported, in a process of its own."""
    report = "; import sys; print(*sys.modules)"
    command = [sys.executable, "-c", script + report]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_the_algebra_imports_no_ir() -> None:
    """Nor click or numpy."""
    modules = loaded(
        "import tileiras.dialects.cute.algebra.expressions, tileiras.dialects.cute.algebra.banks"
    )
    assert "tileiras.dialects.cute.algebra.banks" in modules
    assert not [m for m in modules if m.split(".")[0] in ("xdsl", "click", "numpy")]


def test_the_compiler_does_not_import_the_algebra() -> None:
    """Neither its driver nor the tables of passes and dialects."""
    modules = loaded("import tileiras.driver, tileiras.registry, tileiras.dialects.layout")
    assert "tileiras.driver" in modules
    assert not [m for m in modules if m.startswith("tileiras.dialects.cute.")]


SHOWN_ONLY = (
    "tileiras.dialects.cute",
    "tileiras.dialects.cute_nvgpu",
    "tileiras.dialects.cutlass",
    "tileiras.dialects.nv_tileas.cute_layouts",
    "tileiras.codegen.cute",
    "tileiras.codegen.cute_notation",
    "tileiras.interpreter.cute",
    "tileiras.layout_command",
)
"""What CuTe's dialects, and whatever shows layouts, consist of."""
BELOW = tuple(f"{name}." for name in SHOWN_ONLY)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "sm_100"])
def test_a_product_is_compiled_without_these_dialects(target: str) -> None:
    """From its text to PTX: a tile kernel starts as fast as without them."""
    script = (
        "import pathlib; from tileiras.driver import compile_module; "
        "from tileiras.options import CompileOptions; "
        "compile_module(pathlib.Path('examples/matmul.mlir').read_bytes(), "
        f"CompileOptions(gpu_name='{target}', emit='ptx'))"
    )
    modules = loaded(script)
    assert "tileiras.codegen.lowering" in modules
    assert [m for m in modules if m in SHOWN_ONLY or m.startswith(BELOW)] == []


def test_a_tile_kernel_does_not_import_the_dialect() -> None:
    """From its text to nv_tileas; a program in the dialect does."""
    script = (
        "import pathlib; from tileiras.driver import compile_module; "
        "from tileiras.options import CompileOptions; "
        "compile_module(pathlib.Path('examples/vector_add.mlir').read_bytes(), "
        "CompileOptions(gpu_name='sm_90', emit='nv_tileas'))"
    )
    assert not [m for m in loaded(script) if m.startswith("tileiras.dialects.cute.")]
    script = (
        "from tileiras.ir_text import parse_text; "
        "parse_text('cute.func @k() threads 1 { cute.return }')"
    )
    assert "tileiras.dialects.cute.dialect" in loaded(script)
