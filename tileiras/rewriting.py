"""The one way in which passes rewrite: xDSL's pattern driver, with locations kept.

xDSL gives a new operation no location, so that one rewrite would lose the source line of everything
after it. Here every operation that a pattern inserts without a location takes the location of the
operation that the pattern matched.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import LocationAttr, ModuleOp, UnknownLoc
from xdsl.ir import Operation
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)

from tileiras.errors import note_origin


def has_location(op: Operation) -> bool:
    """Whether the operation says where in the source it came from."""
    return not isinstance(op.location, UnknownLoc)


def fill_location(op: Operation, location: LocationAttr) -> None:
    """Gives `op`, and what is nested in it, the location where they have none."""
    for inner in op.walk():
        if not has_location(inner):
            inner.location = location


def count_unknown_locations(module: ModuleOp) -> int:
    """The number of operations in the module, itself aside, that have no location."""
    return sum(1 for op in module.walk() if op is not module and not has_location(op))


@dataclass(frozen=True)
class _KeepLocations(RewritePattern):
    """Applies the pattern, then gives what it inserted the location of what it matched."""

    pattern: RewritePattern

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Runs the wrapped pattern while watching for insertions."""
        inserted: list[Operation] = []
        location = op.location
        watch = inserted.append
        rewriter.operation_insertion_handler.append(watch)
        try:
            self.pattern.match_and_rewrite(op, rewriter)
        except Exception as error:
            note_origin(error, op)
            raise
        finally:
            rewriter.operation_insertion_handler.remove(watch)
        for new in inserted:
            fill_location(new, location)


def rewrite(module: ModuleOp, *patterns: RewritePattern, recursive: bool = True) -> bool:
    """Applies the patterns, the first that fires on each operation, and says whether any did.

    With `recursive` the module is walked until nothing changes; without, every operation is
    visited once.
    """
    kept = [_KeepLocations(pattern) for pattern in patterns]
    applier = kept[0] if len(kept) == 1 else GreedyRewritePatternApplier(list(kept))
    walker = PatternRewriteWalker(applier, apply_recursively=recursive)
    return walker.rewrite_module(module)
