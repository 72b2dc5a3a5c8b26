"""What all explanations share: remarks about one kernel, each once, and words for tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation

from tileiras.codegen.target import GpuTarget
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import place_of
from tileiras.remarks import Remark, RemarkCategory, RemarkCollector, RemarkKind

PASS_NAME = "tileas-optimize-alloc-tensor"
"""The last pass of nv_tileas; what it leaves is what is told of."""


@dataclass
class Teller:
    """Makes the remarks about one kernel."""

    remarks: RemarkCollector
    func: aa.FuncOp
    target: GpuTarget
    told: set[Remark] = field(default_factory=set[Remark])

    def tell(
        self,
        op: Operation,
        kind: RemarkKind,
        category: RemarkCategory,
        name: str,
        message: str,
        **facts: object,
    ) -> None:
        """A remark about an operation, unless the same was said of a copy of it."""
        arguments = tuple((key, str(value)) for key, value in facts.items())
        kernel = self.func.sym_name.data
        place = place_of(op)
        remark = Remark(category, kind, PASS_NAME, name, message, kernel, place, arguments)
        if remark not in self.told:
            self.told.add(remark)
            self.remarks.add(remark)

    def note(self, key: str, value: int) -> None:
        """A number about the kernel that the remark about its resources needs."""
        self.remarks.facts.setdefault(self.func.sym_name.data, {})[key] = value


def shape_text(shape: Sequence[int]) -> str:
    """A shape as NVIDIA's remarks write it: `[32, 64]`."""
    return f"[{', '.join(map(str, shape))}]"


def tile_text(shape: Sequence[int], element: Attribute) -> str:
    """A tile in words: `32x64 f16`; of no dims, the element alone."""
    return f"{'x'.join(map(str, shape))} {element}".strip()


def type_text(type: Attribute) -> str:
    """The tile of a tensor type in words."""
    if not isinstance(type, TensorType):
        return str(type)
    return tile_text(type.get_shape(), type.element_type)
