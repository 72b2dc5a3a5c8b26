"""Tests that launch kernels on a GPU (marker `gpu`), and their kernels' checks without one."""
