"""Tests of the passes on cuda_tile."""
