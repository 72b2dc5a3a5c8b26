"""Compiles a kernel with all remarks, and puts them beside what its lines cost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tileiras.driver import compile_module, find_target, read_source, verify_input, with_environment
from tileiras.errors import SourceLocation, UsageError
from tileiras.explain.prediction import Prediction, Shape, predict
from tileiras.launch_info import KernelLaunch
from tileiras.options import CompileOptions
from tileiras.remarks import Remark, RemarkCollector, RemarkFilter, RemarkKind

SOURCE_STEPS = (
    "check-target",
    "canonicalize",
    "cse",
    "convert-cudatile-to-tileaa",
    "tileaa-legalize-scaled-dot",
)
"""The passes after which a program still is one of tile blocks as its author wrote it."""


@dataclass(frozen=True)
class Explanation:
    """A kernel: how it is launched, its remarks, what its lines cost, and the lines' text."""

    kernel: KernelLaunch
    target: str
    remarks: tuple[Remark, ...]
    prediction: Prediction
    source: dict[str, list[str]]
    shape: Shape | None = None

    def text_of(self, filename: str, line: int) -> str:
        """A line of the source, empty where the file is not there."""
        lines = self.source.get(filename, [])
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def remarks_at(self, filename: str, line: int) -> list[Remark]:
        """What was told of a line."""
        return [one for one in self.remarks if _is_at(one.location, filename, line)]

    @property
    def remarks_elsewhere(self) -> list[Remark]:
        """What was told of the kernel as a whole: of its own line, or of none."""
        at = [(line.place[0], line.place[1]) for line in self.prediction.lines]
        return [
            one
            for one in self.remarks
            if one.location is None or (one.location.filename, one.location.line) not in at
        ]


def _is_at(location: SourceLocation | None, filename: str, line: int) -> bool:
    return location is not None and (location.filename, location.line) == (filename, line)


def explain(
    source: bytes,
    filename: str,
    target: str,
    entry: str = "",
    shape: Shape | None = None,
) -> Explanation:
    """What is told of one entry of a program; the only one if none is named.

    Raises a TileirasError for a program that cannot be compiled, UsageError for an entry that there
    is not.
    """
    options = with_environment(CompileOptions(gpu_name=target))
    collector = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, "all")))
    made = compile_module(source, options, filename, collector)
    kernel = _chosen(made.kernels, entry)
    remarks = tuple(one for one in collector.remarks if one.function == kernel.name)
    prediction = _predicted(source, filename, options, kernel, remarks, shape)
    places = [one.location for one in remarks if one.location is not None]
    files = dict.fromkeys([place.filename for place in places])
    texts = {name: _lines(name, source, filename) for name in files}
    return Explanation(kernel, target, remarks, prediction, texts, shape)


def _chosen(kernels: Sequence[KernelLaunch], entry: str) -> KernelLaunch:
    """The entry that is named, or the only one."""
    names = ", ".join(kernel.name for kernel in kernels)
    if not entry and len(kernels) != 1:
        raise UsageError(f"expected one entry or --entry, found {len(kernels)}: {names}")
    for kernel in kernels:
        if entry in ("", kernel.name):
            return kernel
    raise UsageError(f"no entry '{entry}', found: {names}")


def _predicted(
    source: bytes,
    filename: str,
    options: CompileOptions,
    kernel: KernelLaunch,
    remarks: Sequence[Remark],
    shape: Shape | None,
) -> Prediction:
    """The costs of the entry as its author wrote it."""
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.driver import is_bytecode
    from tileiras.ir_pass import CompileContext
    from tileiras.registry import load_pass
    from tileiras.stages import stage_of

    target = find_target(options)
    if target is None:
        raise UsageError("no GPU architecture given, expected --gpu-name")
    module = read_source(source, filename)
    verify_input(module, from_bytecode=is_bytecode(source))
    if stage_of(module).name != "cuda_tile":
        raise UsageError("only programs of stage cuda_tile are explained: later ones have no lines")
    context = CompileContext(target=target, options=options, remarks=RemarkCollector())
    for name in SOURCE_STEPS:
        load_pass(name)().apply(context, module)
    for func in module.body.ops:
        if isinstance(func, aa.FuncOp) and func.sym_name.data == kernel.name:
            return predict(func, target, kernel.threads_per_block, remarks, shape)
    raise UsageError(f"no entry '{kernel.name}'")


def _lines(name: str, source: bytes, filename: str) -> list[str]:
    """The text of a file that locations name; none where it cannot be read."""
    if name == filename and not source.startswith(b"\x7f"):
        return source.decode(errors="replace").splitlines()
    if not os.path.isfile(name):
        return []
    try:
        with open(name, encoding="utf-8", errors="replace") as stream:
            return stream.read().splitlines()
    except OSError:
        return []
