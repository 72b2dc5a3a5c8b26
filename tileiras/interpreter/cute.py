"""What a program in CuTe's dialect means: every thread runs it, on the algebra's own functions.

An operation without effect is its function applied to numbers (`CuteOp.apply`), so that what types
infer and what runs is one definition. Here are the memory, the threads, and the operations with
effects. Threads of a CTA take turns between the places where they meet: `cute.sync_threads`, and
products of whole warps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.structure import ConstantOp, ForOp, FuncOp, LoadOp, ReturnOp, YieldOp
from tileiras.dialects.cute.tiled import atom_layout
from tileiras.dialects.cute.values import (
    CopyAtom,
    Tensor,
    TiledMma,
    element_bits,
    index_of,
    plain_layout,
)
from tileiras.interpreter.errors import InterpreterError

NUMBERS: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
}
"""The elements that are computed with."""

ALLOCATIONS = (
    "cute.alloc",
    "cute.make_fragment_like",
    "cute.make_fragment_a",
    "cute.make_fragment_b",
    "cute.make_fragment_c",
)
"""Operations that make memory."""

WARP = 32


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


def tensor_of(array: np.ndarray[Any, Any], layout: Layout, element: str) -> Tensor:
    """An argument of a kernel: an array of one dim in global memory."""
    return Tensor(Pointer(array, element, "gmem"), layout)


def places(tensor: Tensor) -> list[int]:
    """The places of all elements, in order."""
    return [tensor.engine.at(int(str(index))) for index in tensor.layout.indices]


def read(tensor: Tensor) -> np.ndarray[Any, Any]:
    """All elements, in order."""
    return tensor.engine.memory[places(tensor)]


def write(tensor: Tensor, values: Any) -> None:
    """Writes all elements, in order."""
    memory = tensor.engine.memory
    memory[places(tensor)] = np.asarray(values).astype(memory.dtype)


@dataclass
class _Cta:
    """What the threads of a CTA share."""

    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    shared: dict[Operation, Pointer]


_Turn = Generator[tuple[Operation, list[Any]], None, list[Any]]


class _Thread:
    """One thread: its values, and its run through the program."""

    def __init__(self, number: int, cta: _Cta):
        self.number = number
        self.cta = cta
        self.values: dict[SSAValue, Any] = {}

    def of(self, values: Sequence[SSAValue]) -> list[Any]:
        """What values hold."""
        return [self.values[value] for value in values]

    def run(self, block: Block) -> _Turn:
        """Runs a block; gives what its terminator hands on."""
        for op in block.ops:
            match op:
                case ReturnOp():
                    return []
                case YieldOp():
                    return self.of(op.arguments)
                case ForOp():
                    yield from self._loop(op)
                case ConstantOp():
                    self.values[op.result] = _constant(op)
                case LoadOp():
                    tensor, coordinate = self.of(op.operands)
                    place = tensor.engine.at(int(str(index_of(tensor, coordinate))))
                    self.values[op.result] = tensor.engine.memory[place]
                case CuteOp():
                    yield from self._row(op)
                case _:
                    raise InterpreterError("no rule", op)
        return []

    def _loop(self, op: ForOp) -> Generator[tuple[Operation, list[Any]], None, None]:
        lower, upper, step, *carried = self.of(op.operands)
        block = op.body.block
        for counter in range(int(lower), int(upper), int(step)):
            for argument, value in zip(block.args, [counter, *carried], strict=True):
                self.values[argument] = value
            carried = yield from self.run(block)
        for result, value in zip(op.results_, carried, strict=True):
            self.values[result] = value

    def _row(self, op: CuteOp) -> Generator[tuple[Operation, list[Any]], None, None]:
        operands = self.of(op.inputs)
        if op.name == "cute.sync_threads" or (op.name == "cute.gemm" and _of_warps(operands[0])):
            yield op, operands
            return
        try:
            if op.name in EFFECTS:
                EFFECTS[op.name](*operands)
                return
            value = self._value(op, operands)
        except AlgebraError as error:
            raise InterpreterError(str(error), op) from error
        self.values[op.outputs[0]] = value

    def _value(self, op: CuteOp, operands: list[Any]) -> Any:
        axis = op.statics[0] if op.statics else 0
        if op.name in ALLOCATIONS:
            return self._memory(op)
        match op.name:
            case "cute.thread_idx":
                return self.number if axis == 0 else 0
            case "cute.block_idx":
                return self.cta.block[axis]
            case "cute.grid_dim":
                return self.cta.grid[axis]
            case _:
                return op.apply([int(v) if isinstance(v, np.integer) else v for v in operands])

    def _memory(self, op: CuteOp) -> Tensor:
        """Memory for the tensor of a result: a thread's own, or one for the CTA."""
        kind = op.outputs[0].type.data  # pyright: ignore[reportAttributeAccessIssue]
        size, element, space = kind.layout.cosize, kind.engine.element, kind.engine.space
        if space == "smem":
            if op not in self.cta.shared:
                self.cta.shared[op] = _new(element, space, size)
            return Tensor(self.cta.shared[op], kind.layout)
        return Tensor(_new(element, space, size), kind.layout)


def _new(element: str, space: str, size: int) -> Pointer:
    return Pointer(np.zeros(size, dtype=number_type(element)), element, space)


def _constant(op: ConstantOp) -> Any:
    number = op.value.value.data  # pyright: ignore[reportAttributeAccessIssue]
    return number_type(str(op.result.type))(number)


def _of_warps(mma: Any) -> bool:
    atom = mma.atom if isinstance(mma, TiledMma) else mma
    return atom.kind != "universal"


# Effects --------------------------------------------------------------------------------------


def _copy(atom: Any, source: Tensor, target: Tensor) -> None:
    """Element by element."""
    write(target, read(source))


def _copy_if(atom: CopyAtom, predicate: Tensor, source: Tensor, target: Tensor) -> None:
    """Where the predicate is true; other elements are not touched."""
    chosen = [number for number, true in enumerate(read(predicate)) if true]
    for number in chosen:
        value = source.engine.memory[source.engine.at(int(str(source.layout(number))))]
        target.engine.memory[target.engine.at(int(str(target.layout(number))))] = value


def _gemm(mma: Any, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    """Fragments of one value each."""
    sizes = plain_layout(a), plain_layout(b)
    m, n, k = (sizes[0][1].static_size, sizes[1][1].static_size, sizes[0][2].static_size)
    dtype = d.engine.memory.dtype
    left = read(a).reshape(k, m).T.astype(dtype)
    right = read(b).reshape(k, n).T.astype(dtype)
    write(d, read(c) + (left @ right.T).T.reshape(-1))


EFFECTS: dict[str, Callable[..., None]] = {
    "cute.copy": _copy,
    "cute.copy_if": _copy_if,
    "cute.fill": lambda tensor, value: write(tensor, [value] * tensor.layout.static_size),
    "cute.clear": lambda tensor: write(tensor, [0] * tensor.layout.static_size),
    "cute.axpby": lambda alpha, x, beta, y: write(y, alpha * read(x) + beta * read(y)),
    "cute.add": lambda a, b, d: write(d, read(a) + read(b)),
    "cute.mul": lambda a, b, d: write(d, read(a) * read(b)),
    "cute.cast": _copy,
    "cute.gemm": _gemm,
    "cute.store": lambda value, tensor, coordinate: tensor.engine.memory.__setitem__(
        tensor.engine.at(int(str(index_of(tensor, coordinate)))), value
    ),
}
"""What operations with effects do to memory."""


# Products of warps ----------------------------------------------------------------------------


def _warp_product(operands: Sequence[list[Any]]) -> None:
    """The product of all threads of one warp; `operands` by lane: mma, D, A, B, C."""
    mma = operands[0][0]
    atom = mma.atom if isinstance(mma, TiledMma) else mma
    layouts = {which: atom_layout(atom, which) for which in ("A", "B", "C")}
    sizes = operands[0][2].layout, operands[0][3].layout
    m, n, k = (sizes[0][1].static_size, sizes[1][1].static_size, sizes[0][2].static_size)
    for i, j in product(range(m), range(n)):
        total = _gathered(operands, 4, layouts["C"], (atom.shape[0], atom.shape[1]), i, j)
        for step in range(k):
            shape = (atom.shape[0], atom.shape[2])
            left = _gathered(operands, 2, layouts["A"], shape, i, step)
            right = _gathered(operands, 3, layouts["B"], (atom.shape[1], shape[1]), j, step)
            total = total + left.astype(total.dtype) @ right.astype(total.dtype).T
        _scattered(operands, layouts["C"], total, i, j)


def _gathered(
    operands: Sequence[list[Any]],
    which: int,
    layout: Layout,
    shape: tuple[int, int],
    i: int,
    j: int,
) -> np.ndarray[Any, Any]:
    """The matrix of an operand's atom (i, j) from the registers of all lanes."""
    memory = operands[0][which].engine.memory
    flat = np.zeros(shape[0] * shape[1], dtype=memory.dtype)
    for lane, value, place in _elements(layout):
        tensor = operands[lane][which]
        flat[place] = tensor.engine.memory[_place(tensor, value, i, j)]
    return flat.reshape(shape[1], shape[0]).T


def _scattered(
    operands: Sequence[list[Any]], layout: Layout, total: np.ndarray[Any, Any], i: int, j: int
) -> None:
    """The sum into the registers of all lanes."""
    flat = total.T.reshape(-1)
    for lane, value, place in _elements(layout):
        tensor = operands[lane][1]
        tensor.engine.memory[_place(tensor, value, i, j)] = flat[place]


def _elements(layout: Layout) -> list[tuple[int, int, int]]:
    """(lane, value, place in the column-major matrix) of all elements."""
    lanes, values = layout[0].static_size, layout[1].static_size
    indices = layout.indices
    return [(t, v, int(str(indices[t + v * lanes]))) for t in range(lanes) for v in range(values)]


def _place(tensor: Tensor, value: int, i: int, j: int) -> int:
    return tensor.engine.at(int(str(index_of(tensor, (value, i, j)))))


# Programs -------------------------------------------------------------------------------------


def run_kernel(
    module: ModuleOp, name: str, arguments: Sequence[Any], grid: tuple[int, int, int] = (1, 1, 1)
) -> None:
    """Runs every thread of every CTA of a kernel; arguments are tensors (`tensor_of`) and numbers.

    InterpreterError for a kernel that there is not, and for what a thread does wrong.
    """
    found = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    func = next((op for op in found if op.sym_name.data == name), None)
    if func is None:
        raise InterpreterError(f"there is no kernel '{name}'")
    if len(arguments) != len(func.body.block.args):
        wanted = len(func.body.block.args)
        raise InterpreterError(f"kernel '{name}' has {wanted} arguments, found {len(arguments)}")
    for z, y, x in product(range(grid[2]), range(grid[1]), range(grid[0])):
        _run_cta(func, arguments, _Cta((x, y, z), grid, {}))


def _run_cta(func: FuncOp, arguments: Sequence[Any], cta: _Cta) -> None:
    """All threads take turns from one meeting to the next."""
    turns: list[_Turn] = []
    for number in range(func.threads.data):
        thread = _Thread(number, cta)
        thread.values.update(zip(func.body.block.args, arguments, strict=True))
        turns.append(thread.run(func.body.block))
    while True:
        meetings = [next(turn, None) for turn in turns]
        if all(meeting is None for meeting in meetings):
            return
        ops = dict.fromkeys(None if meeting is None else meeting[0] for meeting in meetings)
        op = next(op for op in ops if op is not None)
        if len(ops) != 1:
            raise InterpreterError("not all threads of the CTA come here", op)
        if op.name == "cute.gemm":
            operands = [meeting[1] for meeting in meetings if meeting is not None]
            for first in range(0, len(operands), WARP):
                _warp_product(operands[first : first + WARP])
