"""Attention by tcgen05 on the PTX machine: values against float64, what goes wrong, remarks."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from tests.kernels.attention import persistent_attention
from tests.kernels.machine_attention import beside_float64
from tests.kernels.softmax_attention import softmax_attention
from tileiras.codegen.lowering import tcgen05_dot
from tileiras.driver import compile_module
from tileiras.interpreter.ptx import run_ptx
from tileiras.interpreter.ptx.errors import PtxRuntimeError
from tileiras.options import EXP2_ON_FMA, CompileOptions
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind

KERNELS = (
    ("full", 128, 64, 64, 1),
    ("causal", 128, 64, 64, 2),
    ("masked", 128, 64, 64, 1),
    ("causal", 128, 128, 128, 1),
    ("full", 128, 32, 64, 2),
    ("causal", 256, 64, 64, 1),
    ("full", 256, 64, 128, 1),
    ("causal", 256, 128, 128, 2),
    ("masked", 256, 128, 64, 1),
)
"""Kind, rows, columns, depth of the tiles, and heads that share keys."""
Kernel = tuple[str, int, int, int, int]


@cache
def compiled(kernel: Kernel, target: str = "sm_100", element: str = "f16") -> tuple[str, list[str]]:
    """PTX of a kernel, and the remarks about tensor memory."""
    remarks = RemarkCollector(RemarkFilter(dict.fromkeys(RemarkKind, "all")))
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name=target)
    source = softmax_attention(*kernel).replace(b"f16", element.encode())
    text = compile_module(source, options, remarks=remarks).output.decode()
    return text, [remark.message for remark in remarks.remarks if remark.name == "TensorMemory"]


def run(text: str, kernel: Kernel, length: int, blocks: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel of f16 leaves for two heads, and the same in float64."""
    kind, rows, _, depth, share = kernel
    return beside_float64(kind, text, length, (rows, depth), blocks, share)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_tensor_cores_compute_attention(kernel: Kernel) -> None:
    text, remarks = compiled(kernel)
    assert "tcgen05.mma" in text and "tcgen05.st" in text and "mma.sync" not in text
    assert remarks == []
    found, wanted = run(text, kernel, 4 * kernel[2])
    np.testing.assert_allclose(found, wanted, atol=2e-3)


@pytest.mark.parametrize(
    "kernel", [("causal", 128, 64, 64, 1), ("masked", 256, 128, 64, 1)], ids=str
)
@pytest.mark.parametrize(("target", "eighths"), [("sm_100", "4"), ("sm_110", "8")])
def test_powers_may_be_computed_on_fma_units(target: str, eighths: str, kernel: Kernel) -> None:
    """With pairs and without, scores of -inf among them: the same errors."""
    kind, *sizes, share = kernel
    source = softmax_attention(kind, *sizes, share)
    found: list[np.ndarray] = []
    for knob in ("0", eighths):
        options = CompileOptions(gpu_name=target, emit="ptx", knobs={EXP2_ON_FMA: knob})
        text = compile_module(source, options).output.decode()
        result, wanted = run(text, kernel, 4 * sizes[1], 1)
        found.append(np.abs(result - wanted).max())
    assert found[1] <= 1.1 * found[0] < 2e-3


@pytest.mark.parametrize("target", ["sm_103", "sm_110"])
def test_other_targets_compute_it(target: str) -> None:
    text, _ = compiled(KERNELS[1], target)
    assert f".target {target}a" in text and "tcgen05.mma" in text
    found, wanted = run(text, KERNELS[1], 256)
    np.testing.assert_allclose(found, wanted, atol=2e-3)


def test_bf16_is_computed_so_too() -> None:
    text, remarks = compiled(KERNELS[1], element="bf16")
    assert "tcgen05.mma" in text and "mma.sync" not in text and remarks == []


@pytest.mark.parametrize("loops", [1, 2])
@pytest.mark.parametrize("sizes", [(128, 64, 64), (128, 128, 128), (256, 64, 64)], ids=str)
def test_blocks_make_several_tiles(loops: int, sizes: tuple[int, int, int]) -> None:
    """All that goes round between warps goes on where the tile before has left it."""
    rows, keys, depth = sizes
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    text = compile_module(persistent_attention(loops, *sizes), options).output.decode()
    assert "tcgen05.mma" in text and "mma.sync" not in text
    length, rng = 4 * rows, np.random.default_rng(rows)
    arrays = [(rng.integers(-2, 3, (length, depth)) / 4).astype(np.float16) for _ in range(3)]
    result = np.zeros_like(arrays[0])
    bits = [array.view(np.uint16).reshape(-1) for array in (*arrays, result)]
    run_ptx(text, [*bits, np.int32(length)], (2, 1, 1))
    queries, all_keys, values = (array.astype(float) for array in arrays)
    wanted = np.zeros((length, depth))
    for start in [*range(0, length, keys)] * loops:
        part = slice(start, start + keys)
        scores = (queries @ all_keys[part].T).astype(np.float16).astype(float)
        wanted = wanted / 2 + scores @ values[part]
    np.testing.assert_allclose(result.astype(float), wanted, atol=1e-2)


def test_sums_may_be_flushed_to_zero_when_they_are_scaled() -> None:
    """Then no warp leaves its part of the sum alone."""
    plain = softmax_attention(*KERNELS[0]).decode()
    flushed = plain.replace("%b_0 = mulf %a_0, %fb_0 :", "%b_0 = mulf %a_0, %fb_0 flush_to_zero :")
    assert flushed != plain
    options = CompileOptions(opt_level=3, emit="ptx", gpu_name="sm_100")
    texts = [
        compile_module(source.encode(), options).output.decode() for source in (plain, flushed)
    ]
    assert ["vote.sync.all" in text for text in texts] == [True, False]
    assert "mul.rn.ftz.f32" in texts[1] or "mul.rn.ftz.f32x2" in texts[1]
    found, wanted = run(texts[1], KERNELS[0], 256, 1)
    np.testing.assert_allclose(found, wanted, atol=2e-3)


def test_left_operand_is_read_from_tensor_memory() -> None:
    text, _ = compiled(KERNELS[0])
    from_memory = re.findall(r"tcgen05\.mma\S* \[%?\w+\], \[", text)
    from_stages = re.findall(r"tcgen05\.mma\S* \[%?\w+\], %?\w+,", text)
    assert len(from_memory) == 4
    # Those of the first iteration, and of the one after that which runs.
    assert len(from_stages) == 2 * 4


IN_PLACE = ("full", 256, 128, 128, 1)
"""Probabilities lie in the columns of their scores."""


def test_blocks_of_rows_take_turns() -> None:
    """Each has its own barriers, and its products are issued behind those of the other."""
    text, _ = compiled(IN_PLACE)
    found, wanted = run(text, IN_PLACE, 512)
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    inits = [int(count) for count in re.findall(r"mbarrier.init\S* \[%r\d+\], (\d+);", text)]
    # Of each block of scores, sums and probabilities: four warps that read or store.
    assert inits.count(4) == 3 * 2


def test_machine_finds_that_blocks_share_a_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers of the second block arrive where those of the first do."""
    monkeypatch.setattr(tcgen05_dot, "own_block", lambda ctx, pipeline: 0)
    text, _ = compiled.__wrapped__(IN_PLACE)  # another compiler's
    with pytest.raises(PtxRuntimeError):
        run(text, IN_PLACE, 512, 1)


def test_stores_that_are_not_waited_for_are_not_seen() -> None:
    text, _ = compiled(KERNELS[0])
    assert "tcgen05.wait::st" in text
    found, wanted = run(text.replace("tcgen05.wait::st.sync.aligned;", ""), KERNELS[0], 256, 1)
    assert not np.allclose(found, wanted, atol=2e-3)


def test_machine_finds_that_products_are_not_committed() -> None:
    text, _ = compiled(KERNELS[0])
    lines = [line for line in text.split("\n") if "tcgen05.commit" not in line]
    with pytest.raises(PtxRuntimeError, match="deadlock"):
        run("\n".join(lines), KERNELS[0], 128, 1)


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (("full", 64, 64, 64, 1), "a left operand that is computed has 64 rows"),
        (("full", 32, 64, 64, 1), "tcgen05 has no instructions for a product of 32x64x64"),
    ],
)
def test_remark_says_why_not(kernel: Kernel, why: str) -> None:
    text, remarks = compiled(kernel)
    assert "mma.sync" in text and "tcgen05" not in text
    assert len(remarks) == 1 and why in remarks[0]
