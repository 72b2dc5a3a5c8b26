"""Passes on programs in CuTe's dialects."""
