"""Compiles kernels of the cute dialect: `lowering` runs them on symbols, `memory` is where tensors
lie."""
