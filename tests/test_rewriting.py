"""Rewriting keeps the source locations that xDSL's pattern driver drops."""

from __future__ import annotations

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, i32
from xdsl.dialects.test import TestOp as AnyOp
from xdsl.ir import Block, Operation, Region
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from tileiras.rewriting import count_unknown_locations, rewrite

PLACE = FileLineColLoc(StringAttr("kernel.py"), IntAttr(3), IntAttr(4))
OTHER = FileLineColLoc(StringAttr("other.py"), IntAttr(9), IntAttr(9))


class ReplaceByTwoResults(RewritePattern):
    """Replaces every op with one result by one with two, that has an op nested in it."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Fires on ops with one result."""
        if len(op.results) != 1:
            return
        new = AnyOp(result_types=[i32, i32], regions=[Region(Block([AnyOp()]))])
        rewriter.replace(op, [new], [new.results[0]])


class InsertWithOwnLocation(RewritePattern):
    """Inserts an op that already knows its place, once."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Fires on ops with one result that have no neighbour before them."""
        if len(op.results) == 1 and op.prev_op is None:
            new = AnyOp()
            new.location = OTHER
            rewriter.insert(new)


class Never(RewritePattern):
    """Fires on nothing."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Does nothing."""


def module_with_one_op() -> ModuleOp:
    """A module with one located op."""
    op = AnyOp(result_types=[i32])
    op.location = PLACE
    return ModuleOp([op])


def test_replacement_takes_the_location_of_what_it_replaces() -> None:
    """Nested operations too."""
    module = module_with_one_op()
    assert rewrite(module, ReplaceByTwoResults())
    assert [op.location for op in module.walk() if op is not module] == [PLACE, PLACE]
    assert count_unknown_locations(module) == 0


def test_location_that_a_pattern_sets_is_kept() -> None:
    """Only missing locations are filled in."""
    module = module_with_one_op()
    assert rewrite(module, InsertWithOwnLocation())
    assert [op.location for op in module.ops] == [OTHER, PLACE]


def test_rewrite_says_when_nothing_fired() -> None:
    """And leaves the module alone."""
    module = module_with_one_op()
    before = str(module)
    assert not rewrite(module, Never(), Never())
    assert str(module) == before


def test_first_pattern_that_fires_wins() -> None:
    """Several patterns are tried in order."""
    module = module_with_one_op()
    assert rewrite(module, Never(), ReplaceByTwoResults(), InsertWithOwnLocation())
    assert [len(op.results) for op in module.ops] == [2]


def test_unknown_locations_are_counted() -> None:
    """The module itself does not count."""
    assert count_unknown_locations(ModuleOp([AnyOp(), AnyOp()])) == 2
