"""Products with block scales in CuTe text, against float64: in the PTX machine and interpreted."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute_nvgpu.types import TmaAtom
from tileiras.driver import compile_module
from tileiras.errors import CompileError, TargetError
from tileiras.interpreter.cute import run_kernel
from tileiras.interpreter.cute_state import MappedTensor, tensor_of
from tileiras.interpreter.ptx import PtxRuntimeError, run_ptx
from tileiras.interpreter.ptx.tensor_maps import TensorMap
from tileiras.ir_text import parse_text
from tileiras.options import CompileOptions

EXAMPLES = Path(__file__).parents[2] / "examples" / "cute"
WARPS = (EXAMPLES / "scaled_gemm.mlir").read_text()
TENSOR = (EXAMPLES / "scaled_tcgen05_gemm.mlir").read_text()
DTYPES = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f6E2M3FN": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN": ml_dtypes.float6_e3m2fn,
}
CONTAINED = {
    "f6E2M3FN_unpacksmem": ml_dtypes.float6_e2m3fn,
    "f6E3M2FN_unpacksmem": ml_dtypes.float6_e3m2fn,
    "f4E2M1FN_unpacksmem": ml_dtypes.float4_e2m1fn,
}
KINDS = [
    ("f8E4M3FN", "f8E8M0FNU", 32, "kind::mxf8f6f4.block_scale.scale_vec::1X"),
    ("f8E5M2", "f8E8M0FNU", 32, "kind::mxf8f6f4.block_scale.scale_vec::1X"),
    ("f6E2M3FN", "f8E8M0FNU", 32, "kind::mxf8f6f4.block_scale.scale_vec::1X"),
    ("f6E3M2FN", "f8E8M0FNU", 32, "kind::mxf8f6f4.block_scale.scale_vec::1X"),
    ("f4E2M1FNx2", "f8E8M0FNU", 16, "kind::mxf4.block_scale.scale_vec::2X"),
    ("f4E2M1FNx2", "f8E4M3FN", 8, "kind::mxf4nvf4.block_scale.scale_vec::4X"),
]
"""Elements, scales, elements that share one (of two numbers of 4 bits), the instruction."""


@cache
def compiled(text: str, target: str, emit: str = "ptx") -> bytes:
    """The output for a program's text."""
    return compile_module(text.encode(), CompileOptions(gpu_name=target, emit=emit)).output


def operand(rows: int, bytes_: int, element: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random codes, and the numbers that they are."""
    rng = np.random.default_rng(seed)
    if element == "f4E2M1FNx2":
        codes = rng.integers(0, 256, (rows, bytes_)).astype(np.uint8)
        both = np.stack([codes & 15, codes >> 4], -1).reshape(rows, -1)
        return codes, both.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    numbers = rng.integers(-8, 9, (rows, bytes_)).astype(DTYPES[element])
    return numbers.view(np.uint8), numbers.astype(np.float64)


def scales(rows: int, blocks: int, element: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Powers of two around 1, as codes and as numbers."""
    numbers = 2.0 ** np.random.default_rng(seed).integers(-3, 4, (rows, blocks))
    found = numbers.astype(DTYPES[element])
    return found.view(np.uint8), found.astype(np.float64)


def product(a: Any, sa: Any, b: Any, sb: Any) -> np.ndarray:
    """In float64."""
    left = a * np.repeat(sa, a.shape[1] // sa.shape[1], axis=1)
    right = b * np.repeat(sb, b.shape[1] // sb.shape[1], axis=1)
    return left @ right.T


def typed(codes: np.ndarray, element: str) -> np.ndarray:
    """Codes as the interpreter holds them, in one dim."""
    flat = codes.reshape(-1)
    return flat if element == "f4E2M1FNx2" else flat.view(DTYPES[element])


def warps_text(element: str, scale: str, block: int) -> str:
    """The example for other elements."""
    text = WARPS.replace("f8E4M3FN", element).replace("f8E8M0FNU, 32>", f"f8E8M0FNU, {block}>")
    text = text.replace("(32,2):(2,1)", f"(32,{64 // block}):({64 // block},1)")
    return text.replace("f8E8M0FNU", scale)


@pytest.mark.parametrize(("element", "scale", "block", "instruction"), KINDS)
class TestWarps:
    """mma.sync of sm_120: four warps, two atoms along N and two along K each."""

    def test_in_the_machine(self, element: str, scale: str, block: int, instruction: str) -> None:
        """Exact: scales are powers of two."""
        ptx = compiled(warps_text(element, scale, block), "sm_120").decode()
        (a, wide_a), (b, wide_b) = (operand(32, 64, element, seed) for seed in (0, 1))
        (sa, wide_sa), (sb, wide_sb) = (scales(32, 64 // block, scale, seed) for seed in (2, 3))
        d = np.zeros((32, 32), np.float32)
        run_ptx(ptx, [a, b, sa, sb, d], (1, 1, 1))
        assert (d == product(wide_a, wide_sa, wide_b, wide_sb)).all() and d.any()
        assert ptx.count(instruction) == 4

    def test_interpreted(self, element: str, scale: str, block: int, instruction: str) -> None:
        """The same."""
        (a, wide_a), (b, wide_b) = (operand(32, 64, element, seed) for seed in (0, 1))
        (sa, wide_sa), (sb, wide_sb) = (scales(32, 64 // block, scale, seed) for seed in (2, 3))
        d = np.zeros((32, 32), np.float32)
        whole, few = Layout((32, 64), (64, 1)), Layout((32, 64 // block), (64 // block, 1))
        arguments = [
            tensor_of(typed(a, element), whole, element),
            tensor_of(typed(b, element), whole, element),
            tensor_of(typed(sa, scale), few, scale),
            tensor_of(typed(sb, scale), few, scale),
            tensor_of(d.reshape(-1), Layout((32, 32), (32, 1)), "f32"),
        ]
        run_kernel(parse_text(warps_text(element, scale, block)), "scaled_gemm", arguments)
        assert (d == product(wide_a, wide_sa, wide_b, wide_sb)).all() and d.any()

    def test_a_cubin_is_made(self, element: str, scale: str, block: int, instruction: str) -> None:
        """ptxas takes it."""
        text = warps_text(element, scale, block)
        assert compiled(text, "sm_120", "cubin").startswith(b"\x7fELF")


@pytest.mark.parametrize("second", ["f8E4M3FN", "f6E3M2FN"])
def test_operands_of_two_formats(second: str) -> None:
    """A of f6E2M3FN and B of another format, each in bytes."""
    text = WARPS.replace("%A: !cute.tensor<f8E4M3FN", "%A: !cute.tensor<f6E2M3FN")
    text = text.replace("%B: !cute.tensor<f8E4M3FN", f"%B: !cute.tensor<{second}")
    text = text.replace("(16,8,32), f8E4M3FN, f8E4M3FN", f"(16,8,32), f6E2M3FN, {second}")
    (a, wide_a), (b, wide_b) = operand(32, 64, "f6E2M3FN", 0), operand(32, 64, second, 1)
    (sa, wide_sa), (sb, wide_sb) = (scales(32, 2, "f8E8M0FNU", seed) for seed in (2, 3))
    d = np.zeros((32, 32), np.float32)
    ptx = compiled(text, "sm_120").decode()
    run_ptx(ptx, [a, b, sa, sb, d], (1, 1, 1))
    assert (d == product(wide_a, wide_sa, wide_b, wide_sb)).all() and d.any()
    assert f".f32.e2m3.{'e4m3' if second == 'f8E4M3FN' else 'e3m2'}.f32" in ptx


def test_tensor_cores_of_sm_100_take_no_bytes_of_6_bits() -> None:
    """Their operands of 6 bits lie packed: 16 numbers in 12 of 16 bytes."""
    with pytest.raises(CompileError, match="there is no instruction for the atom tcgen05"):
        compiled(TENSOR.replace("f8E4M3FN", "f6E2M3FN"), "sm_100")


def chunked(codes: np.ndarray) -> np.ndarray:
    """Scales (rows, blocks) as chunks: by tile, by step, 16 (r mod 32) + 4 (r / 32) + b."""
    rows, blocks = codes.shape
    parts = codes.reshape(rows // 128, 4, 32, blocks // 4, 4)
    return np.ascontiguousarray(parts.transpose(0, 3, 2, 1, 4)).reshape(-1)


TENSOR_KINDS = [("f8E4M3FN", "f8E8M0FNU", 32), ("f4E2M1FNx2", "f8E8M0FNU", 16)]


def tensor_text(element: str, scale: str, block: int) -> str:
    """The example for other elements; a chunk has four blocks, so steps of 4 * `block`."""
    text = TENSOR.replace(", 32>\n", f", {block}>\n").replace("f8E4M3FN", element)
    if block == 32:
        return text
    span = 4 * block
    text = text.replace("(128,128), 128>", f"({span},128), {span}>")
    text = text.replace(
        "S<3,4,3> o 0 o (128,128):(128,1)", f"S<2,4,3> o 0 o (128,{span}):({span},1)"
    )
    text = text.replace("expect_tx<32768>", f"expect_tx<{256 * span}>")
    text = text.replace("%kk = cute.tuple_mul(%k, %size)", "%kk = cute.tuple_mul(%k, %depth)")
    return text.replace(
        "  %count = cute", f"  %depth = cute.static() -> !cute.int<{span}>\n  %count = cute", 1
    )


@pytest.mark.parametrize(("element", "scale", "block"), TENSOR_KINDS)
class TestTensorMemory:
    """tcgen05 of sm_100: tiles of 128 x 128, three steps of K."""

    STEPS = 3

    def operands(self, element: str, scale: str, block: int) -> tuple[Any, ...]:
        """A, B, their scales: codes and numbers."""
        depth = 4 * block * self.STEPS
        found = [operand(rows, depth, element, seed) for seed, rows in enumerate((128, 256))]
        found += [scales(rows, 4 * self.STEPS, scale, 2 + rows) for rows in (128, 256)]
        return tuple(found)

    def test_in_the_machine(self, element: str, scale: str, block: int) -> None:
        """Two tiles along N; sums of f32, of which the parts are exact."""
        ptx = compiled(tensor_text(element, scale, block), "sm_100").decode()
        (a, wa), (b, wb), (sa, wsa), (sb, wsb) = self.operands(element, scale, block)
        d = np.zeros((128, 256), np.float32)
        span = 4 * block
        maps = [
            TensorMap(
                0,
                "u8",
                (x.shape[1], x.shape[0]),
                (x.shape[1],),
                (span, 128),
                swizzle=f"{span}B",
                array=x,
            )
            for x in (a, b)
        ]
        chunks = [chunked(sa), self.STEPS, chunked(sb), 2 * self.STEPS]
        run_ptx(ptx, [*maps, *chunks, d, 128, 256, 256, self.STEPS], (1, 2, 1))
        assert (d == product(wa, wsa, wb, wsb)).all() and d.any()
        assert ptx.count("tcgen05.cp") == 2 and "block_scale" in ptx

    def test_interpreted(self, element: str, scale: str, block: int) -> None:
        """The same, one tile."""
        (a, wa), (b, wb), (sa, wsa), (sb, wsb) = self.operands(element, scale, block)
        d = np.zeros((128, 256), np.float32)
        atom = TmaAtom(element, (4 * block, 128), 4 * block)
        codes = [typed(x, element).reshape(x.shape) for x in (a, b)]
        arguments = [
            *(MappedTensor(atom, x) for x in codes),
            tensor_of(typed(chunked(sa), scale), Layout((512, self.STEPS), (1, 512)), scale),
            tensor_of(typed(chunked(sb), scale), Layout((512, 2 * self.STEPS), (1, 512)), scale),
            tensor_of(d.reshape(-1), Layout((128, 256), (256, 1)), "f32"),
            np.int32(self.STEPS),
        ]
        module = parse_text(tensor_text(element, scale, block))
        run_kernel(module, "scaled_tcgen05_gemm", arguments, (1, 1, 1))
        assert (d[:, :128] == product(wa, wsa, wb, wsb)[:, :128]).all() and d.any()

    def test_a_cubin_is_made(self, element: str, scale: str, block: int) -> None:
        """ptxas takes it."""
        text = tensor_text(element, scale, block)
        assert compiled(text, "sm_100", "cubin").startswith(b"\x7fELF")


def test_scales_that_are_not_there_yet_are_a_race() -> None:
    """Without the barrier between the threads that bring them and the copy."""
    text = TENSOR.replace("    cute_nvgpu.fence_proxy_async()\n    cute.sync_threads()\n", "")
    found = TestTensorMemory().operands(*TENSOR_KINDS[0])
    (a, _), (b, _), (sa, _), (sb, _) = found
    maps = [
        TensorMap(0, "u8", (384, x.shape[0]), (384,), (128, 128), swizzle="128B", array=x)
        for x in (a, b)
    ]
    d = np.zeros((128, 256), np.float32)
    arguments = [*maps, chunked(sa), 3, chunked(sb), 6, d, 128, 256, 256, 3]
    with pytest.raises(PtxRuntimeError):
        run_ptx(compiled(text, "sm_100").decode(), arguments, (1, 2, 1))


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (WARPS, "sm_100", "sm_100 has no m16n8k32_f32_e4m3_1x_ue8m0, sm_120, sm_121 have it"),
        (TENSOR, "sm_120", "sm_120 has no tcgen05.mma mxf8f6f4 of 128x128x32, sm_100, sm_103"),
    ],
)
def test_who_has_it_is_told(text: str, target: str, message: str) -> None:
    """With the place of the atom, or before it that of tensor memory."""
    text = text.replace("cute_nvgpu.tmem_alloc<256>(%slot)", "").replace(
        "cute_nvgpu.tcgen05_fence_before()", ""
    )
    text = text.replace("cute_nvgpu.tcgen05_fence_after()", "")
    with pytest.raises(TargetError, match=message) as raised:
        compiled(text, target)
    assert raised.value.location is not None


def test_scales_of_b_lie_behind_those_of_a() -> None:
    """So many columns: an address of its own at run time is not compiled."""
    text = TENSOR.replace("%tSB = cute.tuple_add(%tSA, %four)", "%tSB = cute.tuple_add(%k0, %four)")
    text = text.replace("%four = ", "%k0 = cute.to_int(%steps)\n  %four = ")
    with pytest.raises(CompileError, match="no known number of columns behind those of A"):
        compiled(text, "sm_100")


@pytest.mark.parametrize(
    ("element", "bits", "kind"),
    [
        ("f6E2M3FN_unpacksmem", 6, "b6x16_p32"),
        ("f6E3M2FN_unpacksmem", 6, "b6x16_p32"),
        ("f4E2M1FN_unpacksmem", 4, "b4x16_p64"),
    ],
)
class TestContainers:
    """Numbers of 6 and 4 bits for tcgen05, dense in global memory: TMA makes 16 of 16 bytes."""

    def packed(self, codes: np.ndarray, bits: int) -> np.ndarray:
        """The bits one behind the other."""
        parts = codes[..., None] >> np.arange(bits, dtype=np.uint8) & 1
        return np.packbits(parts.reshape(len(codes), -1), axis=1, bitorder="little")

    def numbers(self, rows: int, element: str, bits: int) -> tuple[np.ndarray, np.ndarray]:
        """Random codes, two steps of K; and what they are."""
        codes = np.random.default_rng(rows).integers(0, 1 << bits, (rows, 256)).astype(np.uint8)
        return codes, codes.view(CONTAINED[element]).astype(np.float64)

    def test_in_the_machine(self, element: str, bits: int, kind: str) -> None:
        """Both operands, and A beside a B of 8 bits."""
        (a, wa), (b, wb) = (self.numbers(rows, element, bits) for rows in (128, 256))
        (sa, wsa), (sb, wsb) = (scales(rows, 8, "f8E8M0FNU", rows) for rows in (128, 256))
        codes_b, wide_b = operand(256, 256, "f8E4M3FN", 5)
        both = TENSOR.replace("f8E4M3FN", element)
        mixed = TENSOR
        for before in (
            "%mapA: !cute_nvgpu.tma_atom<",
            "%sA = cute.alloc() -> !cute.tensor<",
            "(128,128,32), ",
        ):
            assert mixed.count(f"{before}f8E4M3FN") == 1
            mixed = mixed.replace(f"{before}f8E4M3FN", before + element)

        def dense(codes: np.ndarray) -> TensorMap:
            array = self.packed(codes, bits)
            shape, steps = (256, len(codes)), (array.shape[1],)
            return TensorMap(0, kind, shape, steps, (128, 128), swizzle="128B", array=array)

        bytes_b = TensorMap(0, "u8", (256, 256), (256,), (128, 128), swizzle="128B", array=codes_b)
        for text, right, wide in ((both, dense(b), wb), (mixed, bytes_b, wide_b)):
            d = np.zeros((128, 256), np.float32)
            chunks = [chunked(sa), 2, chunked(sb), 4]
            arguments = [dense(a), right, *chunks, d, 128, 256, 256, 2]
            run_ptx(compiled(text, "sm_100").decode(), arguments, (1, 2, 1))
            wanted = product(wa, wsa, wide, wsb)
            assert np.abs(d - wanted).max() <= np.abs(wanted).max() * 2.0**-21 and d.any()

    def test_a_cubin_is_made(self, element: str, bits: int, kind: str) -> None:
        """ptxas takes it; sm_120 has no tensor memory."""
        text = TENSOR.replace("f8E4M3FN", element)
        assert compiled(text, "sm_103", "cubin").startswith(b"\x7fELF")
        with pytest.raises(TargetError, match="sm_100, sm_103"):
            compiled(text, "sm_120")
