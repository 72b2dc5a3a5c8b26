"""The text of one LLVM function while it is being printed: numbering, lanes, phis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Attribute, Block, SSAValue

from tileiras.codegen.llvmir.folding import bits_of
from tileiras.codegen.llvmir.phis import LanePhis, Phis
from tileiras.codegen.llvmir.type_text import scalar_text, type_text
from tileiras.dialects.llvm.types import bit_width, integer_type, lanes_of, scalar_of
from tileiras.errors import InternalError


class FunctionText:
    """Lines of a function, numbered values, and the lanes of vectors already taken apart.

    `declare(name, line)` records a declaration that the module needs; `lane_phis`: whether sums of
    mma.sync cross blocks lane by lane.
    """

    def __init__(self, declare: Callable[[str, str], None], lane_phis: bool = False):
        self.declare = declare
        self.lines: list[str] = []
        self.suffix = ""
        self.label = ""
        self._refs: dict[SSAValue, str] = {}
        self._lanes: dict[SSAValue, list[str]] = {}
        self._joined: dict[SSAValue, str] = {}
        self._labels: dict[Block, str] = {}
        self._next = 0
        self._phis = Phis(self.lines)
        self._in_lanes = LanePhis(lane_phis)
        self._scattered: dict[SSAValue, list[str]] = {}
        """Lanes that are there wherever the value is, unlike those that a use took apart."""

    # names

    def fresh(self) -> str:
        """The next value number; numbers rise in the order of the text, as LLVM requires."""
        number = self._next
        self._next += 1
        return f"%{number}"

    def bind(self, value: SSAValue, ref: str) -> None:
        """Says how `value` is written when it is used."""
        self._refs[value] = ref

    def ref(self, value: SSAValue) -> str:
        """How a value is written."""
        ref = self._refs.get(value)
        if ref is None and value in self._scattered:
            ref = self._joined.get(value)
            if ref is None:
                ref = self.join(type_text(scalar_of(value.type)), self._scattered[value])
                self._joined[value] = ref
        if ref is None:
            raise InternalError(
                f"value of type {value.type} is used before it is defined", where="LLVM IR printer"
            )
        return ref

    def typed(self, value: SSAValue) -> str:
        """Type and value, as operands of most instructions are written."""
        return f"{type_text(value.type)} {self.ref(value)}"

    # lines

    def emit(self, text: str) -> None:
        """Adds an instruction without a result."""
        self.lines.append(f"  {text}{self.suffix}")

    def define(self, text: str) -> str:
        """Adds an instruction with a result; returns the result's number."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}{self.suffix}")
        return name

    def result(self, value: SSAValue, text: str) -> None:
        """Adds the instruction that computes `value`."""
        self.bind(value, self.define(text))

    # vectors

    def split(self, type: str, ref: str, count: int) -> list[str]:
        """Extracts all lanes of a vector."""
        return [self.define(f"extractelement {type} {ref}, i32 {i}") for i in range(count)]

    def join(self, element: str, refs: Sequence[str]) -> str:
        """Builds a vector from scalars."""
        type = f"<{len(refs)} x {element}>"
        vector = "poison"
        for index, ref in enumerate(refs):
            vector = self.define(f"insertelement {type} {vector}, {element} {ref}, i32 {index}")
        return vector

    def lanes(self, value: SSAValue) -> list[str]:
        """The lanes of a vector value as scalars; a scalar is its only lane."""
        count = lanes_of(value.type)
        if count is None:
            return [self.ref(value)]
        bits = bits_of(value)
        if bits is not None:
            element = scalar_of(value.type)
            texts = [scalar_text(element, pattern) for pattern in bits]
            return texts * count if len(texts) == 1 else texts
        known = self._scattered.get(value) or self._lanes.get(value)
        if known is None:
            known = self.split(type_text(value.type), self.ref(value), count)
            self._lanes[value] = known
        return known

    def bind_lanes(self, value: SSAValue, refs: list[str]) -> None:
        """Defines `value` from its lanes (or from its only one, if it is a scalar)."""
        if lanes_of(value.type) is None:
            self.bind(value, refs[0])
            return
        self.bind(value, self.join(type_text(scalar_of(value.type)), refs))
        self._lanes[value] = list(refs)

    def bind_sums(self, value: SSAValue, refs: list[str]) -> None:
        """Defines the sums of a product from their lanes, which other blocks take as they are."""
        if self._in_lanes.is_wanted and lanes_of(value.type) is not None:
            self._scattered[value] = list(refs)
            return
        self.bind_lanes(value, refs)

    def words(self, value: SSAValue, bits: int) -> list[str]:
        """The bits of a value as integers of `bits` each."""
        type = value.type
        if isinstance(scalar_of(type), type_of_integer) and bit_width(scalar_of(type)) == bits:
            return self.lanes(value)
        count = bit_width(type) // bits
        return self.cut(type_text(type), self.ref(value), bits, count)

    def cut(self, type: str, ref: str, bits: int, count: int) -> list[str]:
        """Bitcasts a non-pointer value to `count` integers of `bits` and returns them."""
        if count == 1:
            return [self.cast("bitcast", type, ref, f"i{bits}")]
        vector = f"<{count} x i{bits}>"
        return self.split(vector, self.cast("bitcast", type, ref, vector), count)

    def cast(self, op: str, source: str, ref: str, target: str) -> str:
        """A cast, or nothing if the types agree."""
        return ref if source == target else self.define(f"{op} {source} {ref} to {target}")

    def uncut(self, refs: Sequence[str], bits: int, type: Attribute) -> str:
        """The inverse of `cut`: a value of `type` from integers."""
        target = type_text(type)
        if len(refs) == 1 and lanes_of(type) is None:
            return self.cast("bitcast", f"i{bits}", refs[0], target)
        joined = self.join(f"i{bits}", refs)
        return self.cast("bitcast", f"<{len(refs)} x i{bits}>", joined, target)

    # blocks

    def label_of(self, block: Block) -> str:
        """The label of a block, in order of first mention."""
        return self._labels.setdefault(block, f"b{len(self._labels)}")

    def start_block(self, block: Block, is_entry: bool) -> None:
        """Prints the label and room for the phis of a block's arguments."""
        self.label = self.label_of(block)
        self._lanes.clear()
        self._joined.clear()
        self.lines.append(f"{self.label}:")
        if is_entry:
            return
        for argument in block.args:
            if argument in self._in_lanes:
                self._scattered[argument] = self._lane_phis(block, argument)
                continue
            name = self.fresh()
            self.bind(argument, name)
            self._phis.reserve(block, name, type_text(argument.type))

    def _lane_phis(self, block: Block, argument: SSAValue) -> list[str]:
        """A phi for each lane of an argument."""
        names = [self.fresh() for _ in range(lanes_of(argument.type) or 1)]
        for name in names:
            self._phis.reserve(block, name, type_text(scalar_of(argument.type)))
        return names

    def add_edge(self, target: Block, values: Sequence[SSAValue]) -> None:
        """Records that the current block passes `values` to `target`."""
        self._in_lanes.decide(target, values)
        refs: list[str] = []
        for argument, value in zip(target.args, values, strict=True):
            refs += self.lanes(value) if argument in self._in_lanes else [self.ref(value)]
        self._phis.add_edge(self.label, target, refs)

    def add_selecting_edge(
        self, target: Block, condition: str, pairs: Sequence[tuple[SSAValue, SSAValue]]
    ) -> None:
        """The same where a condition says which value of each pair is passed on."""
        self._in_lanes.decide(target, [first for first, _ in pairs])
        refs: list[str] = []
        for argument, (a, b) in zip(target.args, pairs, strict=True):
            ref = self.define(f"select i1 {condition}, {self.typed(a)}, {self.typed(b)}")
            is_split = argument in self._in_lanes
            count = lanes_of(argument.type) or 1
            refs += self.split(type_text(argument.type), ref, count) if is_split else [ref]
        self._phis.add_edge(self.label, target, refs)

    def finish_phis(self) -> None:
        """Fills in the phi lines, now that every edge is known."""
        self._phis.finish()


type_of_integer = type(integer_type(1))
