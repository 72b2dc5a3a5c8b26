"""Some passes of the pipeline run on a text, as `--pass-pipeline` does."""

from __future__ import annotations

from dataclasses import replace

from tileiras.driver import compile_module
from tileiras.options import CompileOptions
from tileiras.pipeline import PIPELINE

OPTIONS = CompileOptions(gpu_name="sm_90", opt_level=3)


def passes_between(first: str, last: str) -> tuple[str, ...]:
    """The names of passes of the pipeline from one to another, both included."""
    names = [step.pass_name for step in PIPELINE]
    return tuple(names[names.index(first) : names.index(last) + 1])


def run_passes(text: bytes, *names: str, **knobs: str) -> str:
    """What the passes make of a text, with some knobs set."""
    options = replace(OPTIONS, knobs={**OPTIONS.knobs, **knobs})
    return compile_module(text, options, filename="k.mlir", pass_names=names).output.decode()
