"""A kernel of one tile block that computes a tile of f32 of two others."""

from __future__ import annotations

SIZE = 1024
"""Elements of each array."""
_KERNEL = """
cuda_tile.module @m {
  entry @k(%A: tile<ptr<f32>>, %B: tile<ptr<f32>>, %C: tile<ptr<f32>>) {
    %o = iota : tile<SIZExi32>
    %i = reshape %o : tile<SIZExi32> -> tile<SIZExi32>
    LOADS
    BODY
    %c0 = reshape %C : tile<ptr<f32>> -> tile<1xptr<f32>>
    %c1 = broadcast %c0 : tile<1xptr<f32>> -> tile<SIZExptr<f32>>
    %c2 = offset %c1, %o : tile<SIZExptr<f32>>, tile<SIZExi32> -> tile<SIZExptr<f32>>
    %t = store_ptr_tko weak %c2, %r : tile<SIZExptr<f32>>, tile<SIZExf32> -> token
    return
  }
}
"""
_LOAD = """
    %N0 = reshape %P : tile<ptr<f32>> -> tile<1xptr<f32>>
    %N1 = broadcast %N0 : tile<1xptr<f32>> -> tile<SIZExptr<f32>>
    %N2 = offset %N1, %o : tile<SIZExptr<f32>>, tile<SIZExi32> -> tile<SIZExptr<f32>>
    %N, %uN = load_ptr_tko weak %N2 : tile<SIZExptr<f32>> -> tile<SIZExf32>, token
"""
_LOADS = _LOAD.replace("N", "a").replace("%P", "%A") + _LOAD.replace("N", "b").replace("%P", "%B")


def elementwise_kernel(body: str) -> bytes:
    """A kernel of one tile block: `%r` of `%a` and `%b`, SIZE elements of f32 each."""
    text = _KERNEL.replace("LOADS", _LOADS).replace("BODY", body)
    return text.replace("SIZE", str(SIZE)).encode()
