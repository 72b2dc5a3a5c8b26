"""Runs passes in order over xDSL's pass pipeline: dumps, border checks, verification, timing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass, PassPipeline

from tileiras.dialects.locations import place_of
from tileiras.dumps import DumpFolder, PassDumps
from tileiras.errors import InternalError, SourceLocation, TileirasError, origin_of
from tileiras.ir_pass import CompileContext, IrPass
from tileiras.stages import check_border, find_stage, verify_module
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


class _Observer:
    """Stands between the passes: xDSL calls it before the first, between all, after the last."""

    def __init__(
        self,
        passes: tuple[ScheduledPass, ...],
        ctx: CompileContext,
        timings: Timings,
        folder: DumpFolder | None,
    ):
        self.passes = passes
        self.ctx = ctx
        self.dumps = PassDumps(ctx.options, folder)
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
        else:
            self.dumps.input(module)
        if following is not None:
            self.dumps.before(self.passes[self.position].ir_pass, module)
            begin(f"pass {self.current}")
            self.started = perf_counter()

    def _after(self, module: ModuleOp) -> None:
        """Times, prints and checks what the current pass made, and moves on."""
        scheduled = self.passes[self.position]
        self.timings.parts.append((self.current, perf_counter() - self.started))
        self.dumps.after(scheduled.ir_pass, module)
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
                if self.options.verify_each:
                    from tileiras.settled import verify_left

                    verify_left(scheduled.ir_pass, self.ctx, module)
        self.position = min(self.position + 1, len(self.passes) - 1)


def run_passes(
    module: ModuleOp,
    passes: tuple[ScheduledPass, ...],
    ctx: CompileContext,
    timings: Timings | None = None,
    folder: DumpFolder | None = None,
) -> None:
    """Runs the passes in order on the module.

    The module is checked where the stage changes, after each pass with `verify_each`, and then for
    what the pass promises to leave, too. An exception that is not one of ours is a bug: it becomes
    an InternalError that names the pass. What each pass leaves is written to the `folder`, if there
    is one.
    """
    observer = _Observer(passes, ctx, timings if timings is not None else Timings(), folder)
    pipeline = PassPipeline(tuple(entry.ir_pass for entry in passes), observer)
    try:
        pipeline.apply(ctx, module)
    except TileirasError as error:
        error.location = error.location or _place(error)
        raise
    except Exception as error:
        raise InternalError(describe(error), _place(error), observer.current) from error


def _place(error: Exception) -> SourceLocation | None:
    """Where in the source the operation stands at which an exception arose, if that is known."""
    op = origin_of(error)
    return place_of(op) if isinstance(op, Operation) else None


def describe(error: Exception) -> str:
    """An unforeseen exception on one line: its type and the first line of what it says."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
