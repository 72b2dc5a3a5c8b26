"""Transposes in shared memory stay where their stage would go back too early."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from tests.kernels.attention import attention
from tests.kernels.pass_runs import OPTIONS, passes_between, run_passes
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.driver import read_source
from tileiras.ir_pass import CompileContext
from tileiras.passes.nv_tileas.hoist_transposes import HoistTransposesPass

BEFORE = passes_between("check-target", "tileas-order-producer")


def converted() -> ModuleOp:
    """Attention on f8, whose second product reads a transposed tile."""
    return read_source(run_passes(attention(1, 128, 64, 64, "f8E4M3FN"), *BEFORE).encode())


def transpose_of(module: ModuleOp) -> wg.SmemTransposeOp:
    """The only transpose."""
    [found] = (op for op in module.walk() if isinstance(op, wg.SmemTransposeOp))
    return found


def hoist(module: ModuleOp) -> None:
    """Runs the pass."""
    HoistTransposesPass().apply(CompileContext(options=OPTIONS), module)


def test_a_second_run_changes_nothing():
    module = converted()
    before = str(module)
    hoist(module)
    after = str(module)
    hoist(module)
    assert before != after == str(module)


def test_a_stage_that_is_read_before_stays_until_then():
    module = converted()
    transpose = transpose_of(module)
    wait = transpose.tile.owner
    block = transpose.parent_block()
    assert isinstance(wait, pl.ConsumerWaitOp) and block is not None
    block.insert_op_after(transpose.clone(), wait)
    before = str(module)
    hoist(module)
    assert str(module) == before
