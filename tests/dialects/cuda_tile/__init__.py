"""Tests of the cuda_tile dialect."""
