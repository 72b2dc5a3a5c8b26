"""Verification of a whole cuda_tile module, one operation at a time.

Errors carry the location of the operation that is wrong, which xDSL's own `verify` loses.
"""

from functools import cache

from xdsl.dialects.builtin import CallSiteLoc, FusedLoc, NameLoc, StringAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.irdl import VariadicDef
from xdsl.utils.exceptions import VerifyException

from tileiras.dialects.cuda_tile.checks import fail, mnemonic
from tileiras.dialects.cuda_tile.control_flow import TerminatorOp
from tileiras.dialects.cuda_tile.debug_info import (
    DICallSiteLoc,
    DIFusedLoc,
    DILexicalBlockAttr,
    DILocAttr,
    DINameLoc,
    DISubprogramAttr,
    enclosing_subprogram,
    source_location,
)
from tileiras.dialects.cuda_tile.structure import EntryOp, GlobalOp, ModuleOp
from tileiras.dialects.cuda_tile.tile_op import TileOp
from tileiras.errors import BytecodeError, RelatedPlace, joined
from tileiras.excerpts import shortened, shown_input

MAX_MISTAKES = 20
"""Mistakes of one program that are told."""


def verify_module(module: BuiltinModuleOp, *, well_formed: bool = False) -> None:
    """Verifies a program: a builtin module that holds one `cuda_tile.module`.

    `well_formed` says that the number and kind of operands, results and properties are known to be
    right, as the bytecode reader makes them; checking that again takes longer than all the rest.
    Raises BytecodeError with the location of the first operation that is wrong.
    """
    tops = list(module.body.block.ops)
    if not tops or not all(isinstance(op, ModuleOp) for op in tops):
        held = ", ".join(f"'{op.name}'" for op in tops) or "nothing"
        raise BytecodeError(f"program holds {held}, expected one 'cuda_tile.module'")
    found: list[BytecodeError] = []
    for top in tops:
        if isinstance(top, ModuleOp):
            _verify_program(top, found, well_formed)
    if found:
        raise joined(found)


def _verify_program(module: ModuleOp, found: list[BytecodeError], well_formed: bool) -> None:
    """Adds the mistakes of one module to those found."""
    before = len(found)
    _verify_op(module, None, well_formed, found)
    if len(found) > before:
        return
    places: dict[str, Operation] = {}
    for op in module.body.blocks[0].ops:
        _verify_tree(op, _Scopes(op), well_formed, found)
        symbol = op.properties.get("sym_name")
        name = symbol.data if isinstance(symbol, StringAttr) else ""
        first = places.setdefault(name, op)
        if first is not op:
            message = f"'{op.name}' op defines symbol '{shown_input(name)}' again"
            error = BytecodeError(message, source_location(op.location))
            if (place := source_location(first.location)) is not None:
                error.related.append(RelatedPlace("it is defined here first", place))
            found.append(error)
        if len(found) >= MAX_MISTAKES:
            return


def mistakes_of(op: Operation) -> list[BytecodeError]:
    """What is wrong with an operation, and all in it, that stands for itself."""
    found: list[BytecodeError] = []
    _verify_tree(op, None, False, found)
    return found


_ENTRY = "invalid function debug info scope:"
_OPERATION = "invalid operation debug info scope:"


class _Scopes:
    """The debug scope rules of one entry or global (rules D1 to D6 of the specification)."""

    def __init__(self, top: Operation):
        self.subprogram: DISubprogramAttr | None = None
        self._good: set[int] = set()
        self._top = top

    def check_top(self) -> None:
        """An entry's own location names the subprogram that it was compiled from."""
        loc = self._top.location
        if isinstance(self._top, GlobalOp):
            if isinstance(loc, DICallSiteLoc) or scope_of(loc) is not None:
                fail(self._top, f"{_OPERATION} Global variables must not have scope")
            return
        if isinstance(loc, CallSiteLoc | DICallSiteLoc):
            fail(self._top, f"{_ENTRY} Function location must not be a call site")
        scope = scope_of(loc)
        if scope is None:
            return
        if not isinstance(scope, DISubprogramAttr):
            text = "Function location must have cuda_tile.di_subprogram debug info scope"
            fail(self._top, f"{_ENTRY} {text}")
        symbol = self._top.sym_name.data if isinstance(self._top, EntryOp) else ""
        linkage = scope.linkage_name.data
        if linkage != symbol:
            fail(
                self._top,
                f'{_ENTRY} Function name "{shown_input(symbol)}" does not match subprogram '
                f'scope linkage name "{shown_input(linkage)}"',
            )
        self.subprogram = scope

    def check(self, op: Operation) -> None:
        """An operation's scope lies in the subprogram of its entry."""
        loc = op.location
        if id(loc) in self._good:
            return
        scope = scope_of(loc)
        if scope is not None:
            if self.subprogram is None:
                text = "Operation has debug info scope, but function debug info scope is undefined"
                fail(op, f"{_OPERATION} {text}")
            found = enclosing_subprogram(scope)
            if found is None:
                fail(op, f"{_OPERATION} Operation debug info scope is not in a subprogram")
            if found != self.subprogram:
                text = "Operation debug info scope does not match function debug info scope"
                names = (found.linkage_name.data, self.subprogram.linkage_name.data)
                mine, expected = map(shown_input, names)
                fail(op, f"{_OPERATION} {text}: '{mine}' and '{expected}'")
        self._good.add(id(loc))


def scope_of(loc: Attribute) -> Attribute | None:
    """The scope that a location lies in; for inlined code, the scope that it was inlined into."""
    match loc:
        case DILocAttr():
            return loc.scope
        case DICallSiteLoc() | CallSiteLoc():
            return scope_of(loc.caller)
        case NameLoc() | DINameLoc():
            return scope_of(loc.location)
        case FusedLoc() | DIFusedLoc():
            scopes = map(scope_of, getattr(loc.locations, "data", ()))
            return next((scope for scope in scopes if scope is not None), None)
        case DILexicalBlockAttr() | DISubprogramAttr():
            return loc
        case _:
            return None


def _verify_tree(
    root: Operation, scopes: _Scopes | None, well_formed: bool, found: list[BytecodeError]
) -> None:
    """Verifies an entry or global and all in it, outer operations first.

    Iterative: a program may nest deeper than Python's stack.
    """
    pending = [root]
    while pending:
        op = pending.pop()
        _verify_op(op, scopes, well_formed, found)
        if len(found) >= MAX_MISTAKES:
            return
        inner: list[Operation] = []
        for region in op.regions:
            for block in region.blocks:
                _verify_order(block, found)
                inner.extend(block.ops)
        pending.extend(reversed(inner))


def _verify_op(
    op: Operation, scopes: _Scopes | None, well_formed: bool, found: list[BytecodeError]
) -> None:
    try:
        if well_formed and isinstance(op, TileOp):
            _check_result_count(op)
            op.check_semantics()
        else:
            op.verify_()
        if scopes is not None:
            if op.parent_op() is None or isinstance(op, EntryOp | GlobalOp):
                scopes.check_top()
            else:
                scopes.check(op)
            if isinstance(op, ModuleOp) or not op.name.startswith("cuda_tile."):
                fail(op, "is inside an entry, expected operations of cuda_tile only")
    except VerifyException as error:
        found.append(BytecodeError(_plain(op, error), source_location(op.location)))


def _check_result_count(op: TileOp) -> None:
    """Bytecode says how many results some operations have."""
    least, most = _result_limits(type(op))
    count = len(op.results)
    if count < least or (most is not None and count > most):
        fail(op, f"has {count} results, expected {'at least ' if most is None else ''}{least}")


@cache
def _result_limits(cls: type[TileOp]) -> tuple[int, int | None]:
    """How many results an operation has at least and at most (None: any number)."""
    found = [definition for _, definition in cls.get_irdl_definition().results]
    single = sum(not isinstance(definition, VariadicDef) for definition in found)
    return single, single if single == len(found) else None


def _plain(op: Operation, error: VerifyException) -> str:
    """The message on one line; xDSL adds the operation in its generic form to some of its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0].rstrip(":") if lines else "is not valid"
    if not text.startswith("'"):
        text = f"'{op.name}' op {text[:1].lower()}{text[1:]}"
    return shortened(text)


def _verify_order(block: Block, found: list[BytecodeError]) -> None:
    """Only the last operation of a block ends it."""
    for op in block.ops:
        if isinstance(op, TerminatorOp) and op.next_op is not None:
            following = mnemonic(op.next_op)
            message = f"'{op.name}' op is followed by '{following}', expected the end of the block"
            found.append(BytecodeError(message, source_location(op.location)))
