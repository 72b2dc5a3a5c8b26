"""Writes layouts beside operations, and follows what is asked for in which layout.

A layout other than that of a value's class is made where it is asked for first, and found by what
follows in that block: some choices depend on what is there already. Values that are cheap to
compute again are marked where somebody wants them elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.rearranged import source_layout
from tileiras.dialects.nv_tileas.assigned import (
    ARGUMENT_LAYOUTS,
    LAYOUTS,
    OPERAND_LAYOUTS,
    REMATERIALIZE,
    layouts_attribute,
)
from tileiras.planning.layouts.equivalence_classes import EquivalenceClasses
from tileiras.planning.layouts.rematerialization import (
    is_cheap,
    is_lazy,
    is_negated,
    is_tensor,
    is_widened,
)


class LayoutWriter:
    """The layouts of one function, written in program order."""

    def __init__(self, classes: EquivalenceClasses):
        self.classes = classes
        self._made: list[set[tuple[SSAValue, LinearLayout]]] = []
        """Tensors in other layouts than their own, by block: the innermost one last."""

    @contextmanager
    def inner_block(self) -> Iterator[None]:
        """While a block is walked: what is made in it is not there behind it."""
        self._made.append(set())
        yield
        self._made.pop()

    # layouts

    def settled(self, value: SSAValue) -> LinearLayout:
        """The layout that a value has, or would be made in if nothing else is asked."""
        return self.classes.settled(value)

    def ask(self, value: SSAValue, layout: LinearLayout) -> None:
        """Has an operand in a layout. Scalars have none."""
        if not is_tensor(value):
            return
        owner = value.owner
        if is_lazy(value):
            is_rearranged = isinstance(owner, aa.BroadcastOp | aa.ReshapeOp | aa.PermuteOp)
            if is_rearranged and not self.is_made(value, layout):
                self.ask(owner.source, source_layout(owner, layout))
                self._made[-1].add((value, layout))
            return
        if layout == self.settled(value) or self.is_made(value, layout):
            return
        if isinstance(owner, Operation) and _is_made_again(value):
            owner.attributes[REMATERIALIZE] = UnitAttr()
            for operand in owner.operands:
                self.ask(operand, layout)
        self._made[-1].add((value, layout))

    def ask_like(self, values: Sequence[SSAValue], models: Sequence[SSAValue]) -> None:
        """Has values in the layouts of others."""
        for value, model in zip(values, models, strict=True):
            if is_tensor(value):
                self.ask(value, self.settled(model))

    def is_made(self, value: SSAValue, layout: LinearLayout) -> bool:
        """Whether a tensor has been asked for in a layout, here or around."""
        key = (value, layout)
        return any(key in made for made in self._made)

    # attributes

    def set_results(self, op: Operation) -> None:
        """The layouts in which the results' users find them."""
        self._set(op, LAYOUTS, op.results)

    def set_arguments(self, op: Operation, arguments: Sequence[SSAValue]) -> None:
        """The layouts of what comes into the block of an operation."""
        self._set(op, ARGUMENT_LAYOUTS, arguments)

    def take(self, op: Operation, operands: Iterable[tuple[SSAValue, LinearLayout]]) -> None:
        """Operands, each in a layout: all the tensors of an operation that threads hold."""
        pairs = list(operands)
        if pairs:
            op.attributes[OPERAND_LAYOUTS] = layouts_attribute([layout for _, layout in pairs])
        for value, layout in pairs:
            self.ask(value, layout)

    def _set(self, op: Operation, name: str, values: Sequence[SSAValue]) -> None:
        layouts = [self.settled(value) for value in values if is_tensor(value)]
        if layouts:
            op.attributes[name] = layouts_attribute(layouts)


def _is_made_again(value: SSAValue) -> bool:
    """Whether a value is computed where it is wanted."""
    return is_cheap(value) or is_widened(value) or is_negated(value)
