"""The producer's own tiles: pointers, masks, indices, each made in the layouts demanded of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntAttr, TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tas
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.nv_tileaa.rearranged import source_layout
from tileiras.dialects.nv_tileas.assigned import AccessAttr
from tileiras.dialects.nv_tileas.encoding import encoded
from tileiras.errors import InternalError, required
from tileiras.planning.model.warp_roles import RoleProgram

Emit = Callable[..., Operation]


class ProducerTensors:
    """Tiles of the producer by value and layout; `scalars` has everything else."""

    def __init__(self, program: RoleProgram, scalars: dict[SSAValue, SSAValue], emit: Emit):
        self.layouts, self.accesses = program.layouts, program.accesses
        self.scalars = scalars
        self.emit = emit
        self._made: dict[tuple[SSAValue, LinearLayout], SSAValue] = {}

    def get(self, value: SSAValue, layout: LinearLayout) -> SSAValue:
        """A tile in a layout, or a scalar."""
        if not isinstance(value.type, TensorType):
            return self.scalars[value]
        return required(self._made.get((value, layout)), "the producer lacks a tile in a layout")

    def put(self, value: SSAValue, layout: LinearLayout, made: SSAValue) -> None:
        """Notes a tile."""
        self._made[(value, layout)] = made

    def carried(self, value: SSAValue, receiver: SSAValue) -> SSAValue:
        """What control flow hands on to `receiver`, in the one layout that it has."""
        if not isinstance(receiver.type, TensorType):
            return self.scalars[value]
        return self.get(value, self.layouts.carried(receiver))

    def receive(self, value: SSAValue, made: SSAValue) -> None:
        """Notes what control flow has handed on."""
        if isinstance(value.type, TensorType):
            self.put(value, self.layouts.carried(value), made)
        else:
            self.scalars[value] = made

    def type_of(self, value: SSAValue) -> Attribute:
        """The type of a value that control flow hands on."""
        if not isinstance(value.type, TensorType):
            return value.type
        return encoded(value.type.element_type, self.layouts.carried(value))

    def make(self, op: Operation) -> None:
        """Makes the result of an operation in every layout that is demanded of it."""
        result = op.results[0]
        if isinstance(op, aa.UnsplatOp):
            (source,) = op.operands
            operand = self.get(source, self.layouts.of(source)[0])
            self.scalars[result] = self.emit(aa.UnsplatOp, [operand], [result.type]).results[0]
        elif not isinstance(result.type, TensorType):
            self.scalars[result] = self._scalar_load(op)
        else:
            for layout in self.layouts.of(result):
                type = encoded(result.type.element_type, layout)
                self.put(result, layout, self._make(op, layout, type))

    def _make(self, op: Operation, layout: LinearLayout, type: Attribute) -> SSAValue:
        """The tile of one operation in one layout."""
        match op:
            case aa.LoadOp():
                return self._load(op, layout, type, self.accesses.get(op))
            case aa.TiledLoadOp():
                access = self.accesses.get(op)
                operands = [self.scalars[value] for value in (op.view, *op.indices)]
                properties = _properties(op, access, [1, len(op.indices), 0])
                types = [type, op.result_token.type]
                return self.emit(tas.TiledLoadOp, operands, types, properties).results[0]
            case aa.BroadcastOp() | aa.ReshapeOp() | aa.PermuteOp() | aa.ExtractOp():
                layout = source_layout(op, layout)
            case _:
                pass
        operands = [self.get(operand, layout) for operand in op.operands]
        return self.emit(class_of(op), operands, [type], op.properties).results[0]

    def _scalar_load(self, op: Operation) -> SSAValue:
        """One element through a pointer, which every thread loads."""
        if not isinstance(op, aa.LoadOp):
            raise InternalError(f"the producer has no rule for '{op.name}'")
        return self._load(op, None, op.result.type, None)

    def _load(
        self,
        op: aa.LoadOp,
        layout: LinearLayout | None,
        type: Attribute,
        access: AccessAttr | None,
    ) -> SSAValue:
        """A load without its token: nothing that the producer reads is written meanwhile."""
        values = [op.pointers, op.mask, op.other]
        present = [value for value in values if value is not None]
        operands = [
            self.scalars[value] if layout is None else self.get(value, layout) for value in present
        ]
        sizes = [1, int(op.mask is not None), int(op.other is not None), 0]
        properties = _properties(op, access, sizes)
        types = [type, op.result_token.type]
        return self.emit(tas.LoadOp, operands, types, properties).results[0]


def _properties(
    op: Operation, access: AccessAttr | None, sizes: Sequence[int]
) -> dict[str, Attribute]:
    """An access's own properties, how its elements move, and its operands without a token."""
    vector, axis = (access.vector.data, access.axis.data) if access is not None else (1, 0)
    return dict(op.properties) | {
        "vector": IntAttr(vector),
        "axis": IntAttr(axis),
        "operandSegmentSizes": DenseArrayBase.from_list(i32, sizes),
    }


def class_of(op: Operation) -> type[Operation]:
    """The class of an operation."""
    return type(op)
