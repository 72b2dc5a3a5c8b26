"""Kernels written as bodies: values are named by their type and define themselves.

`%v_8x4_f32` is a tile<8x4xf32>, `%v_i32` a scalar, `%p_8_f32` a tile of pointers, `%tok` a token.
`%tv` is a tensor_view<?x?xf32, strides=[?,1]>, `%pv` a partition_view of it with 4x8 tiles.
"""

from __future__ import annotations

import re

from xdsl.dialects.builtin import ModuleOp

from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.dialects.cuda_tile.verification import verify_module
from tileiras.errors import BytecodeError

TENSOR_VIEW = "tensor_view<?x?xf32, strides=[?,1]>"
PARTITION_VIEW = f"partition_view<tile=(4x8), {TENSOR_VIEW}>"
_NAME = re.compile(r"%(v|p)_(?:((?:\d+x)*\d+)_)?([a-zA-Z]\w*)")


def _constant(name: str, shape: str, element: str) -> str:
    dims = f"{shape}x" if shape else ""
    value = "true" if element == "i1" else "1" if element.startswith("i") else "1.0"
    return f"{name} = constant <{element}: {value}> : tile<{dims}{element}>"


def _pointers(name: str, shape: str, element: str, arguments: list[str]) -> list[str]:
    argument = f"%arg_{element}"
    if f"{argument}: tile<ptr<{element}>>" not in arguments:
        arguments.append(f"{argument}: tile<ptr<{element}>>")
    pointer = f"ptr<{element}>"
    if not shape:
        return [
            f"{name}_i = constant <i32: 0> : tile<i32>",
            f"{name} = offset {argument}, {name}_i : tile<{pointer}>, tile<i32> -> tile<{pointer}>",
        ]
    ones = "x".join("1" for _ in shape.split("x"))
    return [
        f"{name}_1 = reshape {argument} : tile<{pointer}> -> tile<{ones}x{pointer}>",
        f"{name} = broadcast {name}_1 : tile<{ones}x{pointer}> -> tile<{shape}x{pointer}>",
    ]


def kernel(body: str, arguments: str = "") -> str:
    """The text of a module with one entry `@k` with this body."""
    parameters = [arguments] if arguments else []
    lines: list[str] = []
    for match in dict.fromkeys(match.group() for match in _NAME.finditer(body)):
        kind, shape, element = _NAME.fullmatch(match).groups()  # type: ignore[union-attr]
        if kind == "v":
            lines.append(_constant(match, shape or "", element))
        else:
            lines.extend(_pointers(match, shape or "", element, parameters))
    if "%tok" in body:
        lines.append("%tok = make_token : token")
    if "%tv" in body or "%pv" in body:
        parameters.append("%base: tile<ptr<f32>>, %n: tile<i64>, %m: tile<i64>")
        lines.append(
            "%tv = make_tensor_view %base, shape = [%n, %m], strides = [%m, 1] "
            f": tile<i64> -> {TENSOR_VIEW}"
        )
    if "%pv" in body:
        lines.append(f"%pv = make_partition_view %tv : {PARTITION_VIEW}")
    text = "\n".join(f"  {line}" for line in (*lines, *body.strip().splitlines()))
    return f"entry @k({', '.join(parameters)}) {{\n{text}\n}}\n"


def verified(text: str) -> ModuleOp:
    """The module of a text; raises BytecodeError if it cannot be parsed or does not verify."""
    module = parse_module(text, "kernel.mlir")
    verify_module(module)
    return module


def error_of(text: str) -> str:
    """The message of what is wrong with a text; fails if nothing is."""
    try:
        verified(text)
    except BytecodeError as error:
        assert error.location is not None, f"no location: {error.message}"
        return error.message
    raise AssertionError("accepted")
