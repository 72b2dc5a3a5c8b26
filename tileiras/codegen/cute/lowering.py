"""Compiles kernels of the cute dialects to one thread's program in llvm and nvvm.

The program is run as the interpreter runs it, with the algebra's own functions, but what is known
at run time only is a symbol for a 64-bit value: an offset is then a polynomial, which is written
out where memory is accessed. Registers are values by their static index. Loops with static bounds
are unrolled, others stay (`regions`); instructions of `cute_nvgpu` are in `instructions`.

A kernel's parameters: a tensor or pointer is its address, followed by the dynamic leaves of its
layout as i32, from left to right, shape first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    FloatAttr,
    IntAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from tileiras.codegen.cute.instructions import INSTRUCTIONS, copy_by_atom
from tileiras.codegen.cute.memory import (
    Address,
    Map,
    Registers,
    access_bytes,
    index_in,
    register_type,
    vectors_of,
)
from tileiras.codegen.cute.regions import lower_if, lower_loop
from tileiras.codegen.cute.targets import check_feature, row_of
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.target import GpuTarget
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import Dynamic, Leaf, static
from tileiras.dialects.cute.algebra.swizzles import ComposedLayout, Swizzle
from tileiras.dialects.cute.operation import CuteOp, value_of_type
from tileiras.dialects.cute.structure import ConstantOp, ForOp, FuncOp, IfOp, LoadOp, YieldOp
from tileiras.dialects.cute.values import (
    CopyAtom,
    MmaAtom,
    PointerInfo,
    RunTime,
    Tensor,
    TiledMma,
    element_bits,
    plain_layout,
)
from tileiras.dialects.cute_nvgpu.types import TmaAtom
from tileiras.dialects.llvm import arithmetic as arith
from tileiras.dialects.llvm import constants, control, memory, vectors
from tileiras.dialects.llvm.constants import BitsAttr
from tileiras.dialects.llvm.types import GENERIC, GLOBAL, SHARED, PointerType
from tileiras.dialects.locations import place_of
from tileiras.dialects.nvvm import matrix, threads
from tileiras.errors import CompileError, TargetError

AXES = "xyz"
SPACES = {"gmem": GLOBAL, "smem": SHARED, "generic": GENERIC}


class Kernel:
    """The compilation of one function."""

    def __init__(self, func: FuncOp, target: GpuTarget):
        self.func = func
        self.target = target
        self.globals: list[memory.GlobalOp] = []
        self.symbols: dict[str, SSAValue] = {}
        self.values: dict[SSAValue, Any] = {}
        self.unrolled = 0
        self.files: list[Registers] = []
        """All registers that there are, for the blocks in which paths meet."""
        self.products: list[tuple[Any, SSAValue]] = []
        """Accumulators that products of warpgroups still write, and where they go."""
        kinds = [kind for argument in func.body.block.args for kind in _parameters(argument.type)]
        name = func.sym_name.data
        self.made = control.FuncOp.make_kernel(name, kinds, threads=func.threads.data)
        self.made.location = func.location
        self.enter(self.made.entry)

    def lower(self) -> control.FuncOp:
        """The function; CompileError with the place of what cannot be compiled."""
        parameters = iter(self.made.entry.args)
        for argument in self.func.body.block.args:
            self.values[argument] = self._argument(value_of_type(argument.type), parameters)
        self.block(self.func.body.block)
        self.add(control.ReturnOp.create())
        return self.made

    def enter(self, block: Block) -> None:
        """What follows is written at the end of this block."""
        self.builder = Builder(InsertPoint.at_end(block))
        self.thread = ThreadBuilder(block)

    def add(self, op: Operation) -> Operation:
        """Writes an operation."""
        self.builder.insert(op)
        return op

    def value(self, kind: type[Any], operands: Sequence[SSAValue], type: Attribute) -> SSAValue:
        """Writes an operation with one result."""
        return self.add(kind.create(operands=operands, result_types=[type])).results[0]

    def constant(self, number: int, type: Attribute = i64) -> SSAValue:
        """An integer."""
        width = type.width.data if isinstance(type, IntegerType) else 64
        bits = BitsAttr((number & ((1 << width) - 1),))
        op = constants.ConstantOp.create(properties={"bits": bits}, result_types=[type])
        return self.add(op).results[0]

    # Integers --------------------------------------------------------------------------------

    def symbol(self, value: SSAValue) -> RunTime:
        """A leaf that stands for a 64-bit value."""
        name = f"v{len(self.symbols)}"
        self.symbols[name] = value
        terms = Dynamic.symbol(name).terms
        return RunTime(terms, lambda table: self._chosen(value, table))

    def _argument(self, held: Any, parameters: Any) -> Any:
        """What a parameter stands for."""
        if isinstance(held, PointerInfo):
            return self._address(held, next(parameters))
        if isinstance(held, TmaAtom):
            return Map(held, self.value(arith.IntToPtrOp, [next(parameters)], PointerType(GLOBAL)))
        if not isinstance(held, Tensor):
            return next(parameters)
        address = self._address(held.engine, next(parameters))
        return Tensor(address, self._with_parameters(held.layout, parameters))

    def _address(self, info: PointerInfo, value: SSAValue) -> Address:
        kind = PointerType(SPACES[info.space])
        base = self.value(arith.IntToPtrOp, [value], kind)
        return Address(base, info.element, info.space)

    def _with_parameters(self, layout: Any, parameters: Any) -> Any:
        """A layout with symbols for its dynamic leaves."""
        match layout:
            case Layout():
                shape = self._with_parameters(layout.shape, parameters)
                return Layout(shape, self._with_parameters(layout.stride, parameters))
            case ComposedLayout():
                outer = self._with_parameters(layout.outer, parameters)
                return ComposedLayout(layout.inner, layout.offset, outer)
            case tuple():
                return tuple(self._with_parameters(part, parameters) for part in layout)
            case Dynamic():
                return self.symbol(self.value(arith.SExtOp, [next(parameters)], i64))
            case _:
                return layout

    def _chosen(self, index: SSAValue, table: Sequence[Leaf]) -> Leaf:
        """The entry of a table at a run-time index, where it is a sum over the index's bits.

        AlgebraError for another table.
        """
        entries = list(table)
        back = entries[0] * -1
        steps = [entries[1 << bit] + back for bit in range((len(entries) - 1).bit_length())]
        for number, entry in enumerate(entries[1:], 1):
            low = number & -number
            if entry != entries[number - low] + steps[low.bit_length() - 1]:
                raise AlgebraError("the offsets of threads are no sums over the bits of a thread")
        total: Leaf = entries[0]
        bit = 0
        while bit < len(steps):
            count = 1
            while bit + count < len(steps) and steps[bit + count] == steps[bit] * (1 << count):
                count += 1
            if steps[bit]:
                part = self.value(arith.LShrOp, [index, self.constant(bit)], i64)
                part = self.value(arith.AndOp, [part, self.constant((1 << count) - 1)], i64)
                total = self.symbol(part) * steps[bit] + total
            bit += count
        return total

    def integer(self, leaf: Leaf) -> SSAValue:
        """The 64-bit value of a leaf; AlgebraError for one that is not known."""
        if isinstance(leaf, int):
            return self.constant(leaf)
        if not isinstance(leaf, Dynamic) or not leaf.is_known:
            raise AlgebraError(f"the value of {leaf} is not compiled")
        total: SSAValue | None = None
        for monomial, coefficient in leaf.terms:
            part = self.constant(coefficient)
            for name in monomial:
                part = self.value(arith.MulOp, [part, self.symbols[name]], i64)
            total = part if total is None else self.value(arith.AddOp, [total, part], i64)
        assert total is not None
        return total

    # Memory ----------------------------------------------------------------------------------

    def pointer(self, tensor: Tensor, index: Leaf) -> SSAValue:
        """The address of the element with an index of the plain layout."""
        engine: Address = tensor.engine
        layout = tensor.layout
        offset: Leaf = engine.offset + index
        if isinstance(layout, ComposedLayout):
            inside = self.integer(layout.offset + index)
            swizzled = self._swizzled(layout.inner, inside)
            place = self.value(arith.AddOp, [swizzled, self.integer(engine.offset)], i64)
        else:
            place = self.integer(offset)
        size = self.constant(element_bits(engine.element) // 8)
        moved = self.value(arith.MulOp, [place, size], i64)
        return self.value(memory.GEPOp, [engine.base, moved], engine.base.type)

    def _swizzled(self, function: Swizzle | Layout, index: SSAValue) -> SSAValue:
        """`Swizzle.__call__` on a value."""
        if not isinstance(function, Swizzle):
            raise AlgebraError(f"only swizzles are compiled as outer functions, found {function}")
        mask = self.constant(((1 << function.bits) - 1) << function.base)
        distance = self.constant(abs(function.shift))
        if function.shift >= 0:
            moved = self.value(arith.LShrOp, [index, distance], i64)
            moved = self.value(arith.AndOp, [moved, mask], i64)
        else:
            moved = self.value(arith.AndOp, [index, mask], i64)
            moved = self.value(arith.ShlOp, [moved, distance], i64)
        return self.value(arith.XOrOp, [index, moved], i64)

    def read(self, tensor: Tensor, index: Leaf, count: int = 1) -> list[SSAValue]:
        """`count` elements that lie side by side from an index of the plain layout on."""
        if isinstance(tensor.engine, Registers):
            found = [tensor.engine.values[tensor.engine.at(index + k)] for k in range(count)]
            values = [value for value in found if value is not None]
            if len(values) != count:
                raise AlgebraError("a register is read that nothing has written")
            return values
        element = register_type(tensor.engine.element)
        kind = VectorType(element, [count]) if count > 1 else element
        load = memory.LoadOp.create(
            operands=[self.pointer(tensor, index)],
            properties={"align": IntAttr(access_bytes(tensor, count))},
            result_types=[kind],
        )
        loaded = self.add(load).results[0]
        if count == 1:
            return [loaded]
        places = [self.constant(k, i32) for k in range(count)]
        return [self.value(vectors.ExtractElementOp, [loaded, k], element) for k in places]

    def write(self, tensor: Tensor, index: Leaf, values: Sequence[SSAValue]) -> None:
        """Writes elements that lie side by side."""
        if isinstance(tensor.engine, Registers):
            for k, value in enumerate(values):
                tensor.engine.values[tensor.engine.at(index + k)] = value
            return
        element = register_type(tensor.engine.element)
        stored = self.vector(values, element) if len(values) > 1 else values[0]
        store = memory.StoreOp.create(
            operands=[stored, self.pointer(tensor, index)],
            properties={"align": IntAttr(access_bytes(tensor, len(values)))},
        )
        self.add(store)

    def vector(self, values: Sequence[SSAValue], element: Attribute) -> SSAValue:
        """Elements as one vector."""
        kind = VectorType(element, [len(values)])
        made = self.add(constants.PoisonOp.create(result_types=[kind])).results[0]
        for k, value in enumerate(values):
            made = self.value(vectors.InsertElementOp, [made, value, self.constant(k, i32)], kind)
        return made

    def _memory(self, op: CuteOp) -> Tensor:
        """Registers, or an array of shared memory."""
        kind: Tensor = value_of_type(op.outputs[0].type)
        size = static(kind.layout.cosize, "the size of memory")
        info: PointerInfo = kind.engine
        register_type(info.element)
        if info.space == "rmem":
            self.files.append(Registers([None] * size, info.element))
            return Tensor(self.files[-1], kind.layout)
        number = len(self.globals)
        name = f"{self.func.sym_name.data}_smem{number}"
        made = memory.GlobalOp.create(
            properties={
                "sym_name": StringAttr(name),
                "size": IntAttr(size * element_bits(info.element) // 8),
                "space": IntAttr(SHARED),
                "align": IntAttr(info.alignment),
            }
        )
        self.globals.append(made)
        address = constants.AddressOfOp.create(
            properties={"global_name": StringAttr(name)},
            result_types=[PointerType(SHARED)],
        )
        base = self.add(address).results[0]
        return Tensor(Address(base, info.element, "smem"), kind.layout)

    # Operations ------------------------------------------------------------------------------

    def block(self, block: Block) -> list[Any]:
        """Compiles the operations of a block; gives what its terminator hands on."""
        for op in block.ops:
            try:
                self._operation(op)
            except TargetError as error:
                raise TargetError(error.message, place_of(op)) from error
            except AlgebraError as error:
                raise CompileError(f"'{op.name}' op {error}", place_of(op)) from error
        last = block.last_op
        return [self.values[v] for v in last.arguments] if isinstance(last, YieldOp) else []

    def _operation(self, op: Operation) -> None:
        match op:
            case ConstantOp():
                self.values[op.result] = self._number(op)
            case LoadOp():
                tensor, coordinate = (self.integer_of(value) for value in op.operands)
                found = self.read(tensor, index_in(tensor, coordinate))
                self.values[op.result] = found[0]
            case ForOp():
                lower_loop(self, op)
            case IfOp():
                lower_if(self, op)
            case CuteOp():
                self._row(op)
            case _:
                return

    def _number(self, op: ConstantOp) -> SSAValue:
        if isinstance(op.value, FloatAttr):
            bits = int.from_bytes(op.value.type.pack([op.value.value.data]), "little")
            made = constants.ConstantOp.create(
                properties={"bits": BitsAttr((bits,))}, result_types=[op.result.type]
            )
            return self.add(made).results[0]
        number = op.value.value.data  # pyright: ignore[reportAttributeAccessIssue]
        return self.constant(number, op.result.type)

    def integer_of(self, value: SSAValue) -> Any:
        """What a value holds; a 32-bit integer as a leaf."""
        held = self.values[value]
        if isinstance(held, SSAValue) and held.type == i32:
            held = self.values[value] = self.symbol(self.value(arith.SExtOp, [held], i64))
        return held

    def _row(self, op: CuteOp) -> None:
        name = op.name.removeprefix("cute.")
        if name in INSTRUCTIONS:
            INSTRUCTIONS[name](self, op, [self.integer_of(value) for value in op.inputs])
            return
        if name in _REGISTERS:
            register = f"{_REGISTERS[name]}.{AXES[op.statics[0]]}"
            sreg = threads.ReadSregOp.create(
                properties={"register": StringAttr(register)}, result_types=[i32]
            )
            wide = self.value(arith.ZExtOp, [self.add(sreg).results[0]], i64)
            self.values[op.outputs[0]] = self.symbol(wide)
        elif name == "sync_threads":
            self.add(threads.BarrierOp.create(properties={"id": IntAttr(0)}))
        elif name == "alloc" or name.startswith("make_fragment"):
            self.values[op.outputs[0]] = self._memory(op)
        elif name in _EFFECTS:
            _EFFECTS[name](self, *(self.values[value] for value in op.inputs))
        elif not op.outputs:
            raise AlgebraError("is not compiled")
        else:
            operands = [self.integer_of(value) for value in op.inputs]
            found = operands[0] if name == "assume" else self._computed(name, op, operands)
            if isinstance(found, TiledMma):
                row_of(found.atom, self.target)
            elif isinstance(found, MmaAtom) and name != "static":
                row_of(found, self.target)
            elif isinstance(found, CopyAtom) and name != "static":
                check_feature(found, self.target)
            self.values[op.outputs[0]] = found

    def _computed(self, name: str, op: CuteOp, operands: list[Any]) -> Any:
        """The value of an operation without effect: an instruction where no table knows it."""
        found = op.apply(operands)
        is_unknown = isinstance(found, Dynamic) and not found.is_known
        if not is_unknown or name not in _SCALARS or not all(map(is_number, operands)):
            return found
        written = _SCALARS[name](self.thread, *(self.integer(operand) for operand in operands))
        return written if written.type == IntegerType(1) else self.symbol(written)

    # Effects ---------------------------------------------------------------------------------

    def copy(self, atom: Any, source: Tensor, target: Tensor) -> None:
        """Vectors of the atom's width; AlgebraError where elements do not lie side by side."""
        one: CopyAtom = getattr(atom, "atom", atom)
        if one.kind != "universal":
            copy_by_atom(self, one, source, target)
            return
        bits = one.bits
        count = bits // element_bits(source.engine.element)
        places = [vectors_of(tensor, count) for tensor in (source, target)]
        for first, second in zip(*places, strict=True):
            self.write(target, second, self.read(source, first, count))

    def fill(self, tensor: Tensor, value: SSAValue) -> None:
        """One value everywhere."""
        if value.type != register_type(tensor.engine.element):
            raise AlgebraError(f"a value {value.type} fills no {tensor.engine.element}")
        for index in vectors_of(tensor, 1):
            self.write(tensor, index, [value])

    def clear(self, tensor: Tensor) -> None:
        """0 everywhere."""
        zero = constants.ConstantOp.create(
            properties={"bits": BitsAttr((0,))}, result_types=[register_type(tensor.engine.element)]
        )
        self.fill(tensor, self.add(zero).results[0])

    def _binary(self, kinds: tuple[type[Any], type[Any]], a: SSAValue, b: SSAValue) -> SSAValue:
        """An operation on floats or on integers."""
        if a.type != b.type:
            raise AlgebraError(f"elements {a.type} face a number {b.type}")
        return self.value(kinds[isinstance(a.type, IntegerType)], [a, b], a.type)

    def axpby(self, alpha: SSAValue, x: Tensor, beta: SSAValue, y: Tensor) -> None:
        """Element by element."""
        for first, second in zip(vectors_of(x, 1), vectors_of(y, 1), strict=True):
            left = self._binary(_MUL, alpha, self.read(x, first)[0])
            right = self._binary(_MUL, beta, self.read(y, second)[0])
            self.write(y, second, [self._binary(_ADD, left, right)])

    def each(self, kinds: Any, a: Tensor, b: Tensor, d: Tensor) -> None:
        """Element by element."""
        places = (vectors_of(tensor, 1) for tensor in (a, b, d))
        for first, second, third in zip(*places, strict=True):
            found = self._binary(kinds, self.read(a, first)[0], self.read(b, second)[0])
            self.write(d, third, [found])

    def store(self, value: SSAValue, tensor: Tensor, coordinate: Any) -> None:
        """One element."""
        if isinstance(coordinate, SSAValue):
            coordinate = self.symbol(self.value(arith.SExtOp, [coordinate], i64))
        self.write(tensor, index_in(tensor, coordinate), [value])

    def gemm(self, mma: Any, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
        """An mma.sync for each atom of the fragments."""
        atom: MmaAtom = mma.atom if isinstance(mma, TiledMma) else mma
        if atom.kind != "warp":
            raise AlgebraError(f"fragments are multiplied by atoms of kind warp, not {atom.kind}")
        row = row_of(atom, self.target)
        parts = {name: plain_layout(tensor) for name, tensor in zip("ABC", (a, b, c), strict=True)}
        m, n, k = (parts["A"][1].static_size, parts["B"][1].static_size, parts["A"][2].static_size)
        for j in range(n):
            for i in range(m):
                total = self._fragment(c, parts["C"], i, j)
                for step in range(k):
                    left = self._fragment(a, parts["A"], i, step)
                    right = self._fragment(b, parts["B"], j, step)
                    op = matrix.MmaSyncOp.create(
                        operands=[left, right, total],
                        properties={"atom": StringAttr(row.name)},
                        result_types=[total.type],
                    )
                    total = self.add(op).results[0]
                self._scatter(d, plain_layout(d), i, j, total)

    def _fragment(self, tensor: Tensor, layout: Layout, i: int, j: int) -> SSAValue:
        """The values of an atom as the instruction's vector."""
        indices = [index_in(tensor, (v, i, j)) for v in range(layout[0].static_size)]
        values = [self.read(tensor, index)[0] for index in indices]
        return self.vector(values, register_type(tensor.engine.element))

    def _scatter(self, tensor: Tensor, layout: Layout, i: int, j: int, vector: SSAValue) -> None:
        element = register_type(tensor.engine.element)
        for v in range(layout[0].static_size):
            place = self.constant(v, i32)
            value = self.value(vectors.ExtractElementOp, [vector, place], element)
            self.write(tensor, index_in(tensor, (v, i, j)), [value])


_REGISTERS = {"thread_idx": "tid", "block_idx": "ctaid", "grid_dim": "nctaid"}
_SCALARS: dict[str, Callable[..., SSAValue]] = {
    "tuple_div": ThreadBuilder.udiv,
    "tuple_mod": ThreadBuilder.urem,
    "equal": lambda thread, a, b: thread.icmp("eq", a, b),
    "elem_less": lambda thread, a, b: thread.icmp("slt", a, b),
}
"""What is computed from numbers at run time, none of which is negative where it is divided."""
_MUL = (arith.FMulOp, arith.MulOp)
_ADD = (arith.FAddOp, arith.AddOp)
_EFFECTS: dict[str, Callable[..., None]] = {
    "copy": Kernel.copy,
    "fill": Kernel.fill,
    "clear": Kernel.clear,
    "axpby": Kernel.axpby,
    "add": lambda kernel, a, b, d: kernel.each(_ADD, a, b, d),
    "mul": lambda kernel, a, b, d: kernel.each(_MUL, a, b, d),
    "store": Kernel.store,
    "gemm": Kernel.gemm,
}
"""Operations that read or write elements."""


def _parameters(kind: Attribute) -> list[Attribute]:
    """The types of the parameters of a function's argument."""
    held = value_of_type(kind)
    if isinstance(held, PointerInfo):
        return [i64]
    if isinstance(held, TmaAtom):
        return [i64]
    if not isinstance(held, Tensor):
        return [kind]
    return [i64, *[i32] * _dynamic_leaves(held.layout)]


def _dynamic_leaves(value: Any) -> int:
    match value:
        case Layout():
            return _dynamic_leaves(value.shape) + _dynamic_leaves(value.stride)
        case ComposedLayout():
            return _dynamic_leaves(value.outer)
        case tuple():
            return sum(map(_dynamic_leaves, value))
        case _:
            return int(isinstance(value, Dynamic))


def is_number(value: Any) -> bool:
    """Whether it is a number that is known, at least at run time."""
    return isinstance(value, int) or (isinstance(value, Dynamic) and value.is_known)


def lower_module(module: ModuleOp, target: GpuTarget) -> ModuleOp:
    """The module of stage llvm-dialect; CompileError with the place of what cannot be compiled."""
    made: list[Operation] = []
    for func in module.body.block.ops:
        if isinstance(func, FuncOp):
            kernel = Kernel(func, target)
            lowered = kernel.lower()
            made += [*kernel.globals, lowered]
    return ModuleOp(made)
