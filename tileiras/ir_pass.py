"""What every pass is: its base class and the context that it runs in."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from xdsl.context import Context
from xdsl.passes import ModulePass

from tileiras.options import CompileOptions
from tileiras.remarks import RemarkCollector

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

    from tileiras.codegen.target import GpuTarget


@dataclass
class CompileContext(Context):
    """xDSL's context, with what one compilation knows besides the module.

    `target` is None where the pipeline stops before it matters (`--emit=cuda_tile|nv_tileaa`).
    """

    target: GpuTarget | None = None
    options: CompileOptions = field(default_factory=CompileOptions)
    remarks: RemarkCollector = field(default_factory=RemarkCollector)

    def clone(self) -> CompileContext:
        """A copy that registers dialects on its own, with the same target, options and remarks."""
        plain = super().clone()
        fields = {name: getattr(plain, name) for name in Context.__dataclass_fields__}
        return CompileContext(
            **fields, target=self.target, options=self.options, remarks=self.remarks
        )

    def require_target(self) -> GpuTarget:
        """The target, for passes that cannot run without one.

        Raises InternalError when the pipeline put such a pass where no target is known.
        """
        if self.target is None:
            from tileiras.errors import InternalError

            raise InternalError("a pass asked for the target of a compilation that has none")
        return self.target


class BrokenPromise(Exception):  # noqa: N818
    """A pass did not leave what it promises; `operation` is at fault."""

    def __init__(self, message: str, operation: Operation):
        super().__init__(message)
        self.operation = operation


@dataclass(frozen=True)
class IrPass(ModulePass):
    """Base of all passes. `name` is the interface (options, dumps), `title` what dumps call it.

    The docstring of a pass says Before / After / Requires / Leaves, so that nobody must run it
    to know it.
    """

    title: ClassVar[str]
    settles: ClassVar[bool] = True
    """Whether the pass, run again on what it left, changes nothing. `--verify-each` checks it."""

    def verify_left(self, ctx: CompileContext, op: ModuleOp) -> None:  # noqa: B027
        """What else the pass promises of the module that it leaves, for `--verify-each`.

        Raises BrokenPromise at the operation at fault.
        """

    @abstractmethod
    def apply(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, ctx: CompileContext, op: ModuleOp
    ) -> None:
        """Rewrites the module `op` in place."""
