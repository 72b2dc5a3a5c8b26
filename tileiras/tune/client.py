"""The bytecode of a point, made by cuTile Python (the package cuda-tile)."""

from __future__ import annotations

import inspect
import io
from collections.abc import Mapping
from importlib import import_module, metadata
from typing import Any

from tileiras.bytecode.format import VERSIONS
from tileiras.errors import UsageError
from tileiras.suggestions import did_you_mean
from tileiras.tune.description import HINTS, Description, Point

_ALIGNMENT = 16
"""Fixed: bytes by which the client assumes arrays to be aligned, and elements for extents."""


def client_version() -> str:
    """The client as a part of what a result depends on."""
    return f"cuda-tile {metadata.version('cuda-tile')}"


def parameter_names(kernel: Any) -> list[str]:
    """The parameters of a kernel in order; raises UsageError for what is no kernel."""
    function = getattr(kernel, "_pyfunc", None)
    if function is None:
        raise UsageError(
            f"'kernel' of TUNE is a {type(kernel).__name__}, expected a function with @ct.kernel"
        )
    return list(inspect.signature(function).parameters)


def check_parameters(description: Description) -> list[str]:
    """The names of the kernel's arguments in its order, without those of constants.

    Raises UsageError for a parameter without a value and for names that are no parameters.
    """
    names = parameter_names(description.kernel)
    constants = {**description.constants, **dict.fromkeys(description.space)}
    for name in (*description.arguments, *constants):
        if name not in (*names, *HINTS, *description.launch):
            label = did_you_mean(name, [*names, *HINTS])
            raise UsageError(
                f"'{name}' is no parameter of the kernel and no hint, found: {', '.join(names)}",
                label=label,
            )
    for name in names:
        if name not in description.arguments and name not in constants:
            raise UsageError(
                f"the kernel's parameter '{name}' has no value: it is in none of 'arguments', "
                "'constants' and 'space'"
            )
    return [name for name in names if name in description.arguments]


def make_bytecode(
    description: Description, point: Point, arguments: Mapping[str, Any], target: str
) -> bytes:
    """What the client makes of the kernel at a point, for these arguments."""
    compilation = import_module("cuda.tile.compilation")
    known = description.known(point)
    hints = {name: known[name] for name in HINTS if known.get(name) is not None}
    kernel = description.kernel.replace_hints(**hints)
    parameters = [
        _constraint(arguments[name], name) if name in arguments else known[name]
        for name in parameter_names(kernel)
    ]
    convention = compilation.CallingConvention.cutile_python_v1()
    signature = compilation.KernelSignature(parameters, convention, "tuned")
    for major, minor in reversed(VERSIONS):
        buffer = io.BytesIO()
        try:
            compilation.export_kernel(
                kernel,
                [signature],
                buffer,
                gpu_code=target,
                output_format="tileir_bytecode",
                bytecode_version=f"{major}.{minor}",
            )
        except ValueError as error:
            if "Unsupported bytecode version" in str(error):
                continue
            raise
        return buffer.getvalue()
    raise UsageError("cuda-tile writes no version of bytecode that can be read here")


def _constraint(value: Any, name: str) -> Any:
    """What the client would assume of an argument of a launch."""
    tile = import_module("cuda.tile")
    compilation = import_module("cuda.tile.compilation")
    if not hasattr(value, "strides"):
        return compilation.ScalarConstraint(tile.int32 if isinstance(value, int) else tile.float32)
    kind = getattr(tile, value.dtype.name, None)
    if kind is None:
        raise UsageError(f"argument '{name}' is an array of {value.dtype.name}, unknown to cuTile")
    strides = [stride // value.itemsize for stride in value.strides]
    factor = max(1, _ALIGNMENT // value.itemsize)
    return compilation.ArrayConstraint(
        kind,
        value.ndim,
        index_dtype=tile.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[1 if stride == 1 else None for stride in strides],
        stride_divisible_by=[factor if stride % factor == 0 else 1 for stride in strides],
        shape_divisible_by=[
            _ALIGNMENT if extent % _ALIGNMENT == 0 else 1 for extent in value.shape
        ],
        base_addr_divisible_by=_ALIGNMENT,
    )
