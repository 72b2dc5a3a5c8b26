"""Tiles that were copied to shared memory and are read there."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.errors import InternalError


@dataclass(frozen=True)
class SlotTile:
    """A tile in a slot: its first byte, and "offset" (elements) -> coordinates."""

    region: SSAValue
    layout: LinearLayout

    def seen_through(self, op: Operation) -> SlotTile:
        """As the result of a reshape or permutation."""
        match op:
            case aa.ReshapeOp() if isinstance(op.result.type, TensorType):
                return SlotTile(self.region, self.layout.reshape(op.result.type.get_shape()))
            case aa.PermuteOp():
                permutation = [int(i) for i in op.permutation.get_values()]
                return SlotTile(self.region, self.layout.permute(permutation))
            case _:
                raise InternalError(f"'{op.name}' of a tile in a slot")
