"""Thread builder methods of the tensor memory accelerator (TMA) and its tensor maps.

Tensor maps are built on the device, into a slot of a module-level table that a CTA owns while it
runs: launches of one kernel with different arguments may run at the same time, even on one SM.

    table = TensorMapTable.make("k_maps", count=3)        # add table.globals to the module
    maps = b.claim_tensor_maps(table)                     # one whole warp
    b.fill_tensor_maps(scratch, 3, base, sizes, strides, box, "f16", 128)
    b.publish_tensor_maps(scratch, maps, 3)
    ...                                                   # CTA barrier; users acquire
    b.release_tensor_maps(table, maps, predicate)         # one thread, after all users are done
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.async_builder import optional, segments
from tileiras.codegen.llvmir.op_emitter import properties_of
from tileiras.codegen.llvmir.tcgen05_builder import Tcgen05Builder
from tileiras.dialects.llvm.memory import GlobalOp
from tileiras.dialects.llvm.types import GLOBAL, integer_type
from tileiras.dialects.nvvm import threads, tma

_ROWS = 256
"""Rows of a table: an SM uses row `%smid` modulo this. Sharing a row is correct, only slower."""
_KEPT_BITS = 4
_KEPT_COPIES = 128
"""So many SMs have sets of their own: acquiring a map 128 times at once takes 2 us (H200)."""
_KEPT_SETS = _KEPT_COPIES << _KEPT_BITS
"""Sets of maps that are kept for later CTAs, of a kernel whose launches take microseconds."""
_SPREAD = -1640531527
"""Knuth's multiplier (2^32 over the golden ratio): spreads a hash over its upper bits."""
_KEY_BYTES = 8 * (tma.MAP_KEY_WORDS + 1)
"""Bytes of the words that a kept map was made from; in the last 8 of the first, who came first."""


@dataclass(frozen=True)
class TensorMapTable:
    """Global memory for the tensor maps of one kernel: `_ROWS` rows of `slots` slots.

    A slot holds the `count` maps of one CTA. `slots` (a power of two up to 32) should be at least
    the number of CTAs that an SM holds; CTAs wait while all are taken. Behind the slots there may
    be sets of maps that are never written again once they are made, for whoever needs the same.
    """

    count: int
    slots: int
    maps: GlobalOp
    busy: GlobalOp
    keeps: bool = False

    @staticmethod
    def make(name: str, count: int, slots: int = 32, *, keeps: bool = False) -> TensorMapTable:
        """A table whose globals are called `name` and `name_busy`; `keeps`: with kept sets."""
        size = _ROWS * slots * count * tma.TENSOR_MAP_BYTES
        if keeps:
            size += _KEPT_SETS * count * (tma.TENSOR_MAP_BYTES + _KEY_BYTES)
        maps = GlobalOp.make(name, size, GLOBAL, tma.TENSOR_MAP_BYTES)
        busy = GlobalOp.make(f"{name}_busy", 4 * _ROWS, GLOBAL, 4)
        return TensorMapTable(count, slots, maps, busy, keeps)

    @property
    def globals(self) -> tuple[GlobalOp, GlobalOp]:
        """What the module must contain."""
        return (self.maps, self.busy)

    @property
    def slot_bytes(self) -> int:
        """Bytes of the maps of one CTA."""
        return self.count * tma.TENSOR_MAP_BYTES


@dataclass(frozen=True)
class KeptMaps:
    """Where a set of maps is kept: the maps, this lane's words, and the word of who came first."""

    maps: SSAValue
    key: SSAValue
    taken: SSAValue


class TmaBuilder(Tcgen05Builder):
    """Bulk tensor copies; coordinates are i32, in elements, fastest dim first."""

    def tma_load(
        self,
        target: SSAValue,
        tensor_map: SSAValue,
        coordinates: Sequence[SSAValue],
        barrier: SSAValue,
        *,
        multicast: SSAValue | None = None,
        predicate: SSAValue | None = None,
        own_cta: bool = False,
        pair: bool = False,
    ) -> None:
        """Starts loading a box to shared `target`; its bytes count at `barrier` (expect_tx).

        One thread issues it. `multicast` (i16): mask of the cluster's CTAs that get the box.
        `own_cta`: the instruction says that the box comes to this CTA (`Feature.TMA_TO_OWN_CTA`).
        `pair`: the barrier may be that of the other CTA of a pair.
        """
        coords = tuple(coordinates)
        options = (optional(multicast), optional(predicate))
        groups = ((target,), (tensor_map,), (barrier,), coords, *options)
        properties = segments(*groups) | properties_of(own_cta=own_cta, pair=pair)
        self.append(tma.TmaLoadOp, sum(groups, ()), (), properties)

    def tma_store(
        self,
        tensor_map: SSAValue,
        coordinates: Sequence[SSAValue],
        source: SSAValue,
        *,
        reduction: str | None = None,
        predicate: SSAValue | None = None,
    ) -> None:
        """Starts storing a box from shared memory; writers have run `fence_proxy_async` before."""
        groups = ((tensor_map,), (source,), tuple(coordinates), optional(predicate))
        properties = segments(*groups) | properties_of(reduction=reduction)
        self.append(tma.TmaStoreOp, sum(groups, ()), (), properties)

    def tma_store_commit(self) -> None:
        """Closes this thread's group of stores."""
        self.append(tma.TmaStoreCommitOp)

    def tma_store_wait(self, pending: int = 0, *, read: bool = False) -> None:
        """Waits until `pending` groups are left; `read`: only until their sources were read."""
        self.append(tma.TmaStoreWaitOp, (), (), properties_of(pending=pending, read=read))

    # tensor maps

    def prefetch_tensormap(self, tensor_map: SSAValue) -> None:
        """Brings a map into the descriptor cache."""
        self.append(tma.PrefetchTensorMapOp, (tensor_map,))

    def acquire_tensor_map(self, tensor_map: SSAValue) -> None:
        """Every thread that issues TMA through a map built by another one runs this first."""
        self.append(tma.AcquireTensorMapOp, (tensor_map,))

    def fill_tensor_maps(
        self,
        scratch: SSAValue,
        count: int,
        base: SSAValue,
        sizes: Sequence[SSAValue],
        strides: Sequence[SSAValue],
        box: Sequence[SSAValue],
        element: str,
        swizzle: int = 0,
        fill: str = "zero",
        atom: int | None = None,
    ) -> None:
        """Fills in `count` maps in shared `scratch`, map i with what lane i passes; one whole warp.

        Dims fastest first: `sizes` i32 elements; `strides` i64 bytes, without the fastest dim;
        `base` i64 address, all multiples of 16; `box` i32 elements, at most 256 along a dim, and a
        swizzle's span along the fastest. `element`: a key of `nvvm.tma.ELEMENT_TYPES`; `fill`: what
        lies outside, "zero" or "nan"; `atom`: bytes that the swizzle keeps together, if not 16.
        """
        groups = ((scratch,), (base,), tuple(sizes), tuple(strides), tuple(box))
        properties = segments(*groups) | properties_of(
            count=count, element=element, swizzle=swizzle, fill=fill, atom=atom
        )
        self.append(tma.FillTensorMapsOp, sum(groups, ()), (), properties)

    def publish_tensor_maps(self, scratch: SSAValue, target: SSAValue, count: int) -> None:
        """Copies filled in maps to global `target`, all at once; one whole warp."""
        self.append(tma.PublishTensorMapsOp, (scratch, target), (), {"count": IntAttr(count)})

    def try_claim_tensor_maps(self, table: TensorMapTable) -> tuple[SSAValue, SSAValue]:
        """Asks for a slot for this CTA; one whole warp. `claim_tensor_maps` waits for the answer.

        Gives what was taken before and the slot that was asked for.
        """
        _, busy = self._row_of_maps(table)
        slots = {"slots": IntAttr(table.slots)}
        types = (integer_type(32), integer_type(32))
        made = self.append(tma.TryClaimSlotOp, (busy,), types, slots)
        return made.results[0], made.results[1]

    def claim_tensor_maps(
        self, table: TensorMapTable, tried: tuple[SSAValue, SSAValue] | None = None
    ) -> SSAValue:
        """Takes a slot for this CTA and returns its first map (global pointer); one whole warp.

        `tried` is what `try_claim_tensor_maps` gave. Other warps get the pointer through shared
        memory.
        """
        row, busy = self._row_of_maps(table)
        slots = {"slots": IntAttr(table.slots)}
        operands = (busy, *(tried or ()))
        slot = self.value(tma.ClaimSlotOp, operands, integer_type(32), slots)
        index = self.add(self.mul(row, self.i32(table.slots)), slot)
        offset = self.mul(self.zext(index, integer_type(64)), self.i64(table.slot_bytes))
        return self.gep(self.address_of(table.maps), offset)

    def kept_maps(self, table: TensorMapTable, hash: SSAValue, lane: SSAValue) -> KeptMaps:
        """Where maps with this hash (i32, any) would be kept; `lane` (i32): whose map's words."""
        wide, count = integer_type(64), table.count
        number = self.lshr(self.mul(hash, self.i32(_SPREAD)), self.i32(32 - _KEPT_BITS))
        copy = self.and_(self._smid(), self.i32(_KEPT_COPIES - 1))
        number = self.add(self.mul(number, self.i32(_KEPT_COPIES)), copy)
        start = self.gep(self.address_of(table.maps), _ROWS * table.slots * table.slot_bytes)
        offset = self.mul(number, self.i32(count * (tma.TENSOR_MAP_BYTES + _KEY_BYTES)))
        maps = self.gep(start, self.zext(offset, wide))
        keys = self.gep(maps, count * tma.TENSOR_MAP_BYTES)
        key = self.gep(keys, self.zext(self.mul(lane, self.i32(_KEY_BYTES)), wide))
        return KeptMaps(maps, key, self.gep(keys, _KEY_BYTES - 8))

    def find_tensor_maps(self, kept: KeptMaps, words: Sequence[SSAValue]) -> SSAValue:
        """i1: whether the maps kept there were made from these i32 words; one whole warp."""
        return self.value(tma.FindTensorMapsOp, (kept.key, *words), integer_type(1))

    def keep_tensor_maps(
        self, kept: KeptMaps, scratch: SSAValue, words: Sequence[SSAValue], count: int
    ) -> None:
        """Keeps `count` filled in maps there, unless others are; one whole warp."""
        operands = (scratch, kept.maps, kept.taken, kept.key, *words)
        self.append(tma.KeepTensorMapsOp, operands, (), {"count": IntAttr(count)})

    def _row_of_maps(self, table: TensorMapTable) -> tuple[SSAValue, SSAValue]:
        """This SM's row of the table, and where it says which slots are taken."""
        row = self.and_(self._smid(), self.i32(_ROWS - 1))
        offset = self.zext(self.shl(row, self.i32(2)), integer_type(64))
        return row, self.gep(self.address_of(table.busy), offset)

    def _smid(self) -> SSAValue:
        return self.value(threads.ReadSregOp, (), integer_type(32), properties_of(register="smid"))

    def tensor_map(self, maps: SSAValue, index: int) -> SSAValue:
        """Map number `index` of a claimed slot."""
        return self.gep(maps, index * tma.TENSOR_MAP_BYTES)

    def release_tensor_maps(
        self, table: TensorMapTable, maps: SSAValue, predicate: SSAValue | None = None
    ) -> None:
        """Gives the slot back: one thread, after a barrier behind the last use of its maps."""
        wide = integer_type(64)
        row, slot = self._place_of_maps(table, maps)
        busy = self.gep(self.address_of(table.busy), self.zext(self.shl(row, self.i32(2)), wide))
        if table.keeps:
            is_slot = self.icmp("ult", row, self.i32(_ROWS))
            predicate = is_slot if predicate is None else self.and_(predicate, is_slot)
        self.append(tma.ReleaseSlotOp, (busy, slot, *optional(predicate)))

    def is_tensor_map_slot(self, table: TensorMapTable, maps: SSAValue) -> SSAValue:
        """i1: whether maps are in a slot that has to be given back, not among those kept."""
        row, _ = self._place_of_maps(table, maps)
        return self.icmp("ult", row, self.i32(_ROWS))

    def _place_of_maps(self, table: TensorMapTable, maps: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The row of the table and the slot there in which maps are."""
        wide = integer_type(64)
        start = self.ptrtoint(self.address_of(table.maps), wide)
        distance = self.trunc(self.sub(self.ptrtoint(maps, wide), start), integer_type(32))
        index = self.udiv(distance, self.i32(table.slot_bytes))
        return self.udiv(index, self.i32(table.slots)), self.urem(index, self.i32(table.slots))
