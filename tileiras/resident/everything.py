"""Loads what a tile kernel may need, so that a compilation in a fork finds it made.

A kernel that is no sample needs modules and definitions that samples do not: a tenth of the time of
a product when it is the first of its kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

_PACKAGES = ("analysis", "planning", "passes", "codegen")
_OTHER_INPUT = "cute"
"""What stands in names of modules that only programs in CuTe's dialects need."""


def load_passes() -> None:
    """Imports everything that tile kernels are compiled with."""
    for package in _PACKAGES:
        top = import_module(f"tileiras.{package}")
        for found in walk_packages(top.__path__, f"{top.__name__}."):
            if _OTHER_INPUT not in found.name:
                import_module(found.name)


def make_definitions() -> None:
    """Makes the definitions, and tables for verification, of all operations that are imported."""
    from xdsl.irdl import IRDLOperation, ParametrizedAttribute

    from tileiras.dialects.quick_verification import use_table

    for operation in _classes_below(IRDLOperation):
        if "get_irdl_definition" in vars(operation):
            use_table(operation)
    for attribute in _classes_below(ParametrizedAttribute):
        if "get_irdl_definition" in vars(attribute):
            attribute.get_irdl_definition()


def _classes_below(base: Any) -> Iterator[Any]:
    """All classes that have a class among their bases."""
    for known in base.__subclasses__():
        yield known
        yield from _classes_below(known)
