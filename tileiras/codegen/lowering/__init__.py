"""Lowerings: nv_tileas to one thread's program in the `llvm` and `nvvm` dialects, one file per op family."""
