"""CUDA Tile C++ as a client: own kernels, compiled by nvcc with the compiler under test."""
