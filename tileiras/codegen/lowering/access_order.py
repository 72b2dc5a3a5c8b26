"""Memory semantics of cuda_tile accesses in PTX terms (PTX ISA, "Memory Consistency Model")."""

from __future__ import annotations

from xdsl.ir import Operation

from tileiras.codegen.llvmir.memory_builder import WEAK, MemoryOrder
from tileiras.codegen.lowering.context import KernelLowering
from tileiras.dialects.cuda_tile.attributes import (
    MemoryOrdering,
    MemoryOrderingAttr,
    MemoryScope,
    MemoryScopeAttr,
)
from tileiras.errors import InternalError

_SCOPES = {MemoryScope.TL_BLK: "cta", MemoryScope.DEVICE: "gpu", MemoryScope.SYS: "sys"}


def scope_name(op: Operation) -> str:
    """PTX's name of the scope of an access."""
    scope = op.properties.get("scope")
    if not isinstance(scope, MemoryScopeAttr):
        raise InternalError(f"'{op.name}' has an ordering but no scope", where="lowering")
    return _SCOPES[scope.data]


def ordering_of(op: Operation) -> MemoryOrdering:
    """The ordering of an access."""
    ordering = op.properties.get("ordering")
    if not isinstance(ordering, MemoryOrderingAttr):
        raise InternalError(f"'{op.name}' has no ordering", where="lowering")
    return ordering.data


def memory_order(ctx: KernelLowering, op: Operation) -> MemoryOrder:
    """Weak, or an order and its scope, for a load or store."""
    ordering = ordering_of(op)
    if ordering == MemoryOrdering.WEAK:
        return WEAK
    return MemoryOrder(ordering.value, scope_name(op))
