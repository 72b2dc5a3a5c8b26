"""The stages of the cascade: which dialects are legal after each, checked at its border.

A stage's IR is what `--emit=STAGE` prints. Text stages (llvm, ptx) and the cubin come after the
last row here and are made by the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.locations import place_of
from tileiras.dialects.quick_verification import verify_alone
from tileiras.errors import BytecodeError, InternalError, SourceLocation
from tileiras.excerpts import shortened, shown_input
from tileiras.options import CUTE, TextStyle
from tileiras.registry import resolve


@dataclass(frozen=True)
class Stage:
    """One level of the IR.

    `dialects` are those whose operations may stand in the module, beside `builtin.module`.
    `printer` is a "module:function" from a module to text; empty means `dialects.assembly`.
    `verified_at_border` is off where a later verifier finds the same mistakes more cheaply.
    """

    name: str
    title: str
    dialects: tuple[str, ...]
    printer: str = ""
    verified_at_border: bool = True


STAGES: tuple[Stage, ...] = (
    Stage(
        "cuda_tile",
        "tiles and views, no hardware",
        ("cuda_tile",),
        printer="tileiras.dialects.cuda_tile.text:print_module",
    ),
    Stage("nv_tileaa", "tensors, pointers and explicit memory tokens", ("nv_tileaa",)),
    Stage("nv_tileas", "tensors with layouts, buffers, schedules", ("nv_tileas", "nv_tileaa")),
    Stage(
        "llvm-dialect",
        "one thread's program on vectors",
        ("llvm", "nvvm"),
        verified_at_border=False,  # LLVM verifies the text in a tenth of the time
    ),
    Stage(
        CUTE,
        "layout algebra, tensors and atoms",
        ("cute", "cute_nvgpu", "cutlass"),
        printer="tileiras.dialects.cute.text:print_module",
    ),
)
"""The stages that are xDSL modules, in order; last the one of another input language."""


def find_stage(name: str) -> Stage | None:
    """The stage of this name, None if it is no xDSL module (llvm, ptx, cubin)."""
    return next((stage for stage in STAGES if stage.name == name), None)


def dialect_of(op: Operation) -> str:
    """The dialect of an operation, from its name."""
    return op.name.partition(".")[0]


def stage_of(module: ModuleOp) -> Stage:
    """The earliest stage in which the module's operations are all legal.

    Raises InternalError for a module that belongs to no stage.
    """
    present = {dialect_of(op): op for op in module.walk() if op.name != "builtin.module"}
    for stage in STAGES:
        if all(dialect in stage.dialects for dialect in present):
            return stage
    names = ", ".join(sorted(present))
    raise InternalError(f"no stage has operations of all these dialects: {names}")


def check_border(module: ModuleOp, stage: Stage) -> None:
    """Raises InternalError, with its place, for the first operation illegal in the stage."""
    legal = frozenset(stage.dialects)
    for op in module.walk():
        if op.name != "builtin.module" and dialect_of(op) not in legal:
            raise InternalError(
                f"'{op.name}' op is not legal in stage {stage.name}, "
                f"expected only {', '.join(stage.dialects)}",
                place_of(op),
            )


def _check_op(op: Operation) -> None:
    """Verifies one operation without what is nested in it."""
    verify_alone(op)
    for region in op.regions:
        block = region.first_block
        if block is None or block.next_block is not None or block.first_op is not None:
            continue
        if not op.has_trait(NoTerminator):
            raise VerifyException("expected a terminator in the only block of a region")


def verify_module(module: ModuleOp, where: str = "") -> None:
    """Verifies operation by operation, so that an error has a place.

    Without `where` the module is a user's input and the error is a BytecodeError; `where` names the
    pass that made the module and makes it an InternalError.
    """
    for op in module.walk():
        try:
            _check_op(op)
        except (VerifyException, ValueError) as error:
            wrong = _wrong_operation(op, error)
            message = _verifier_message(wrong, error)
            if where:
                raise InternalError(message, place_of(wrong), where) from error
            raise BytecodeError(message, place_of(wrong)) from error


def verify_text(module: ModuleOp, places: Mapping[Operation, SourceLocation]) -> None:
    """Verifies a module that has been read from text.

    The places are those in the text. Verifiers trust what other operations are, which nobody has
    looked at yet here, so whatever they raise is the text's fault. Raises BytecodeError.
    """
    for op in module.walk():
        try:
            _check_op(op)
        except Exception as error:
            wrong = _wrong_operation(op, error)
            raise BytecodeError(_verifier_message(wrong, error), places.get(wrong)) from error
    try:
        stage_of(module)
    except InternalError as error:
        first, *others = [op for op in module.walk() if op.name != "builtin.module"]
        stranger = next((op for op in others if not _live_together(first, op)), first)
        raise BytecodeError(error.message, places.get(stranger)) from error


def _live_together(one: Operation, other: Operation) -> bool:
    """Whether there is a stage with the dialects of both operations."""
    dialects = (dialect_of(one), dialect_of(other))
    return any(all(name in stage.dialects for name in dialects) for stage in STAGES)


def _wrong_operation(op: Operation, error: Exception) -> Operation:
    """The operation that a verifier means: one within its own, where the error names it."""
    found = getattr(error, "operation", None)
    return found if isinstance(found, Operation) else op


_OF_OPERATION = "out of its IsolatedFromAbove parent: "
"""What xDSL says before it prints a whole operation, with all that is nested in it."""


def _verifier_message(op: Operation, error: Exception) -> str:
    """What the verifier said, on one line, naming the operation."""
    said, quoted, operation = " ".join(str(error).split()).strip().partition(_OF_OPERATION)
    text = shortened(said + quoted) + shown_input(operation)
    text = text.removeprefix("Operation does not verify: ").rstrip(".")
    mnemonic = op.name.removeprefix("cuda_tile.")
    if text.startswith((f"'{mnemonic}' op", f"'{op.name}' op")):
        return text
    return f"'{mnemonic}' op {text}"


def print_stage(
    module: ModuleOp, stage: Stage | None = None, style: TextStyle | None = None
) -> str:
    """The module as text of its stage (found from its operations when not given).

    Also prints a module in the middle of a conversion, which belongs to no stage: operations of
    dialects without a form of their own are in generic form.
    """
    style = style or TextStyle()
    if stage is None:
        try:
            stage = stage_of(module)
        except InternalError:
            stage = None
    if stage is not None and stage.printer:
        debug_info = style.locations == "loc"
        if style.functions:
            module = _with_entries(module, style.functions)
        return resolve(stage.printer)(module, generic=style.generic, debug_info=debug_info)
    from tileiras.dialects.assembly import print_module

    return print_module(module, style)


def _with_entries(module: ModuleOp, names: tuple[str, ...]) -> ModuleOp:
    """A copy of a program of stage cuda_tile with the entries of these names only."""
    copy = module.clone()
    for op in list(copy.walk()):
        name = getattr(op.properties.get("sym_name"), "data", "")
        if op.name == "cuda_tile.entry" and name not in names:
            op.detach()
    return copy
