"""Arithmetic with the carry flag of each thread (PTX ISA, "Extended-Precision Integer Arithmetic
Instructions")."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interpreter.ptx.decoding import Decoder, Execute
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.types import PtxType, bits_type


@rule("addc", "subc")
def with_carry(d: Decoder) -> Execute:
    """`addc`, `subc`: adds the carry flag; `.cc` writes it."""
    return carrying(d, d.type(), reads_carry=True)


def carrying(d: Decoder, type_: PtxType, reads_carry: bool) -> Execute:
    """Extended-precision addition and subtraction with the carry flag of each thread."""
    writes = d.flag("cc")
    d.count(3)
    held = bits_type(type_.bits)
    read_a, read_b, write = d.src(1, held), d.src(2, held), d.dst(0, held)
    is_add = d.opcode.startswith("add")
    kind = held.seen.type

    def run(cta: Any, on: Any) -> None:
        a, b = np.broadcast_arrays(read_a(cta), read_b(cta))
        carry = _flags(cta).astype(kind) if reads_carry else kind(0)
        if is_add:
            first = a + b
            total = first + carry
            out = (first < a) | (total < first)
        else:
            first = a - b
            total = first - carry
            out = (a < b) | (first < carry)
        write(cta, on, total)
        if writes:
            np.copyto(_flags(cta), out, where=on.mask)

    return run


def high_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of the full product of two integer arrays of one type."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(a.dtype)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x, y = a.view(np.uint64), b.view(np.uint64)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    mid = x1 * y0 + ((x0 * y0) >> half)
    rest = x0 * y1 + (mid & low)
    high = x1 * y1 + (mid >> half) + (rest >> half)
    if a.dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return high.view(a.dtype)


def multiply_add_carry(d: Decoder, type_: PtxType) -> Execute:
    """`mad.{lo,hi}.cc`, `madc.{lo,hi}{.cc}`: the product's half, plus `c` and the carry."""
    writes, reads_carry = d.flag("cc"), d.opcode == "madc"
    part = d.choice("lo", "hi")
    if part is None:
        d.error("expected .lo or .hi")
    read_a, read_b, read_c = (d.src(i, type_) for i in (1, 2, 3))
    write = d.dst(0, type_)
    kind = type_.held.type

    def run(cta: Any, on: Any) -> None:
        a, b, c = np.broadcast_arrays(read_a(cta), read_b(cta), read_c(cta))
        product = (a * b if part == "lo" else high_product(a, b)).view(type_.held)
        carry = _flags(cta).astype(kind) if reads_carry else kind(0)
        first = product + c.view(type_.held)
        total = first + carry
        write(cta, on, total)
        if writes:
            np.copyto(_flags(cta), (first < product) | (total < first), where=on.mask)

    return run


def _flags(cta: Any) -> np.ndarray:
    if "carry" not in cta.special:
        cta.special["carry"] = np.zeros(cta.threads, np.bool_)
    return cta.special["carry"]
