"""The compiler as a function of Python: a program in, a kernel with all that is known of it out.

Compilations of one process may run side by side in threads; each gives the bytes that the command
`tileiras` gives for the same input and options.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from tileiras.driver import compile_module, with_environment
from tileiras.errors import TargetError, UsageError
from tileiras.options import LAUNCHES, STAGES, CompileOptions
from tileiras.remarks import Remark, RemarkCategory, RemarkCollector, RemarkFilter, RemarkKind

if TYPE_CHECKING:
    from tileiras.codegen.ptxas_log import KernelResources
    from tileiras.launch_info import KernelLaunch
    from tileiras.runtime import Module

Source = bytes | str | os.PathLike[str]
"""Bytecode or text as bytes, text as a string, or the path of a file of either."""

_REMARK_CHOICES = ("none", "all", *(category.value for category in RemarkCategory))


class Stages(Mapping[str, str]):
    """The text of every stage up to the PTX, by name; each is made when it is asked for.

    What is asked for is what `--emit=STAGE` prints. Stages before that of the source are no keys.
    """

    def __init__(
        self, source: bytes, filename: str, options: CompileOptions, known: dict[str, str]
    ):
        self._source, self._filename, self._options = source, filename, options
        self._texts = dict(known)
        self._lock = Lock()
        self._first: int | None = None

    def __getitem__(self, stage: str) -> str:
        """The program at a stage; raises KeyError for a name that is none of the keys."""
        if stage not in tuple(self):
            raise KeyError(stage)
        with self._lock:
            if stage not in self._texts:
                options = replace(self._options, emit=stage)
                done = compile_module(self._source, options, self._filename)
                self._texts[stage] = done.output.decode()
            return self._texts[stage]

    def __iter__(self) -> Iterator[str]:
        """The names, in the order in which the compiler comes to them."""
        if self._first is None:
            from tileiras.driver import read_source
            from tileiras.stages import stage_of

            module = read_source(self._source, self._filename)
            self._first = STAGES.index(stage_of(module).name)
        return iter(STAGES[self._first : -1])

    def __len__(self) -> int:
        """How many there are."""
        return len(tuple(iter(self)))


@dataclass(frozen=True)
class CompiledKernel:
    """What `compile` made of a program.

    `cubin` is what the GPU loads, `ptx` and `llvm_ir` are what it was made from, `stages` has the
    program at every stage. `kernels` says how to launch each entry (block in threads, parameters
    with offsets in bytes); `resources` what ptxas gave it, by name (registers a thread, bytes of
    shared memory, bytes spilled). `remarks` are what was asked for.
    """

    target: str
    cubin: bytes
    ptx: str
    llvm_ir: str
    stages: Stages
    kernels: tuple[KernelLaunch, ...]
    resources: Mapping[str, KernelResources]
    remarks: tuple[Remark, ...]
    notes: tuple[str, ...] = ()
    """What `-v` prints: resources in words, and ptxas's warnings."""
    _loaded: list[Module] = field(default_factory=list[Any], repr=False, compare=False)
    _lock: Any = field(default_factory=Lock, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The only entry; raises UsageError where there are several."""
        if len(self.kernels) != 1:
            names = ", ".join(kernel.name for kernel in self.kernels)
            raise UsageError(f"expected one entry or a name, found {len(self.kernels)}: {names}")
        return self.kernels[0].name

    def load(self) -> Module:
        """The kernel's module on the GPU, loaded once; raises GpuError where there is no GPU."""
        from tileiras.runtime import Module

        with self._lock:
            if not self._loaded:
                self._loaded.append(Module(self.cubin, self.kernels))
            return self._loaded[0]

    def unload(self) -> None:
        """Gives the module on the GPU back; a later launch loads it again."""
        with self._lock:
            for module in self._loaded:
                module.unload()
            self._loaded.clear()

    def launch(
        self,
        grid: tuple[int, int, int],
        *args: Any,
        entry: str | None = None,
        stream: object = None,
    ) -> None:
        """Launches `grid` tile blocks of the entry (the only one, if none is named) on `args`.

        The arguments are those of `tileiras.runtime.Kernel.launch`. Raises GpuError where there is
        no GPU or an argument does not fit.
        """
        name = self.name if entry is None else entry
        self.load().kernel(name).launch(grid, args, stream)


def compile(
    source: Source,
    target: str | None = None,
    *,
    filename: str = "",
    opt_level: int = 3,
    device_debug: bool = False,
    line_info: bool = False,
    launch: str = LAUNCHES[0],
    disabled_features: Sequence[str] = (),
    reject_hints: bool = False,
    verify_each: bool = False,
    remarks: str = "none",
) -> CompiledKernel:
    """Compiles a program for a GPU, such as `sm_90`; None: the GPU of this machine.

    The options are those of the command line (`--opt-level`, `--device-debug`, `--lineinfo`,
    `--launch`, `--disable-feature`, `--Werr-hints`, `--verify-each`, `--remarks`). `filename` is
    what messages call a source that is no file. The environment counts as it does for the command
    (`CUDA_HOME`, `TILEIR_*`), but for `TILEIRAS_FLAGS`.

    Raises a `tileiras.errors.TileirasError`, whose `render()` is what the command prints:
    UsageError for a wrong option or a file that cannot be read, TargetError for a GPU that is not
    known, BytecodeError for a source that is not valid Tile IR, CompileError for one that cannot be
    compiled, and GpuError where this machine's GPU is asked for and there is none.
    """
    if remarks not in _REMARK_CHOICES:
        found = f"remarks is '{remarks}', expected one of {', '.join(_REMARK_CHOICES)}"
        raise UsageError(found)
    if launch not in LAUNCHES:
        raise UsageError(f"launch is '{launch}', expected one of {', '.join(LAUNCHES)}")
    data, name = _read(source, filename)
    options = with_environment(
        CompileOptions(
            gpu_name=_target(target),
            opt_level=opt_level,
            device_debug=device_debug,
            line_info=line_info,
            launch=launch,
            verify_each=verify_each,
            disabled_features=tuple(disabled_features),
            reject_hints=reject_hints,
        )
    )
    collector = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, remarks)))
    made = compile_module(data, options, name, collector)
    return CompiledKernel(
        target=options.gpu_name,
        cubin=made.output,
        ptx=made.ptx,
        llvm_ir=made.llvm_ir,
        stages=Stages(data, name, options, {"llvm": made.llvm_ir, "ptx": made.ptx}),
        kernels=made.kernels,
        resources={used.name: used for used in made.resources},
        remarks=tuple(made.remarks.remarks),
        notes=made.notes,
    )


def _read(source: Source, filename: str) -> tuple[bytes, str]:
    """The bytes of a source and what to call it."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source), filename or "<input>"
    if isinstance(source, str):
        return source.encode(), filename or "<input>"
    from tileiras.file_io import read_input

    path = str(Path(source))
    return read_input(path), filename or path


def _target(target: str | None) -> str:
    """The name of the GPU to compile for; raises TargetError for one that is not known."""
    from tileiras.codegen.target import TARGET_NAMES

    if target is None:
        from tileiras.runtime import current_target

        target = current_target()
    if target not in TARGET_NAMES:
        raise TargetError(f"unknown target '{target}', expected one of {', '.join(TARGET_NAMES)}")
    return target
