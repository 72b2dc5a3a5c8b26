"""The stages of the cascade: which dialects are legal after each, checked at its border.

A stage's IR is what `--emit=STAGE` prints. Text stages (llvm, ptx) and the cubin come after the
last row here and are made by the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO

from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.debug_info import DICallSiteLoc, DILocAttr, source_location
from tileiras.dialects.locations import place_of
from tileiras.errors import BytecodeError, InternalError
from tileiras.registry import resolve


@dataclass(frozen=True)
class Stage:
    """One level of the IR.

    `dialects` are those whose operations may stand in the module, beside `builtin.module`.
    `printer` is a "module:function" from a module to text; empty means xDSL's own printer.
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
)
"""The stages that are xDSL modules, in order."""


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
    op.verify(verify_nested_ops=False)
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
            message = _verifier_message(op, error)
            if where:
                raise InternalError(message, place_of(op), where) from error
            raise BytecodeError(message, place_of(op)) from error


def _verifier_message(op: Operation, error: Exception) -> str:
    """What the verifier said, on one line, naming the operation."""
    text = " ".join(str(error).split()).strip()
    text = text.removeprefix("Operation does not verify: ").rstrip(".")
    mnemonic = op.name.removeprefix("cuda_tile.")
    if text.startswith((f"'{mnemonic}' op", f"'{op.name}' op")):
        return text
    return f"'{mnemonic}' op {text}"


class _StagePrinter(Printer):
    """xDSL's printer, with the places of Tile IR's scoped locations as plain `loc("file":l:c)`.

    That is what xDSL's parser can read again; the scopes are in the text of stage cuda_tile only.
    """

    def print_attribute(self, attribute: Attribute) -> None:
        """Prints the attribute, or the place that a scoped location stands for."""
        if isinstance(attribute, DILocAttr | DICallSiteLoc):
            place = source_location(attribute)
            attribute = UNKNOWN_LOC
            if place is not None:
                line, column = IntAttr(place.line), IntAttr(place.column)
                attribute = FileLineColLoc(StringAttr(place.filename), line, column)
        super().print_attribute(attribute)


def print_stage(module: ModuleOp, stage: Stage | None = None, debug_info: bool = False) -> str:
    """The module as text of its stage (found from its operations when not given).

    Also prints a module in the middle of a conversion, which belongs to no stage: xDSL's printer
    reads operations of any dialect.
    """
    if stage is None:
        try:
            stage = stage_of(module)
        except InternalError:
            stage = None
    if stage is not None and stage.printer:
        return resolve(stage.printer)(module, generic=False, debug_info=debug_info)
    stream = StringIO()
    _StagePrinter(stream=stream, print_debuginfo=debug_info).print_op(module)
    return stream.getvalue().rstrip("\n") + "\n"
