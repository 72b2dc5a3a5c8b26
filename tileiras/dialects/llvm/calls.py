"""Calls of the `llvm` dialect: LLVM intrinsics, external functions (libdevice), inline assembly.

With vector operands a callee that exists for scalars only is called once per lane; the printer of
LLVM IR does that, so that a tile stays one op here.
"""

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    opt_result_def,
    prop_def,
    var_operand_def,
)


@irdl_op_definition
class CallIntrinsicOp(IRDLOperation):
    """Calls an LLVM intrinsic by its base name, without type suffix for overloaded ones.

    The name must be in `codegen.llvmir.intrinsics`: LLVM would turn an unknown one into a call of a
    function that does not exist, or abort the process.
    """

    name = "llvm.call_intrinsic"
    callee = prop_def(StringAttr)
    arguments = var_operand_def()
    result = opt_result_def()


@irdl_op_definition
class CallOp(IRDLOperation):
    """Calls a function by name: libdevice (`__nv_sinf`) or the device runtime (`vprintf`)."""

    name = "llvm.call"
    callee = prop_def(StringAttr)
    arguments = var_operand_def()
    result = opt_result_def()


@irdl_op_definition
class InlineAsmOp(IRDLOperation):
    """PTX text: `$0..` are the outputs, then the inputs, of `constraints` (LLVM's syntax).

    Several outputs make a struct result. `elementwise`: the text is for one lane and is repeated
    for every lane of the vector operands and result. `convergent`: all threads of the warp take
    part.
    """

    name = "llvm.inline_asm"
    template = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    has_side_effects = opt_prop_def(UnitAttr)
    convergent = opt_prop_def(UnitAttr)
    elementwise = opt_prop_def(UnitAttr)
    arguments = var_operand_def()
    result = opt_result_def()
