"""Tests of the numpy interpreter."""
