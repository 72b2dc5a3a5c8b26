"""What the rules of single operations know of the kernel that is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects.assembly.names import ValueNames
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.types import MEM_TOKEN
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr


@dataclass
class Shown:
    """The names of values and layouts, as `--emit=nv_tileas` has them.

    `warps`: those that run what is shown now. `used`: layouts that lines refer to.
    """

    names: ValueNames
    aliases: Mapping[Attribute, str]
    warps: int
    used: dict[LinearLayout, str] = field(default_factory=dict[LinearLayout, str])

    def use(self, value: SSAValue) -> str:
        """A value where it is used."""
        return self.names.use(value)

    def uses(self, values: Iterable[SSAValue]) -> str:
        """Several, separated by commas."""
        return ",".join(map(self.names.use, values))

    def results(self, op: Operation) -> str:
        """What stands left of an operation; tokens, which are no values at run time, are not."""
        found = [result for result in op.results if result.type != MEM_TOKEN]
        return f"{', '.join(map(self.names.use, found))} = " if found else ""

    def alias(self, layout: LinearLayout) -> str:
        """The name of a layout of registers, which is then said above the kernel."""
        found = self.aliases.get(LayoutEncodingAttr(layout))
        if found is None:
            found = self.used.get(layout) or f"#layout{len(self.used)}"
        self.used[layout] = found
        return found
