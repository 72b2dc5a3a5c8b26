"""NVIDIA/cuda-tile's own tests, read from a checkout that $CUDA_TILE_SUITE names."""
