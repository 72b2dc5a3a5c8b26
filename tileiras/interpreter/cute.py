"""What a program in CuTe's dialect means: every thread runs it, on the algebra's own functions.

An operation without effect is its function applied to numbers (`CuteOp.apply`), so that what types
infer and what runs is one definition. Here are the memory, the threads, and the operations with
effects; `cute_instructions` has those of `cute_nvgpu`. Threads of a CTA take turns between the
places where they wait: for all threads, for those of their warp or warpgroup, for a barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.structure import (
    ConstantOp,
    ForOp,
    FuncOp,
    IfOp,
    LoadOp,
    ReturnOp,
    WhileOp,
    YieldOp,
)
from tileiras.dialects.cute.tiled import atom_layout, operand_shape
from tileiras.dialects.cute.values import (
    CopyAtom,
    Tensor,
    TiledMma,
    index_of,
    plain_layout,
)
from tileiras.interpreter.cute_instructions import GROUP_RULES, RULES, copy_matrices, is_over
from tileiras.interpreter.cute_state import (
    WARP,
    WARPGROUP,
    Cluster,
    Cta,
    Launch,
    factors,
    number_type,
    read,
    write,
)
from tileiras.interpreter.cutlass import CUTLASS_RULES, WAITING, waits_of
from tileiras.interpreter.errors import InterpreterError

ALLOCATIONS = (
    "cute.alloc",
    "cute.make_fragment_like",
    "cute.make_fragment_a",
    "cute.make_fragment_b",
    "cute.make_fragment_c",
    "cute.make_fragment_sfa",
    "cute.make_fragment_sfb",
)
"""Operations that make memory."""

NVGPU = "cute_nvgpu."
SCALED_PRODUCT = "cute_nvgpu.gemm_block_scaled"

_Turn = Generator[tuple[Operation, list[Any]], None, list[Any]]


class _Thread:
    """One thread: its values, and its run through the program."""

    def __init__(self, number: int, cta: Cta):
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
                case WhileOp():
                    yield from self._while(op)
                case IfOp():
                    if self.values[op.condition]:
                        yield from self.run(op.body.block)
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

    def _while(self, op: WhileOp) -> Generator[tuple[Operation, list[Any]], None, None]:
        carried = self.of(op.operands)
        block = op.body.block
        while carried[0]:
            self.values.update(zip(block.args, carried, strict=True))
            carried = yield from self.run(block)
        self.values.update(zip(op.results_, carried, strict=True))

    def _row(self, op: CuteOp) -> Generator[tuple[Operation, list[Any]], None, None]:
        operands = [int(v) if isinstance(v, np.integer) else v for v in self.of(op.inputs)]
        if _waits(op, operands):
            if op.name == INIT_WAIT:
                self.cta.cluster.arrive(self.cta.rank, self.number)
            yield op, operands
            return
        try:
            for wait in waits_of(self.cta, op, operands):
                yield op, wait
            if op.name in EFFECTS:
                EFFECTS[op.name](*self.of(op.inputs))
                return
            value = self._value(op, operands)
        except AlgebraError as error:
            raise InterpreterError(str(error), op) from error
        except InterpreterError as error:
            raise error.located(op) from error
        if op.outputs:
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
            case _ if (rule := CUTLASS_RULES.get(op.name)) is not None:
                return rule(self.cta, self.number, op, operands)
            case _ if (rule := RULES.get(op.name.removeprefix(NVGPU))) is not None:
                return rule(self.cta, self.number, op, operands)
            case _:
                return op.apply(operands)

    def _memory(self, op: CuteOp) -> Tensor:
        """Memory for the tensor of a result: a thread's own, or one for the CTA."""
        kind = op.outputs[0].type.data  # pyright: ignore[reportAttributeAccessIssue]
        engine, layout = kind.engine, kind.layout
        found = self.cta.shared.get(op)
        if found is None:
            found = self.cta.memory_of(op, engine.element, engine.space, layout.cosize)
        return Tensor(found, layout)


def _constant(op: ConstantOp) -> Any:
    number = op.value.value.data  # pyright: ignore[reportAttributeAccessIssue]
    return number_type(str(op.result.type))(number)


def _of_warps(mma: Any) -> bool:
    atom = mma.atom if isinstance(mma, TiledMma) else mma
    return atom.kind != "universal"


def _waits(op: CuteOp, operands: list[Any]) -> bool:
    """Whether a thread stops at an operation until others have come, or until a phase is over."""
    match op.name:
        case "cute.sync_threads" | "cutlass.pipeline_init_wait" | "cute_nvgpu.mbarrier_wait":
            return True
        case _ if op.name in (CLUSTER_WAIT, SCALED_PRODUCT):
            return True
        case "cute.gemm":
            return _of_warps(operands[0])
        case "cute.copy":
            return getattr(operands[0], "atom", operands[0]).is_matrix
        case _:
            return op.name.removeprefix(NVGPU) in GROUP_RULES


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
    "cute.cast": lambda source, target: write(target, read(source)),
    "cute.gemm": _gemm,
    "cute.store": lambda value, tensor, coordinate: tensor.engine.memory.__setitem__(
        tensor.engine.at(int(str(index_of(tensor, coordinate)))), value
    ),
}
"""What operations with effects do to memory."""


# Products of warps ----------------------------------------------------------------------------


def _warp_product(cta: Cta, threads: range, op: CuteOp, operands: Sequence[list[Any]]) -> None:
    """The product of all threads of one warp; `operands` by lane: mma, D, A, B, C."""
    _multiply(operands, {"A": 2, "B": 3, "C": 4})


def _scaled_product(cta: Cta, threads: range, op: CuteOp, operands: Sequence[list[Any]]) -> None:
    """... with scales; `operands` by lane: mma, D, A, SFA, B, SFB, C."""
    _multiply(operands, {"A": 2, "SFA": 3, "B": 4, "SFB": 5, "C": 6})


def _multiply(operands: Sequence[list[Any]], places: dict[Any, int]) -> None:
    """Atom by atom; each operand is the one of this number."""
    mma = operands[0][0]
    atom = mma.atom if isinstance(mma, TiledMma) else mma
    layouts = {which: atom_layout(atom, which) for which in places}
    sizes = [operands[0][places[which]].layout for which in ("A", "B")]
    m, n, k = (sizes[0][1].static_size, sizes[1][1].static_size, sizes[0][2].static_size)

    def matrix(which: Any, i: int, j: int) -> np.ndarray[Any, Any]:
        shape = operand_shape(atom, which)
        return _gathered(operands, places[which], layouts[which], shape, i, j)

    def side(which: Any, scales: Any, i: int, step: int, sums: Any) -> np.ndarray[Any, Any]:
        found = factors(matrix(which, i, step), atom.element_of(which), sums)
        if scales not in places:
            return found
        given = matrix(scales, i, step).astype(sums)
        return found * np.repeat(given, found.shape[1] // given.shape[1], axis=1)

    for i, j in product(range(m), range(n)):
        total = matrix("C", i, j)
        for step in range(k):
            left = side("A", "SFA", i, step, total.dtype)
            total = total + left @ side("B", "SFB", j, step, total.dtype).T
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
    """Runs every thread of every CTA of a kernel.

    Arguments are tensors (`cute_state.tensor_of`), mapped tensors, and numbers.
    InterpreterError for a kernel that there is not, and for what a thread does wrong.
    """
    found = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    func = next((op for op in found if op.sym_name.data == name), None)
    if func is None:
        raise InterpreterError(f"there is no kernel '{name}'")
    if len(arguments) != len(func.body.block.args):
        wanted = len(func.body.block.args)
        raise InterpreterError(f"kernel '{name}' has {wanted} arguments, found {len(arguments)}")
    shape = func.cluster_shape
    if any(count % size for count, size in zip(grid, shape, strict=True)):
        raise InterpreterError(f"a grid of {grid} CTAs is not made of clusters {shape}", func)
    steps = (range(0, count, size) for count, size in zip(grid, shape, strict=True))
    launch = Launch([(x, y, z) for z, y, x in product(*reversed(list(steps)))])
    while launch.waiting:
        cluster = _cluster(func, launch.waiting.pop(0), grid)
        cluster.launch = launch
        _run_cluster(func, arguments, cluster)


def _cluster(func: FuncOp, first: tuple[int, int, int], grid: tuple[int, int, int]) -> Cluster:
    """The cluster whose first CTA is at a place of the grid."""
    made = Cluster(func.cluster_shape)
    for z, y, x in product(*(range(size) for size in reversed(func.cluster_shape))):
        block = (first[0] + x, first[1] + y, first[2] + z)
        made.ctas.append(Cta(block, grid, func.threads.data, made, len(made.ctas)))
    return made


_Wait = tuple[Any, list[Any]]


def _run_cluster(func: FuncOp, arguments: Sequence[Any], cluster: Cluster) -> None:
    """Threads take turns: those that need not wait any longer run to the next place to wait."""
    turns: list[list[_Turn]] = []
    for cta in cluster.ctas:
        turns.append([])
        for number in range(cta.threads):
            thread = _Thread(number, cta)
            thread.values.update(zip(func.body.block.args, arguments, strict=True))
            turns[-1].append(thread.run(func.body.block))
    waits: list[list[_Wait | None]] = [[next(turn, None) for turn in each] for each in turns]
    while any(wait is not None for each in waits for wait in each):
        going = [
            (cta.rank, number)
            for cta, each in zip(cluster.ctas, waits, strict=True)
            for number in _going(cta, each)
        ]
        if not going:
            op = next(wait[0] for each in waits for wait in each if wait is not None)
            raise InterpreterError(_why_stuck(op), op)
        for rank, number in going:
            waits[rank][number] = next(turns[rank][number], None)


def _why_stuck(op: Operation) -> str:
    if op.name in BARRIER_WAITS:
        return "nobody ends the phase that is waited for"
    if op.name == CLUSTER_WAIT:
        return "not all threads of the cluster come here"
    size, _ = _group_of(op)
    return f"not all threads of the {_GROUP_NAMES[size]} come here"


def _group_of(op: Operation) -> tuple[int, Callable[..., None]]:
    return _GROUPS.get(op.name) or GROUP_RULES[op.name.removeprefix(NVGPU)]


def _going(cta: Cta, waits: Sequence[_Wait | None]) -> list[int]:
    """The threads that go on; what a group of threads does together is done."""
    going: list[int] = []
    done: set[int] = set()
    for number, wait in enumerate(waits):
        if wait is None or number in done:
            continue
        op = wait[0]
        if op.name in BARRIER_WAITS:
            if _checked(op, lambda wait=wait: is_over(cta, wait[1])):
                going.append(number)
            continue
        if op.name == CLUSTER_WAIT or (op.name == INIT_WAIT and len(cta.cluster.ctas) > 1):
            if _checked(op, lambda number=number: cta.cluster.have_arrived(cta.rank, number)):
                going.append(number)
            continue
        size, rule = _group_of(op)
        size = size or cta.threads
        threads = range(number // size * size, min(number // size * size + size, cta.threads))
        here = [each for each in threads if (other := waits[each]) and other[0] is op]
        done.update(here)
        there = [other[1] for each in here if (other := waits[each])]
        if len(there) == len(threads):
            _checked(op, lambda op=op, rule=rule, t=threads, v=there: rule(cta, t, op, v))
            going += threads
    return going


def _checked(op: Operation, action: Callable[[], Any]) -> Any:
    """What an action gives; its errors have the place of the operation."""
    try:
        return action()
    except AlgebraError as error:
        raise InterpreterError(str(error), op) from error
    except InterpreterError as error:
        raise error.located(op) from error


_GROUPS: dict[str, tuple[int, Callable[..., None]]] = {
    "cute.sync_threads": (0, lambda cta, threads, op, operands: None),
    "cutlass.pipeline_init_wait": (0, lambda cta, threads, op, operands: None),
    "cute.gemm": (WARP, _warp_product),
    SCALED_PRODUCT: (WARP, _scaled_product),
    "cute.copy": (WARP, copy_matrices),
}
"""Operations of so many threads together, beside those of `cute_instructions`; 0 are all."""
BARRIER_WAITS = {"cute_nvgpu.mbarrier_wait", *WAITING}
"""Operations that wait for the phase of a barrier: its pointer and the parity."""
CLUSTER_WAIT = "cute_nvgpu.cluster_wait"
INIT_WAIT = "cutlass.pipeline_init_wait"
_GROUP_NAMES = {0: "CTA", WARP: "warp", WARPGROUP: "warpgroup"}
