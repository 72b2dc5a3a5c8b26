"""Variables of the source: each gets a place in local memory, which the debugger reads.

Local memory rather than registers: a value stays readable behind its last use, and where control
flow joins the place holds what the variable has, whichever way was taken.
"""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute

from tileiras.codegen.lowering.context import KernelLowering, LoweringRules
from tileiras.codegen.lowering.types import element_type, storage_bits
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.llvm.memory import DebugValueOp
from tileiras.dialects.nv_tileaa.types import PointerType

_BYTE = 8


def type_name(type: Attribute) -> str:
    """The type as the source has it: `i32`, `bf16`, `ptr<f32>`."""
    if isinstance(type, PointerType):
        return f"ptr<{type_name(type.pointee)}>"
    return str(type).removeprefix("!cuda_tile.")


def lower_debug_value(ctx: KernelLowering, op: aa.DebugValueOp) -> None:
    """Hands the value on; elements of less than a byte are no variables of a debugger."""
    element = element_type(op.value.type)
    if storage_bits(element) < _BYTE:
        return
    properties = {
        "variable": op.variable,
        "parameter": op.parameter,
        "element": StringAttr(type_name(element)),
    }
    ctx.b.append(DebugValueOp, [ctx.value(op.value)], (), properties)


RULES: LoweringRules = {aa.DebugValueOp: lower_debug_value}
