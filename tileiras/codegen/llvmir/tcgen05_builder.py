"""Thread builder methods of tcgen05: tensor memory, products into it, loads from it.

b.tcgen05_alloc(cell, 256)                            # one whole warp; then all meet
b.tcgen05_mma("f16", word, tmem, a, b, old, a_offsets=(0, 32), b_offsets=(0, 32))
b.tcgen05_commit(barrier, predicate=leader)
sums = b.tcgen05_ld(tmem, "16x256b", 16, (0, 16 << 16), f32)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue

from tileiras.codegen.llvmir.async_builder import AsyncBuilder, optional, segments
from tileiras.dialects.llvm.types import integer_type, vector_type
from tileiras.dialects.llvm.vectors import IndicesAttr
from tileiras.dialects.nvvm import tcgen05
from tileiras.dialects.nvvm.tcgen05 import Tcgen05CpOp, Tcgen05MmaScaledOp

if TYPE_CHECKING:
    from tileiras.codegen.atoms.shared_operands import SharedOperand

SWIZZLE_CODES = {0: 0, 128: 2, 64: 4, 32: 6}
"""Swizzle spans in bytes and their codes in bits 61-63 (PTX ISA, "Shared memory descriptor")."""
WIDE_SWIZZLE_CODE = 1
"""The same of a span of 128 bytes whose atoms have 32 bytes."""
_VERSION = 1 << 46
"""Bits 46-48 of a descriptor are 0b001."""
_ADDRESS_MASK = 0x3FFF


@dataclass(frozen=True)
class ScaledStep:
    """A step of K of a block-scaled product: its instruction descriptor, where its operands begin
    in shared memory (bytes), and its scales in tensor memory (columns).
    """

    descriptor: int
    a: int
    b: int
    a_scale: int
    b_scale: int


def _paired(pair: bool) -> dict[str, Attribute]:
    """The property of an operation of two CTAs."""
    return {"pair": UnitAttr()} if pair else {}


class Tcgen05Builder(AsyncBuilder):
    """Pointers are shared memory pointers; addresses in tensor memory are i32."""

    def tcgen05_alloc(self, address: SSAValue, columns: int, pair: bool = False) -> None:
        """Allocates columns and leaves their address in shared memory; no more after that.

        Here and below `pair`: together with the other CTA of a pair.
        """
        properties = {"columns": IntAttr(columns), **_paired(pair)}
        self.append(tcgen05.Tcgen05AllocOp, (address,), (), properties)
        self.append(tcgen05.Tcgen05RelinquishOp, (), (), _paired(pair))

    def tcgen05_dealloc(self, tmem: SSAValue, columns: int, pair: bool = False) -> None:
        """Gives columns back, by one whole warp."""
        properties = {"columns": IntAttr(columns), **_paired(pair)}
        self.append(tcgen05.Tcgen05DeallocOp, (tmem,), (), properties)

    def tcgen05_descriptor(self, pointer: SSAValue, operand: SharedOperand) -> SSAValue:
        """The descriptor (i64) of an operand that starts at `pointer`."""
        address = self.ptrtoint(pointer, integer_type(32))
        units = self.and_(self.lshr(address, self.i32(4)), self.i32(_ADDRESS_MASK))
        code = WIDE_SWIZZLE_CODE if operand.is_wide else SWIZZLE_CODES[operand.swizzle]
        fields = code << 61 | _VERSION
        fields |= (operand.leading_bytes >> 4 & _ADDRESS_MASK) << 16
        fields |= (operand.stride_bytes >> 4 & _ADDRESS_MASK) << 32
        signed = fields - (1 << 64) if fields >> 63 else fields
        return self.or_(self.zext(units, integer_type(64)), self.i64(signed))

    def tcgen05_mma(
        self,
        kind: str,
        descriptor: int,
        d: SSAValue,
        a: SSAValue,
        b: SSAValue,
        accumulates: SSAValue,
        *,
        a_offsets: Sequence[int],
        b_offsets: Sequence[int],
        predicate: SSAValue | None = None,
        pair: bool = False,
    ) -> None:
        """An instruction per step of K, of the thread for which the predicate holds.

        `a`: a descriptor, with offsets of bytes, or an address in tensor memory, with columns.
        """
        groups = ((d,), (a,), (b,), (accumulates,), optional(predicate))
        properties: dict[str, Attribute] = {
            "kind": StringAttr(kind),
            "descriptor": IntAttr(descriptor),
            "a_offsets": IndicesAttr(tuple(a_offsets)),
            "b_offsets": IndicesAttr(tuple(b_offsets)),
            **segments(*groups),
            **_paired(pair),
        }
        operands = [value for group in groups for value in group]
        self.append(tcgen05.Tcgen05MmaOp, operands, (), properties)

    def tcgen05_cp(
        self,
        tmem: SSAValue,
        source: SSAValue,
        offsets: Sequence[int],
        columns: Sequence[int],
        predicate: SSAValue | None = None,
        pair: bool = False,
    ) -> None:
        """Copies chunks of scales to columns of tensor memory, in order with products."""
        groups = ((tmem,), (source,), optional(predicate))
        properties: dict[str, Attribute] = {
            "offsets": IndicesAttr(tuple(offsets)),
            "columns": IndicesAttr(tuple(columns)),
            **segments(*groups),
            **_paired(pair),
        }
        operands = [value for group in groups for value in group]
        self.append(Tcgen05CpOp, operands, (), properties)

    def tcgen05_chunk_descriptor(self, pointer: SSAValue, group_bytes: int) -> SSAValue:
        """The descriptor (i64) of rows of 16 bytes without swizzle, eight of them a group."""
        address = self.ptrtoint(pointer, integer_type(32))
        units = self.and_(self.lshr(address, self.i32(4)), self.i32(_ADDRESS_MASK))
        fields = _VERSION | (group_bytes >> 4) << 32 | 1 << 16
        return self.or_(self.zext(units, integer_type(64)), self.i64(fields))

    def tcgen05_mma_scaled(
        self,
        kind: str,
        vector: int,
        d: SSAValue,
        a: SSAValue,
        b: SSAValue,
        scales: SSAValue,
        accumulates: SSAValue,
        steps: Sequence[ScaledStep],
        predicate: SSAValue | None = None,
        pair: bool = False,
        collector: str | None = None,
    ) -> None:
        """An instruction per step of K, of the thread for which the predicate holds.

        `collector`: whether the tensor core keeps A, or has kept it.
        """
        groups = ((d,), (a,), (b,), (scales,), (accumulates,), optional(predicate))
        properties: dict[str, Attribute] = {
            "kind": StringAttr(kind),
            "vector": IntAttr(vector),
            "descriptors": IndicesAttr(tuple(step.descriptor for step in steps)),
            "a_offsets": IndicesAttr(tuple(step.a for step in steps)),
            "b_offsets": IndicesAttr(tuple(step.b for step in steps)),
            "a_scales": IndicesAttr(tuple(step.a_scale for step in steps)),
            "b_scales": IndicesAttr(tuple(step.b_scale for step in steps)),
            **segments(*groups),
            **_paired(pair),
        }
        if collector is not None:
            properties["collector"] = StringAttr(collector)
        operands = [value for group in groups for value in group]
        self.append(Tcgen05MmaScaledOp, operands, (), properties)

    def tcgen05_commit(
        self,
        barrier: SSAValue,
        predicate: SSAValue | None = None,
        multicast: SSAValue | None = None,
        pair: bool = False,
    ) -> None:
        """An arrival when all products that the thread has issued are done.

        `multicast` (i16): mask of the cluster's CTAs whose barriers of this place get one.
        """
        groups = ((barrier,), optional(multicast), optional(predicate))
        operands = [value for group in groups for value in group]
        properties = {**segments(*groups), **_paired(pair)}
        self.append(tcgen05.Tcgen05CommitOp, operands, (), properties)

    def tcgen05_fence(self, kind: str) -> None:
        """Orders tensor memory with barriers: "before_thread_sync" or "after_thread_sync"."""
        self.append(tcgen05.Tcgen05FenceOp, (), (), {"kind": StringAttr(kind)})

    def tcgen05_st(
        self, tmem: SSAValue, shape: str, repeats: int, offsets: Sequence[int], words: SSAValue
    ) -> None:
        """Stores a vector of i32 at several offsets; it is there when this is over."""
        properties: dict[str, Attribute] = {
            "shape": StringAttr(shape),
            "repeats": IntAttr(repeats),
            "offsets": IndicesAttr(tuple(offsets)),
        }
        self.append(tcgen05.Tcgen05StOp, (tmem, words), (), properties)

    def tcgen05_ld(
        self, tmem: SSAValue, shape: str, repeats: int, offsets: Sequence[int], element: Attribute
    ) -> SSAValue:
        """A vector of what loads at several offsets give, which is there when this is over."""
        count = tcgen05.SHAPES[shape] * repeats * len(offsets)
        properties: dict[str, Attribute] = {
            "shape": StringAttr(shape),
            "repeats": IntAttr(repeats),
            "offsets": IndicesAttr(tuple(offsets)),
        }
        type = vector_type(element, count)
        return self.value(tcgen05.Tcgen05LdOp, (tmem,), type, properties)
