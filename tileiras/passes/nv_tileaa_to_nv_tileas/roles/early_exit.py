"""A tile block that ends at once does so before its warps are sent to their programs."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects.nv_tileas.warp_roles import NAMES
from tileiras.passes.rewriting import erase_op


def take_exit(exit: Sequence[Operation], source: Block, entry: Block) -> None:
    """Moves the exit, the last of these operations, from `source` into `entry`; the others make
    its condition there, too.
    """
    if not exit:
        return
    values: dict[SSAValue, SSAValue] = dict(zip(source.args, entry.args, strict=True))
    for op in exit:
        made = op.clone(values)
        for inner in made.walk():
            for name in NAMES:
                inner.attributes.pop(name, None)
        entry.add_op(made)
    erase_op(exit[-1])
