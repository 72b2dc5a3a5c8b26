"""The how-to pages are true: what they tell to write is all that there is to write.

Each test copies the package, makes the edits of a page in as many files as the page names, and
runs the compiler of the copy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "how-to"
MOST_FILES_OF_AN_ELEMENTWISE_OP = 6

PASS = '''"""Gives constants no users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects.cuda_tile import PrintTkoOp
from tileiras.ir_pass import CompileContext, IrPass


@dataclass(frozen=True)
class DropPrintsPass(IrPass):
    """Removes prints.

    Before   print_tko "%d", %x
    After    nothing
    Requires nothing
    Leaves   prints whose token is used
    """

    name = "drop-prints"
    title: ClassVar[str] = "Drop prints"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Removes them."""
        for inner in list(op.walk()):
            if isinstance(inner, PrintTkoOp) and not inner.results[0].uses:
                inner.detach()
                inner.erase()
'''
PRINTS = """cuda_tile.module @m {
  entry @k(%x: tile<i32>) {
    print_tko "%d", %x : tile<i32> -> token
    return
  }
}
"""
CBRT = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>) {
    %t = make_token : token
    %x, %u = load_ptr_tko weak %p token=%t : tile<ptr<f32>> -> tile<f32>, token
    %y = cbrt %x : tile<f32>
    %s = store_ptr_tko weak %p, %y token=%u : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
"""
SHORT_PRODUCT = """cuda_tile.module @m {
  entry @k(%p: tile<ptr<bf16>>, %q: tile<ptr<f32>>) {
    %t = make_token : token
    %i = constant <i32: 0> : tile<i32>
    %v = make_tensor_view %p, shape = [64, 8], strides = [8, 1]
      : tensor_view<64x8xbf16, strides=[8,1]>
    %a = make_partition_view %v : partition_view<tile=(64x8), tensor_view<64x8xbf16, strides=[8,1]>>
    %w = make_tensor_view %p, shape = [8, 64], strides = [64, 1]
      : tensor_view<8x64xbf16, strides=[64,1]>
    %b = make_partition_view %w
      : partition_view<tile=(8x64), tensor_view<8x64xbf16, strides=[64,1]>>
    %r = make_tensor_view %q, shape = [64, 64], strides = [64, 1]
      : tensor_view<64x64xf32, strides=[64,1]>
    %c = make_partition_view %r
      : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %x, %tx = load_view_tko weak %a[%i, %i] token = %t
      : partition_view<tile=(64x8), tensor_view<64x8xbf16, strides=[8,1]>>, tile<i32>
      -> tile<64x8xbf16>, token
    %y, %ty = load_view_tko weak %b[%i, %i] token = %t
      : partition_view<tile=(8x64), tensor_view<8x64xbf16, strides=[64,1]>>, tile<i32>
      -> tile<8x64xbf16>, token
    %z = constant <f32: 0.0> : tile<64x64xf32>
    %d = mmaf %x, %y, %z : tile<64x8xbf16>, tile<8x64xbf16>, tile<64x64xf32>
    %s = store_view_tko weak %d, %c[%i, %i] token = %t
      : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>,
        tile<i32> -> token
    return
  }
}
"""
RUN_IN_INTERPRETER = """
import sys, numpy as np
from tileiras.ir_text import parse_text
from tileiras.interpreter import run_entry
from tileiras.driver import compile_module
from tileiras.options import CompileOptions
text = open(sys.argv[1]).read()
for stage in ("cuda_tile", "nv_tileaa"):
    out = compile_module(text.encode(), CompileOptions(gpu_name="sm_90", emit=stage)).output
    memory = np.array([27.0], np.float32)
    run_entry(parse_text(out.decode(), "k.mlir"), "k", [memory], (1, 1, 1))
    print(float(memory[0]))
"""


class Copy:
    """A copy of the package, and which of its files have been written."""

    def __init__(self, folder: Path):
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "tileiras", folder / "tileiras", ignore=ignored)
        self.written: dict[str, None] = {}

    def write(self, name: str, text: str) -> None:
        """Makes a file."""
        (self.folder / name).write_text(text, encoding="utf-8")
        self.written[name] = None

    def edit(self, name: str, before: str, new: str) -> None:
        """Puts new text in front of the first `before` of a file; at the end where it is empty."""
        text = (self.folder / name).read_text(encoding="utf-8")
        place = text.index(before) if before else len(text)
        self.write(name, text[:place] + new + text[place:])

    def run(self, *arguments: str, text: str) -> str:
        """What Python prints, with the copy first on its path; the file of `text` comes last."""
        kernel = self.folder / "kernel.mlir"
        kernel.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, *arguments, str(kernel)],
            capture_output=True,
            text=True,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
        )
        return done.stdout if done.returncode == 0 else done.stderr

    def compile(self, *options: str, text: str) -> str:
        """The text that the compiler makes for sm_90."""
        return self.run("-m", "tileiras", "--gpu-name=sm_90", "-o-", *options, text=text)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """A copy that nobody has written in."""
    return Copy(tmp_path)


def named_files(page: str) -> list[str]:
    """The files of the package that the numbered steps of a page name, each once."""
    text = (PAGES / page).read_text(encoding="utf-8")
    steps = re.findall(r"^\d+\..*?(?=^\d+\.|^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    found = re.findall(r"`(tileiras/[\w/.-]+\.py)`", "".join(steps))
    return list(dict.fromkeys(found))


def test_a_pass_is_one_file_and_one_line(copy: Copy) -> None:
    """It runs in its place, has a name for options, and is gone without the line."""
    made = ("--emit=cuda_tile",)
    assert "print_tko" in copy.compile(*made, text=PRINTS)
    copy.write("tileiras/passes/cuda_tile/drop_prints.py", PASS)
    assert "print_tko" in copy.compile(*made, text=PRINTS)
    line = '    Step("drop-prints", "cuda_tile", "what nobody reads need not be compiled"),\n'
    copy.edit("tileiras/pipeline.py", '    Step(\n        "canonicalize"', line)
    assert "print_tko" not in copy.compile(*made, text=PRINTS)
    assert "print_tko" not in copy.compile("--pass-pipeline=drop-prints", text=PRINTS)
    assert list(copy.written) == named_files("add-a-pass.md")


def test_an_elementwise_op_is_five_places(copy: Copy) -> None:
    """Text, bytecode, every stage, PTX and the interpreter know it then."""
    assert "cbrt" in copy.compile("--emit=cuda_tile", text=CBRT).partition("error")[2]
    copy.edit(
        "tileiras/dialects/cuda_tile/math.py",
        "",
        '\n\n@irdl_op_definition\nclass CbrtOp(UnaryFloatOp):\n    """A cube root."""\n\n'
        '    name = "cuda_tile.cbrt"\n',
    )
    copy.edit(
        "tileiras/bytecode/opcodes.py", "    _op(110,", '    _op(126, ct.CbrtOp, "source"),\n'
    )
    copy.edit(
        "tileiras/dialects/nv_tileaa/math.py",
        "",
        '\n\n@irdl_op_definition\nclass CbrtOp(UnaryOp):\n    """A cube root."""\n\n'
        '    name = "nv_tileaa.cbrt"\n',
    )
    copy.edit(
        "tileiras/codegen/lowering/elementwise/math.py",
        "lower_log = ",
        'lower_cbrt = from_libdevice("cbrt")\n',
    )
    copy.edit(
        "tileiras/interpreter/math_functions.py",
        "    ct.CosOp:",
        "    ct.CbrtOp: _via_float64(np.cbrt),\n",
    )
    assert "cbrt %" in copy.compile("--emit=cuda_tile", text=CBRT)
    assert "nv_tileaa.cbrt" in copy.compile("--emit=nv_tileas", text=CBRT)
    assert ".entry k" in copy.compile("--emit=ptx", text=CBRT)
    assert copy.run("-c", RUN_IN_INTERPRETER, text=CBRT).split() == ["3.0", "3.0"]
    assert list(copy.written) == named_files("add-an-op.md")
    assert len(copy.written) <= MOST_FILES_OF_AN_ELEMENTWISE_OP


def test_an_atom_is_one_row(copy: Copy) -> None:
    """A product that no other atom fits is computed with it; before, by multiply-adds."""
    assert "mma.sync" not in copy.compile("--emit=ptx", text=SHORT_PRODUCT)
    copy.edit(
        "tileiras/codegen/atoms/mma.py",
        '        MmaAtom(16, 8, 8, "f32", "tf32"',
        '        MmaAtom(16, 8, 8, "f32", "bf16", "bf16", sync),\n',
    )
    assert "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32" in copy.compile(
        "--emit=ptx", text=SHORT_PRODUCT
    )
    assert list(copy.written) == named_files("add-an-atom.md")
