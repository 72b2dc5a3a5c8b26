"""Warp-level matrix instructions: ldmatrix, stmatrix, movmatrix, mma.sync (PTX ISA, "Warp Level
Matrix Multiply-Accumulate Instructions").

A product is computed in float64 from the exact elements and rounded once; the hardware may cut
bits of partial sums, which the ISA leaves open.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tileiras.interpreter.ptx.access import locate
from tileiras.interpreter.ptx.decoding import Decoder, Execute, Read, spread
from tileiras.interpreter.ptx.elements import (
    BITS,
    INTEGERS,
    element_values,
    integer_words,
    rounded_words,
    split_words,
)
from tileiras.interpreter.ptx.formats import FORMATS, decode
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import WARP, Active, Cta
from tileiras.interpreter.ptx.types import B32, TYPES

ROW_BYTES = 16
"""Bytes of a row of the matrices that ldmatrix and stmatrix move."""


def _count(d: Decoder) -> int:
    return {"x1": 1, "x2": 2, "x4": 4}[d.choice("x1", "x2", "x4") or "x1"]


def _header(d: Decoder) -> None:
    if not (d.flag("sync") and d.flag("aligned")):
        d.error("expected .sync.aligned")
    d.meet()


@rule("ldmatrix")
def load_matrix(d: Decoder) -> Execute:
    """`ldmatrix`: 8x8 matrices of 16 bits; lanes 8i to 8i+7 hold the rows of matrix i."""
    _header(d)
    shape = d.choice("m8n8", "m16n16", "m8n16")
    if shape != "m8n8":
        d.error("only .m8n8 is supported")
    count, transposes = _count(d), d.flag("trans")
    d.choice("shared", "shared::cta")
    if not d.flag("b16"):
        d.error("expected .b16")
    address, line = d.address(1), d.line
    items = d.items(0)
    if len(items) != count:
        d.error(f"{len(items)} registers for {count} matrices")
    writes = [d.dst(item, B32) for item in items]

    def run(cta: Cta, on: Active) -> None:
        lanes = (on.warps[:, None] * WARP + np.arange(8 * count)).reshape(-1)
        rows = np.zeros((len(lanes), 4), np.uint32)
        where = spread(address(cta), cta)[lanes]
        for place in locate(cta, lanes, "shared", where, ROW_BYTES, line):
            if place.cta is not None and place.cta.shadow is not None:
                place.cta.shadow.read(cta, lanes[place.rows], place.at, ROW_BYTES, line)
            rows[place.rows] = place.bytes.gather(place.at, 4, 4)
        matrices = rows.view(np.uint16).reshape(len(on.warps), count, 8, 8)
        if transposes:
            matrices = matrices.swapaxes(2, 3)
        words = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, count, WARP)
        for i, write in enumerate(writes):
            full = np.zeros((cta.threads // WARP, WARP), np.uint32)
            full[on.warps] = words[:, i]
            write(cta, on, full.reshape(-1))

    return run


@rule("stmatrix")
def store_matrix(d: Decoder) -> Execute:
    """`stmatrix`: the inverse of `ldmatrix`."""
    _header(d)
    if d.choice("m8n8", "m16n8") != "m8n8":
        d.error("only .m8n8 is supported")
    count, transposes = _count(d), d.flag("trans")
    d.choice("shared", "shared::cta")
    if not d.flag("b16"):
        d.error("expected .b16")
    address, line = d.address(0), d.line
    items = d.items(1)
    if len(items) != count:
        d.error(f"{len(items)} registers for {count} matrices")
    reads = [d.src(item, B32) for item in items]

    def run(cta: Cta, on: Active) -> None:
        words = np.stack([spread(r(cta), cta).reshape(-1, WARP)[on.warps] for r in reads], axis=1)
        matrices = np.ascontiguousarray(words).view(np.uint16).reshape(-1, count, 8, 8)
        if transposes:
            matrices = matrices.swapaxes(2, 3)
        rows = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, 4)
        lanes = (on.warps[:, None] * WARP + np.arange(8 * count)).reshape(-1)
        where = spread(address(cta), cta)[lanes]
        for place in locate(cta, lanes, "shared", where, ROW_BYTES, line):
            if place.cta is not None and place.cta.shadow is not None:
                place.cta.shadow.write(cta, lanes[place.rows], place.at, ROW_BYTES, line)
            place.bytes.scatter(place.at, rows[place.rows])

    return run


@rule("movmatrix")
def move_matrix(d: Decoder) -> Execute:
    """`movmatrix.sync.aligned.m8n8.trans.b16`: transposes an 8x8 matrix held by a warp."""
    _header(d)
    if not (d.flag("m8n8") and d.flag("trans") and d.flag("b16")):
        d.error("expected .m8n8.trans.b16")
    read, write = d.src(1, B32), d.dst(0, B32)

    def run(cta: Cta, on: Active) -> None:
        words = np.ascontiguousarray(spread(read(cta), cta)).view(np.uint16).reshape(-1, 8, 8)
        turned = np.ascontiguousarray(words.swapaxes(1, 2))
        write(cta, on, turned.view(np.uint32).reshape(-1))

    return run


# mma.sync -------------------------------------------------------------------------------------


@cache
def operand_places(rows: int, depth: int, bits: int, is_a: bool) -> tuple[np.ndarray, np.ndarray]:
    """Row (A) or column (B), and depth, of element (lane, register, part) of an operand.

    PTX ISA, "Matrix Fragments for mma.m16n8k16" and the other shapes: all follow one rule, with
    `32 / bits` elements per register.
    """
    part = max(32 // bits, 1)
    lane, group, member = np.arange(WARP), np.arange(WARP) // 4, np.arange(WARP) % 4
    both = is_a and rows == 16
    registers = depth // (4 * part) * (2 if both else 1)
    register = np.arange(registers)
    index = np.arange(part)
    step = register >> 1 if both else register
    high = 8 * (register & 1) if both else 0 * register
    row = group[:, None, None] + high[None, :, None] + 0 * index
    at = member[:, None, None] * part + (step * 4 * part)[None, :, None] + index
    del lane
    return row, at


@cache
def result_places(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of element (lane, i) of C and D."""
    lane, i = np.arange(WARP)[:, None], np.arange(rows // 4)[None, :]
    return lane // 4 + 8 * (i >> 1), lane % 4 * 2 + (i & 1)


@dataclass(frozen=True)
class Product:
    """What the modifiers of an mma.sync say."""

    m: int
    k: int
    a: str
    b: str
    c: str
    d: str
    kind: str = ""
    scales: int = 0
    scale_type: str = ""
    saturates: bool = False
    bit_operation: str = ""

    def container(self, name: str) -> int:
        """Bits that an element takes in a register: small ones take 8 except in mxf4 kinds."""
        return 8 if BITS[name] < 8 and self.kind.endswith("f8f6f4") else BITS[name]


_SCALES = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}


def _product(d: Decoder) -> Product:
    if d.flag("sp", "sp::ordered_metadata"):
        d.error("sparse products are not supported")
    _header(d)
    shape = re.fullmatch(r"m(8|16)n8k(\d+)", d.modifiers.pop(0))
    if shape is None:
        d.error("unknown shape")
    if not (d.flag("row") and d.flag("col")):
        d.error("expected .row.col")
    kind = d.starting("kind::") or ""
    has_scales = d.flag("block_scale")
    scales = _SCALES.get(d.choice(*_SCALES) or "", 0)
    saturates = d.flag("satfinite")
    operation = "and" if d.flag("and") else "xor" if d.flag("xor") else ""
    d.flag("popc")
    scale_type = d.modifiers.pop() if has_scales else ""
    if len(d.modifiers) != 4:
        d.error("expected four types")
    types, d.modifiers = d.modifiers[:], []
    for name in types[1:3]:
        if name not in BITS:
            d.error(f"'.{name}' is no type of an operand")
    for name in (types[0], types[3]):
        if name not in ("f16", "f32", "s32", "f64"):
            d.error(f"'.{name}' is no type of a result")
    if has_scales and not scales:
        scales = 2 if kind == "mxf4" else 1
    return Product(
        int(shape[1]),
        int(shape[2]),
        types[1],
        types[2],
        types[3],
        types[0],
        kind,
        scales,
        scale_type,
        saturates,
        operation,
    )


@rule("mma")
def multiply_matrices(d: Decoder) -> Execute:
    """`mma.sync.aligned.shape.row.col{.kind}.d.a.b.c`, also `.block_scale`."""
    product = _product(d)
    if product.a == "f64":
        return _double_product(d, product)
    if product.m == 8 and product.a == "f16":
        d.error("m8n8k4 of f16 is not supported")
    bits_a, bits_b = product.container(product.a), product.container(product.b)
    places_a = operand_places(product.m, product.k, bits_a, True)
    places_b = operand_places(8, product.k, bits_b, False)
    read_a = _registers(d, 1, places_a[0].shape[1])
    read_b = _registers(d, 2, places_b[0].shape[1])
    is_half_c, is_half_d = product.c == "f16", product.d == "f16"
    read_c = _registers(d, 3, product.m // 4 // (2 if is_half_c else 1))
    items = d.items(0)
    if len(items) != product.m // 4 // (2 if is_half_d else 1):
        d.error(f"{len(items)} registers of d")
    writes = [d.dst(item, B32) for item in items]
    scale_a = _scales(d, 4, product, True) if product.scales else None
    scale_b = _scales(d, 6, product, False) if product.scales else None
    d.count(8 if product.scales else 4)
    row, column = result_places(product.m)

    def run(cta: Cta, on: Active) -> None:
        warps = on.warps
        a = _matrix(read_a, cta, warps, places_a, bits_a, product.a, (product.m, product.k))
        b = _matrix(read_b, cta, warps, places_b, bits_b, product.b, (8, product.k))
        if scale_a and scale_b:
            block = product.k // product.scales
            a = a * np.repeat(scale_a(cta, warps), block, axis=2)
            b = b * np.repeat(scale_b(cta, warps), block, axis=2)
        if product.bit_operation == "xor":
            total = product.k - (a @ b.swapaxes(1, 2) + (1 - a) @ (1 - b).swapaxes(1, 2))
        else:
            total = a @ b.swapaxes(1, 2)
        c = _stacked(read_c, cta, warps)
        before = element_values(split_words(c, 16), "f16") if is_half_c else _plain(c, product)
        result = _words(total[:, row, column] + before, product)
        if is_half_d:
            result = np.ascontiguousarray(result).view(np.uint32)
        for i, write in enumerate(writes):
            full = np.zeros((cta.threads // WARP, WARP), np.uint32)
            full[warps] = result[:, :, i]
            write(cta, on, full.reshape(-1))

    return run


def _plain(words: np.ndarray, product: Product) -> np.ndarray:
    kind = np.int32 if product.c == "s32" else np.float32
    return words.view(kind).astype(np.float64)


def _words(values: np.ndarray, product: Product) -> np.ndarray:
    if product.a in INTEGERS:
        return integer_words(values, product.saturates)
    return rounded_words(values, product.d)


def _registers(d: Decoder, number: int, count: int) -> list[Read]:
    items = d.items(number)
    if len(items) != count:
        d.error(f"operand {number} has {len(items)} registers, expected {count}")
    return [d.src(item, B32) for item in items]


def _stacked(reads: list[Read], cta: Cta, warps: np.ndarray) -> np.ndarray:
    """Registers of some warps: shape (warps, lanes, registers)."""
    rows = [spread(read(cta), cta).view(np.uint32).reshape(-1, WARP)[warps] for read in reads]
    return np.stack(rows, axis=2)


def _matrix(
    reads: list[Read],
    cta: Cta,
    warps: np.ndarray,
    places: tuple[np.ndarray, np.ndarray],
    bits: int,
    name: str,
    shape: tuple[int, int],
) -> np.ndarray:
    """An operand of every warp as a matrix of float64."""
    words = _stacked(reads, cta, warps)
    codes = split_words(words, bits).reshape(len(warps), WARP, len(reads), -1)
    if bits == 8 and name == "e2m1":
        codes = codes >> np.uint8(2)  # four bits in the middle of their byte
    result = np.empty((len(warps), *shape))
    result[:, places[0], places[1]] = element_values(codes, name)
    return result


def _scales(d: Decoder, first: int, product: Product, is_a: bool) -> Any:
    """Scale factors as (warps, rows, blocks): one register, whose lanes hold a row each.

    PTX ISA, "Scale matrix": of a quad, lanes 2t and 2t+1 (`thread-id-a` t) hold rows g and g + 8
    of A; lane t (`thread-id-b`) holds column g of B. Scales are bytes from `byte-id` on.
    """
    (register,) = _one_register(d, first)
    read = d.src(register, B32)
    selectors = d.items(first + 1)
    if len(selectors) != 2:
        d.error("expected {byte-id, thread-id}")
    read_byte, read_thread = (d.src(item, TYPES["u16"], widens=True) for item in selectors)
    fmt = FORMATS["ue8m0" if product.scale_type == "ue8m0" else "e4m3"]

    def scales(cta: Cta, warps: np.ndarray) -> np.ndarray:
        at = int(warps[0]) * WARP
        byte = int(spread(read_byte(cta), cta)[at])
        thread = int(spread(read_thread(cta), cta)[at])
        row = np.arange(product.m if is_a else 8)
        lane = row % 8 * 4 + (2 * thread + row // 8 if is_a else thread)
        words = spread(read(cta), cta).reshape(-1, WARP)[warps][:, lane]
        parts = np.ascontiguousarray(words).view(np.uint8).reshape(len(warps), len(row), 4)
        if fmt.name == "e4m3":
            parts = parts & np.uint8(0x7F)
        return decode(np.ascontiguousarray(parts[:, :, byte : byte + product.scales]), fmt)

    return scales


def _one_register(d: Decoder, number: int) -> tuple[Any, ...]:
    """A register, which compilers write as `r` or `{r}`."""
    items = d.items(number)
    if len(items) != 1:
        d.error(f"operand {number} has {len(items)} registers, expected 1")
    return items


def _double_product(d: Decoder, product: Product) -> Execute:
    """Products of f64: registers of 64 bits."""
    f64 = TYPES["f64"]
    reads = [[d.src(item, f64) for item in d.items(i)] for i in (1, 2, 3)]
    writes = [d.dst(item, f64) for item in d.items(0)]
    places_a = operand_places(product.m, product.k, 32, True)
    places_b = operand_places(8, product.k, 32, False)
    row, column = result_places(product.m)

    def stacked(row: list[Read], cta: Cta, warps: np.ndarray) -> np.ndarray:
        parts = [spread(read(cta), cta).reshape(-1, WARP)[warps] for read in row]
        return np.stack(parts, axis=2)

    def run(cta: Cta, on: Active) -> None:
        a_codes, b_codes, c = (stacked(part, cta, on.warps) for part in reads)
        a = np.empty((len(on.warps), product.m, product.k))
        b = np.empty((len(on.warps), 8, product.k))
        a[:, places_a[0], places_a[1]] = a_codes[..., None]
        b[:, places_b[0], places_b[1]] = b_codes[..., None]
        result = (a @ b.swapaxes(1, 2))[:, row, column] + c
        for i, write in enumerate(writes):
            full = np.zeros((cta.threads // WARP, WARP))
            full[on.warps] = result[:, :, i]
            write(cta, on, full.reshape(-1))

    return run
