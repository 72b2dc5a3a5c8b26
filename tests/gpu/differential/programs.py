"""Random programs over the operations of cuda_tile; `OPERATIONS_LEFT_OUT` says which not.

A result that is not exact (a mathematical function) or that other roundings would change goes to an
output right away: nothing else is computed from it, so that one difference is one finding. Memory
is safe: every index is cut to its array, and that of a view to its index space.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Attribute

from tests.gpu.differential import arithmetic_steps, control_steps, memory_steps, tile_steps
from tests.kernels.exact_program import Program
from tests.kernels.random_programs import Generator, Held, Step

OPERATIONS_LEFT_OUT = {
    "mmaf_scaled": "needs sm_100",
    "multimem_load_reduce_view_tko": "needs several GPUs",
    "multimem_reduce_view_tko": "needs several GPUs",
    "multimem_store_view_tko": "needs several GPUs",
    "print_tko": "its text goes to the driver's buffer: tests/gpu/operations/control.py",
}
"""Operations that no program has, and why."""


@dataclass(frozen=True)
class Loose(Program):
    """A program some of whose outputs may be `ulps` away, by their number.

    What atomic additions of f32 wrote is `flushed`.
    """

    ulps: dict[int, float] = field(default_factory=dict[int, float])
    flushed: frozenset[int] = frozenset()


class WideGenerator(Generator):
    """The generator of exact programs, with more operations.

    `final` are tiles that go to outputs of their own, with the ulps that they may be wrong by;
    `early` are outputs that operations write themselves.
    """

    leaves_index_space = False

    def __init__(self, seed: int):
        super().__init__(seed)
        self.final: list[tuple[Held, float]] = []
        self.early: list[tuple[Attribute, int]] = []
        self.bounds: dict[int, float] = {}
        self.flushed: set[int] = set()

    def steps(self) -> tuple[Step, ...]:
        """Those of exact programs and those of the modules beside this one."""
        modules = (arithmetic_steps, memory_steps, tile_steps, control_steps)
        more: list[Step] = [
            (lambda step=step: step(self), weight)
            for module in modules
            for step, weight in module.STEPS
        ]
        return (*super().steps(), *more)

    def keep(self, value: Any, ulps: float = 0.0) -> None:
        """Makes a tile an output; nothing else uses it."""
        self.final.append((Held(value, 0), ulps))

    def outputs(self) -> list[tuple[Attribute, int]]:
        """What operations write themselves, then what nothing uses, then what is not exact."""
        final = {held.value for held, _ in self.final}
        self.live = [held for held in self.live if held.value not in final]
        stored = [*self.early, *super().outputs()]
        for held, ulps in self.final:
            if ulps:
                self.bounds[len(stored)] = ulps
            stored.append(self.store(held))
        return stored


def make_wide_program(seed: int) -> Loose:
    """The program of a seed."""
    generator = WideGenerator(seed)
    program = generator.program()
    return Loose(
        program.kernel,
        program.inputs,
        program.outputs,
        program.seed,
        dict(generator.bounds),
        frozenset(generator.flushed),
    )
