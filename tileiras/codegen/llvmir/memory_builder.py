"""Memory methods of the thread builder: addresses, plain, guarded and ordered accesses.

Guarded (predicated) and ordered accesses are ops of their own that print as inline PTX: LLVM's
masked load makes a branch per element, and LLVM drops some of the orders and scopes of PTX.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i32
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.llvmir.folding import constant_int, splat_bits_of
from tileiras.codegen.llvmir.op_emitter import properties_of
from tileiras.codegen.llvmir.vector_builder import VectorBuilder
from tileiras.dialects.llvm import memory as ops
from tileiras.dialects.llvm.constants import AddressOfOp
from tileiras.dialects.llvm.types import (
    GENERIC,
    lanes_of,
    pointer_type,
    scalar_of,
    vector_type,
)
from tileiras.dialects.nvvm.access import GuardedLoadOp, GuardedStoreOp


@dataclass(frozen=True)
class MemoryOrder:
    """PTX memory semantics of an access: `weak`, `volatile`, or an order with its scope.

    Loads: relaxed, acquire; stores: relaxed, release; scopes cta, cluster, gpu, sys. `cache` is an
    eviction or cache operator suffix for weak accesses, such as `.cs` or `.nc`.
    """

    order: str = "weak"
    scope: str = ""
    cache: str = ""

    def properties(self, align: int) -> dict[str, Attribute]:
        """As properties of a guarded access aligned to `align` bytes."""
        cache = self.cache or None
        return properties_of(align=align, order=self.order, scope=self.scope, cache=cache)


WEAK = MemoryOrder()


class MemoryBuilder(VectorBuilder):
    """Addresses are byte-based; alignments and offsets are in bytes."""

    def gep(self, pointer: SSAValue, offset: SSAValue | int) -> SSAValue:
        """`pointer + offset` bytes; a vector on either side gives a vector of pointers."""
        if isinstance(offset, int):
            offset = self.i64(offset)
        known = constant_int(offset)
        if known == 0 and lanes_of(offset.type) in (None, lanes_of(pointer.type)):
            return pointer
        inner = pointer.owner
        if known is not None and lanes_of(offset.type) is None and isinstance(inner, ops.GEPOp):
            first = constant_int(inner.offset)
            if first is not None and lanes_of(inner.offset.type) is None:
                return self.gep(inner.base, first + known)
        lanes = lanes_of(pointer.type) or lanes_of(offset.type)
        element = scalar_of(pointer.type)
        type = element if lanes is None else vector_type(element, lanes)
        return self.value(ops.GEPOp, (pointer, offset), type)

    def address_of(self, global_op: ops.GlobalOp) -> SSAValue:
        """Pointer to a module-level global, in its address space."""
        properties = {"global_name": global_op.sym_name}
        return self.value(AddressOfOp, (), pointer_type(global_op.space.data), properties)

    def alloca(self, size: int, align: int) -> SSAValue:
        """Generic pointer to local memory of this thread; only in the entry block."""
        properties = properties_of(size=size, align=align)
        return self.value(ops.AllocaOp, (), pointer_type(GENERIC), properties)

    def load(
        self,
        pointer: SSAValue,
        type: Attribute,
        align: int,
        *,
        volatile: bool = False,
        invariant: bool = False,
    ) -> SSAValue:
        """A weak load of a scalar or vector; LLVM picks the widest instructions `align` allows."""
        properties = properties_of(align=align, volatile=volatile, invariant=invariant)
        return self.value(ops.LoadOp, (pointer,), type, properties)

    def store(
        self, value: SSAValue, pointer: SSAValue, align: int, *, volatile: bool = False
    ) -> None:
        """A weak store of a scalar or vector."""
        properties = properties_of(align=align, volatile=volatile)
        self.append(ops.StoreOp, (value, pointer), (), properties)

    def fence(self, ordering: str, scope: str = "") -> None:
        """A fence: acquire, release, acq_rel or seq_cst at "" (system), device, cluster, block."""
        self.append(ops.FenceOp, (), (), properties_of(ordering=ordering, scope=scope))

    # guarded and ordered accesses

    def masked_load(
        self,
        pointer: SSAValue,
        predicate: SSAValue | None,
        type: Attribute,
        align: int,
        passthru: SSAValue | None = None,
        order: MemoryOrder = WEAK,
        *,
        in_words: bool = False,
    ) -> SSAValue:
        """`predicate ? *pointer : passthru`; no memory is touched where the guard is false.

        One pointer: `type` (scalar or vector, a power of two of bytes) lies there. A vector of G
        pointers: `type` has G groups of lanes, one per pointer; the guard is i1 or vector<G x i1>.
        Accesses are `min(align, 16)` bytes wide. Without `passthru` masked lanes are unspecified.
        `in_words`: of bytes that are loaded one by one, for users that take words of four.
        """
        known = None if predicate is None else splat_bits_of(predicate)
        if known == 0 and passthru is not None:
            return passthru
        if known == 1:
            predicate = None
        if predicate is None and order == WEAK and lanes_of(pointer.type) is None:
            return self.load(pointer, type, align)
        guard = () if predicate is None else (predicate,)
        old = () if passthru is None or not guard else (passthru,)
        sizes = DenseArrayBase.from_list(i32, [1, len(guard), len(old)])
        properties = {"operandSegmentSizes": sizes, **order.properties(align)}
        if in_words:
            properties["in_words"] = UnitAttr()
        return self.value(GuardedLoadOp, (pointer, *guard, *old), type, properties)

    def masked_store(
        self,
        value: SSAValue,
        pointer: SSAValue,
        predicate: SSAValue | None,
        align: int,
        order: MemoryOrder = WEAK,
    ) -> None:
        """Stores where the guard holds (None: always); the mirror of `masked_load`."""
        known = None if predicate is None else splat_bits_of(predicate)
        if known == 0:
            return
        if known == 1:
            predicate = None
        if predicate is None and order == WEAK and lanes_of(pointer.type) is None:
            self.store(value, pointer, align)
            return
        guard = () if predicate is None else (predicate,)
        properties = order.properties(align)
        self.append(GuardedStoreOp, (value, pointer, *guard), (), properties)
