"""Sums that loops carry for each thread are the sums of whole rows behind the loop."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.pass_runs import passes_between, run_passes
from tests.kernels.stage_comparison import passes
from tileiras.driver import read_source
from tileiras.interpreter import run_entry

KERNEL = """
cuda_tile.module @m {
  entry @rows(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %n: tile<i32>, %f: tile<f32>) {
    %a0 = assume div_by<16>, %a : tile<ptr<f32>>
    %t = make_token : token
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %first = constant <f32: 3.0> : tile<ROWSxf32>
    %f1 = reshape %f : tile<f32> -> tile<1xf32>
    %fade = broadcast %f1 : tile<1xf32> -> tile<ROWSxf32>
    %av = make_tensor_view %a0, shape = [ROWS, 512], strides = [512, 1]
      : tensor_view<ROWSx512xf32, strides=[512,1]>
    %ap = make_partition_view %av
      : partition_view<tile=(ROWSx128), tensor_view<ROWSx512xf32, strides=[512,1]>>
    %bv = make_tensor_view %b, shape = [ROWS], strides = [1] : tensor_view<ROWSxf32, strides=[1]>
    %bp = make_partition_view %bv
      : partition_view<tile=(ROWS), tensor_view<ROWSxf32, strides=[1]>>
    %s = for %i in (%c0 to %n, step %c1) : tile<i32> iter_values(%sum = %first)
        -> (tile<ROWSxf32>) {
      %x, %tx = load_view_tko weak %ap[%c0, %i] token = %t
        : partition_view<tile=(ROWSx128), tensor_view<ROWSx512xf32, strides=[512,1]>>, tile<i32>
        -> tile<ROWSx128xf32>, token
      %r = reduce %x dim=1 identities=[0.000000e+00 : f32]
        : tile<ROWSx128xf32> -> tile<ROWSxf32> (%p: tile<f32>, %q: tile<f32>) {
        %z = addf %p, %q rounding<nearest_even> : tile<f32>
        yield %z : tile<f32>
      }
      %y = UPDATE
      continue %y : tile<ROWSxf32>
    }
    %u = store_view_tko weak %s, %bp[%c0] token = %t
      : tile<ROWSxf32>, partition_view<tile=(ROWS), tensor_view<ROWSxf32, strides=[1]>>, tile<i32>
      -> token
    return
  }
}
"""
SCALED = "fma %sum, %fade, %r rounding<nearest_even> : tile<ROWSxf32>"
PLAIN = "addf %r, %sum rounding<nearest_even> : tile<ROWSxf32>"


@pytest.mark.parametrize("iterations", [0, 1, 4])
@pytest.mark.parametrize("update", [SCALED, PLAIN], ids=["scaled", "plain"])
@pytest.mark.parametrize("rows", [1, 16])
def test_threads_that_add_up_by_themselves_agree_with_float64(
    rows: int, update: str, iterations: int
) -> None:
    text = KERNEL.replace("UPDATE", update).replace("ROWS", str(rows))
    before, after = (
        run_passes(text.encode(), *passes_between("check-target", last))
        for last in ("convert-tileaa-to-tileas", "tileas-defer-reductions")
    )
    assert after.count("nv_tileaa.reduce") > before.count("nv_tileaa.reduce")
    module = read_source(text.encode())
    ran = list(passes(module, (), "sm_90", to_threads=True))
    assert ("tileas-defer-reductions", "nv_tileas") in ran
    given = np.random.default_rng(1).standard_normal((rows, 512)).astype(np.float32)
    result = np.full(rows, np.nan, np.float32)
    run_entry(module, None, [given, result, iterations, 0.75], (1, 1, 1))
    fade = 0.75 if update is SCALED else 1.0
    exact = np.full(rows, 3.0)
    for part in range(iterations):
        exact = exact * fade + given[:, 128 * part : 128 * part + 128].astype(np.float64).sum(1)
    np.testing.assert_allclose(result, exact, atol=1e-4)
