"""LLVM IR text of the `llvm` dialect's ops: one function per family, one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.codegen.llvmir.function_text import FunctionText
from tileiras.codegen.llvmir.intrinsics import (
    INTRINSICS,
    LIBDEVICE,
    RUNTIME_FUNCTIONS,
    VOID_INTRINSICS,
    IntrinsicRow,
)
from tileiras.codegen.llvmir.type_text import (
    constant_text,
    string_text,
    symbol_text,
    type_suffix,
    type_text,
)
from tileiras.dialects.llvm import arithmetic, calls, constants, memory, vectors
from tileiras.dialects.llvm.types import StructType, lanes_of, scalar_of
from tileiras.errors import InternalError

PrintRule = Callable[[FunctionText, Any], None]
_WHERE = "LLVM IR printer"


def _instruction(op: Operation) -> str:
    return op.name.removeprefix("llvm.")


def _print_constant(text: FunctionText, constant: constants.ConstantOp) -> None:
    value = constant.result
    text.bind(value, constant_text(value.type, constant.bits.data))


def _print_poison(text: FunctionText, op: Operation) -> None:
    text.bind(op.results[0], _instruction(op))


def _print_zero(text: FunctionText, op: Operation) -> None:
    text.bind(op.results[0], "zeroinitializer" if _is_aggregate(op) else "null")


def _is_aggregate(op: Operation) -> bool:
    type = op.results[0].type
    return lanes_of(type) is not None or isinstance(type, StructType)


def _print_address_of(text: FunctionText, op: Operation) -> None:
    name = cast(constants.AddressOfOp, op).global_name.data
    text.bind(op.results[0], symbol_text(name))


def _print_binary(text: FunctionText, op: Operation) -> None:
    lhs, rhs = op.operands
    text.result(op.results[0], f"{_instruction(op)} {text.typed(lhs)}, {text.ref(rhs)}")


def _print_fneg(text: FunctionText, op: Operation) -> None:
    text.result(op.results[0], f"fneg {text.typed(op.operands[0])}")


def _print_cast(text: FunctionText, op: Operation) -> None:
    result = op.results[0]
    target = type_text(result.type)
    text.result(result, f"{_instruction(op)} {text.typed(op.operands[0])} to {target}")


def _print_compare(text: FunctionText, op: Operation) -> None:
    compare = cast(arithmetic.CompareOp, op)
    lhs, rhs = text.typed(compare.lhs), text.ref(compare.rhs)
    text.result(compare.result, f"{_instruction(op)} {compare.predicate.data} {lhs}, {rhs}")


def _print_select(text: FunctionText, op: Operation) -> None:
    text.result(op.results[0], "select " + ", ".join(text.typed(value) for value in op.operands))


def _print_extract(text: FunctionText, op: Operation) -> None:
    text.result(
        op.results[0], "extractelement " + ", ".join(text.typed(value) for value in op.operands)
    )


def _print_insert(text: FunctionText, op: Operation) -> None:
    text.result(
        op.results[0], "insertelement " + ", ".join(text.typed(value) for value in op.operands)
    )


def _print_shuffle(text: FunctionText, shuffle: vectors.ShuffleVectorOp) -> None:
    indices = shuffle.indices.data
    if len(set(indices)) == 1 and indices[0] == 0:
        mask = "zeroinitializer"
    else:
        lanes = ("i32 poison" if index < 0 else f"i32 {index}" for index in indices)
        mask = "<" + ", ".join(lanes) + ">"
    lhs, rhs = text.typed(shuffle.lhs), text.typed(shuffle.rhs)
    text.result(shuffle.result, f"shufflevector {lhs}, {rhs}, <{len(indices)} x i32> {mask}")


def _print_load(text: FunctionText, load: memory.LoadOp) -> None:
    volatile = "volatile " if load.volatile is not None else ""
    invariant = ", !invariant.load !0" if load.invariant is not None else ""
    type = type_text(load.result.type)
    pointer = text.typed(load.pointer)
    text.result(
        load.result, f"load {volatile}{type}, {pointer}, align {load.align.data}{invariant}"
    )


def _print_store(text: FunctionText, store: memory.StoreOp) -> None:
    volatile = "volatile " if store.volatile is not None else ""
    value, pointer = text.typed(store.value), text.typed(store.pointer)
    text.emit(f"store {volatile}{value}, {pointer}, align {store.align.data}")


def _print_gep(text: FunctionText, op: Operation) -> None:
    base, offset = op.operands
    text.result(op.results[0], f"getelementptr i8, {text.typed(base)}, {text.typed(offset)}")


def _print_alloca(text: FunctionText, alloca: memory.AllocaOp) -> None:
    text.result(alloca.result, f"alloca [{alloca.size.data} x i8], align {alloca.align.data}")


def _print_fence(text: FunctionText, fence: memory.FenceOp) -> None:
    scope = f' syncscope("{fence.scope.data}")' if fence.scope.data else ""
    text.emit(f"fence{scope} {fence.ordering.data}")


# calls


def call_function(
    text: FunctionText, name: str, result: str, args: Sequence[tuple[str, str]]
) -> str | None:
    """Emits a call with declaration; `args` are (type, value). Returns the result, if any."""
    types = ", ".join(type for type, _ in args)
    text.declare(name, f"declare {result} {symbol_text(name)}({types})")
    values = ", ".join(f"{type} {ref}" for type, ref in args)
    line = f"call {result} {symbol_text(name)}({values})"
    if result != "void":
        return text.define(line)
    text.emit(line)
    return None


def _per_lane(
    text: FunctionText,
    result: SSAValue,
    operands: Sequence[SSAValue],
    call: Callable[[list[tuple[str, str]]], str],
) -> None:
    """Calls `call` with (type, value) operands for every lane and collects the results."""
    count = lanes_of(result.type) or 1
    types = [type_text(scalar_of(value.type)) for value in operands]
    columns = [text.lanes(value) for value in operands]
    columns = [column * count if len(column) == 1 else column for column in columns]
    refs = [call(list(zip(types, row, strict=True))) for row in zip(*columns, strict=True)]
    text.bind_lanes(result, refs)


def _overload_type(key: str | int, result: Attribute, operands: Sequence[SSAValue]) -> Attribute:
    return operands[key].type if isinstance(key, int) else result


def _check_intrinsic(row: IntrinsicRow, result: Attribute, operands: Sequence[SSAValue]) -> None:
    if len(operands) != row.arity:
        raise InternalError(
            f"{row.name} with {len(operands)} operands, not {row.arity}", None, _WHERE
        )
    checked = _overload_type(row.overloads[-1], result, operands) if row.overloads else result
    element = type_text(scalar_of(checked))
    if element not in row.types:
        raise InternalError(f"{row.name} is not available for {element}", None, _WHERE)


def _print_intrinsic(text: FunctionText, op: Operation) -> None:
    call = cast(calls.CallIntrinsicOp, op)
    name = call.callee.data
    if name in VOID_INTRINSICS and not op.operands and not op.results:
        call_function(text, name, "void", ())
        return
    row = INTRINSICS.get(name)
    if row is None or not op.results:
        raise InternalError(f"intrinsic {name} is not in the table", None, _WHERE)
    result, operands = op.results[0], op.operands
    _check_intrinsic(row, result.type, operands)
    suffix = "".join(
        type_suffix(_overload_type(key, result.type, operands)) for key in row.overloads
    )
    extra = [tuple(row.extra.split())] if row.extra else []

    def emit(args: list[tuple[str, str]], type: str) -> str:
        ref = call_function(text, name + suffix, type, [*args, *extra])  # type: ignore[list-item]
        return ref or ""

    if row.vectors:
        args = [(type_text(value.type), text.ref(value)) for value in operands]
        text.bind(result, emit(args, type_text(result.type)))
        return
    element = type_text(scalar_of(result.type))
    _per_lane(text, result, operands, lambda args: emit(args, element))


def _print_call(text: FunctionText, op: Operation) -> None:
    name = cast(calls.CallOp, op).callee.data
    if name in RUNTIME_FUNCTIONS:
        _print_runtime_call(text, op, name)
        return
    row = LIBDEVICE.get(name)
    if row is None or not op.results:
        raise InternalError(f"function {name} is not in the table", None, _WHERE)
    arity, type = row
    types = {type_text(scalar_of(value.type)) for value in (*op.operands, *op.results)}
    if len(op.operands) != arity or types != {type}:
        raise InternalError(f"{name} takes {arity} operands of {type}", None, _WHERE)
    _per_lane(
        text,
        op.results[0],
        op.operands,
        lambda args: call_function(text, name, type, args) or "",
    )


def _print_runtime_call(text: FunctionText, op: Operation, name: str) -> None:
    result, types = RUNTIME_FUNCTIONS[name]
    args = [(type_text(value.type), text.ref(value)) for value in op.operands]
    if tuple(type for type, _ in args) != types:
        raise InternalError(f"{name} takes operands {types}", None, _WHERE)
    ref = call_function(text, name, result, args)
    if op.results and ref is not None:
        text.bind(op.results[0], ref)


def asm_call(
    template: str, constraints: str, result: str, args: Sequence[tuple[str, str]], flags: str
) -> str:
    """The text of an inline assembly call. `flags`: letters s side effects, c convergent."""
    side = "sideeffect " if "s" in flags else ""
    attributes = {"": "#1", "c": "#2", "s": "#3", "sc": "#4"}[flags]
    values = ", ".join(f"{type} {ref}" for type, ref in args)
    text = f"{string_text(template)}, {string_text(constraints)}"
    return f"call {result} asm {side}{text}({values}) {attributes}"


def _print_inline_asm(text: FunctionText, op: Operation) -> None:
    asm = cast(calls.InlineAsmOp, op)
    flags = ("s" if asm.has_side_effects is not None else "") + (
        "c" if asm.convergent is not None else ""
    )
    template, constraints = asm.template.data, asm.constraints.data
    if asm.elementwise is not None and op.results:
        element = type_text(scalar_of(op.results[0].type))
        _per_lane(
            text,
            op.results[0],
            op.operands,
            lambda args: text.define(asm_call(template, constraints, element, args, flags)),
        )
        return
    args = [(type_text(value.type), text.ref(value)) for value in op.operands]
    result = type_text(op.results[0].type) if op.results else "void"
    line = asm_call(template, constraints, result, args, flags)
    if op.results:
        text.result(op.results[0], line)
    else:
        text.emit(line)


LLVM_RULES: dict[type[Operation], PrintRule] = {
    constants.ConstantOp: _print_constant,
    constants.PoisonOp: _print_poison,
    constants.UndefOp: _print_poison,
    constants.ZeroOp: _print_zero,
    constants.AddressOfOp: _print_address_of,
    **dict.fromkeys(arithmetic.INTEGER_BINARY_OPS, _print_binary),
    **dict.fromkeys(arithmetic.FLOAT_BINARY_OPS, _print_binary),
    **dict.fromkeys(arithmetic.CAST_OPS, _print_cast),
    arithmetic.FNegOp: _print_fneg,
    arithmetic.ICmpOp: _print_compare,
    arithmetic.FCmpOp: _print_compare,
    arithmetic.SelectOp: _print_select,
    vectors.ExtractElementOp: _print_extract,
    vectors.InsertElementOp: _print_insert,
    vectors.ShuffleVectorOp: _print_shuffle,
    memory.LoadOp: _print_load,
    memory.StoreOp: _print_store,
    memory.GEPOp: _print_gep,
    memory.AllocaOp: _print_alloca,
    memory.FenceOp: _print_fence,
    calls.CallIntrinsicOp: _print_intrinsic,
    calls.CallOp: _print_call,
    calls.InlineAsmOp: _print_inline_asm,
}
"""How each op that is no terminator is printed."""
