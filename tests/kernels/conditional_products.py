"""Products left out under a condition of the iteration: a mask of tiles, as block-sparse GEMM."""

from __future__ import annotations

_KERNEL = """
cuda_tile.module @m {{
entry @sparse(%A: tile<ptr<f16>>, %B: tile<ptr<f16>>, %C: tile<ptr<f32>>, %mask: tile<ptr<i32>>,
              %M: tile<i32>, %N: tile<i32>, %K: tile<i32>) {{
  %t = make_token : token
  %a0 = assume div_by<16>, %A : tile<ptr<f16>>
  %b0 = assume div_by<16>, %B : tile<ptr<f16>>
  %c0 = assume div_by<16>, %C : tile<ptr<f32>>
  %k8 = assume div_by<8>, %K : tile<i32>
  %n8 = assume div_by<8>, %N : tile<i32>
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %depth = constant <i32: {tk}> : tile<i32>
  %none = constant <f32: 0.0> : tile<{tm}x{tn}xf32>
  %at = make_tensor_view %a0, shape = [%M, %k8], strides = [%k8, 1]
    : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
  %bt = make_tensor_view %b0, shape = [%k8, %n8], strides = [%n8, 1]
    : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
  %ct = make_tensor_view %c0, shape = [%M, %n8], strides = [%n8, 1]
    : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
  %av = make_partition_view %at
    : partition_view<tile=({tm}x{tk}), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
  %bv = make_partition_view %bt
    : partition_view<tile=({tk}x{tn}), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
  %cv = make_partition_view %ct
    : partition_view<tile=({tm}x{tn}), tensor_view<?x?xf32, strides=[?,1]>>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %steps = divi %k8, %depth signed rounding<positive_inf> : tile<i32>
  %row = muli %x, %steps : tile<i32>
  %sum = for %k in (%zero to %steps, step %one) : tile<i32>
      iter_values(%s = %none) -> (tile<{tm}x{tn}xf32>) {{
    %place = addi %row, %k : tile<i32>
    %entry = offset %mask, %place : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %bit, %known = load_ptr_tko weak %entry token=%t : tile<ptr<i32>> -> tile<i32>, token
    %is = cmpi greater_than %bit, %zero, signed : tile<i32> -> tile<i1>
    {body}
    continue %next : tile<{tm}x{tn}xf32>
  }}
  %u = store_view_tko weak %sum, %cv[%x, %y] token = %t
    : tile<{tm}x{tn}xf32>, partition_view<tile=({tm}x{tn}),
        tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
  return
}}
}}
"""
_PRODUCT = """
      %a{n}, %ta{n} = load_view_tko weak %av[%x, %k] token = %t
        : partition_view<tile=({tm}x{tk}), padding_value = zero,
            tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<{tm}x{tk}xf16>, token
      %b{n}, %tb{n} = load_view_tko weak %bv[%k, %y] token = %t
        : partition_view<tile=({tk}x{tn}), padding_value = zero,
            tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<{tk}x{tn}xf16>, token
      %d{n} = mmaf %a{n}, %b{n}, %s
        : tile<{tm}x{tk}xf16>, tile<{tk}x{tn}xf16>, tile<{tm}x{tn}xf32>
"""
BODIES = {
    "skipped": """%next = if %is -> (tile<{tm}x{tn}xf32>) {{{first}
      yield %d1 : tile<{tm}x{tn}xf32>
    }} else {{
      yield %s : tile<{tm}x{tn}xf32>
    }}""",
    "either": """%next = if %is -> (tile<{tm}x{tn}xf32>) {{{first}
      yield %d1 : tile<{tm}x{tn}xf32>
    }} else {{{second}
      %e = negf %d2 : tile<{tm}x{tn}xf32>
      yield %e : tile<{tm}x{tn}xf32>
    }}""",
    "nested": """%twice = cmpi greater_than %bit, %one, signed : tile<i32> -> tile<i1>
    %next = if %is -> (tile<{tm}x{tn}xf32>) {{
      %inner = if %twice -> (tile<{tm}x{tn}xf32>) {{{first}
        yield %d1 : tile<{tm}x{tn}xf32>
      }} else {{
        %e = negf %s : tile<{tm}x{tn}xf32>
        yield %e : tile<{tm}x{tn}xf32>
      }}
      yield %inner : tile<{tm}x{tn}xf32>
    }} else {{
      yield %s : tile<{tm}x{tn}xf32>
    }}""",
}
"""What an iteration does: a product or nothing, one of two, a product two branches deep."""


def conditional_product(body: str, tile: tuple[int, int, int]) -> str:
    """The kernel with one of the `BODIES` and tiles of M, N and K."""
    tm, tn, tk = tile
    sizes = {"tm": tm, "tn": tn, "tk": tk}
    products = {name: _PRODUCT.format(n=n, **sizes) for n, name in ((1, "first"), (2, "second"))}
    return _KERNEL.format(body=BODIES[body].format(**products, **sizes), **sizes)
