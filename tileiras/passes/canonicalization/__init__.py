"""Canonicalization of cuda_tile: folds, simplifications and dead code, to a fixed point."""

from tileiras.passes.canonicalization.canonicalize import CanonicalizePass, canonicalize

__all__ = ["CanonicalizePass", "canonicalize"]
