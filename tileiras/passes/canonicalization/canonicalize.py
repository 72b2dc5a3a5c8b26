"""The canonicalize pass."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileiras.dialects.cuda_tile import EntryOp, GlobalOp
from tileiras.dialects.cuda_tile import ModuleOp as TileModuleOp
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.passes.canonicalization.control_flow import CONTROL_FLOW
from tileiras.passes.canonicalization.editor import Editor
from tileiras.passes.canonicalization.integer_folds import INTEGER_FOLDS, Fold
from tileiras.passes.canonicalization.simplifications import SIMPLIFICATIONS, Simplification
from tileiras.passes.canonicalization.tile_folds import TILE_FOLDS

FOLDS: dict[type, Fold] = {**INTEGER_FOLDS, **TILE_FOLDS}
REWRITES: dict[type, Simplification] = {**SIMPLIFICATIONS, **CONTROL_FLOW}
_KEPT = (ModuleOp, TileModuleOp, EntryOp, GlobalOp)


@dataclass(frozen=True)
class CanonicalizePass(IrPass):
    """Folds constants, applies identities, and removes what nothing uses.

    Before   %c = constant <i32: 2>;  %d = addi %c, %c;  %e = muli %x, %d;  %f = addi %y, %zero
    After    %d = constant <i32: 4>;  %e = muli %x, %d                      (%f is %y)
    Requires nothing.
    Leaves   float arithmetic alone (rounding, NaNs) but for powers that are products of a few
             factors and sums that a product may start from, and all operations with effects.
    """

    name = "canonicalize"
    title = "Canonicalizer"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Rewrites the module in place."""
        canonicalize(op)


def canonicalize(root: Operation) -> None:
    """Folds and simplifies all operations under `root` until nothing changes."""
    editor = Editor(op for op in root.walk() if not isinstance(op, _KEPT))
    while (op := editor.next()) is not None:
        if isinstance(op, _KEPT) or editor.erase_if_dead(op) or _fold(op, editor):
            continue
        simplify = REWRITES.get(type(op))
        if simplify is not None:
            simplify(op, editor)


def _fold(op: Operation, editor: Editor) -> bool:
    fold = FOLDS.get(type(op))
    folded = None if fold is None else fold(op)
    if folded is None:
        return False
    value = editor.constant(op, folded) if isinstance(folded, DenseAttr) else folded
    editor.replace(op, [value])
    return True
