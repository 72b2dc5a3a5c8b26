"""Exact results and library calls for `loop_kernels.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from references import Arguments, Piece, expected_experts, expected_gemm, expert_slots, library_gemm


def _masked(arguments: Arguments) -> Arguments:
    """The product's arguments, with zeros for the tiles that the mask leaves out."""
    a, b, out, mask, tm, _, tk = arguments[:7]
    kept = mask.repeat_interleave(tm, 0).repeat_interleave(tk, 1)[: a.shape[0], : a.shape[1]]
    return [a * (kept > 0), b, out]


def expected_masked_gemm(arguments: Arguments) -> Iterator[Piece]:
    """The product of what the mask keeps."""
    yield from expected_gemm(_masked(arguments))


def library_fp8_experts(arguments: Arguments) -> Callable[[], Any]:
    """Gather, multiply, scatter, expert by expert; bytes are gathered, as torch wants it."""
    tokens, weights, out, slots, experts, chosen, tile = arguments[:7]
    result, one = torch.empty_like(out), torch.ones((), device=out.device)
    parts = expert_slots(slots, experts, out.shape[0], tile)
    rows = tokens.view(torch.uint8)

    def run() -> None:
        for weight, mine in zip(weights, parts):
            left = rows[mine // chosen].view(tokens.dtype)
            result[mine] = torch._scaled_mm(left, weight.T, one, one, out_dtype=out.dtype)

    return run


EXPECTED: dict[str, Callable[[Arguments], Iterator[Piece]]] = {
    "masked_gemm": expected_masked_gemm,
    "fp8_experts": expected_experts,
}

LIBRARY: dict[str, Callable[[Arguments], Callable[[], Any] | None]] = {
    "masked_gemm": lambda a: library_gemm(_masked(a)),
    "fp8_experts": library_fp8_experts,
}
