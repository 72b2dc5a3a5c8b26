"""What a lowering function of an elementwise op gets: the op, its register values, the builder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    f32,
)
from xdsl.ir import Attribute, Data, Operation, SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.lowering.types import element_type
from tileiras.dialects.cuda_tile.attributes import RoundingMode, Signedness
from tileiras.dialects.cuda_tile.debug_info import source_location
from tileiras.dialects.llvm.types import integer_type, lanes_of, vector_type
from tileiras.dialects.nv_tileaa.math import FmaShareAttr
from tileiras.errors import CompileError, InternalError

if TYPE_CHECKING:
    from tileiras.codegen.target import Feature, GpuTarget

ROUNDING_SUFFIX = {
    RoundingMode.NEAREST_EVEN: "rn",
    RoundingMode.ZERO: "rz",
    RoundingMode.NEGATIVE_INF: "rm",
    RoundingMode.POSITIVE_INF: "rp",
}
"""PTX spelling of the four IEEE 754 roundings (PTX ISA, "Rounding Modifiers")."""

_USER_NAMES = {
    "fp_to_fp": "ftof",
    "fp_to_int": "ftoi",
    "int_to_fp": "itof",
    "addptr": "offset",
}


@dataclass(frozen=True)
class Request:
    """One elementwise op to lower.

    `args` are scalars, or vectors of equally many lanes: one thread's elements of each operand, in
    the types of `lowering.types.register_type`.
    """

    builder: ThreadBuilder
    op: Operation
    args: tuple[SSAValue, ...]
    target: GpuTarget

    @property
    def source(self) -> Attribute:
        """Element type of the first operand."""
        return element_type(self.op.operands[0].type)

    @property
    def result(self) -> Attribute:
        """Element type of the result."""
        return element_type(self.op.results[0].type)

    @property
    def rounding(self) -> RoundingMode:
        """The op's `rounding_mode`."""
        return self.enum("rounding_mode")

    @property
    def flush_to_zero(self) -> bool:
        """Whether subnormal operands and results become zero."""
        return "flush_to_zero" in self.op.properties

    @property
    def fma_share(self) -> tuple[int, int] | None:
        """How many pairs of how many neighbouring ones go to FMA units, if any do."""
        found = self.op.properties.get("fma_share")
        if not isinstance(found, FmaShareAttr):
            return None
        return found.integer("pairs"), found.integer("of")

    @property
    def signed(self) -> bool:
        """Whether integers are read as signed."""
        return self.enum("signedness") is Signedness.SIGNED

    def enum(self, name: str) -> Any:
        """The member that the op's enum property `name` holds."""
        attribute = self.op.properties.get(name)
        if not isinstance(attribute, Data):
            raise InternalError(f"{self.op.name} has no {name}", where="elementwise lowering")
        return attribute.data

    @property
    def user_name(self) -> str:
        """The op's name in cuda_tile, for messages."""
        name = self.op.name.rpartition(".")[2]
        return _USER_NAMES.get(name, name)

    def unsupported(self, what: str) -> CompileError:
        """The error to raise where this op cannot be compiled; `what` follows the op's name."""
        return CompileError(f"'{self.user_name}' op {what}", source_location(self.op.location))

    def require(self, feature: Feature, element: Attribute) -> None:
        """Raises unless the target has the instructions for `element`."""
        if not self.target.has(feature):
            raise self.unsupported(f"on {element} is not supported on {self.target.name}")

    def like(self, register: Attribute) -> Attribute:
        """`register` as a scalar or a vector, as the arguments are."""
        lanes = lanes_of(self.args[0].type)
        return register if lanes is None else vector_type(register, lanes)

    def constant(self, register: Attribute, value: int) -> SSAValue:
        """An integer in every lane."""
        return self.builder.const_int(self.like(register), value)

    def asm(
        self, template: str, constraints: str, register: Attribute, *args: SSAValue
    ) -> SSAValue:
        """Pure PTX applied to every lane; the result has `register` lanes."""
        lanes = lanes_of(args[0].type)
        type = register if lanes is None else vector_type(register, lanes)
        result = self.builder.inline_asm(template, constraints, type, args, elementwise=True)
        if result is None:
            raise InternalError("inline assembly without result", where="elementwise lowering")
        return result

    def even_odd(self, value: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The even and the odd lanes; of a scalar or an odd number of lanes, the value twice."""
        lanes = lanes_of(value.type)
        if lanes is None or lanes % 2:
            return value, value
        b = self.builder
        even = b.shuffle(value, None, range(0, lanes, 2))
        return even, b.shuffle(value, None, range(1, lanes, 2))

    def halves_of_words(self, words: SSAValue, register: Attribute) -> SSAValue:
        """The 16-bit parts of i32 words, low ones first, where `even_odd` made pairs of lanes.

        For a scalar or an odd number of lanes it is the low part of each word.
        """
        b, type = self.builder, self.like(register)
        lanes = lanes_of(type)
        if lanes is None or lanes % 2:
            words = b.trunc(words, integer_type(16))
        return b.bitcast(words, type)

    def is_half(self) -> bool:
        """Whether the first operand's elements are f16 or bf16."""
        return isinstance(self.source, Float16Type | BFloat16Type)

    def in_f32(self, compute: Callable[..., SSAValue], *args: SSAValue) -> SSAValue:
        """`compute` on f16 or bf16 values widened to f32, rounded back to nearest even.

        `args` are all operands unless given.
        """
        b = self.builder
        wide = compute(*(b.fpext(arg, f32) for arg in args or self.args))
        return b.fptrunc(wide, self.source)

    def intrinsic_suffix(self) -> str:
        """The `.f` (f32) or `.d` (f64) that ends the names of NVVM intrinsics."""
        match self.source:
            case Float32Type():
                return ".f"
            case Float64Type():
                return ".d"
            case _:
                raise self.unsupported(f"is not supported on {self.source}")

    def integer_width(self) -> int:
        """Bits of the first operand's integer elements."""
        match self.source:
            case IntegerType():
                return self.source.width.data
            case _:
                raise self.unsupported(f"expected integers, found {self.source}")


Rule = Callable[[Request], SSAValue]
"""How one op becomes LLVM ops."""
