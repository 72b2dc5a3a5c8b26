"""The options of one compilation, as plain data. Only the command line and the driver make them."""

from __future__ import annotations

from dataclasses import dataclass, field

STAGES = ("cuda_tile", "nv_tileaa", "nv_tileas", "llvm-dialect", "llvm", "ptx", "cubin")
"""The stages of the cascade, in order."""

BYTECODE = "bytecode"
"""The module of stage cuda_tile as a bytecode file."""

OUTPUTS = (BYTECODE, *STAGES)
"""What `--emit` accepts."""

LAUNCHES = ("tile", "cluster", "explicit")
"""What `--launch` accepts: how the block (1,1,1) of Tile IR's launches becomes many threads.

tile: the cubin marks a kernel as Tile IR's: the driver launches its required number of threads.
cluster: PTX's `.blocksareclusters`, as always where a tile block is several CTAs.
explicit: it does not; whoever launches passes the number of threads.
"""

PREFER_TMA = "TILEIR_PREFER_TMA_FOR_LOAD_STORE"
DELAY_TMA_STORE_WAIT = "TILEIR_DELAY_TMA_STORE_WAIT"
ALWAYS_SWIZZLE = "TILEIR_ALWAYS_SWIZZLE"
"""Asks for what is done anyway: tiles that TMA writes or reads are swizzled."""


@dataclass(frozen=True)
class CompileOptions:
    """Everything that can change the compiler's output or what it reports."""

    gpu_name: str = "sm_100"
    opt_level: int = 3
    device_debug: bool = False
    line_info: bool = False
    launch: str = LAUNCHES[0]
    emit: str = "cubin"
    verify_each: bool = False
    print_before_all: bool = False
    print_after_all: bool = False
    print_before: tuple[str, ...] = ()
    print_after: tuple[str, ...] = ()
    disabled_features: tuple[str, ...] = ()
    verbose: bool = False
    time_passes: bool = False
    reject_hints: bool = False
    """Whether optimization hints that would do nothing are mistakes."""
    knobs: dict[str, str] = field(default_factory=dict[str, str])
    """`TILEIR_*` environment variables by name, read once by the driver."""

    @property
    def stage(self) -> str:
        """The stage that the output is made from."""
        return STAGES[0] if self.emit == BYTECODE else self.emit

    def switch(self, knob: str) -> bool | None:
        """Whether a knob is on or off (0); None if it is not set."""
        value = self.knobs.get(knob)
        return None if not value else value != "0"
