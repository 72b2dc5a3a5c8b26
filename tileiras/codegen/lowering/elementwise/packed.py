"""Packed f32 arithmetic: an instruction computes two neighbouring elements, each as by itself.

Operations to nearest that keep subnormal numbers need none of this: LLVM packs those itself. What
is an intrinsic of one element there, rounded or flushed otherwise, is written as PTX on pairs.
"""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import SSAValue

from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.target import Feature, GpuTarget
from tileiras.dialects.llvm.types import integer_type, lanes_of, scalar_of, vector_type
from tileiras.errors import InternalError

PACKED = ("add", "mul", "fma")
"""What has a `.f32x2` form in all roundings, with `.ftz` too (PTX ISA, "add", "mul", "fma")."""


def is_packed(name: str, value: SSAValue, target: GpuTarget) -> bool:
    """Whether the target has an instruction for two elements of a value at once."""
    lanes = lanes_of(value.type) or 1
    has_pairs = lanes % 2 == 0 and isinstance(scalar_of(value.type), Float32Type)
    return has_pairs and name in PACKED and target.has(Feature.F32X2_NATIVE)


def packed_arithmetic(b: ThreadBuilder, instruction: str, *args: SSAValue) -> SSAValue:
    """An instruction such as `add.rm.ftz` on vectors of an even number of f32."""
    count = (lanes_of(args[0].type) or 0) // 2
    word = integer_type(64)
    words = word if count == 1 else vector_type(word, count)
    pairs = [b.bitcast(arg, words) for arg in args]
    places = ", ".join(f"${number}" for number in range(len(args) + 1))
    constraints = ",".join(["=l", *["l"] * len(args)])
    template = f"{instruction}.f32x2 {places};"
    result = b.inline_asm(template, constraints, words, pairs, elementwise=True)
    if result is None:
        raise InternalError("packed arithmetic gives nothing", where="elementwise lowering")
    return b.bitcast(result, args[0].type)
