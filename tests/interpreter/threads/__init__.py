"""Tests of the machine that runs kernels of the last stage by their threads."""
