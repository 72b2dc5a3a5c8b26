"""Tests of the passes before placement."""
