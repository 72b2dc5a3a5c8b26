"""Reads cubins and sets how their kernels are launched. Pure functions from bytes to bytes."""

from tileiras.codegen.cubin.language import Language, kernel_language, with_language

__all__ = ["Language", "kernel_language", "with_language"]
