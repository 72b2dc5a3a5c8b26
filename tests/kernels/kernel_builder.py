"""Builds small Tile IR kernels by hand and runs them in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FileLineColLoc,
    Float4E2M1FNType,
    FunctionType,
    IntAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tests.kernels.every_stage import run_and_compare
from tileiras.dialects import cuda_tile as ct
from tileiras.dialects.cuda_tile.attributes import (
    IntegerOverflow,
    IntegerOverflowAttr,
    MemoryOrdering,
    MemoryOrderingAttr,
    MemoryScope,
    MemoryScopeAttr,
    RoundingMode,
    RoundingModeAttr,
    Signedness,
    SignednessAttr,
)
from tileiras.dialects.cuda_tile.constants import DenseAttr
from tileiras.dialects.cuda_tile.types import TOKEN, PointerType, TileType
from tileiras.interpreter import DeviceBuffer, RunLog, SimulatedMemory, run_entry
from tileiras.interpreter.formats import format_of, from_bits, to_bits

F4 = Float4E2M1FNType()
UNIT = UnitAttr()
NO_OVERFLOW = IntegerOverflowAttr(IntegerOverflow.NONE)
WEAK = MemoryOrderingAttr(MemoryOrdering.WEAK)
RELAXED = MemoryOrderingAttr(MemoryOrdering.RELAXED)
DEVICE = MemoryScopeAttr(MemoryScope.DEVICE)
SIGNED = SignednessAttr(Signedness.SIGNED)
UNSIGNED = SignednessAttr(Signedness.UNSIGNED)


def rounding(mode: RoundingMode | str = RoundingMode.NEAREST_EVEN) -> RoundingModeAttr:
    """The attribute of a rounding mode."""
    return RoundingModeAttr(RoundingMode(mode))


def flags(values: Sequence[int]) -> DenseArrayBase:
    """An `inbounds` attribute."""
    return DenseArrayBase.from_list(i1, list(values))


class Kernel:
    """A module with one entry, filled op by op.

    `add` builds an op and returns its result (or all of them); ops get line numbers of their own so
    that errors can be located.
    """

    def __init__(self, *parameters: Attribute):
        self.block = Block(arg_types=[TileType(type_) for type_ in parameters])
        self.blocks = [self.block]
        self.entry = ct.EntryOp.build(
            properties={
                "sym_name": StringAttr("kernel"),
                "function_type": FunctionType.from_lists([TileType(p) for p in parameters], []),
            },
            regions=[Region(self.block)],
        )
        self.body = Region(Block([self.entry]))
        container = ct.ModuleOp.build(
            properties={"sym_name": StringAttr("kernels")}, regions=[self.body]
        )
        self.module = builtin.ModuleOp([container])
        self._line = 0

    @property
    def args(self) -> Sequence[SSAValue]:
        """The entry's parameters."""
        return self.block.args

    def insert(self, op: Operation) -> Operation:
        """Appends an op to the innermost open block."""
        self._line += 1
        op.location = FileLineColLoc(StringAttr("kernel.py"), IntAttr(self._line), IntAttr(1))
        self.blocks[-1].add_op(op)
        return op

    def add(
        self,
        op_class: type[Operation],
        operands: Sequence[Any] = (),
        result: Attribute | Sequence[Any] = (),
        regions: Sequence[Region] = (),
        **properties: Attribute | None,
    ) -> Any:
        """Builds and appends an op; returns its only result, or the list of them."""
        results = [result] if isinstance(result, Attribute) else list(result)
        op = op_class.build(  # pyright: ignore
            operands=list(operands),
            result_types=results,
            properties={key: value for key, value in properties.items() if value is not None},
            regions=list(regions),
        )
        self.insert(op)
        return op.results[0] if len(op.results) == 1 else list(op.results)

    def region(
        self, argument_types: Sequence[Attribute], fill: Callable[..., None] | None
    ) -> Region:
        """A region of one block that `fill` writes, or an empty one."""
        if fill is None:
            return Region()
        block = Block(arg_types=list(argument_types))
        self.blocks.append(block)
        fill(*block.args)
        self.blocks.pop()
        return Region(block)

    def constant(self, element_type: Attribute, value: Any, shape: Sequence[int] = ()) -> Any:
        """A constant tile, from a number (splat) or an array of the shape."""
        fmt = format_of(element_type)
        bits = to_bits(np.asarray(value).astype(fmt.dtype), fmt)
        type_ = TileType(element_type, shape)
        return self.add(ct.ConstantOp, (), type_, value=DenseAttr(type_, bits.tobytes()))

    def load(self, pointer: SSAValue, shape: Sequence[int]) -> Any:
        """Loads a row-major tile from a pointer to its first element."""
        address = self.addresses(pointer, shape)
        pointee = pointer.type.element_type.pointee  # pyright: ignore
        return self.add(
            ct.LoadPtrTkoOp,
            [address, [], [], []],
            [TileType(pointee, shape), TOKEN],
            memory_ordering_semantics=WEAK,
        )[0]

    def store(self, pointer: SSAValue, tile: SSAValue) -> None:
        """Stores a tile in row-major order behind a pointer."""
        address = self.addresses(pointer, tile.type.shape)  # pyright: ignore
        self.add(ct.StorePtrTkoOp, [address, tile, [], []], TOKEN, memory_ordering_semantics=WEAK)

    def addresses(self, pointer: SSAValue, shape: Sequence[int]) -> Any:
        """Pointers to consecutive elements in the shape of a tile."""
        element = pointer.type.element_type  # pyright: ignore
        count = int(np.prod(shape, dtype=np.int64))
        if not shape:
            return pointer
        one = self.add(ct.ReshapeOp, [pointer], TileType(element, (1,)))
        many = self.add(ct.BroadcastOp, [one], TileType(element, (count,)))
        offsets = self.add(ct.IotaOp, [], TileType(i32, (count,)))
        moved = self.add(ct.OffsetOp, [many, offsets], TileType(element, (count,)))
        return self.add(ct.ReshapeOp, [moved], TileType(element, tuple(shape)))

    def run(
        self,
        *args: Any,
        grid: tuple[int, int, int] = (1, 1, 1),
        memory: SimulatedMemory | None = None,
    ) -> RunLog:
        """Ends the entry and runs it, at every stage where no memory is given."""
        if self.block.last_op is None or not isinstance(self.block.last_op, ct.ReturnOp):
            self.add(ct.ReturnOp, [[]])
        if memory is None:
            return run_and_compare(self.module, "kernel", args, grid)
        return run_entry(self.module, "kernel", args, grid, memory)


def held(element_type: Attribute, values: Any) -> np.ndarray:
    """Values as the interpreter holds elements of the type."""
    return np.asarray(values).astype(format_of(element_type).dtype)


def evaluate(
    op_class: type[Operation],
    inputs: Sequence[tuple[Attribute, Any]],
    result_type: Attribute,
    result_shape: Sequence[int] | None = None,
    **properties: Attribute | None,
) -> np.ndarray:
    """The result tile of one op on tiles loaded from memory and stored to it.

    Elementwise inputs may have any length: they are filled up to a power of two and cut again.
    """
    tiles = [held(type_, values) for type_, values in inputs]
    length = len(tiles[0])
    if length & (length - 1):
        missing = (1 << length.bit_length()) - length
        padded = [(t, np.append(v, v[-1:].repeat(missing))) for (t, _), v in zip(inputs, tiles)]
        return evaluate(op_class, padded, result_type, **properties)[:length]
    shape = tuple(tiles[0].shape if result_shape is None else result_shape)
    types = [*(type_ for type_, _ in inputs), result_type]
    kernel = Kernel(*(PointerType(_in_memory(type_)) for type_ in types))
    loaded = [
        _load(kernel, arg, type_, tile.shape)
        for arg, tile, (type_, _) in zip(kernel.args, tiles, inputs)
    ]
    result = kernel.add(op_class, loaded, TileType(result_type, shape), **properties)
    if result_type == F4:
        result = kernel.add(ct.PackOp, [result], TileType(i8, (shape[0] // 2,)))
    kernel.store(kernel.args[-1], result)
    fmt = format_of(result_type)
    output = _nibbles_two_tiles(np.zeros(shape, dtype=fmt.storage), result_type)
    memory_images = [
        _nibbles_two_tiles(np.array(to_bits(tile, format_of(type_))), type_)
        for tile, (type_, _) in zip(tiles, inputs)
    ]
    kernel.run(*memory_images, output)
    return np.asarray(from_bits(_nibbles_apart(output, result_type), fmt))


def _in_memory(type_: Attribute) -> Attribute:
    """What pointers point to: tiles of pointers to 4-bit elements do not exist."""
    return i8 if type_ == F4 else type_


def _load(kernel: Kernel, arg: SSAValue, type_: Attribute, shape: tuple[int, ...]) -> SSAValue:
    if type_ != F4:
        return kernel.load(arg, shape)
    return kernel.add(ct.UnpackOp, [kernel.load(arg, (shape[0] // 2,))], TileType(F4, shape))


def _nibbles_two_tiles(bits: np.ndarray, type_: Attribute) -> np.ndarray:
    """Two 4-bit elements a byte, the first in the low half."""
    return bits[0::2] | bits[1::2] << 4 if type_ == F4 else bits


def _nibbles_apart(data: np.ndarray, type_: Attribute) -> np.ndarray:
    return np.stack((data & 15, data >> 4), axis=1).reshape(-1) if type_ == F4 else data


def integer(width: int) -> IntegerType:
    """A signless integer type."""
    return IntegerType(width)


__all__ = [
    "DEVICE",
    "NO_OVERFLOW",
    "RELAXED",
    "SIGNED",
    "UNIT",
    "UNSIGNED",
    "WEAK",
    "DeviceBuffer",
    "Kernel",
    "evaluate",
    "flags",
    "held",
    "i64",
    "integer",
    "rounding",
]
