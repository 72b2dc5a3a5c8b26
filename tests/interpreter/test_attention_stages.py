"""Attention whose sums lie in tensor memory, at nv_tileas: values, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tests.kernels.softmax_attention import run_attention, softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.dialects.nv_tileas import tcgen05 as tc
from tileiras.driver import read_source
from tileiras.interpreter import InterpreterError

SIZES = (128, 32, 32)


def lowered(kind: str) -> tuple[ModuleOp, ModuleOp]:
    """A kernel as it is written, and at nv_tileas for sm_100."""
    source = read_source(softmax_attention(kind, *SIZES))
    module = source.clone()
    for _ in passes(module, (), "sm_100"):
        pass
    return source, module


def result(module: ModuleOp) -> np.ndarray:
    """What it leaves for 96 keys."""
    bits = run_attention(module, SIZES[0], 96, SIZES[2])
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
