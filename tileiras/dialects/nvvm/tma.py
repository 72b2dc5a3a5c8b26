"""The tensor memory accelerator (TMA): tensor maps, bulk tensor copies."""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr, UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.llvm.types import GENERIC, GLOBAL, PointerType
from tileiras.dialects.nvvm.mbarrier import check_shared
from tileiras.dialects.operations import SegmentedOp, operations_in

MAX_RANK = 5
TENSOR_MAP_BYTES = 128
MAP_KEY_WORDS = 15
"""Numbers that a map of five dims is made from: address, sizes, strides; words of 32 bits."""
WARP_LANES = 32
ELEMENT_TYPES: dict[str, int] = {
    "u8": 0,
    "u16": 1,
    "u32": 2,
    "s32": 3,
    "u64": 4,
    "s64": 5,
    "f16": 6,
    "f32": 7,
    "f64": 9,
    "bf16": 10,
    "tf32": 11,
}
"""Element types: codes in the map (PTX ISA, "tensormap.replace", Table "elemtype")."""
SWIZZLE_MODES = {0: 0, 32: 1, 64: 2, 128: 3}
"""Swizzle spans in bytes and their codes (PTX ISA, "tensormap.replace")."""
ATOMICITIES = {32: 1, 64: 3}
"""Bytes that a swizzle of 128 bytes keeps together, if not 16, and their codes (there)."""
FILL_MODES = {"zero": 0, "nan": 1}
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
MEMORY = traits_def(MemoryReadEffect(), MemoryWriteEffect())


def _check_map(name: str, pointer: Attribute) -> None:
    if pointer not in (PointerType(GLOBAL), PointerType(GENERIC)):
        raise VerifyException(f"{name}: a tensor map lies in global memory, found {pointer}")


def _check_key(name: str, key: Attribute, words: int) -> None:
    if key != PointerType(GLOBAL) or not 1 <= words <= MAP_KEY_WORDS:
        raise VerifyException(f"{name}: {words} words at {key}")


def _check_coordinates(name: str, coordinates: Sequence[SSAValue]) -> None:
    if not 1 <= len(coordinates) <= MAX_RANK:
        raise VerifyException(f"{name}: rank {len(coordinates)}, expected 1 to {MAX_RANK}")
    if any(value.type != IntegerType(32) for value in coordinates):
        raise VerifyException(f"{name}: coordinates must be i32")


@irdl_op_definition
class TmaLoadOp(SegmentedOp):
    """Starts loading a box of a tensor into shared memory; its bytes arrive at `barrier`.

    `coordinates` are in elements, fastest dim first. `multicast` (i16) is the mask of CTA ranks
    that get the box, each at the same address and barrier offset. `own_cta`: it comes to the CTA
    that asks for it, and the instruction says so. `pair`: the barrier may be that of the other CTA
    of a pair; of a box for several CTAs, the CTA of each pair that has the place of `barrier`'s
    counts. One thread issues it. PTX ISA, "cp.async.bulk.tensor".
    """

    name = "nvvm.tma_load"
    target = operand_def(PointerType)
    map = operand_def(PointerType)
    barrier = operand_def(PointerType)
    coordinates = var_operand_def()
    multicast = opt_operand_def(IntegerType(16))
    predicate = opt_operand_def(IntegerType(1))
    own_cta = opt_prop_def(UnitAttr)
    pair = opt_prop_def(UnitAttr)
    traits = MEMORY

    def verify_(self) -> None:
        """Shared target and barrier, a map, 1 to 5 coordinates; no multicast to the own CTA."""
        if self.own_cta is not None and self.multicast is not None:
            raise VerifyException(f"{self.name}: a box for the own CTA alone is not multicast")
        check_shared(self.name, self.target.type)
        check_shared(self.name, self.barrier.type)
        _check_map(self.name, self.map.type)
        _check_coordinates(self.name, self.coordinates)


@irdl_op_definition
class TmaStoreOp(SegmentedOp):
    """Starts storing a box from shared memory; with `reduction` it is combined with what is there.

    Joins the thread's current bulk group. Elements outside the tensor are dropped. PTX ISA,
    "cp.async.bulk.tensor", "cp.reduce.async.bulk.tensor".
    """

    name = "nvvm.tma_store"
    reduction = opt_prop_def(StringAttr)
    map = operand_def(PointerType)
    source = operand_def(PointerType)
    coordinates = var_operand_def()
    predicate = opt_operand_def(IntegerType(1))
    traits = MEMORY

    def verify_(self) -> None:
        """Shared source, a map, 1 to 5 coordinates, a known reduction."""
        check_shared(self.name, self.source.type)
        _check_map(self.name, self.map.type)
        _check_coordinates(self.name, self.coordinates)
        if self.reduction is not None and self.reduction.data not in REDUCTIONS:
            raise VerifyException(f"{self.name}: unknown reduction '{self.reduction.data}'")


@irdl_op_definition
class TmaStoreCommitOp(IRDLOperation):
    """Closes this thread's current group of bulk stores."""

    name = "nvvm.tma_store_commit"
    traits = MEMORY


@irdl_op_definition
class TmaStoreWaitOp(IRDLOperation):
    """Waits until at most `pending` of this thread's bulk groups are unfinished.

    `read`: until their sources have been read, so that the shared memory may be reused.
    """

    name = "nvvm.tma_store_wait"
    pending = prop_def(IntAttr)
    read = opt_prop_def(UnitAttr)
    traits = MEMORY


@irdl_op_definition
class PrefetchTensorMapOp(IRDLOperation):
    """Brings a tensor map into the descriptor cache. PTX ISA, "prefetch.tensormap"."""

    name = "nvvm.prefetch_tensormap"
    map = operand_def(PointerType)
    traits = MEMORY

    def verify_(self) -> None:
        """A map in global memory."""
        _check_map(self.name, self.map.type)


@irdl_op_definition
class AcquireTensorMapOp(IRDLOperation):
    """Makes a map that another thread published usable by this one's TMA instructions.

    PTX ISA, "fence.proxy.tensormap::generic.acquire".
    """

    name = "nvvm.acquire_tensormap"
    map = operand_def(PointerType)
    traits = MEMORY

    def verify_(self) -> None:
        """A map in global memory."""
        _check_map(self.name, self.map.type)


@irdl_op_definition
class FillTensorMapsOp(SegmentedOp):
    """Fills in `count` tensor maps in `scratch` (128 shared bytes each), each lane one.

    One whole warp executes it; what lane i passes goes into map i. Dims are fastest first: `sizes`
    and `box` (i32, elements), `strides` (i64, bytes; one less). `atom`: bytes that the swizzle
    keeps together, if not 16. PTX ISA, "tensormap.replace".
    """

    name = "nvvm.fill_tensormaps"
    count = prop_def(IntAttr)
    element = prop_def(StringAttr)
    swizzle = prop_def(IntAttr)
    atom = opt_prop_def(IntAttr)
    fill = prop_def(StringAttr)
    scratch = operand_def(PointerType)
    base = operand_def(IntegerType(64))
    sizes = var_operand_def(IntegerType(32))
    strides = var_operand_def(IntegerType(64))
    box = var_operand_def(IntegerType(32))
    traits = MEMORY

    def verify_(self) -> None:
        """Ranks agree; a map for each of some lanes; swizzle and fill are legal."""
        check_shared(self.name, self.scratch.type)
        rank = len(self.box)
        if not 1 <= rank <= MAX_RANK or len(self.sizes) != rank or len(self.strides) != rank - 1:
            raise VerifyException(
                f"{self.name}: {len(self.sizes)} sizes, {len(self.strides)} strides, box of {rank}"
            )
        if not 1 <= self.count.data <= WARP_LANES:
            raise VerifyException(f"{self.name}: {self.count.data} maps, expected 1 to 32")
        if self.element.data not in ELEMENT_TYPES or self.fill.data not in FILL_MODES:
            raise VerifyException(
                f"{self.name}: element '{self.element.data}' with fill '{self.fill.data}'"
            )
        if self.swizzle.data not in SWIZZLE_MODES:
            raise VerifyException(f"{self.name}: a {self.swizzle.data}-byte swizzle")
        if self.atom is not None and (
            self.atom.data not in ATOMICITIES or self.swizzle.data != max(SWIZZLE_MODES)
        ):
            raise VerifyException(f"{self.name}: a swizzle of atoms of {self.atom.data} bytes")


@irdl_op_definition
class PublishTensorMapsOp(IRDLOperation):
    """Copies `count` tensor maps from `scratch` (shared) to `target` (global) and publishes them.

    One whole warp executes it. Whoever uses a map runs `AcquireTensorMapOp`, in another warp after
    a barrier. PTX ISA, "fence.proxy.tensormap".
    """

    name = "nvvm.publish_tensormaps"
    count = prop_def(IntAttr)
    scratch = operand_def(PointerType)
    target = operand_def(PointerType)
    traits = MEMORY

    def verify_(self) -> None:
        """From shared to global memory."""
        check_shared(self.name, self.scratch.type)
        _check_map(self.name, self.target.type)


@irdl_op_definition
class TryClaimSlotOp(IRDLOperation):
    """Sets one of the low `slots` bits at `busy` (global), which a `ClaimSlotOp` finds out later.

    One whole warp executes it. `before` is what was there, in lane 0; `slot` the number of the bit.
    Nothing waits for the answer here.
    """

    name = "nvvm.try_claim_slot"
    slots = prop_def(IntAttr)
    busy = operand_def(PointerType)
    before = result_def(IntegerType(32))
    slot = result_def(IntegerType(32))
    traits = MEMORY

    def verify_(self) -> None:
        """1 to 32 slots in global memory."""
        if self.busy.type != PointerType(GLOBAL) or not 1 <= self.slots.data <= 32:
            raise VerifyException(
                f"nvvm.try_claim_slot: {self.slots.data} slots at {self.busy.type}"
            )


@irdl_op_definition
class ClaimSlotOp(IRDLOperation):
    """Takes a free bit of the low `slots` bits at `busy` (global) and gives its number to the warp.

    One whole warp executes it; it spins while all are taken. The first bit that it looks at is that
    of a `TryClaimSlotOp`, whose results are `tried`, if there was one. What the last owner of the
    slot did before its `ReleaseSlotOp` has happened: it has read its maps. Others of these are not
    read but written whole, at a place that depends on what the atomic operation returned, so that
    the first try need not be an acquire.
    """

    name = "nvvm.claim_slot"
    slots = prop_def(IntAttr)
    busy = operand_def(PointerType)
    tried = var_operand_def(IntegerType(32))
    result = result_def(IntegerType(32))
    traits = MEMORY

    def verify_(self) -> None:
        """1 to 32 slots in global memory; both results of a first try or none."""
        if len(self.tried) not in (0, 2):
            raise VerifyException(f"nvvm.claim_slot: {len(self.tried)} results of a first try")
        if self.busy.type != PointerType(GLOBAL) or not 1 <= self.slots.data <= 32:
            raise VerifyException(f"nvvm.claim_slot: {self.slots.data} slots at {self.busy.type}")


@irdl_op_definition
class ReleaseSlotOp(IRDLOperation):
    """Gives slot `slot` of `busy` back; one thread does it after a barrier of all users."""

    name = "nvvm.release_slot"
    busy = operand_def(PointerType)
    slot = operand_def(IntegerType(32))
    predicate = opt_operand_def(IntegerType(1))
    traits = MEMORY

    def verify_(self) -> None:
        """The mask lies in global memory."""
        if self.busy.type != PointerType(GLOBAL):
            raise VerifyException(f"nvvm.release_slot: mask at {self.busy.type}")


@irdl_op_definition
class FindTensorMapsOp(IRDLOperation):
    """Whether maps that an earlier CTA kept were made from the same numbers; one whole warp.

    `key` is where this lane's words would be kept (global, 16 bytes aligned), each in 8 bytes with
    a one above it; memory that nobody has written to is zero. Words are written once, so whoever
    reads one reads the last that there will be, and every map was complete before its words were.
    The result is the same in all lanes: true if every lane found all of its words. What the writer
    did before has then happened for this thread, but users still acquire each map.
    """

    name = "nvvm.find_tensor_maps"
    key = operand_def(PointerType)
    words = var_operand_def(IntegerType(32))
    result = result_def(IntegerType(1))
    traits = MEMORY

    def verify_(self) -> None:
        """A key in global memory, of one word at least and as many as fit."""
        _check_key(self.name, self.key.type, len(self.words))


@irdl_op_definition
class KeepTensorMapsOp(IRDLOperation):
    """Keeps maps with the numbers that they were made from, unless the place is taken.

    One whole warp executes it. The first `count` lanes each have the words of a map at their `key`
    (see `FindTensorMapsOp`); `taken` (global, 4 bytes) is zero while nobody has kept anything here.
    Maps are copied from shared `scratch` to global `target`.
    """

    name = "nvvm.keep_tensor_maps"
    count = prop_def(IntAttr)
    scratch = operand_def(PointerType)
    target = operand_def(PointerType)
    taken = operand_def(PointerType)
    key = operand_def(PointerType)
    words = var_operand_def(IntegerType(32))
    traits = MEMORY

    def verify_(self) -> None:
        """From shared to global memory, a lane for each map."""
        check_shared(self.name, self.scratch.type)
        _check_map(self.name, self.target.type)
        _check_key(self.name, self.key.type, len(self.words))
        if self.taken.type != PointerType(GLOBAL) or not 1 <= self.count.data <= WARP_LANES:
            raise VerifyException(f"{self.name}: {self.count.data} maps at {self.taken.type}")


TMA_OPS = operations_in(vars())
