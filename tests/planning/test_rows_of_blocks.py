"""Which tile blocks of 64 rows are computed two at once as one of 128, and as what."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.planned_attention import behind, kernel_of
from tests.kernels.softmax_attention import run_attention, softmax_attention
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import wgmma as wg
from tileiras.planning.tile_scheduler.rows_of_blocks import rows_of_blocks


def joined(kind: str, rows: int, columns: int, depth: int, share: int = 1) -> aa.FuncOp:
    """A kernel of attention behind the pass that joins tile blocks."""
    text = softmax_attention(kind, rows, columns, depth, share).decode()
    return kernel_of(behind(text, "tiles-per-cta"))


def rows_of_products(func: aa.FuncOp) -> set[int]:
    """The rows of all products."""
    dots = (op for op in func.walk() if isinstance(op, aa.DotOp))
    return {dot.result.type.get_shape()[0] for dot in dots}


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "depth", "expected"),
    [
        ("full", 64, 64, 128, 128),
        ("full", 64, 128, 128, 128),
        ("full", 64, 32, 128, 128),
        ("full", 64, 64, 256, 128),
        # Two CTAs of 64 queries share an SM, and L2 is not the limit.
        ("full", 64, 128, 64, 64),
        # The second tile block has more keys than the first.
        ("causal", 64, 64, 128, 64),
        ("masked", 64, 64, 128, 64),
        ("full", 128, 128, 128, 128),
        # Queries of 16 rows come to shared memory as 64, so that two CTAs have registers.
        ("full", 16, 128, 128, 64),
        ("full", 32, 128, 128, 64),
        # They have already, or would not either.
        ("full", 16, 64, 128, 16),
        ("full", 16, 128, 64, 16),
        ("full", 16, 256, 128, 16),
        ("causal", 16, 128, 128, 16),
    ],
)
def test_which_are_joined(kind: str, rows: int, columns: int, depth: int, expected: int) -> None:
    assert rows_of_products(joined(kind, rows, columns, depth)) == {expected}


def test_rows_that_are_stored_end_with_a_tile_block_that_is_alone() -> None:
    func = joined("full", 64, 64, 128)
    [end] = [op for op in func.walk() if isinstance(op, aa.SelectOp) and op.end_of_rows]
    [memref] = [use.operation for use in end.result.uses]
    assert isinstance(memref, aa.MakeMemRefOp)
    [view] = [use.operation for use in memref.result.uses]
    assert isinstance(view, aa.BlockTileOp)
    [store] = [use.operation for use in view.result.uses]
    assert isinstance(store, aa.TiledStoreOp)
    assert {64, 128} <= {*view.result.type.tile_shape, *view.result.type.steps}


def test_whole_rows_are_stored_as_few() -> None:
    """Rows behind those of the tile are another tile block's, or none."""
    func = joined("full", 16, 128, 128)
    assert not any(op.end_of_rows for op in func.walk() if isinstance(op, aa.SelectOp))
    [store] = [op for op in func.walk() if isinstance(op, aa.TiledStoreOp)]
    assert 64 in store.view.type.tile_shape and 16 in store.view.type.steps
    [limit] = [op for op in func.walk() if isinstance(op, aa.MinIOp)]
    assert any(isinstance(use.operation, aa.MakeMemRefOp) for use in limit.result.uses)


def test_what_else_depends_on_the_tile_block_keeps_it_alone() -> None:
    """A second use of its number: which keys it reads."""
    text = softmax_attention("full", 64, 64, 128).decode()
    module = behind(text, "convert-cudatile-to-tileaa")
    func = kernel_of(module)
    assert rows_of_blocks(func) is not None
    number = next(
        op for op in func.walk() if isinstance(op, aa.GetProgramIdOp) and not op.axis.value.data
    )
    load = [op for op in func.walk() if isinstance(op, aa.TiledLoadOp)][-1]
    load.operands[len(load.operands) - 2] = number.result
    assert rows_of_blocks(func) is None


def consumers(module: ModuleOp) -> list[pl.AgentSwitchOp]:
    """Where warps part."""
    return [op for op in module.walk() if isinstance(op, pl.AgentSwitchOp)]


def test_warpgroups_without_rows_wait_for_nothing() -> None:
    """Every wait is where there are rows; elsewhere all pipelines are left."""
    module = behind(softmax_attention("full", 64, 64, 128).decode(), "convert-tileaa-to-tileas")
    [switch] = consumers(module)
    body = switch.consumer.block
    [has] = [op for op in body.ops if isinstance(op, wg.HasRowsOp)]
    [use] = has.result.uses
    branch = use.operation
    assert isinstance(branch, aa.IfOp)
    waits = [op for op in body.walk() if isinstance(op, pl.ConsumerWaitOp | wg.WgmmaDotOp)]
    assert waits and all(branch.then_region.block.is_ancestor(op) for op in waits)
    [left] = [op for op in branch.else_region.block.ops if isinstance(op, wg.LeavePipelinesOp)]
    pipelines = [op.results[0] for op in module.walk() if isinstance(op, pl.CreatePipelineOp)]
    assert set(left.pipelines) == set(pipelines)


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (16, 128)])
def test_interpreted_values_are_the_same(rows: int, columns: int) -> None:
    """Of a grid that is odd and small, whose blocks stay alone; then iterations are joined, too."""
    text = softmax_attention("full", rows, columns, 128).decode()
    stages = ("convert-cudatile-to-tileaa", "tiles-per-cta", "convert-tileaa-to-tileas")
    first, alone, last = (
        run_attention(behind(text, stage), rows, 3 * columns, 128, 1, (3,)).view(np.float16)
        for stage in stages
    )
    assert (first == alone).all()
    np.testing.assert_allclose(last, first, atol=2e-3)
