"""Compiles kernels of the cute dialects to one thread's program in llvm and nvvm.

The program is run as the interpreter runs it, with the algebra's own functions, but what is known
at run time only is a symbol for a 64-bit value: an offset is then a polynomial, which is written
out where memory is accessed. Registers are values by their static index. Loops with static bounds
are unrolled, others stay (`regions`); instructions of `cute_nvgpu` are in `instructions`.

A kernel's parameters: a tensor or pointer is its address, followed by the dynamic leaves of its
layout as i32, from left to right, shape first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import (
    FloatAttr,
    IntAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.cute.clusters import CLUSTERS
from tileiras.codegen.cute.cutlass import CUTLASS
from tileiras.codegen.cute.instructions import INSTRUCTIONS, copy_by_atom
from tileiras.codegen.cute.kernel import Kernel
from tileiras.codegen.cute.launch_control import LAUNCH_CONTROL
from tileiras.codegen.cute.memory import (
    Registers,
    index_in,
    register_type,
    vectors_of,
)
from tileiras.codegen.cute.regions import lower_if, lower_loop, lower_while
from tileiras.codegen.cute.scaled import SCALED
from tileiras.codegen.cute.targets import check_feature, row_of
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.target import GpuTarget
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.leaves import Dynamic
from tileiras.dialects.cute.operation import CuteOp
from tileiras.dialects.cute.structure import ConstantOp, ForOp, FuncOp, IfOp, LoadOp, WhileOp
from tileiras.dialects.cute.values import (
    CODES,
    CopyAtom,
    MmaAtom,
    RunTime,
    Tensor,
    TiledMma,
    element_bits,
    plain_layout,
)
from tileiras.dialects.llvm import arithmetic as arith
from tileiras.dialects.llvm import constants
from tileiras.dialects.llvm.constants import BitsAttr
from tileiras.dialects.llvm.types import bit_width
from tileiras.dialects.nvvm import matrix, threads

AXES = "xyz"


class FunctionLowering(Kernel):
    """The compilation of one function, with what each operation becomes."""

    def operation(self, op: Operation) -> None:
        """Compiles one operation; AlgebraError or TargetError for what cannot be."""
        match op:
            case ConstantOp():
                self.values[op.result] = self._number(op)
            case LoadOp():
                tensor, coordinate = (self.integer_of(value) for value in op.operands)
                found = self.read(tensor, index_in(tensor, coordinate))
                self.values[op.result] = found[0]
            case ForOp():
                lower_loop(self, op)
            case WhileOp():
                lower_while(self, op)
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

    def _row(self, op: CuteOp) -> None:
        name = op.name.removeprefix("cute.")
        rule = RULES.get(name)
        if rule is not None:
            rule(self, op, [self.integer_of(value) for value in op.inputs])
            return
        if name in REGISTERS:
            register = f"{REGISTERS[name]}.{AXES[op.statics[0]]}"
            self.values[op.outputs[0]] = self.special_register(register)
        elif name == "sync_threads":
            self.add(threads.BarrierOp.create(properties={"id": IntAttr(0)}))
        elif name == "alloc" or name.startswith("make_fragment"):
            self.values[op.outputs[0]] = self._memory(op)
        elif name in EFFECTS:
            EFFECTS[name](self, *(self.values[value] for value in op.inputs))
        elif not op.outputs:
            raise AlgebraError("is not compiled")
        else:
            operands = [self.integer_of(value) for value in op.inputs]
            if "partition" in name:
                operands = [self._as_thread(operand) for operand in operands]
            found = operands[0] if name == "assume" else self._computed(name, op, operands)
            if isinstance(found, TiledMma):
                row_of(found.atom, self.target)
            elif isinstance(found, MmaAtom) and name != "static":
                row_of(found, self.target)
            elif isinstance(found, CopyAtom) and name != "static":
                check_feature(found, self.target)
            self.values[op.outputs[0]] = found

    def _as_thread(self, operand: Any) -> Any:
        """A number of run time as one value, of whose bits offsets are sums."""
        is_sum = isinstance(operand, Dynamic) and not isinstance(operand, RunTime)
        return self.symbol(self.integer(operand)) if is_sum and operand.is_known else operand

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

    def copy_if(self, atom: Any, predicate: Tensor, source: Tensor, target: Tensor) -> None:
        """Element by element, a branch around each; AlgebraError for what keeps no value."""
        one: CopyAtom = getattr(atom, "atom", atom)
        if one.kind != "universal":
            raise AlgebraError(f"copies under a predicate are universal ones, found {one.kind}")
        places = (vectors_of(tensor, 1) for tensor in (predicate, source, target))
        for truth, first, second in zip(*places, strict=True):
            condition = self.read(predicate, truth)[0]
            kept: list[SSAValue] = []
            if isinstance(target.engine, Registers):
                kept = [v] if (v := target.engine.values[target.engine.at(second)]) else []
                if not kept:
                    raise AlgebraError("a register that keeps its value has none, clear it before")
            inside = self.thread.new_block()
            after = self.thread.new_block([value.type for value in kept])
            self.thread.cond_br(condition, inside, after, (), kept)
            self.enter(inside)
            moved = self.read(source, first)
            if not kept:
                self.write(target, second, moved)
            self.thread.br(after, moved if kept else ())
            self.enter(after)
            if kept:
                self.write(target, second, list(after.args))

    def fill(self, tensor: Tensor, value: Any) -> None:
        """One value everywhere."""
        value = self._element(value, tensor)
        for index in vectors_of(tensor, 1):
            self.write(tensor, index, [value])

    def _element(self, value: Any, tensor: Tensor) -> SSAValue:
        """A number or a truth value as one of a tensor's elements; AlgebraError for another."""
        if isinstance(value, bool):
            value = self.thread.i1(value)
        if value.type != register_type(tensor.engine.element):
            raise AlgebraError(f"a value {value.type} fills no {tensor.engine.element}")
        return value

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

    def cast(self, source: Tensor, target: Tensor) -> None:
        """Numbers to others, floats to integers towards 0; AlgebraError for what has no numbers."""
        kind = register_type(target.engine.element)
        for tensor in (source, target):
            if tensor.engine.element in CODES:
                raise AlgebraError(f"elements {tensor.engine.element} are not cast")
        for first, second in zip(vectors_of(source, 1), vectors_of(target, 1), strict=True):
            value = self.read(source, first)[0]
            self.write(target, second, [self._cast(value, kind)])

    def _cast(self, value: SSAValue, kind: Attribute) -> SSAValue:
        """A number of another type; AlgebraError between floats of one width."""
        thread, bits = self.thread, [bit_width(value.type), bit_width(kind)]
        if value.type == kind:
            return value
        match isinstance(value.type, IntegerType), isinstance(kind, IntegerType):
            case True, True if bits[0] > bits[1]:
                return thread.trunc(value, kind)
            case True, True:
                return (thread.zext if bits[0] == 1 else thread.sext)(value, kind)
            case True, False:
                return (thread.uitofp if bits[0] == 1 else thread.sitofp)(value, kind)
            case False, True:
                return thread.fptosi(value, kind)
            case _ if bits[0] == bits[1]:
                raise AlgebraError(f"elements {value.type} are not cast to {kind}")
            case _:
                return (thread.fptrunc if bits[0] > bits[1] else thread.fpext)(value, kind)

    def store(self, value: Any, tensor: Tensor, coordinate: Any) -> None:
        """One element."""
        value = self._element(value, tensor)
        if isinstance(coordinate, SSAValue):
            coordinate = self.symbol(self.value(arith.SExtOp, [coordinate], i64))
        self.write(tensor, index_in(tensor, coordinate), [value])

    def gemm(self, mma: Any, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
        """An mma.sync for each atom of the fragments."""
        atom: MmaAtom = mma.atom if isinstance(mma, TiledMma) else mma
        if atom.kind == "universal":
            self._multiply(d, a, b, c)
            return
        if atom.kind != "warp":
            raise AlgebraError(f"fragments are multiplied by atoms of kind warp, not {atom.kind}")
        row = row_of(atom, self.target)
        parts = {name: plain_layout(tensor) for name, tensor in zip("ABC", (a, b, c), strict=True)}
        m, n, k = (parts["A"][1].static_size, parts["B"][1].static_size, parts["A"][2].static_size)
        for j in range(n):
            for i in range(m):
                total = self.fragment(c, i, j)
                for step in range(k):
                    left = self.fragment(a, i, step)
                    right = self.fragment(b, j, step)
                    op = matrix.MmaSyncOp.create(
                        operands=[left, right, total],
                        properties={"atom": StringAttr(row.name)},
                        result_types=[total.type],
                    )
                    total = self.add(op).results[0]
                self.scatter(d, i, j, total)

    def _multiply(self, d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
        """Products of a thread alone, element by element."""
        (m, k), n = (plain_layout(a)[i].static_size for i in (1, 2)), plain_layout(b)[1].static_size
        for j in range(n):
            for i in range(m):
                total = self.read(c, index_in(c, (0, i, j)))[0]
                for step in range(k):
                    left = self.read(a, index_in(a, (0, i, step)))[0]
                    right = self.read(b, index_in(b, (0, j, step)))[0]
                    total = self._binary(_ADD, self._binary(_MUL, left, right), total)
                self.write(d, index_in(d, (0, i, j)), [total])


RULES = INSTRUCTIONS | CLUSTERS | LAUNCH_CONTROL | SCALED | CUTLASS
"""The rules of operations that are instructions."""
REGISTERS = {"thread_idx": "tid", "block_idx": "ctaid", "grid_dim": "nctaid"}
"""Numbers of the launch."""
_SCALARS: dict[str, Callable[..., SSAValue]] = {
    "tuple_div": ThreadBuilder.udiv,
    "tuple_mod": ThreadBuilder.urem,
    "equal": lambda thread, a, b: thread.icmp("eq", a, b),
    "elem_less": lambda thread, a, b: thread.icmp("slt", a, b),
}
"""What is computed from numbers at run time, none of which is negative where it is divided."""
_MUL = (arith.FMulOp, arith.MulOp)
_ADD = (arith.FAddOp, arith.AddOp)
EFFECTS: dict[str, Callable[..., None]] = {
    "copy": FunctionLowering.copy,
    "copy_if": FunctionLowering.copy_if,
    "fill": FunctionLowering.fill,
    "clear": FunctionLowering.clear,
    "axpby": FunctionLowering.axpby,
    "cast": FunctionLowering.cast,
    "add": lambda kernel, a, b, d: kernel.each(_ADD, a, b, d),
    "mul": lambda kernel, a, b, d: kernel.each(_MUL, a, b, d),
    "store": FunctionLowering.store,
    "gemm": FunctionLowering.gemm,
}
"""Operations that read or write elements."""


def is_number(value: Any) -> bool:
    """Whether it is a number that is known, at least at run time."""
    return isinstance(value, int) or (isinstance(value, Dynamic) and value.is_known)


def lower_module(module: ModuleOp, target: GpuTarget) -> ModuleOp:
    """The module of stage llvm-dialect; CompileError with the place of what cannot be compiled."""
    made: list[Operation] = []
    for func in module.body.block.ops:
        if isinstance(func, FuncOp):
            kernel = FunctionLowering(func, target)
            lowered = kernel.lower()
            made += [*kernel.globals, lowered]
    return ModuleOp(made)
