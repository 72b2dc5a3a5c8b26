"""Passes on cuda_tile: common subexpressions, fused multiply-add, loop splitting."""
