"""What threads have of a reduction or scan between two steps."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tileiras.codegen.lowering.context import KernelLowering
from tileiras.codegen.lowering.convert_layout import convert, convert_together
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileas.ways import RegroupAttr


@dataclass(frozen=True)
class Partial:
    """Partial results: this thread's part of each operand, and where all of them lie."""

    layout: LinearLayout
    values: tuple[SSAValue, ...]

    def regrouped(self, ctx: KernelLowering, step: RegroupAttr) -> Partial:
        """The same elements in the layout of a step."""
        layout = step.layout.data
        if len(step.by.data) != len(self.values) or layout.shape != self.layout.shape:
            raise ctx.contradiction(f"regroups other partial results than there are: {step}")
        ways = step.by.data
        together = convert_together(ctx, self.values, self.layout, layout, ways)
        if together is not None:
            return Partial(layout, together)
        pairs = zip(self.values, ways, strict=True)
        values = tuple(convert(ctx, value, self.layout, layout, way) for value, way in pairs)
        return Partial(layout, values)
