"""What a function of CuTe becomes: values, leaves that are known at run time, memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.builder import Builder
from xdsl.dialects.builtin import (
    IntAttr,
    IntegerType,
    StringAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from tileiras.codegen.cute.memory import (
    Address,
    Map,
    Registers,
    access_bytes,
    index_in,
    register_type,
)
from tileiras.codegen.cute.targets import need
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects.cute.algebra.errors import AlgebraError
from tileiras.dialects.cute.algebra.int_tuples import text_of
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.leaves import Dynamic, Leaf, static
from tileiras.dialects.cute.algebra.swizzles import ComposedLayout, Swizzle
from tileiras.dialects.cute.operation import CuteOp, value_of_type
from tileiras.dialects.cute.structure import FuncOp, YieldOp
from tileiras.dialects.cute.values import (
    PointerInfo,
    RunTime,
    Tensor,
    element_bits,
    plain_layout,
)
from tileiras.dialects.cute_nvgpu.types import TmaAtom
from tileiras.dialects.llvm import arithmetic as arith
from tileiras.dialects.llvm import constants, control, memory, vectors
from tileiras.dialects.llvm.constants import BitsAttr
from tileiras.dialects.llvm.types import GENERIC, GLOBAL, SHARED, PointerType
from tileiras.dialects.locations import place_of
from tileiras.dialects.nvvm import threads
from tileiras.dialects.nvvm.cluster import SHARED_CLUSTER
from tileiras.errors import CompileError, TargetError

SPACES = {"gmem": GLOBAL, "smem": SHARED, "dsmem": SHARED_CLUSTER, "generic": GENERIC}


class Kernel(ABC):
    """The compilation of one function: its values, registers and memory, without operations."""

    def __init__(self, func: FuncOp, target: GpuTarget):
        self.func = func
        self.target = target
        self.globals: list[memory.GlobalOp] = []
        self.symbols: dict[str, SSAValue] = {}
        self.values: dict[SSAValue, Any] = {}
        self.unrolled = 0
        self.location = func.location
        self.files: list[Registers] = []
        """All registers that there are, for the blocks in which paths meet."""
        self.products: list[tuple[Any, SSAValue]] = []
        """Accumulators that products of warpgroups still write, and where they go."""
        self.ctas = 0
        """CTAs that act together on tensor memory, in all of the kernel; 0 as long as none has."""
        kinds = [kind for argument in func.body.block.args for kind in _parameters(argument.type)]
        name = func.sym_name.data
        if func.cluster is not None:
            need(target, Feature.CLUSTER_LAUNCH, "clusters")
        moves = any(op.name == "cute_nvgpu.warpgroup_reg_alloc" for op in func.walk())
        self.made = control.FuncOp.make_kernel(
            name,
            kinds,
            threads=func.threads.data,
            cluster_dim=None if func.cluster is None else func.cluster_shape,
            # ptxas moves registers only where it knows how many threads an SM holds.
            min_ctas=1 if moves else None,
        )
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
        self.thread = ThreadBuilder(block, self.location)

    def add(self, op: Operation) -> Operation:
        """Writes an operation, at the place of the one that is compiled."""
        op.location = self.location
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

    def special_register(self, name: str) -> RunTime:
        """A number of the launch, such as `ctaid.x`."""
        read = threads.ReadSregOp.create(
            properties={"register": StringAttr(name)}, result_types=[i32]
        )
        return self.symbol(self.value(arith.ZExtOp, [self.add(read).results[0]], i64))

    # Memory ----------------------------------------------------------------------------------

    def address_of(self, address: Address) -> SSAValue:
        """The address of the element that a pointer points to."""
        size = element_bits(address.element) // 8
        return self.thread.gep(address.base, self.integer(address.offset * size))

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
                file = tensor.engine.values
                if any(file is place[0] for place, _ in self.products):
                    raise AlgebraError(
                        "a register is read that a product still writes, 'warpgroup_wait<0>' "
                        "comes first"
                    )
                raise AlgebraError("a register is read that nothing has written")
            return values
        element = _in_memory(tensor)
        kind = VectorType(element, [count]) if count > 1 else element
        load = memory.LoadOp.create(
            operands=[self.pointer(tensor, index)],
            properties={"align": IntAttr(access_bytes(tensor, count))},
            result_types=[kind],
        )
        loaded = self.add(load).results[0]
        loads: list[SSAValue] = [loaded]
        if count > 1:
            places = [self.constant(k, i32) for k in range(count)]
            loads = [self.value(vectors.ExtractElementOp, [loaded, k], element) for k in places]
        if register_type(tensor.engine.element) == _TRUTH:
            zero = self.constant(0, element)
            return [self.thread.icmp("ne", value, zero) for value in loads]
        return loads

    def write(self, tensor: Tensor, index: Leaf, values: Sequence[SSAValue]) -> None:
        """Writes elements that lie side by side."""
        if isinstance(tensor.engine, Registers):
            for k, value in enumerate(values):
                tensor.engine.values[tensor.engine.at(index + k)] = value
            return
        element = _in_memory(tensor)
        if register_type(tensor.engine.element) == _TRUTH:
            values = [self.thread.zext(value, element) for value in values]
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

    def fragment(self, tensor: Tensor, i: int, j: int) -> SSAValue:
        """The values of an atom (i, j) of a fragment as the instruction's vector."""
        count = plain_layout(tensor)[0].static_size
        values = [self.read(tensor, index_in(tensor, (v, i, j)))[0] for v in range(count)]
        return self.vector(values, register_type(tensor.engine.element))

    def scatter(self, tensor: Tensor, i: int, j: int, vector: SSAValue) -> None:
        """The values of a vector into the atom (i, j) of a fragment."""
        element = register_type(tensor.engine.element)
        for v in range(plain_layout(tensor)[0].static_size):
            place = self.constant(v, i32)
            value = self.value(vectors.ExtractElementOp, [vector, place], element)
            self.write(tensor, index_in(tensor, (v, i, j)), [value])

    def _memory(self, op: CuteOp) -> Tensor:
        """Registers, or an array of shared memory."""
        kind: Tensor = value_of_type(op.outputs[0].type)
        size = static(kind.layout.cosize, "the size of memory")
        info: PointerInfo = kind.engine
        if info.space == "rmem":
            register_type(info.element)
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

    def wait(self, barrier: SSAValue, parity: SSAValue) -> None:
        """Until a phase is over: what CTAs of the cluster have written is known then, too."""
        self.thread.mbarrier_wait(barrier, parity, of_cluster=self.func.cluster is not None)

    def try_wait(self, barrier: SSAValue, parity: SSAValue) -> SSAValue:
        """Whether a phase is over (i1)."""
        cluster = self.func.cluster is not None
        return self.thread.mbarrier_try_wait(barrier, parity, of_cluster=cluster)

    def word(self, leaf: Leaf) -> SSAValue:
        """An integer as i32."""
        return self.thread.trunc(self.integer(leaf), i32)

    def rank(self, leaf: Leaf) -> SSAValue:
        """The number of a CTA of the cluster; AlgebraError for one that there is not."""
        count = prod(self.func.cluster_shape)
        if isinstance(leaf, int) and leaf >= count:
            raise AlgebraError(f"there is no CTA {leaf} in a cluster of {count}")
        return self.word(leaf)

    def is_pair(self, ctas: int) -> bool:
        """Whether an instruction is that of two CTAs.

        AlgebraError where there are no pairs of CTAs, or others of the kernel are not: PTX ISA,
        "tcgen05 instructions", all have the same `.cta_group`.
        """
        if ctas == 2 and self.func.cluster_shape[0] % 2:
            found = text_of(self.func.cluster_shape)
            raise AlgebraError(f"two CTAs of a cluster act together, the cluster is {found}")
        if self.ctas not in (0, ctas):
            raise AlgebraError("is of one CTA, others of the kernel are of two, or the other way")
        self.ctas = ctas
        return ctas == 2

    def first_of_pair(self, address: SSAValue) -> SSAValue:
        """The same place in the shared memory of the first CTA of this pair."""
        rank = self.special_register("cluster.ctarank")
        first = self.thread.and_(self.word(rank), self.thread.i32(-2))
        return self.thread.mapa(address, first)

    # Operations ------------------------------------------------------------------------------

    @abstractmethod
    def operation(self, op: Operation) -> None:
        """Compiles one operation; AlgebraError or TargetError for what cannot be."""

    def block(self, block: Block) -> list[Any]:
        """Compiles the operations of a block; gives what its terminator hands on."""
        for op in block.ops:
            self.location = self.thread.location = op.location
            try:
                self.operation(op)
            except TargetError as error:
                raise TargetError(error.message, place_of(op)) from error
            except AlgebraError as error:
                raise CompileError(f"'{op.name}' op {error}", place_of(op)) from error
        last = block.last_op
        return [self.values[v] for v in last.arguments] if isinstance(last, YieldOp) else []

    def integer_of(self, value: SSAValue) -> Any:
        """What a value holds; a 32-bit integer as a leaf."""
        held = self.values[value]
        if isinstance(held, SSAValue) and held.type == i32:
            held = self.values[value] = self.symbol(self.value(arith.SExtOp, [held], i64))
        return held


def _in_memory(tensor: Tensor) -> Attribute:
    """The type of an element that is loaded or stored: a truth value is a byte there."""
    kind = register_type(tensor.engine.element)
    return IntegerType(8) if kind == _TRUTH else kind


_TRUTH = IntegerType(1)


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
