"""Attention whose sums lie in tensor memory, at nv_tileas: values, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Operation

from tests.kernels.softmax_attention import run_attention, softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.driver import read_source
from tileiras.interpreter import InterpreterError

SIZES = (128, 32, 32)
IN_TURNS = (256, 64, 64)


def lowered(kind: str, sizes: tuple[int, int, int] = SIZES) -> tuple[ModuleOp, ModuleOp]:
    """A kernel as it is written, and at nv_tileas for sm_100."""
    source = read_source(softmax_attention(kind, *sizes))
    module = source.clone()
    for _ in passes(module, (), "sm_100"):
        pass
    return source, module


def result(module: ModuleOp, sizes: tuple[int, int, int] = SIZES) -> np.ndarray:
    """What it leaves for three tiles of keys."""
    bits = run_attention(module, sizes[0], 3 * sizes[1], sizes[2])
    return bits.view(np.float16).astype(np.float64)


@pytest.mark.parametrize("kind", ["full", "causal", "masked"])
def test_values_are_those_of_the_program(kind: str) -> None:
    source, module = lowered(kind)
    found = {type(op) for op in module.walk()}
    assert {tc.AccumulatorScaleOp, tc.LeftOperandStoreOp, tc.AccumulatorLoadOp} <= found
    np.testing.assert_allclose(result(module), result(source), atol=2e-3)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (tc.LeftOperandStoreOp, "a left operand is never stored: the products hang"),
        (tc.LeftOperandWaitOp, "a left operand is read that nobody has waited for"),
        (tc.LeftOperandReleaseOp, "the left operand before is not handed back"),
        (tc.AccumulatorScaleOp, "a sum is never loaded"),
        (tc.AccumulatorClearOp, "a sum is scaled that nobody has cleared"),
        (tc.AccumulatorCommitOp, "the sum before has not been committed"),
    ],
)
def test_what_is_left_out_is_found(kind: type[Operation], message: str) -> None:
    _, module = lowered("full")
    for op in [op for op in module.walk() if isinstance(op, kind)]:
        op.detach()
    with pytest.raises(InterpreterError, match=message):
        result(module)


@pytest.mark.parametrize("kind", ["full", "causal"])
def test_blocks_of_rows_that_take_turns_make_the_same(kind: str) -> None:
    source, module = lowered(kind, IN_TURNS)
    dots = [op for op in module.walk() if isinstance(op, tc.Tcgen05DotOp)]
    blocks = {op.block.data for op in dots if op.block is not None}
    assert blocks == {0, 1}
    found, wanted = result(module, IN_TURNS), result(source, IN_TURNS)
    np.testing.assert_allclose(found, wanted, atol=2e-3)


@pytest.mark.parametrize(
    "kind",
    [tc.Tcgen05DotOp, tc.AccumulatorCommitOp, tc.LeftOperandWaitOp, tc.LeftOperandReleaseOp],
)
def test_block_that_is_left_out_is_found(kind: type[Operation]) -> None:
    _, module = lowered("full", IN_TURNS)
    for op in [op for op in module.walk() if isinstance(op, kind)]:
        if op.properties["block"] == IntAttr(1):
            op.detach()
    message = "block 1 of the rows is left out|a left operand is read that nobody has waited for"
    with pytest.raises(InterpreterError, match=message):
        result(module, IN_TURNS)
