"""What the threads of a CTA share while a program in CuTe's dialect runs: memory, barriers, tensor
memory; and how elements of tensors are found in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import Operation

from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.swizzles import ComposedLayout
from tileiras.dialects.cute.values import CONTAINER, CONTAINERS, Tensor, element_bits
from tileiras.dialects.cute_nvgpu.types import TmaAtom
from tileiras.interpreter.errors import InterpreterError

NUMBERS: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
    "f4E2M1FNx2": np.uint8,
    **dict.fromkeys(CONTAINERS, np.uint8),
    "f32": np.float32,
    "f64": np.float64,
}
"""The elements that are computed with, and the bytes of others."""
_FACTORS: dict[str, Any] = {
    "f6E2M3FN_unpacksmem": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN_unpacksmem": ml_dtypes.float6_e3m2fn,
    "f4E2M1FN_unpacksmem": ml_dtypes.float4_e2m1fn,
}
"""The numbers that lie in containers of 16."""

WARP = 32
WARPGROUP = 128
LANES = 128
COLUMNS = 512
"""Of tensor memory (PTX ISA, "Tensor Memory Addressing")."""
LANE_SHIFT = 16
"""An address of tensor memory has the lane in its upper half."""


def number_type(element: str) -> Any:
    """The numpy type of an element; InterpreterError for one without."""
    if element not in NUMBERS:
        raise InterpreterError(f"elements {element} are not computed with")
    return NUMBERS[element]


@dataclass(frozen=True, eq=False)
class Pointer:
    """A place in an array, in elements."""

    memory: np.ndarray[Any, Any]
    element: str
    space: str
    offset: int = 0

    def advanced(self, offset: Any) -> Pointer:
        """The pointer so many elements further."""
        return Pointer(self.memory, self.element, self.space, self.offset + int(offset))

    def recast(self, element: str) -> Pointer:
        """The same place as one of other elements."""
        bits = self.offset * element_bits(self.element)
        memory = self.memory.view(number_type(element))
        return Pointer(memory, element, self.space, bits // element_bits(element))

    def at(self, index: int) -> int:
        """The place of an element; InterpreterError outside of the array."""
        place = self.offset + index
        if not 0 <= place < len(self.memory):
            raise InterpreterError(
                f"element {place} of {len(self.memory)} is accessed in {self.space}"
            )
        return place


@dataclass(frozen=True, eq=False)
class MappedTensor:
    """A TMA atom, and the array that its tensor map describes, the contiguous dim last."""

    atom: TmaAtom
    array: np.ndarray[Any, Any]


def tensor_of(array: np.ndarray[Any, Any], layout: Layout, element: str) -> Tensor:
    """An argument of a kernel: an array of one dim in global memory."""
    return Tensor(Pointer(array, element, "gmem"), layout)


def places(tensor: Tensor) -> list[int]:
    """The places of all elements, in order."""
    return [tensor.engine.at(int(str(index))) for index in tensor.layout.indices]


def box_places(tensor: Tensor, count: int) -> list[int]:
    """The places of a box that lies there compactly, in the order of memory before its swizzle."""
    layout = tensor.layout
    if isinstance(layout, ComposedLayout):
        start = int(str(layout.offset))
        return [tensor.engine.at(int(str(layout.inner(start + k)))) for k in range(count)]
    return [tensor.engine.at(k) for k in range(count)]


def read(tensor: Tensor) -> np.ndarray[Any, Any]:
    """All elements, in order."""
    return tensor.engine.memory[places(tensor)]


def write(tensor: Tensor, values: Any) -> None:
    """Writes all elements, in order."""
    memory = tensor.engine.memory
    memory[places(tensor)] = np.asarray(values).astype(memory.dtype)


def factors(matrix: np.ndarray[Any, Any], element: str, sums: Any) -> np.ndarray[Any, Any]:
    """A matrix with K last as numbers of type `sums`; an element of two 4-bit numbers is both.

    Of numbers in containers of 16 bytes the first has the lowest bits.
    """
    if element in CONTAINERS:
        count = CONTAINERS[element]
        bytes_ = np.ascontiguousarray(matrix).reshape(len(matrix), -1, CONTAINER)
        bits = np.unpackbits(bytes_, axis=2, bitorder="little")[:, :, : CONTAINER * count]
        weights = 1 << np.arange(count)
        codes = (bits.reshape(len(matrix), -1, count) * weights).sum(axis=2).astype(np.uint8)
        return codes.view(_FACTORS[element]).astype(sums)
    if element != "f4E2M1FNx2":
        return matrix.astype(sums)
    halves = np.stack([matrix & 15, matrix >> 4], axis=-1).reshape(*matrix.shape[:-1], -1)
    return halves.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(sums)


@dataclass
class Barrier:
    """An mbarrier: a phase ends when all have arrived and all announced bytes are there."""

    count: int
    pending: int
    bytes: int = 0
    phase: int = 0

    def arrive(self, arrivals: int = 1, announced: int = 0) -> None:
        """Arrivals, bytes that will come (negative: that have come); may end the phase."""
        if self.pending < arrivals:
            raise InterpreterError(f"more than {self.count} arrivals at a barrier in one phase")
        self.pending -= arrivals
        self.bytes += announced
        if not self.pending and not self.bytes:
            self.phase, self.pending = self.phase + 1, self.count


@dataclass
class Launch:
    """The clusters of a grid that have not started: the place of the first CTA of each."""

    waiting: list[tuple[int, int, int]] = field(default_factory=list["tuple[int, int, int]"])


@dataclass
class Cluster:
    """CTAs that run at the same time: the first one's place in the grid, and who has arrived."""

    shape: tuple[int, ...] = (1, 1, 1)
    ctas: list[Cta] = field(default_factory=list["Cta"])
    arrivals: dict[tuple[int, int], int] = field(default_factory=dict)
    """How often (CTA, thread) has arrived at the cluster's barrier."""
    launch: Launch = field(default_factory=Launch)
    refused: bool = False
    """Whether it has asked for another cluster, and there was none."""

    def take_over(self) -> tuple[int, int, int] | None:
        """The first CTA of a cluster that now never starts; InterpreterError after a refusal."""
        if self.refused:
            raise InterpreterError("a cluster is asked for after the answer that there is none")
        self.refused = not self.launch.waiting
        return None if self.refused else self.launch.waiting.pop(0)

    def arrive(self, rank: int, thread: int) -> None:
        """An arrival."""
        key = (rank, thread)
        self.arrivals[key] = self.arrivals.get(key, 0) + 1

    def have_arrived(self, rank: int, thread: int) -> bool:
        """Whether all threads have arrived as often as this one."""
        mine = self.arrivals.get((rank, thread), 0)
        if not mine:
            raise InterpreterError("cluster_wait without cluster_arrive")
        everyone = ((cta.rank, each) for cta in self.ctas for each in range(cta.threads))
        return all(self.arrivals.get(key, 0) >= mine for key in everyone)


@dataclass
class Cta:
    """What the threads of a CTA share."""

    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    threads: int = WARP
    cluster: Cluster = field(default_factory=Cluster)
    rank: int = 0
    shared: dict[Operation, Pointer] = field(default_factory=dict)
    barriers: dict[tuple[int, int], Barrier] = field(default_factory=dict)
    tensor_memory: np.ndarray[Any, Any] = field(
        default_factory=lambda: np.zeros((LANES, COLUMNS), np.float32)
    )
    columns: dict[int, int] = field(default_factory=dict)
    """Allocations of tensor memory: first column -> number."""

    def barrier(self, pointer: Pointer) -> Barrier:
        """The barrier at a place; InterpreterError where none has been made."""
        found = self.barriers.get(_place(pointer))
        if found is None:
            raise InterpreterError("there is no barrier here, 'mbarrier_init' comes first")
        return found

    def make_barrier(self, pointer: Pointer, count: int) -> None:
        """A barrier whose phases end with `count` arrivals."""
        self.barriers[_place(pointer)] = Barrier(count, count)

    def memory_of(self, op: Operation, element: str, space: str, size: int) -> Pointer:
        """Memory of an allocation: of a thread alone, or one for the CTA."""
        if space != "smem":
            return Pointer(np.zeros(size, dtype=number_type(element)), element, space)
        found = self.shared.get(op)
        if found is None:
            made = np.zeros(size, dtype=number_type(element))
            found = self.shared[op] = Pointer(made, element, space)
        return found

    def peer(self, rank: int) -> Cta:
        """A CTA of the cluster; InterpreterError for one that there is not."""
        if not 0 <= rank < len(self.cluster.ctas):
            raise InterpreterError(f"there is no CTA {rank} in a cluster of {self.cluster.shape}")
        return self.cluster.ctas[rank]

    def group(self, ctas: int) -> list[Cta]:
        """This CTA, or both of its pair, the first one first; InterpreterError without a pair."""
        if ctas == 1:
            return [self]
        if self.cluster.shape[0] % 2:
            shape = self.cluster.shape
            raise InterpreterError(f"two CTAs of a cluster act together, the cluster is {shape}")
        first = self.rank & ~1
        return [self.peer(first), self.peer(first + 1)]

    def in_peer(self, pointer: Pointer, rank: int) -> Pointer:
        """The same place in the shared memory of a CTA of the cluster."""
        other = self.peer(rank)
        for op, held in self.shared.items():
            if np.shares_memory(held.memory, pointer.memory):
                found = other.memory_of(op, held.element, "smem", len(held.memory)).memory
                memory = (
                    found if pointer.memory is held.memory else found.view(pointer.memory.dtype)
                )
                return replace(pointer, memory=memory)
        raise InterpreterError("the place is in no allocation of shared memory")

    def allocate_columns(self, count: int) -> int:
        """The first of so many columns of tensor memory; InterpreterError if they are not free."""
        for first in range(0, COLUMNS, count):
            wanted = range(first, first + count)
            taken = (range(begin, begin + size) for begin, size in self.columns.items())
            if not any(one.start < wanted.stop and wanted.start < one.stop for one in taken):
                self.columns[first] = count
                return first
        raise InterpreterError(f"{count} columns of tensor memory are not free")

    def free_columns(self, first: int, count: int) -> None:
        """Gives columns back; InterpreterError for what was not allocated."""
        if self.columns.get(first) != count:
            raise InterpreterError(f"{count} columns from {first} on were not allocated")
        del self.columns[first]

    def in_tensor_memory(self, address: int, count: int) -> tuple[int, slice]:
        """The lane and the columns of an address; InterpreterError for columns of no allocation."""
        lane, column = divmod(address, 1 << LANE_SHIFT)
        held = self.columns.items()
        if not any(first <= column and column + count <= first + size for first, size in held):
            raise InterpreterError(f"{count} columns from {column} on were not allocated")
        return lane, slice(column, column + count)


def _place(pointer: Pointer) -> tuple[int, int]:
    return id(pointer.memory), pointer.at(0)
