"""Ten mistakes and what is said of them: the content of `docs/messages.md`."""

from __future__ import annotations

from dataclasses import dataclass

from tests.kernels.prose import wrapped
from tileiras.driver import compile_module
from tileiras.errors import TileirasError
from tileiras.options import CompileOptions

INTRODUCTION = """\
# Messages

Ten mistakes with what `tileiras k.mlir --gpu-name sm_90` says. This page is made by its test
(`pytest tests/test_message_page.py --bless`). The manners are those of rustc: the place first, then
the line with a caret under what is wrong and a label beside it, then notes of where other things
were defined, then what to do. All mistakes of a file are told, not only the first. The first line
has the form that clients of NVIDIA's compiler look for: `loc("FILE":LINE:COLUMN): error: ...`.
"""


@dataclass(frozen=True)
class Mistake:
    """A program with a mistake, and what rustc says of one like it."""

    title: str
    text: str
    model: str
    gpu_name: str = "sm_90"


def _kernel(*lines: str, arguments: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines)
    head = f"cuda_tile.module @m {{\n  entry @k({arguments}) {{\n"
    return f"{head}{body}    return\n  }}\n}}\n"


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "An operation that is misspelt",
        _kernel("%0 = iotta : tile<8xi32>"),
        "error[E0425]: cannot find function `iotta` in this scope; help: a function with a similar "
        "name exists: `iota`",
    ),
    Mistake(
        "A value that nobody defined",
        _kernel("%sum = iota : tile<8xi32>", "%1 = absi %sun : tile<8xi32>"),
        "error[E0425]: cannot find value `sun` in this scope; help: a local variable with a "
        "similar name exists: `sum`",
    ),
    Mistake(
        "Types that do not fit",
        _kernel("%0 = iota : tile<8xi32>", "%1 = absi %0 : tile<16xi32>"),
        "error[E0308]: mismatched types; expected `[i32; 16]`, found `[i32; 8]`",
    ),
    Mistake(
        "A size that is no power of two",
        _kernel("%0 = iota : tile<3xi32>"),
        "error: invalid `repr(align)` attribute: not a power of two",
    ),
    Mistake(
        "An operand that is missing",
        _kernel("%0 = iota : tile<8xi32>", "%1 = addi %0 : tile<8xi32>"),
        "error[E0061]: this function takes 2 arguments but 1 argument was supplied",
    ),
    Mistake(
        "A bracket that is not closed",
        "cuda_tile.module @m {\n  entry @k() {\n    return\n",
        "error: this file contains an unclosed delimiter",
    ),
    Mistake(
        "A type that does not exist",
        _kernel("%0 = iota : tile<8xint32>"),
        "error[E0412]: cannot find type `int32` in this scope; help: a builtin type with a similar "
        "name exists: `i32`",
    ),
    Mistake(
        "Two mistakes in one file",
        _kernel("%0 = iota : tile<3xi32>", "%1 = iota : tile<5xi32>"),
        "both errors, then: error: aborting due to 2 previous errors",
    ),
    Mistake(
        "Something that the GPU does not have",
        _kernel(
            "%0 = constant <f32: 1.0> : tile<16xf32>",
            "%1 = ftof %0 : tile<16xf32> -> tile<16xf8E4M3FN>",
        ),
        "error: instruction requires the target feature `fp8`",
        gpu_name="sm_80",
    ),
    Mistake(
        "A GPU that is misspelt",
        _kernel(),
        'error: could not find specification for target "sm_09"',
        gpu_name="sm_09",
    ),
)


def said(mistake: Mistake) -> str:
    """The message as it is printed. Raises ValueError for a program without a mistake."""
    try:
        compile_module(mistake.text.encode(), CompileOptions(mistake.gpu_name), "k.mlir")
    except TileirasError as error:
        return error.render()
    raise ValueError(f"'{mistake.title}' is compiled")


def page() -> str:
    """The page, its prose wrapped."""
    parts = [INTRODUCTION]
    for number, mistake in enumerate(MISTAKES, 1):
        gpu = "" if mistake.gpu_name == "sm_90" else f" (`--gpu-name {mistake.gpu_name}`)"
        parts.append(
            f"## {number}. {mistake.title}{gpu}\n\n```\n{mistake.text}```\n\n"
            f"```\n{said(mistake)}\n```\n\nrustc, of one like it: *{mistake.model}*\n"
        )
    return wrapped("\n".join(parts))
