"""Kernels whose tiles a warp of its own stores, thread by thread with all warp roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Operation

from tests.kernels.lowered import run_lowered
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tests.kernels.stage_comparison import passes
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.dialects.nvvm import matrix, mbarrier, tma
from tileiras.interpreter import InterpreterError
from tileiras.ir_text import parse_text

SMALL = ProductKernel("f16", (64, 64, 64), b="transposed", form="persistent", result="f16")
LARGE = replace(SMALL, tile=(128, 128, 64))
WIDE = ProductKernel("f32", (64, 128, 32), b="transposed", form="persistent")
"""Four pieces of f32."""
TRANSPOSED = ProductKernel(
    "f16", (256, 128, 64), form="persistent", result="f16", order="columns", cluster=1
)
"""Warpgroups hold columns."""
SHORT = ProductKernel("f16", (128, 32, 16), form="persistent", result="f16", order="columns")
"""Rows of 64 bytes leave, and rows of 32 come in."""


def lowered(kernel: ProductKernel, stages: tuple[int, int] | None = None) -> ModuleOp:
    """The kernel in the llvm dialect; with `stages` so many stages, of so many pieces."""
    module = parse_text(aligned_result(kernel), "kernel.mlir")
    for name, _ in passes(module, (), "sm_90", to_threads=True):
        makers = [op for op in module.walk() if isinstance(op, ts.CreateStorePipelineOp)]
        if name == "tileas-optimize-alloc-tensor":
            assert len(makers) == 1
            if stages is not None:
                before = makers[0].stages.data * makers[0].pieces.data
                makers[0].properties["stages"] = IntAttr(stages[0])
                makers[0].properties["pieces"] = IntAttr(stages[1])
                room = makers[0].buffers.owner
                warpgroups = room.stages.data // before
                room.properties["stages"] = IntAttr(warpgroups * stages[0] * stages[1])
    return module


def check(
    kernel: ProductKernel,
    extents: tuple[int, int, int],
    seed: int,
    stages: tuple[int, int] | None = None,
    change: Callable[[ModuleOp], None] = lambda module: None,
) -> None:
    """Runs a kernel in two tile blocks and compares."""
    case = dense_case(kernel, extents, 2)
    arguments = case.arguments()
    module = lowered(kernel, stages)
    change(module)
    run_lowered(module, arguments, case.grid, seed)
    assert not case.difference(arguments[2])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stages", [None, (1, 1), (3, 1)])
def test_all_roles_together(stages: tuple[int, int] | None, seed: int):
    """Whatever there is room for; ragged tiles, an odd number of them."""
    check(SMALL, (187, 176, 96), seed, stages)


@pytest.mark.parametrize("stages", [None, (1, 1), (1, 2)])
def test_warpgroups_have_pipelines_of_their_own(stages: tuple[int, int] | None):
    check(LARGE, (300, 270, 64), 0, stages)


@pytest.mark.parametrize("stages", [None, (1, 3), (3, 1)])
def test_tiles_need_not_fill_stages_or_rounds(stages: tuple[int, int] | None):
    check(WIDE, (200, 200, 40), 1, stages)


@pytest.mark.parametrize("kernel", [TRANSPOSED, SHORT], ids=["transposed", "short rows"])
@pytest.mark.parametrize("stages", [None, (2, 1)])
def test_pieces_of_other_forms(kernel: ProductKernel, stages: tuple[int, int] | None):
    module = lowered(kernel)
    stores = [op for op in module.walk() if isinstance(op, matrix.StMatrixOp)]
    assert {op.transposed is not None for op in stores} == {kernel is TRANSPOSED}
    check(kernel, (300, 88, 40), 2, stages)


def removed(*ops: Operation) -> None:
    """Takes operations out."""
    assert ops
    for op in ops:
        op.detach()
        op.erase()


def without_wait_for_room(module: ModuleOp) -> None:
    """Consumers write whatever TMA still reads."""
    for op in [op for op in module.walk() if isinstance(op, mbarrier.MbarrierWaitOp)]:
        block = op.parent_block()
        assert block is not None
        if any(isinstance(other, matrix.StMatrixOp) for other in block.ops):
            removed(op)


def without_wait_for_reads(module: ModuleOp) -> None:
    """Stages are handed back at once."""
    waits = (op for op in module.walk() if isinstance(op, tma.TmaStoreWaitOp))
    removed(*[op for op in waits if op.read is not None])


def without_fences(module: ModuleOp) -> None:
    """TMA does not see what was written."""
    removed(*[op for op in module.walk() if isinstance(op, mbarrier.FenceProxyAsyncOp)])


def without_handing_back(module: ModuleOp) -> None:
    """The warp role keeps its stages."""
    for wait in [op for op in module.walk() if isinstance(op, tma.TmaStoreWaitOp)]:
        following = wait.next_op
        while wait.read is not None and following is not None:
            op, following = following, following.next_op
            if isinstance(op, mbarrier.MbarrierArriveOp):
                removed(op)
            elif isinstance(op, tma.TmaStoreWaitOp | mbarrier.MbarrierWaitOp):
                break


@pytest.mark.parametrize(
    ("change", "seed", "error"),
    [
        (without_wait_for_room, 3, "written while a bulk copy reads it, .* 'pieces'"),
        (without_wait_for_reads, 0, "stmatrix: race: written while a bulk copy reads it"),
        (without_fences, 0, "tma_store: the bulk copy starts from bytes that it does not see"),
        (without_handing_back, 0, "all warp roles wait: threads 0 to 127 at nvvm.mbarrier_wait"),
    ],
)
def test_what_is_missing_shows(change: Callable[[ModuleOp], None], seed: int, error: str):
    with pytest.raises(InterpreterError, match=error):
        check(SMALL, (187, 176, 96), seed, (1, 1), change)
