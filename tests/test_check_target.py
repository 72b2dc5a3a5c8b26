"""Types and atomics that a target lacks are rejected, with the place and the vendor's words."""

from __future__ import annotations

import re

import pytest

from tileiras.codegen.target import TARGET_NAMES, get_target
from tileiras.dialects.cuda_tile.text import parse_module
from tileiras.errors import CompileError
from tileiras.ir_pass import CompileContext
from tileiras.passes.cuda_tile.check_target import CheckTargetPass

OLD = ("sm_80", "sm_86", "sm_87", "sm_88")
BEFORE_BLACKWELL = (*OLD, "sm_89", "sm_90")
REJECTED = {
    "f8E4M3FN": OLD,
    "f8E5M2": OLD,
    "f8E8M0FNU": BEFORE_BLACKWELL,
    "f4E2M1FN": BEFORE_BLACKWELL,
    "fnv8E5M3FNU": tuple(name for name in TARGET_NAMES if name != "sm_107"),
    "tf32": (),
    "f16": (),
    "i8": (),
}


def check(text: str, target: str | None) -> None:
    """Runs the pass."""
    context = CompileContext(target=get_target(target) if target else None)
    CheckTargetPass().apply(context, parse_module(text, "kernel.mlir"))


def entry(body: str, arguments: str = "") -> str:
    """A program with one entry."""
    return f"cuda_tile.module @m {{ entry @k({arguments}) {{\n{body}\n return }} }}"


@pytest.mark.parametrize("target", TARGET_NAMES)
@pytest.mark.parametrize("element", REJECTED)
def test_constant_of_each_type(element: str, target: str) -> None:
    value = "1" if element.startswith("i") else "1.0"
    text = entry(f"%c = constant <{element}: {value}> : tile<4x{element}>")
    if target not in REJECTED[element]:
        check(text, target)
        return
    message = f"Incompatibility with architecture '{target}': unsupported type '{element}'"
    with pytest.raises(CompileError, match=re.escape(message)) as raised:
        check(text, target)
    assert raised.value.location is not None
    assert (raised.value.location.filename, raised.value.location.line) == ("kernel.mlir", 2)
    assert raised.value.exit_code == 5
    having = [name for name in TARGET_NAMES if name not in REJECTED[element]]
    assert raised.value.notes == [f"'{element}' is a type of {', '.join(having)}"]


@pytest.mark.parametrize(
    "text",
    [
        entry("", "%p: tile<ptr<f8E5M2>>"),
        "cuda_tile.module @m { global @g <f8E5M2: 1.0> : tile<4xf8E5M2> }",
        entry(
            "%v = make_tensor_view %p, shape = [4], strides = [1] : "
            "tensor_view<4xf8E5M2, strides=[1]>",
            "%p: tile<ptr<f8E5M2>>",
        ),
    ],
)
def test_types_in_arguments_globals_and_views(text: str) -> None:
    check(text, "sm_89")
    with pytest.raises(CompileError, match="unsupported type 'f8E5M2'"):
        check(text, "sm_80")


@pytest.mark.parametrize("target", TARGET_NAMES)
def test_multicast_pointers(target: str) -> None:
    text = entry("", "%p: tile<ptr<f32, <multicast>>>")
    if target in ("sm_100", "sm_103", "sm_107"):
        check(text, target)
        return
    with pytest.raises(CompileError, match="multicast pointers require sm_100 or sm_103 or sm_107"):
        check(text, target)


ATOMICS = (
    "%0, %1 = atomic_rmw_tko relaxed device %p, addf, %v : "
    "tile<8xptr<ELEMENT>>, tile<8xELEMENT> -> tile<8xELEMENT>, token",
    "%t = make_tensor_view %b, shape = [16], strides = [1] : "
    "tensor_view<16xELEMENT, strides=[1]>\n"
    "%w = make_partition_view %t : "
    "partition_view<tile=(8), tensor_view<16xELEMENT, strides=[1]>>\n"
    "%i = constant <i32: 0> : tile<i32>\n"
    "%0 = atomic_red_view_tko relaxed device %w[%i], addf, %v : tile<8xELEMENT>, "
    "partition_view<tile=(8), tensor_view<16xELEMENT, strides=[1]>>, tile<i32> -> token",
)


@pytest.mark.parametrize("target", TARGET_NAMES)
@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("atomic", ATOMICS)
def test_atomic_additions(atomic: str, element: str, target: str) -> None:
    setup = (
        "%r = reshape %b : tile<ptr<ELEMENT>> -> tile<1xptr<ELEMENT>>\n"
        "%p = broadcast %r : tile<1xptr<ELEMENT>> -> tile<8xptr<ELEMENT>>\n"
        "%v = constant <ELEMENT: 1.0> : tile<8xELEMENT>\n"
    )
    text = entry(setup + atomic, "%b: tile<ptr<ELEMENT>>").replace("ELEMENT", element)
    if element != "bf16" or target not in OLD:
        check(text, target)
        return
    message = f"architecture '{target}': atomicRMW ADDF with bf16 is not supported"
    with pytest.raises(CompileError, match=re.escape(message)) as raised:
        check(text, target)
    assert raised.value.exit_code == 5


def test_nothing_is_rejected_without_a_target() -> None:
    check(entry("%c = constant <fnv8E5M3FNU: 1.0> : tile<4xfnv8E5M3FNU>"), None)
