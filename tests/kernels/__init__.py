"""Kernels that tests of several folders compile and run, and the ways to do so."""
