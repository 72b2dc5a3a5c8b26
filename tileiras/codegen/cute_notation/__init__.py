"""Tile kernels in CuTe's notation: where elements lie, what is copied, what is multiplied."""
