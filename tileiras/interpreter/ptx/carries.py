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


def multiply_add_carry(d: Decoder, type_: PtxType) -> Execute:
    """`mad.{lo,hi}.cc`, `madc.{lo,hi}{.cc}`: the product's half, plus `c` and the carry."""
    from tileiras.interpreter.ptx.integer import high_product

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
