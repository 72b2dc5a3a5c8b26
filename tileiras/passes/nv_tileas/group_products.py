"""Products that read operands in common from shared memory stand next to each other.

    %a = fma_dot %x, %y, %zero                  %z = convert_layout %t
    %z = convert_layout %t                      %a = fma_dot %x, %y, %zero
    %e = exp %a                          ->     %d = fma_dot %z, %y, %zero
    %d = fma_dot %z, %y, %zero                  %e = exp %a

The lowering computes products next to each other together: it stages an operand once, reads it once
for each k, and meets once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Operation, OpResult
from xdsl.traits import Pure

from tileiras.codegen.atoms.mma import get_mma_atom
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout.mma import Operand, columns_of, in_columns, mma_operand_layout
from tileiras.dialects.nv_tileaa.storage import storage_bytes
from tileiras.dialects.nv_tileaa.types import element_of, shape_of
from tileiras.dialects.nv_tileas.encoding import layout_of
from tileiras.errors import required
from tileiras.ir_pass import CompileContext, IrPass

Product = tas.FmaDotOp | tas.MmaDotOp

MAX_WORDS = 128
"""Registers of a thread that the sums of a group may take: half of what there are."""


@dataclass(frozen=True)
class GroupProductsPass(IrPass):
    """Moves products together that read a common operand from shared memory.

    Before   %a = fma_dot %x, %y, %z;  %e = exp %t;  %b = fma_dot %w, %y, %z
    After    %a = fma_dot %x, %y, %z;  %b = fma_dot %w, %y, %z;  %e = exp %t
    Requires nv_tileas
    Leaves   products that depend on what stands between, whose sums would take too many registers
             together, or that wgmma computes
    """

    name = "tileas-group-products"
    title: ClassVar[str] = "Group products of common operands"

    def apply(self, ctx: CompileContext, op: ModuleOp) -> None:
        """Groups the products of all functions."""
        for func in op.body.ops:
            if isinstance(func, aa.FuncOp):
                group_products(func.body.block)


def group_products(block: Block) -> None:
    """Does so in a block and in all that it contains."""
    if not any(isinstance(op, Product) for op in block.walk()):
        return
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                group_products(inner)
    grouped: dict[Operation, None] = {}
    for op in list(block.ops):
        if isinstance(op, Product) and op not in grouped:
            grouped.update(dict.fromkeys(_Group(op).gather()))


class _Group:
    """A product, and those behind it that shall follow it at once."""

    def __init__(self, first: Product):
        self.members = [first]
        block = required(first.parent_block(), "a product is in no block")
        self._block = block

    def gather(self) -> Sequence[Product]:
        """Moves products up as long as there are any; the members."""
        while self._take_one():
            pass
        return self.members

    def _take_one(self) -> bool:
        """Moves the first product that has something in common with the members."""
        op = self.members[-1].next_op
        while op is not None:
            if isinstance(op, Product) and self._is_related(op):
                needed = self._needed(op)
                if needed is not None:
                    self._move(needed, op)
                    return True
            op = op.next_op
        return False

    def _is_related(self, op: Product) -> bool:
        """Whether an operand or the sum is that of a member, and registers suffice."""
        first = self.members[0]
        if op.result.type != first.result.type or shape_of(op.lhs) != shape_of(first.lhs):
            return False
        if isinstance(op, tas.MmaDotOp) and op.properties != first.properties:
            return False
        if type(op) is not type(first):
            return False
        if any(op.acc is member.result for member in self.members):
            return isinstance(op, tas.FmaDotOp) and op.acc.has_one_use()
        layout = required(layout_of(first.result.type), "a product has no layout")
        made = {member.result: None for member in self.members}
        sums = 1 + sum(1 for member in self.members if member.acc not in made)
        size = storage_bytes(element_of(first.result))
        return sums * layout.in_size("register") * size <= 4 * MAX_WORDS and any(
            (op.lhs is member.lhs and _is_staged(op, "A"))
            or (op.rhs is member.rhs and _is_staged(op, "B"))
            for member in self.members
        )

    def _needed(self, op: Product) -> list[Operation] | None:
        """What must move with a product, in program order; None if that cannot be."""
        sums = {member.result: None for member in self.members}
        following = _after(self.members[-1])
        needed: dict[Operation, None] = {}
        waiting = [op.lhs, op.rhs, *([op.acc] if op.acc not in sums else [])]
        while waiting:
            value = waiting.pop()
            if value in sums:
                return None
            if not isinstance(value, OpResult) or value.op not in following:
                continue
            if value.op in needed:
                continue
            if not value.op.has_trait(Pure) or value.op.regions:
                return None
            needed[value.op] = None
            waiting += value.op.operands
        return sorted(needed, key=lambda moved: following[moved])

    def _move(self, needed: Sequence[Operation], op: Product) -> None:
        """Operands before the first member, the product behind the last."""
        for moved in needed:
            moved.detach()
            self._block.insert_op_before(moved, self.members[0])
        op.detach()
        self._block.insert_op_after(op, self.members[-1])
        self.members.append(op)


def _is_staged(op: Product, which: Operand) -> bool:
    """Whether an operand in registers goes through shared memory on its way to the product."""
    if isinstance(op, tas.FmaDotOp):
        return True
    value = op.lhs if which == "A" else op.rhs
    if not isinstance(value.type, TensorType):  # a tile of a stage: each product reads it there
        return False
    warps = (op.warps_m.data, op.warps_n.data)
    rows = get_mma_atom(op.atom.data).layouts()
    fragments = mma_operand_layout(rows.operand(which), shape_of(value), warps, which)
    layout, result = layout_of(value.type), layout_of(op.result.type)
    if which == "A" or result is None:
        return layout != fragments
    columns = columns_of(mma_operand_layout(rows.c, result.shape, warps, "C"), result)
    return columns is None or layout != in_columns(fragments, columns)


def _after(op: Operation) -> dict[Operation, int]:
    """The operations behind one in its block, numbered."""
    found: dict[Operation, int] = {}
    following = op.next_op
    while following is not None:
        found[following] = len(found)
        following = following.next_op
    return found
