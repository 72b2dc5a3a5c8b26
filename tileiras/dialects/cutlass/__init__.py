"""Pipelines between warps, tile schedulers and ordered barriers, as CUTLASS has them."""
