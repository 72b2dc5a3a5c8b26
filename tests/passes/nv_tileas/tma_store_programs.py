"""Kernels that store by TMA, and what their PTX says."""

from __future__ import annotations

from dataclasses import replace

from tileiras.driver import compile_module, with_environment
from tileiras.options import DELAY_TMA_STORE_WAIT, CompileOptions

STORE = "cp.async.bulk.tensor.2d.global.shared::cta"


def built(source: bytes, emit: str = "ptx", **knobs: str) -> str:
    """A stage of a kernel for sm_90 with some knobs set."""
    options = with_environment(CompileOptions(gpu_name="sm_90", emit=emit, print_generic=True))
    return compile_module(
        source, replace(options, knobs={**options.knobs, **knobs})
    ).output.decode()


AT_ONCE = {DELAY_TMA_STORE_WAIT: "0"}
"""Consumers store themselves: no warp role does where the wait is not to be put off."""
