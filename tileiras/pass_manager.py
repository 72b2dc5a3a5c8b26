"""Runs passes in order over xDSL's pass pipeline: dumps, border checks, verification, timing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline

from tileiras.errors import InternalError, TileirasError
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.options import CompileOptions
from tileiras.stages import check_border, find_stage, print_stage, verify_module
from tileiras.termination import begin


@dataclass
class Timings:
    """Wall-clock seconds of the parts of one compilation, in the order in which they ran."""

    parts: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Adds the time that the body takes under this name."""
        begin(name)
        start = perf_counter()
        try:
            yield
        finally:
            self.parts.append((name, perf_counter() - start))

    def render(self) -> str:
        """The table that `--time-passes` prints, in milliseconds."""
        total = sum(seconds for _, seconds in self.parts)
        rows = [*self.parts, ("total", total)]
        width = max(len(name) for name, _ in rows)
        lines = ["===== time of each part (wall clock) ====="]
        for name, seconds in rows:
            share = 100.0 * seconds / total if total else 0.0
            lines.append(f"  {name:<{width}}  {seconds * 1e3:9.3f} ms  {share:5.1f} %")
        return "\n".join(lines)


@dataclass(frozen=True)
class ScheduledPass:
    """A pass and the stage that the module must be on after it (empty: not checked)."""

    ir_pass: IrPass
    stage_after: str = ""


def wants_dump(options: CompileOptions, name: str, before: bool) -> bool:
    """Whether the options ask to print the module before (or after) the pass of this name."""
    if before:
        return options.print_before_all or name in options.print_before
    return options.print_after_all or name in options.print_after


class _Observer:
    """Stands between the passes: xDSL calls it before the first, between all, after the last."""

    def __init__(self, passes: tuple[ScheduledPass, ...], ctx: CompileContext, timings: Timings):
        self.passes = passes
        self.options = ctx.options
        self.timings = timings
        self.position = 0
        self.started = 0.0

    @property
    def current(self) -> str:
        """The name of the pass that is running."""
        return self.passes[self.position].ir_pass.name

    def __call__(
        self, previous: ModulePass | None, module: ModuleOp, following: ModulePass | None
    ) -> None:
        """Finishes the pass that ran, then prepares the next."""
        if previous is not None:
            self._after(module)
        if following is not None:
            self._dump(module, before=True)
            begin(f"pass {self.current}")
            self.started = perf_counter()

    def _after(self, module: ModuleOp) -> None:
        """Times, prints and checks what the current pass made, and moves on."""
        scheduled = self.passes[self.position]
        self.timings.parts.append((self.current, perf_counter() - self.started))
        self._dump(module, before=False)
        stage = find_stage(scheduled.stage_after)
        changes_stage = stage is not None and (
            self.position + 1 == len(self.passes)
            or self.passes[self.position + 1].stage_after != stage.name
        )
        if self.options.verify_each or changes_stage:
            with self.timings.measure(f"verify after {self.current}"):
                if stage is not None:
                    check_border(module, stage)
                if self.options.verify_each or (stage is not None and stage.verified_at_border):
                    verify_module(module, where=self.current)
        self.position = min(self.position + 1, len(self.passes) - 1)

    def _dump(self, module: ModuleOp, before: bool) -> None:
        """Prints the module on stderr if the options ask for it."""
        ir_pass = self.passes[self.position].ir_pass
        if not wants_dump(self.options, ir_pass.name, before):
            return
        when = "Before" if before else "After"
        print(f"*** IR Dump {when} {ir_pass.title} ({ir_pass.name}) ***", file=sys.stderr)
        print(print_stage(module, debug_info=self.options.line_info), file=sys.stderr)


def run_passes(
    module: ModuleOp,
    passes: tuple[ScheduledPass, ...],
    ctx: CompileContext,
    timings: Timings | None = None,
) -> None:
    """Runs the passes in order on the module.

    The module is checked where the stage changes, after each pass with `verify_each`. An exception
    that is not one of ours is a bug: it becomes an InternalError that names the pass.
    """
    observer = _Observer(passes, ctx, timings if timings is not None else Timings())
    pipeline = PassPipeline(tuple(entry.ir_pass for entry in passes), observer)
    try:
        pipeline.apply(ctx, module)
    except TileirasError:
        raise
    except Exception as error:
        raise InternalError(describe(error), where=observer.current) from error


def describe(error: Exception) -> str:
    """An unforeseen exception on one line: its type and the first line of what it says."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
