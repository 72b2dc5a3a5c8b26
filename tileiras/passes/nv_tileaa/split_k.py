"""The pass `split-k`: steps of K too large for shared memory become several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir_pass import CompileContext, IrPass


@dataclass(frozen=True)
class SplitKPass(IrPass):
    """Cuts a product's steps along K, so that shared memory has room for several stages.

    A loop that does more than this product gets a second loop, over the parts, inside.

    Before   for %k in [0, %n) { %a = tiled_load : 128x256;  %b = tiled_load : 256x256;  dot }
    After    for %j in [0, 4 * %n) { %k = shri %j, 2;  %a = tiled_load : 128x64;
                                     %b = tiled_load : 64x256;  dot }
    Requires nv_tileaa, with the strategies of kernels
    Leaves   loops whose pipelines have stages to spare already; in kernels whose warps all do the
             same, loops whose operands fit into registers and shared memory
    """

    name = "split-k"
    title: ClassVar[str] = "Split steps of K larger than shared memory"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Splits in all functions."""
        for func in list(op.body.ops):
            if isinstance(func, aa.FuncOp) and _has_products(func):
                from tileiras.passes.nv_tileaa.split_steps import split_function

                split_function(ctx, func)


def _has_products(func: aa.FuncOp) -> bool:
    return any(isinstance(op, aa.DotOp) for op in func.walk())
