"""Operations of the cuda_tile dialect: control flow (Tile IR specification, "Control flow").

Every region has one block. Values that cross its border are tiles and tokens, never views.
"""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator

from tileiras.dialects.cuda_tile.checks import (
    check_no_views,
    check_same_type,
    check_scalar,
    check_tile,
    check_types,
    fail,
    listed,
    mnemonic,
)
from tileiras.dialects.cuda_tile.element_types import BOOL, INTEGER
from tileiras.dialects.cuda_tile.tile_op import TileOp


def types_of(values: Sequence[SSAValue]) -> list[Attribute]:
    """The types of some values."""
    return [value.type for value in values]


def enclosing_loop(op: Operation) -> Operation | None:
    """The `for` or `loop` that a terminator leaves or continues, through the ifs around it."""
    parent = op.parent_op()
    while isinstance(parent, IfOp):
        parent = parent.parent_op()
    return parent if isinstance(parent, ForOp | LoopOp) else None


def check_body(op: Operation, region: Region, what: str, terminators: tuple[str, ...]) -> Block:
    """The region must be one block that ends in one of these operations; returns the block."""
    if len(region.blocks) != 1:
        fail(op, f"{what} has {len(region.blocks)} blocks, expected 1")
    block = region.blocks[0]
    last = block.last_op
    if last is None:
        fail(op, f"{what} is empty, expected {listed(terminators)} at its end")
    if mnemonic(last) not in terminators:
        fail(op, f"{what} ends in '{mnemonic(last)}', expected {listed(terminators)}")
    return block


class TerminatorOp(TileOp, ABC):
    """Ends a block and hands over values; `PARENTS` names what it may stand in."""

    PARENTS: ClassVar[tuple[str, ...]] = ()
    arguments = var_operand_def()
    traits = traits_def(IsTerminator())

    def check_parent(self) -> Operation:
        """Checks what the terminator stands in, and returns it."""
        parent = self.parent_op()
        if parent is None or mnemonic(parent) not in self.PARENTS:
            found = "nothing" if parent is None else f"'{mnemonic(parent)}'"
            fail(self, f"is in {found}, expected {listed(self.PARENTS)}")
        return parent

    def check_arguments(self, expected: Sequence[Attribute], of: str) -> None:
        """The values that are handed over must have these types."""
        check_types(self, types_of(self.arguments), expected, "operand", of)


@irdl_op_definition
class BreakOp(TerminatorOp):
    """Leaves the innermost `loop`, whose results become the operands."""

    name = "cuda_tile.break"
    PARENTS: ClassVar[tuple[str, ...]] = ("if", "loop")

    def check_semantics(self) -> None:
        """Inside a `loop`, through ifs only; operands have the types of its results."""
        self.check_parent()
        loop = enclosing_loop(self)
        if not isinstance(loop, LoopOp):
            found = "no loop" if loop is None else "'for'"
            fail(self, f"leaves {found}, expected 'loop'")
        self.check_arguments(types_of(loop.results), "the results of the loop")


@irdl_op_definition
class ContinueOp(TerminatorOp):
    """Starts the next iteration of the innermost `for` or `loop` with the operands."""

    name = "cuda_tile.continue"
    PARENTS: ClassVar[tuple[str, ...]] = ("for", "if", "loop")

    def check_semantics(self) -> None:
        """Inside a loop, through ifs only; operands have the types of its carried values."""
        self.check_parent()
        loop = enclosing_loop(self)
        match loop:
            case ForOp():
                self.check_arguments(types_of(loop.results), "the results of the loop")
            case LoopOp():
                expected = types_of(loop.init_values)
                self.check_arguments(expected, "the initial values of the loop")
            case _:
                fail(self, "continues no loop, expected 'for' or 'loop'")


@irdl_op_definition
class ForOp(TileOp):
    """`for iv in (lower_bound to upper_bound, step step)`, the upper bound excluded.

    Block arguments are the induction variable, then the carried values. The step must be positive
    (undefined otherwise); `unsignedCmp` compares unsigned.
    """

    name = "cuda_tile.for"
    lower_bound = operand_def()
    upper_bound = operand_def()
    step = operand_def()
    init_values = var_operand_def()
    unsigned_cmp = opt_prop_def(UnitAttr, prop_name="unsignedCmp")
    results_ = var_result_def()
    body = region_def()

    def check_semantics(self) -> None:
        """Bounds of one integer type; carried values agree everywhere."""
        lower = check_scalar(self, self.lower_bound, "lower bound", INTEGER)
        check_same_type(self, lower, self.upper_bound.type, "lower and upper bound")
        check_same_type(self, lower, self.step.type, "lower bound and step")
        carried = types_of(self.init_values)
        check_no_views(self, carried, "initial value")
        check_types(self, types_of(self.results), carried, "result", "the initial values")
        block = check_body(self, self.body, "body", ("continue",))
        expected = [lower, *carried]
        what = "the induction variable and the initial values"
        check_types(self, types_of(block.args), expected, "block argument", what)


@irdl_op_definition
class IfOp(TileOp):
    """Runs one of two regions, whose yield gives the results.

    A missing `else` is a region without blocks.
    """

    name = "cuda_tile.if"
    condition = operand_def()
    results_ = var_result_def()
    then_region = region_def()
    else_region = region_def()

    def check_semantics(self) -> None:
        """An i1 condition, regions without arguments, an else where there are results."""
        check_scalar(self, self.condition, "condition", BOOL)
        check_no_views(self, types_of(self.results), "result")
        self.check_branch(self.then_region, "then region")
        if self.else_region.blocks:
            self.check_branch(self.else_region, "else region")
        elif self.results:
            fail(self, f"has {len(self.results)} results and no else region, expected one")

    def check_branch(self, region: Region, what: str) -> None:
        """Checks one region of the two."""
        block = check_body(self, region, what, ("yield", "break", "continue", "return"))
        if block.args:
            fail(self, f"{what} has {len(block.args)} arguments, expected none")


@irdl_op_definition
class LoopOp(TileOp):
    """Repeats its body until a `break`, which gives the results; block arguments are carried."""

    name = "cuda_tile.loop"
    init_values = var_operand_def()
    results_ = var_result_def()
    body = region_def()

    def check_semantics(self) -> None:
        """Block arguments agree with the initial values; nothing is a view."""
        carried = types_of(self.init_values)
        check_no_views(self, carried, "initial value")
        check_no_views(self, types_of(self.results), "result")
        block = check_body(self, self.body, "body", ("continue", "break", "return"))
        found = types_of(block.args)
        check_types(self, found, carried, "block argument", "the initial values")


@irdl_op_definition
class ReturnOp(TerminatorOp):
    """Ends the tile block."""

    name = "cuda_tile.return"
    PARENTS: ClassVar[tuple[str, ...]] = ("entry", "if", "loop")

    def check_semantics(self) -> None:
        """In an entry, through ifs and loops but not through a `for`; entries return nothing."""
        parent = self.check_parent()
        while isinstance(parent, IfOp | LoopOp):
            parent = parent.parent_op()
        if parent is None or mnemonic(parent) != "entry":
            found = "nothing" if parent is None else f"'{mnemonic(parent)}'"
            fail(self, f"is in {found}, expected 'entry'")
        self.check_arguments((), "an entry returns nothing")


@irdl_op_definition
class YieldOp(TerminatorOp):
    """Ends a branch of an `if`, or the body of a `reduce` or `scan`, with its results."""

    name = "cuda_tile.yield"
    PARENTS: ClassVar[tuple[str, ...]] = ("if", "reduce", "scan")

    def check_semantics(self) -> None:
        """Operands have the types of the results of the if (a reduce checks its own)."""
        parent = self.check_parent()
        if isinstance(parent, IfOp):
            self.check_arguments(types_of(parent.results), "the results of the if")


@irdl_op_definition
class AssertOp(TileOp):
    """Prints `message` and reports an error for every element of the condition that is 0."""

    name = "cuda_tile.assert"
    condition = operand_def()
    message = prop_def(StringAttr)

    def check_semantics(self) -> None:
        """The condition is a tile of i1."""
        check_tile(self, self.condition, "condition", BOOL)
