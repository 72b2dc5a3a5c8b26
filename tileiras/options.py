"""The options of one compilation, as plain data. Only the command line and the driver make them."""

from __future__ import annotations

from dataclasses import dataclass, field

STAGES = ("cuda_tile", "nv_tileaa", "nv_tileas", "llvm-dialect", "llvm", "ptx", "cubin")
"""The stages of the cascade, in order."""

BYTECODE = "bytecode"
"""The module of stage cuda_tile as a bytecode file."""

CUTE = "cute"
"""The stage of programs in CuTe's dialects, which are another input language.

Of a tile kernel, its layouts, copies and products in CuTe's notation.
"""

LISTED = "nv_tileas"
"""The stage of tile kernels that is shown in CuTe's notation."""

OUTPUTS = (BYTECODE, CUTE, *STAGES)
"""What `--emit` accepts."""

LAUNCHES = ("tile", "cluster", "explicit")
"""What `--launch` accepts: how the block (1,1,1) of Tile IR's launches becomes many threads.

tile: the cubin marks a kernel as Tile IR's: the driver launches its required number of threads.
cluster: PTX's `.blocksareclusters`, as always where a tile block is several CTAs.
explicit: it does not; whoever launches passes the number of threads.
"""

PREFER_TMA = "TILEIR_PREFER_TMA_FOR_LOAD_STORE"
DELAY_TMA_STORE_WAIT = "TILEIR_DELAY_TMA_STORE_WAIT"
DYNAMIC_PERSISTENT = "TILEIR_DYNAMIC_PERSISTENT"
EXP2_ON_FMA = "TILEIR_EXP2_ON_FMA"
LARGE_CLUSTERS = "TILEIR_LARGE_CLUSTERS"
"""Clusters of as many CTAs as a kernel asks for: more than 8 a launch has to allow."""
ALWAYS_SWIZZLE = "TILEIR_ALWAYS_SWIZZLE"
"""Asks for what always holds: tiles that TMA writes or reads are swizzled."""


LOCATION_STYLES = ("none", "loc", "comment")
"""How the places of operations are printed: not, as `loc("file":1:2)`, as `// file:1`."""


@dataclass(frozen=True)
class TextStyle:
    """How IR is printed.

    `locations` is one of LOCATION_STYLES; `generic` asks for MLIR's generic form; `functions`
    limits the text to those of these names, if there are any.
    """

    locations: str = "none"
    generic: bool = False
    functions: tuple[str, ...] = ()


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
    print_changed: bool = False
    print_llvm: bool = True
    """Whether `--print-before-all` and `--print-after-all` go on through LLVM's passes."""
    print_funcs: tuple[str, ...] = ()
    print_generic: bool = False
    print_locations: str = ""
    """One of LOCATION_STYLES; empty: `loc` where line numbers are asked for."""
    dump_dir: str = ""
    disabled_features: tuple[str, ...] = ()
    verbose: bool = False
    time_passes: bool = False
    reject_hints: bool = False
    """Whether optimization hints that would do nothing are mistakes."""
    knobs: dict[str, str] = field(default_factory=dict[str, str])
    """`TILEIR_*` environment variables by name, read once by the driver."""

    @property
    def text_style(self) -> TextStyle:
        """How IR is printed, in dumps and by `--emit`."""
        with_places = self.line_info or self.device_debug
        locations = self.print_locations or ("loc" if with_places else "none")
        return TextStyle(locations, self.print_generic, self.print_funcs)

    @property
    def stage(self) -> str:
        """The stage that the output is made from."""
        return STAGES[0] if self.emit in (BYTECODE, CUTE) else self.emit

    def switch(self, knob: str) -> bool | None:
        """Whether a knob is on or off (0); None if it is not set."""
        value = self.knobs.get(knob)
        return None if not value else value != "0"
