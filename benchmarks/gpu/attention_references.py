"""Exact results and library calls for `attention_kernels.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from references import PROBABILITY, ROUNDING, sdpa

Arguments = list[Any]
Piece = tuple[Any, torch.Tensor, torch.Tensor | float]
CHUNK = 1 << 25
"""Elements of a float64 piece, about."""


def _weighted(
    weights: torch.Tensor, values: torch.Tensor, out: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of values, and the error that probabilities rounded to f16 leave."""
    exact = weights @ values
    noise = (weights.square() @ values.square()).sqrt()
    bound = 2 * ROUNDING[out.dtype] * exact.abs() + 4 * PROBABILITY[out.dtype] * noise
    return exact, bound + 2.0**-24


def expected_variant(arguments: Arguments) -> Iterator[Piece]:
    """Attention with caps, windows, biases and sinks."""
    q, k, v, extra, out, scale = arguments[:6]
    share, causal, window, cap, sinks, slopes = arguments[-6:]
    rows = max(1, CHUNK // k.shape[2])
    keys_at = torch.arange(k.shape[2], device=q.device)
    for head in range(q.shape[1]):
        keys, values = k[0, head // share].double(), v[0, head // share].double()
        for row in range(0, q.shape[2], rows):
            part = slice(row, min(row + rows, q.shape[2]))
            behind = torch.arange(part.start, part.stop, device=q.device)[:, None] - keys_at
            scores = q[0, head, part].double() @ keys.T * scale
            if cap:
                scores = cap * torch.tanh(scores / cap)
            if slopes:
                scores = scores - extra[head].double() * behind
            hidden = behind < 0 if causal else torch.zeros_like(behind, dtype=torch.bool)
            if window:
                hidden |= behind >= window
            scores.masked_fill_(hidden, -float("inf"))
            if sinks:
                sink = extra[head].double().expand(scores.shape[0], 1)
                scores = torch.cat((scores, sink), 1)
            weights = torch.softmax(scores, -1)[:, : k.shape[2]]
            yield (0, head, part), *_weighted(weights, values, out)


def _gathered(cache: torch.Tensor, pages: torch.Tensor) -> torch.Tensor:
    """A sequence's keys or values, (heads, length, depth)."""
    return cache[pages.long()].flatten(0, 1).transpose(0, 1)


def expected_paged(arguments: Arguments) -> Iterator[Piece]:
    """Attention to the keys that a table of pages names."""
    q, k, v, pages, out, scale = arguments[:6]
    for batch in range(q.shape[0]):
        keys, values = (_gathered(cache, pages[batch]).double() for cache in (k, v))
        weights = torch.softmax(q[batch].double() @ keys.mT * scale, -1)
        yield batch, *_weighted(weights, values, out)


def expected_latent(arguments: Arguments) -> Iterator[Piece]:
    """Attention whose keys are latent vectors with rotated elements behind, values without."""
    q, q_rope, kv, k_rope, out, scale = arguments[:6]
    for batch in range(q.shape[0]):
        latent = kv[batch].double()
        scores = q[batch].double() @ latent.T + q_rope[batch].double() @ k_rope[batch].double().T
        yield batch, *_weighted(torch.softmax(scores * scale, -1), latent, out)


def _weights(
    arguments: Arguments, head: int, part: slice, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Powers of the scores of some queries and all keys, and the gradients of these scores."""
    q, k, v, dy, tops, means = (tensor[0, head].double() for tensor in arguments[:6])
    scale = next(argument for argument in arguments if isinstance(argument, float))
    powers = torch.exp2(q[part] @ k.T * (scale / math.log(2.0)) - tops[part, None])
    if causal:
        rows = torch.arange(part.start, part.stop, device=q.device)[:, None]
        powers.masked_fill_(torch.arange(k.shape[0], device=q.device) > rows, 0.0)
    return powers, powers * (dy[part] @ v.T - means[part, None])


def _noise(weights: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return weights.square() @ other.double().square()


def expected_queries_backward(arguments: Arguments) -> Iterator[Piece]:
    """Gradients of scores times keys."""
    q, k, out, scale, causal = arguments[0], arguments[1], arguments[6], arguments[7], arguments[-1]
    rows = max(1, CHUNK // k.shape[2])
    for head in range(q.shape[1]):
        for row in range(0, q.shape[2], rows):
            part = slice(row, min(row + rows, q.shape[2]))
            _, change = _weights(arguments, head, part, causal)
            exact = change @ k[0, head].double() * scale
            noise = _noise(change, k[0, head]).sqrt() * scale
            yield (0, head, part), exact, _bound(exact, noise, out)


def expected_keys_backward(arguments: Arguments) -> Iterator[Piece]:
    """Gradients of keys, and of values."""
    q, k, dy, out = arguments[0], arguments[1], arguments[3], arguments[6]
    scale, causal = arguments[8], arguments[-1]
    rows = max(1, CHUNK // k.shape[2])
    for head in range(q.shape[1]):
        sums = torch.zeros((4, *k.shape[2:]), dtype=torch.float64, device=q.device)
        for row in range(0, q.shape[2], rows):
            part = slice(row, min(row + rows, q.shape[2]))
            powers, change = _weights(arguments, head, part, causal)
            sums[0] += change.T @ q[0, head, part].double() * scale
            sums[1] += _noise(change.T, q[0, head, part]) * scale**2
            sums[2] += powers.T @ dy[0, head, part].double()
            sums[3] += _noise(powers.T, dy[0, head, part])
        for place in range(2):
            exact, noise = sums[2 * place], sums[2 * place + 1].sqrt()
            yield (place, 0, head), exact, _bound(exact, noise, out)


def _bound(exact: torch.Tensor, noise: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Of a result in f16 whose left operand was rounded to f16."""
    return 2 * ROUNDING[out.dtype] * exact.abs() + 4 * PROBABILITY[out.dtype] * noise + 2.0**-20


def _library_variant(arguments: Arguments) -> Callable[[], Any] | None:
    """Plain attention: the library has none of the rest."""
    q, k, v, _, _, scale = arguments[:6]
    share, causal, *rest = arguments[-6:]
    return None if any(rest) else sdpa(q, k, v, scale, causal, share > 1)


def _library_backward(arguments: Arguments) -> Callable[[], Any]:
    """cuDNN's gradients, all three; it also sums up what our kernels are given as `means`."""
    q, k, v, dy = arguments[:4]
    scale = next(argument for argument in arguments if isinstance(argument, float))
    causal = arguments[-1]
    out, sums, q_ends, k_ends, q_length, k_length, seed, offset, _ = (
        torch.ops.aten._scaled_dot_product_cudnn_attention(
            q, k, v, None, True, 0.0, causal, False, scale=scale
        )
    )
    kept = (out, sums, seed, offset, None, q_ends, k_ends, q_length, k_length)
    return lambda: torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        dy, q, k, v, *kept, 0.0, causal, scale=scale
    )


EXPECTED: dict[str, Callable[[Arguments], Iterator[Piece]]] = {
    "variant_attention": expected_variant,
    "paged_decode": expected_paged,
    "latent_decode": expected_latent,
    "attention_queries_backward": expected_queries_backward,
    "attention_keys_backward": expected_keys_backward,
}

LIBRARY: dict[str, Callable[[Arguments], Callable[[], Any] | None]] = {
    "variant_attention": _library_variant,
    "paged_decode": lambda a: None,
    "latent_decode": lambda a: None,
    "attention_queries_backward": lambda a: None,
    "attention_keys_backward": _library_backward,
}
