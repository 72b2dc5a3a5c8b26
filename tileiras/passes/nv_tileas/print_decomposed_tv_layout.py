"""`tileas-print-decomposed-tv-layout`: the layouts of tensors, for people who think in CuTe."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects.assembly.layout_listing import decomposed_lines
from tileiras.dialects.nv_tileaa.control_flow import FuncOp
from tileiras.ir_pass import CompileContext, IrPass


@dataclass(frozen=True)
class PrintDecomposedTvLayoutPass(IrPass):
    """Prints the layout of every tensor, taken apart, as CuTe writes layouts; to stderr.

    `tv` is (thread, value) -> index in the tile, column-major. `lane`, `warp` and `value` are the
    coordinates that each of them adds: `8:2@1` is 8 steps of 2 along dim 1. `copies` says how often
    each element is held, if more than once. The module is left as it is. `tileiras-layout` draws
    the same layouts from a dump.

    Before   %tile = nv_tileas.tiled_load .. : tensor<64x32xf16, #blocked0>
    After    the same, and on stderr

             %tile = nv_tileas.tiled_load : 64x32xf16
               tv     ((4,32),(8,4)):((512,1),(64,32))
    Requires nv_tileas, whose tensors have layouts
    Leaves   the module as it is
    """

    name = "tileas-print-decomposed-tv-layout"
    title: ClassVar[str] = "Print decomposed thread-value layouts"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Prints function by function; those with `--print-funcs` only."""
        shown = ctx.options.text_style.functions
        for func in op.body.block.ops:
            if not isinstance(func, FuncOp) or (shown and func.sym_name.data not in shown):
                continue
            lines = decomposed_lines(func)
            if lines:
                print(f"@{func.sym_name.data}", *lines, sep="\n", file=sys.stderr)
