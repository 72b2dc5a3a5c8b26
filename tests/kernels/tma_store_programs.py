"""Kernels that store by TMA: what is planned for them, and what their PTX says."""

from __future__ import annotations

from dataclasses import replace

from tests.kernels.pass_runs import passes_between, run_passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas.plan import BY_TMA
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.options import DELAY_TMA_STORE_WAIT, CompileOptions

STORE = "cp.async.bulk.tensor.2d.global.shared::cta"


def built(source: bytes, emit: str, **knobs: str) -> str:
    """A stage of a kernel for sm_90 with some knobs set."""
    options = with_environment(CompileOptions(gpu_name="sm_90", emit=emit, print_generic=True))
    return compile_module(
        source, replace(options, knobs={**options.knobs, **knobs})
    ).output.decode()


def planned_stores(source: bytes, **knobs: str) -> list[bool]:
    """Whether the tiles of a kernel leave by TMA, in program order, as `tileas-plan-cta` says."""
    names = passes_between("check-target", "tileas-plan-cta")
    module = read_source(run_passes(source, *names, **knobs).encode())
    kinds = (aa.TiledStoreOp, aa.TiledAtomicRedOp)
    return [BY_TMA in op.attributes for op in module.walk() if isinstance(op, kinds)]


AT_ONCE = {DELAY_TMA_STORE_WAIT: "0"}
"""Consumers store themselves: no warp role does where the wait is not to be put off."""
