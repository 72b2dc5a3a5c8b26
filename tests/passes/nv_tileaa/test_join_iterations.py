"""Iterations of attention over small tiles, computed as one over a large tile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.kernels.softmax_attention import RESULT, attention_arguments, softmax_attention
from tests.kernels.stage_comparison import passes
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.schedule import REMAINDER
from tileiras.dialects.nv_tileaa.types import shape_of
from tileiras.driver import compile_module, read_source, with_environment
from tileiras.interpreter import run_entry
from tileiras.options import CompileOptions

PASS = "join-iterations"


def joined(source: bytes) -> ModuleOp:
    """The kernel behind the pass."""
    module = read_source(source)
    for name, _ in passes(module, (), "sm_90"):
        if name == PASS:
            return module
    raise AssertionError("the pass did not run")


def columns(module: ModuleOp) -> list[int]:
    """How many columns the scores of each loop have."""
    products = [op for op in module.walk() if isinstance(op, aa.DotOp)]
    return [shape_of(op.result)[-1] for op in products if isinstance(op.acc.owner, aa.ConstantOp)]


def values_of(
    module: ModuleOp, length: int, rows: int, depth: int, scale: float, blocks: int = 1
) -> np.ndarray:
    """What a kernel gives for random queries and so many keys."""
    arguments, grid = attention_arguments(rows, length, depth, blocks=[blocks])
    arguments[-1] = np.float32(scale)
    with np.errstate(all="ignore"):
        run_entry(module, "attention", arguments, grid)
    return arguments[RESULT].view(np.float16).astype(np.float64)


@pytest.mark.parametrize(
    ("tile", "expected"),
    [
        ((128, 64), [128, 64]),
        ((64, 64), [128, 64]),
        ((128, 32), [128, 32]),
        # Nothing would be gained, or probabilities of few rows would have no room.
        ((128, 128), [128]),
        ((16, 64), [64]),
    ],
)
def test_scores_of_an_iteration_get_128_columns(tile: tuple[int, int], expected: list[int]) -> None:
    assert columns(joined(softmax_attention("full", *tile, 128))) == expected


def test_as_many_iterations_are_joined_as_there_are_registers_for() -> None:
    assert columns(joined(softmax_attention("full", 128, 32, 256))) == [64, 32]
    assert columns(joined(softmax_attention("full", 128, 64, 256))) == [64]


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_masks_stay_with_their_tiles(kind: str) -> None:
    assert set(columns(joined(softmax_attention(kind, 128, 64, 128)))) == {64}


def test_powers_of_8_bits_stay_below_the_maximum_of_their_tile() -> None:
    source = softmax_attention("full", 128, 64, 128, element="f8E4M3FN")
    assert set(columns(joined(source))) == {64}
    # Parts of a tile have a maximum each.
    source = softmax_attention("full", 128, 256, 128, element="f8E4M3FN")
    assert columns(joined(source)) == [128]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Sums that are not scaled by the power of the maxima's difference.
        ("%lo_0 = fma %l_0, %f_0, %y1_0", "%lo_0 = fma %l_0, %n_0, %y1_0"),
        ("%d_0 = subf %m_0, %n_0", "%d_0 = subf %n_0, %m_0"),
        # Powers below another maximum than the carried one.
        ("%n2_0 = negf %n1_0", "%n2_0 = absf %n1_0"),
        # What is handed on is not the maximum.
        ("continue %lo_0, %n_0, %o_0", "continue %lo_0, %x2_0, %o_0"),
        # A sum over the tile of something else than powers, scaled as if it were one.
        ("%y_0 = reduce %w_0", "%y_0 = reduce %p_0"),
    ],
)
def test_a_loop_that_carries_something_else_stays(old: str, new: str) -> None:
    source = softmax_attention("full", 128, 64, 128).decode()
    assert old in source
    assert columns(joined(source.replace(old, new).encode())) == [64]


@pytest.mark.parametrize("scale", [0.125, -0.125, 0.0])
@pytest.mark.parametrize("tiles", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("tile", [(128, 64), (64, 64), (64, 32)])
def test_any_number_of_tiles_gives_the_same(
    tile: tuple[int, int], tiles: int, scale: float
) -> None:
    """Maxima times a number below zero are no maxima: then no iteration is joined."""
    source, (rows, width) = softmax_attention("full", *tile, 64), tile
    wanted = values_of(read_source(source), tiles * width, rows, 64, scale)
    found = values_of(joined(source), tiles * width, rows, 64, scale)
    assert np.allclose(wanted, found, rtol=2e-3, atol=2e-3, equal_nan=True)
    if scale < 0:
        assert np.array_equal(wanted, found, equal_nan=True)


@pytest.mark.parametrize("tiles", [1, 4, 5])
@pytest.mark.parametrize("is_scaled", [False, True])
def test_threads_compute_what_the_tiles_say(tiles: int, is_scaled: bool) -> None:
    source = softmax_attention("full", 64, 64, 64)
    if is_scaled:
        source = scaled_first("full", 64, 64, 64).encode()
    wanted = values_of(read_source(source), 64 * tiles, 64, 64, 0.125)
    module = read_source(source)
    for _ in passes(module, (), "sm_90", exact=True):
        pass
    found = values_of(module, 64 * tiles, 64, 64, 0.125)
    assert np.allclose(wanted, found, rtol=2e-3, atol=2e-3)


def scaled_first(kind: str, *sizes: int, factor: str = "%s3") -> str:
    """Attention whose scores are scaled before their maxima are taken."""
    text = softmax_attention(kind, *sizes).decode()
    wide, tall = (f"tile<{sizes[0]}x{n}xf32>" for n in (sizes[1], 1))
    for number in range(text.count("= for ")):
        scores = "%p_" if f"%s_{number} = " not in text else "%s_"
        name, n = f"{scores}{number}", f"_{number}"
        text = text.replace(
            f"%x{n} = reduce {name}",
            f"%c{n} = mulf {name}, {factor} : {wide}\n%x{n} = reduce %c{n}",
        )
        text = text.replace(
            f"%n{n} = maxf %m{n}, %x2{n} : {tall}", f"%n{n} = maxf %m{n}, %x1{n} : {tall}"
        )
        text = text.replace(f"%e{n} = fma {name}, %s3, %n2{n}", f"%e{n} = subf %c{n}, %n1{n}")
    return text


def maxima(module: ModuleOp) -> list[type]:
    """What the maxima of each loop are taken of."""
    tops = [
        op
        for op in module.walk()
        if isinstance(op, aa.ReduceOp) and isinstance(op.body.block.first_op, aa.MaxFOp)
    ]
    return [type(op.arguments[0].owner) for op in tops]


@pytest.mark.parametrize("tile", [(128, 128), (128, 64)])
def test_maxima_are_taken_before_scores_are_scaled(tile: tuple[int, int]) -> None:
    module = joined(scaled_first("full", *tile, 128).encode())
    assert maxima(module) == [aa.DotOp, aa.MulFOp]


def test_a_number_that_is_known_needs_no_second_loop() -> None:
    text = scaled_first("full", 128, 128, 128, factor="%known")
    known = "%known = constant <f32: 0.125> : tile<128x128xf32>"
    text = text.replace("%first = muli", f"{known}\n    %first = muli", 1)
    assert maxima(joined(text.encode())) == [aa.DotOp]
    text = text.replace("<f32: 0.125>", "<f32: -0.125>")
    assert maxima(joined(text.encode())) == [aa.MulFOp]


def test_scores_that_something_else_reads_stay_scaled() -> None:
    text = scaled_first("full", 128, 128, 128)
    text = text.replace("%e_0 = subf %c_0, %n1_0", "%e_0 = subf %n1_0, %c_0")
    assert maxima(joined(text.encode())) == [aa.MulFOp]
    # A mask is between the scaled scores and their maxima.
    module = joined(scaled_first("causal", 128, 128, 128).encode())
    assert maxima(module)[0] is aa.DotOp


@pytest.mark.parametrize("scale", [0.125, -0.125, 0.0])
@pytest.mark.parametrize("kind", ["full", "causal"])
def test_scaling_late_gives_the_same(kind: str, scale: float) -> None:
    """Exponents are rounded once, not twice: a power changes by a few units in its last place."""
    source = scaled_first(kind, 64, 128, 64).encode()
    wanted = values_of(read_source(source), 384, 64, 64, scale, 6)
    found = values_of(joined(source), 384, 64, 64, scale, 6)
    assert np.allclose(wanted, found, rtol=2e-3, atol=2e-3, equal_nan=True)
    if scale <= 0:
        assert np.array_equal(wanted, found, equal_nan=True)


def test_small_sums_leave_registers_for_parts_of_a_tile() -> None:
    """What is left where the scale is not above zero comes in parts, too, scaled early."""
    module = joined(scaled_first("full", 128, 128, 32).encode())
    assert columns(module) == [64, 64]
    assert maxima(module) == [aa.DotOp, aa.MulFOp]
    # Here the maximum of each part is multiplied, and no second loop is needed.
    assert columns(joined(softmax_attention("full", 128, 128, 32))) == [64]
    assert columns(joined(scaled_first("full", 128, 128, 64).encode())) == [128, 128]


@pytest.mark.parametrize(
    ("rows", "keys", "depth", "expected"),
    [
        (128, 256, 128, [128]),
        # Two tile blocks of 64 rows are one of 128.
        (64, 256, 128, [128]),
        (128, 256, 64, [128]),
        # Sums leave registers for scores of 64 columns.
        (128, 128, 256, [64]),
        # The whole tile would not come to shared memory.
        (64, 256, 256, [64]),
    ],
)
def test_large_tiles_come_in_parts_whose_products_run_beside_powers(
    rows: int, keys: int, depth: int, expected: list[int]
) -> None:
    assert columns(joined(softmax_attention("full", rows, keys, depth))) == expected


def test_a_maximum_that_is_stored_is_that_of_the_whole_tile() -> None:
    """Times what may be less than zero, it is not the largest of those of the parts."""
    text = softmax_attention("full", 128, 128, 32).decode()
    text = text.replace("%ob = broadcast %sums_0", "%ob = broadcast %top_0")
    assert columns(joined(text.encode())) == [128]


@pytest.mark.parametrize("kernel", [softmax_attention, scaled_first])
@pytest.mark.parametrize("scale", [0.125, -0.125, 0.0])
@pytest.mark.parametrize("tiles", [0, 1, 3])
@pytest.mark.parametrize(("keys", "depth"), [(128, 32), (256, 64)])
def test_parts_of_tiles_give_the_same(
    keys: int, depth: int, tiles: int, scale: float, kernel: Callable[..., str | bytes]
) -> None:
    source = kernel("full", 128, keys, depth)
    source = source if isinstance(source, bytes) else source.encode()
    wanted = values_of(read_source(source), keys * tiles, 128, depth, scale)
    found = values_of(joined(source), keys * tiles, 128, depth, scale)
    assert np.allclose(wanted, found, rtol=2e-3, atol=2e-3, equal_nan=True)


def test_what_is_left_has_the_stages_of_the_loop_and_no_schedule() -> None:
    source = softmax_attention("full", 64, 64, 128)
    loops = [op for op in joined(source).walk() if isinstance(op, aa.ForOp)]
    assert [REMAINDER in loop.attributes for loop in loops] == [False, True]
    options = with_environment(CompileOptions(gpu_name="sm_90", emit="nv_tileas"))
    text = compile_module(source, options).output.decode()
    assert text.count("create_pipeline") == 3
    # Two tile blocks are one, with an SM to itself.
    assert "ctas = 1" in text and "consumer_warps = 8" in text


def several_on_an_sm(rows: int, keys: int) -> bytes:
    """Attention that asks for four tile blocks on an SM."""
    text = softmax_attention("full", rows, keys, 128).decode()
    hints = "optimization_hints=<sm_90 = {occupancy = 4}>"
    return text.replace("%scale: tile<f32>) {", f"%scale: tile<f32>) {hints} {{").encode()


@pytest.mark.parametrize(("keys", "ctas"), [(64, 1), (128, 1), (256, 2)])
def test_who_asks_for_more_large_tiles_on_an_sm_has_a_cta_for_each(keys: int, ctas: int) -> None:
    options = with_environment(CompileOptions(gpu_name="sm_90", emit="nv_tileas"))
    text = compile_module(several_on_an_sm(64, keys), options).output.decode()
    assert f"ctas = {ctas}" in text and f"consumer_warps = {8 // ctas}" in text


def test_nothing_spills() -> None:
    options = with_environment(CompileOptions(gpu_name="sm_90"))
    sources = [softmax_attention("full", *tile, 128) for tile in ((64, 64), (128, 64))]
    sources += [scaled_first("full", 128, 128, depth).encode() for depth in (32, 128)]
    large = ((128, 256, 64), (128, 256, 128), (64, 256, 256), (128, 128, 256))
    sources += [softmax_attention("full", rows, keys, depth) for rows, keys, depth in large]
    sources += [softmax_attention("full", 128, 256, 128, element="f8E4M3FN")]
    sources += [several_on_an_sm(64, 64)]
    for source in sources:
        found = compile_module(source, options)
        assert "0 bytes spilled" in found.notes[0]
        assert not [note for note in found.notes if "C75" in note]
