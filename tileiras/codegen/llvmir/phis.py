"""Block arguments of one function as phis: a vector is one of them, or a phi for each lane.

Where f32 arithmetic is packed (`Feature.F32X2`), LLVM keeps a vector that crosses blocks in pairs
of registers. mma.sync wants single ones: a loop over K would take its sums apart at the start of
every iteration and pack them at the end, and so operands that a branch changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, BlockArgument, SSAValue

from tileiras.dialects.llvm.types import bit_width, lanes_of, scalar_of
from tileiras.dialects.nvvm.matrix import MmaScaledTileOp, MmaSyncOp, MmaTileOp

_WORD = 32
"""Fixed: bits of a register."""


@dataclass
class LanePhis:
    """Which block arguments have a phi for each lane."""

    is_wanted: bool
    _decided: dict[SSAValue, bool] = field(default_factory=dict[SSAValue, bool])

    def decide(self, target: Block, values: Sequence[SSAValue]) -> None:
        """Looks at what an edge passes, the first time that the block is heard of.

        Operands and sums of products, and what is passed on of them: else these would be packed at
        the head of a loop.
        """
        for argument, value in zip(target.args, values, strict=True):
            if argument not in self._decided:
                passes = self._decided.get(value, False)
                self._decided[argument] = passes or (self.is_wanted and _is_operand(argument))

    def __contains__(self, argument: SSAValue) -> bool:
        return self._decided.get(argument, False)


def _is_operand(argument: BlockArgument) -> bool:
    """Whether mma.sync takes it, in registers of 32 bits."""
    if lanes_of(argument.type) is None or bit_width(scalar_of(argument.type)) != _WORD:
        return False
    products = MmaTileOp | MmaScaledTileOp | MmaSyncOp
    return any(isinstance(use.operation, products) for use in argument.uses)


@dataclass
class _Phi:
    """A line to be filled in: which of what edges pass goes there."""

    line: int
    name: str
    type: str
    number: int


@dataclass
class Phis:
    """The phis of a function, whose lines are filled in when every edge is known."""

    lines: list[str]
    _phis: dict[Block, list[_Phi]] = field(default_factory=dict[Block, list[_Phi]])
    _edges: dict[Block, list[tuple[str, list[str]]]] = field(
        default_factory=dict[Block, list[tuple[str, list[str]]]]
    )

    def reserve(self, block: Block, name: str, type: str) -> None:
        """Room for the next phi of a block."""
        phis = self._phis.setdefault(block, [])
        phis.append(_Phi(len(self.lines), name, type, len(phis)))
        self.lines.append("")

    def add_edge(self, label: str, target: Block, refs: list[str]) -> None:
        """What the block with a label passes to the phis of `target`, one by one."""
        self._edges.setdefault(target, []).append((label, refs))

    def finish(self) -> None:
        """Fills in the lines."""
        for block, phis in self._phis.items():
            edges = self._edges.get(block, [])
            for phi in phis:
                found = (f"[ {refs[phi.number]}, %{label} ]" for label, refs in edges)
                self.lines[phi.line] = f"  {phi.name} = phi {phi.type} {', '.join(found)}"
