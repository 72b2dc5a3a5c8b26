"""What each kernel must compute, in float64, and the library call that computes the same.

`expected` yields pieces of the answer, so that large results need no large float64 copies: where
the piece lies in the output, its values, and the allowed error of each element.

An element's allowed error is a rounding to the result's format and `noise` times the root of the
sum of squared terms: rounding errors of a sum add up like a random walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import layer_norm, rms_norm, scaled_dot_product_attention

Piece = tuple[Any, torch.Tensor, torch.Tensor | float]
Arguments = list[Any]

ROUNDING = {
    torch.float32: 2.0**-23,
    torch.float16: 2.0**-10,
    torch.bfloat16: 2.0**-7,
    torch.int32: 0.0,
}
"""The spacing of numbers near 1: twice the error of one rounding."""

NOISE = {
    torch.float32: 2.0**-7,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-11,
    torch.float8_e4m3fn: 2.0**-7,
    torch.int8: 0.0,
}
"""For products of operands of a type: f32 goes in as tf32, fp8 adds up in fewer bits."""

PROBABILITY = {torch.float16: 2.0**-10, torch.float8_e4m3fn: 2.0**-4}
"""The relative error of a probability of attention, rounded to the type of the values."""

CHUNK = 1 << 25
"""Elements of a float64 piece, about."""


def _matrices(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dim() == 3 else tensor[None]


def expected_gemm(arguments: Arguments) -> Iterator[Piece]:
    """Products of matrices or batches of them."""
    out = arguments[2]
    a, b = _matrices(arguments[0]), _matrices(arguments[1])
    rows = max(1, CHUNK // b.shape[2])
    for batch in range(a.shape[0]):
        right = b[batch].to(torch.float64)
        for row in range(0, a.shape[1], rows):
            left = a[batch, row : row + rows].to(torch.float64)
            exact = left @ right
            bound = ROUNDING[out.dtype] * exact.abs()
            if NOISE[a.dtype]:
                bound += NOISE[a.dtype] * (left.square() @ right.square()).sqrt()
            place = slice(row, row + rows)
            yield (place if out.dim() == 2 else (batch, place)), exact, bound


def expected_f32_gemm(arguments: Arguments) -> Iterator[Piece]:
    """Products of f32 that are not rounded: partial sums are, once for each of the depth."""
    a, b = arguments[0].to(torch.float64), arguments[1].to(torch.float64)
    noise = ROUNDING[torch.float32] * a.shape[1] ** 0.5 * (a.square() @ b.square()).sqrt()
    yield slice(None), a @ b, noise


def expected_split_gemm(arguments: Arguments) -> Iterator[Piece]:
    """A product whose parts are added in the result's format: a rounding for each part."""
    a, b, out, parts = arguments[0], arguments[1], arguments[2], arguments[-1]
    terms = (a.double().square() @ b.double().square()).sqrt()
    for place, exact, bound in expected_gemm(arguments):
        yield place, exact, bound + 2 * parts**0.5 * ROUNDING[out.dtype] * terms[place]


def expected_grouped_gemm(arguments: Arguments) -> Iterator[Piece]:
    """A product for each group of rows."""
    a, b, out, groups = arguments[:4]
    rows = groups.repeat_interleave(a.shape[0] // groups.shape[0])
    for group, matrix in enumerate(b):
        mine = (rows == group).nonzero().flatten()
        left, right = a[mine].to(torch.float64), matrix.to(torch.float64)
        exact = left @ right
        noise = NOISE[a.dtype] * (left.square() @ right.square()).sqrt()
        yield mine, exact, ROUNDING[out.dtype] * exact.abs() + noise


def library_gemm(arguments: Arguments) -> Callable[[], Any] | None:
    """cuBLAS through torch; a product for each matrix of a batch where torch wants it so.

    Floats come out in the type of the operands: torch refuses an `out` of another.
    """
    a, b, out = arguments[:3]
    if a.dtype == torch.int8:
        return lambda: torch._int_mm(a, b)
    if a.dtype == torch.float8_e4m3fn:
        one = torch.ones((), device=a.device)
        columns = b.transpose(1, 2).contiguous().transpose(1, 2)
        return lambda: [
            torch._scaled_mm(x, y, one, one, out_dtype=out.dtype) for x, y in zip(a, columns)
        ]
    result = torch.empty_like(out, dtype=a.dtype)
    return lambda: torch.matmul(a, b, out=result)


def library_f32_gemm(arguments: Arguments) -> Callable[[], Any]:
    """cuBLAS without tf32."""
    a, b, out = arguments[:3]
    result, modes = torch.empty_like(out), torch.backends.cuda.matmul

    def multiply() -> None:
        usual, modes.allow_tf32 = modes.allow_tf32, False
        torch.matmul(a, b, out=result)
        modes.allow_tf32 = usual

    return multiply


def expected_experts(arguments: Arguments) -> Iterator[Piece]:
    """A product for each expert's slots."""
    tokens, weights, out, slots, experts, chosen, tile = arguments[:7]
    for expert, mine in enumerate(expert_slots(slots, experts, out.shape[0], tile)):
        left = tokens[mine // chosen].to(torch.float64)
        right = weights[expert].to(torch.float64).T
        exact = left @ right
        noise = NOISE[tokens.dtype] * (left.square() @ right.square()).sqrt()
        yield mine, exact, ROUNDING[out.dtype] * exact.abs() + noise


def expert_slots(
    slots: torch.Tensor, experts: torch.Tensor, count: int, tile: int
) -> list[torch.Tensor]:
    """The slots of every expert, without padding."""
    owners = experts.repeat_interleave(tile)
    return [
        slots[(owners == expert) & (slots < count)].long()
        for expert in range(int(experts.max()) + 1)
    ]


def library_experts(arguments: Arguments) -> Callable[[], Any]:
    """Gather, multiply, scatter, expert by expert."""
    tokens, weights, out, slots, experts, chosen, tile = arguments[:7]
    result = torch.empty_like(out)
    parts = expert_slots(slots, experts, out.shape[0], tile)

    def run() -> None:
        for weight, mine in zip(weights, parts):
            result[mine] = tokens[mine // chosen] @ weight.T

    return run


def _expected_attention(arguments: Arguments, causal: bool) -> Iterator[Piece]:
    q, k, v, out, scale = arguments[:5]
    heads = k.shape[1]
    is_decode = q.shape[2] != k.shape[2]
    share = 1 if is_decode else q.shape[1] // heads
    rows = max(1, CHUNK // k.shape[2])
    for batch in range(q.shape[0]):
        for head in range(q.shape[1]):
            keys = k[batch, head // share].to(torch.float64)
            values = v[batch, head // share].to(torch.float64)
            for row in range(0, q.shape[2], rows):
                part = slice(row, min(row + rows, q.shape[2]))
                scores = q[batch, head, part].to(torch.float64) @ keys.T * scale
                if causal:
                    scores.masked_fill_(_hidden(part, k.shape[2], q.device), -float("inf"))
                weights = torch.softmax(scores, -1)
                exact = weights @ values
                noise = (weights.square() @ values.square()).sqrt()
                bound = 2 * ROUNDING[out.dtype] * exact.abs() + 4 * PROBABILITY[q.dtype] * noise
                yield (batch, head, part), exact, bound


def _hidden(part: slice, length: int, device: torch.device) -> torch.Tensor:
    """Where the keys lie behind the queries of a part."""
    rows = torch.arange(part.start, part.stop, device=device)[:, None]
    return torch.arange(length, device=device)[None, :] > rows


def _library_attention(arguments: Arguments, causal: bool) -> Callable[[], Any] | None:
    """cuDNN's attention, or the flash kernel where cuDNN has none; torch has none of fp8."""
    q, k, v, _, scale = arguments[:5]
    if q.dtype == torch.float8_e4m3fn:
        return None
    if q.shape[2] != k.shape[2]:  # decoding: the rows are the heads of a group
        q = q.reshape(q.shape[0], -1, 1, q.shape[3])
    return sdpa(q, k, v, scale, causal, q.shape[1] != k.shape[1])


def sdpa(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: bool, shared: bool
) -> Callable[[], Any]:
    """torch's attention by cuDNN, else by the flash kernel, else by products."""

    def run(backends: list[SDPBackend]) -> Any:
        with sdpa_kernel(backends):
            return scaled_dot_product_attention(
                q, k, v, is_causal=causal, scale=scale, enable_gqa=shared
            )

    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        try:
            run([backend])
        except RuntimeError:
            continue
        return lambda: run([backend])
    return lambda: run([SDPBackend.MATH])


def _by_rows(
    x: torch.Tensor, out: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[Piece]:
    rows = max(1, CHUNK // x.shape[1])
    for row in range(0, x.shape[0], rows):  # f16 numbers near zero are spaced by 2^-24
        exact = function(x[row : row + rows].to(torch.float64))
        bound = ROUNDING[out.dtype] * exact.abs() + 2.0**-24
        yield slice(row, row + rows), exact, bound


def expected_softmax(arguments: Arguments) -> Iterator[Piece]:
    """Softmax of rows."""
    yield from _by_rows(arguments[0], arguments[1], lambda part: torch.softmax(part, 1))


def expected_rms_norm(arguments: Arguments) -> Iterator[Piece]:
    """RMS norm of rows."""
    x, weight, out, eps = arguments[:4]
    gain = weight.to(torch.float64)
    yield from _by_rows(x, out, lambda part: rms_norm(part, part.shape[1:], gain, eps))


def expected_layer_norm(arguments: Arguments) -> Iterator[Piece]:
    """Layer norm of rows; cancellation against the shift leaves errors of the larger term."""
    x, weight, bias, out, eps = arguments[:5]
    gain, shift = weight.to(torch.float64), bias.to(torch.float64)

    def norm(part: torch.Tensor) -> torch.Tensor:
        return layer_norm(part, part.shape[1:], gain, shift, eps)

    for place, exact, bound in _by_rows(x, out, norm):
        yield place, exact, bound + 2.0**-18 * (1 + shift.abs())


def expected_vector_add(arguments: Arguments) -> Iterator[Piece]:
    """Sums; f32 rounds once."""
    a, b, out = arguments[:3]
    for start in range(0, a.shape[0], CHUNK):
        part = slice(start, start + CHUNK)
        exact = a[part].to(torch.float64) + b[part].to(torch.float64)
        yield part, exact, ROUNDING[out.dtype] / 2 * exact.abs()


def expected_transpose(arguments: Arguments) -> Iterator[Piece]:
    """The same bits elsewhere."""
    yield slice(None), arguments[0].T.to(torch.float64), 0.0


def expected_column_sums(arguments: Arguments) -> Iterator[Piece]:
    """Sums of columns in f32."""
    source = arguments[0]
    exact = torch.zeros(source.shape[1], dtype=torch.float64, device=source.device)
    squares = torch.zeros_like(exact)
    step = max(1, CHUNK // source.shape[1])
    for row in range(0, source.shape[0], step):
        part = source[row : row + step].to(torch.float64)
        exact += part.sum(0)
        squares += part.square().sum(0)
    noise = 2.0**-18 * squares.sqrt()
    yield slice(None), exact, ROUNDING[arguments[1].dtype] * exact.abs() + noise


def _into(out: torch.Tensor, function: Callable[[torch.Tensor], Any]) -> Callable[[], Any]:
    result = torch.empty_like(out)
    return lambda: function(result)


EXPECTED: dict[str, Callable[[Arguments], Iterator[Piece]]] = {
    "gemm": expected_gemm,
    "f32_gemm": expected_f32_gemm,
    "split_gemm": expected_split_gemm,
    "grouped_gemm": expected_grouped_gemm,
    "experts": expected_experts,
    "attention": lambda a: _expected_attention(a, False),
    "causal_attention": lambda a: _expected_attention(a, True),
    "vector_add": expected_vector_add,
    "transpose": expected_transpose,
    "column_sums": expected_column_sums,
    "softmax": expected_softmax,
    "rms_norm": expected_rms_norm,
    "layer_norm": expected_layer_norm,
}

LIBRARY: dict[str, Callable[[Arguments], Callable[[], Any] | None]] = {
    "gemm": library_gemm,
    "f32_gemm": library_f32_gemm,
    "split_gemm": library_gemm,
    "grouped_gemm": lambda a: library_gemm([a[0], a[1][0], a[2]]),
    "experts": library_experts,
    "attention": lambda a: _library_attention(a, False),
    "causal_attention": lambda a: _library_attention(a, True),
    "vector_add": lambda a: _into(a[2], lambda out: torch.add(a[0], a[1], out=out)),
    "transpose": lambda a: _into(a[1], lambda out: out.copy_(a[0].T)),
    "column_sums": lambda a: lambda: torch.sum(a[0], 0, dtype=torch.float32),
    "softmax": lambda a: lambda: torch.softmax(a[0], 1),
    "rms_norm": lambda a: lambda: rms_norm(a[0], a[0].shape[1:], a[1], a[3]),
    "layer_norm": lambda a: lambda: layer_norm(a[0], a[0].shape[1:], a[1], a[2], a[4]),
}
