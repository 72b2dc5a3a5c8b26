"""Operations and attributes of xDSL, defined when they are first used.

xDSL's decorators read a class, check it, resolve its annotations and build constraints: a tenth of
a millisecond for each of the 450 classes of our dialects, of which a kernel uses 60. Here the
decorators only note the class. The definition is made when somebody asks for it, and somebody asks
before there is an instance: every operation and attribute looks at its definition when it is made.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_DEFINITIONS = "xdsl.irdl"
_MISSING = object()


class DeferDefinitions:
    """A finder that waits for `xdsl.irdl` to be imported and replaces its decorators then."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification that the finders after this one have, with something done at its
        end."""
        if name != _DEFINITIONS:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_replace(module: ModuleType) -> None:
            execute(module)
            check_classes_by_bases()
            walk_quickly()
            defer_definitions(module)

        loader.exec_module = execute_and_replace
        return spec


def defer_definitions(irdl: Any) -> None:
    """Replaces the decorators in `xdsl.irdl`; leaves an xDSL alone that is not as expected."""
    operations = sys.modules.get("xdsl.irdl.operations")
    attributes = sys.modules.get("xdsl.irdl.attributes")
    if not hasattr(operations, "irdl_op_definition") or not hasattr(
        attributes, "irdl_param_attr_definition"
    ):
        return
    define_op = _deferred_operations(irdl.IRDLOperation, irdl.irdl_op_definition)
    irdl.irdl_op_definition = define_op
    setattr(operations, "irdl_op_definition", define_op)  # noqa: B010 (an optional module)
    define_attribute = _deferred_attributes(irdl, getattr(attributes, "irdl_param_attr_definition"))  # noqa: B009
    irdl.irdl_param_attr_definition = define_attribute
    setattr(attributes, "irdl_param_attr_definition", define_attribute)  # noqa: B010


def _deferred_operations(base: Any, define: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`irdl_op_definition`, put off until the definition or the traits are asked for."""
    waiting: dict[Any, Any] = {}
    without_definition = base.__dict__["get_irdl_definition"]

    def make(cls: Any) -> None:
        """Defines a class for which `later` has stood in; its traits are its own again."""
        traits = waiting.pop(cls)
        del cls.get_irdl_definition
        if traits is _MISSING:
            del cls.traits
        else:
            cls.traits = traits
        define(cls)

    class Traits:
        """Stands where a class has its traits, which xDSL collects from all its bases."""

        def __get__(self, instance: object, owner: Any) -> Any:
            make(next(cls for cls in owner.__mro__ if cls in waiting))
            return owner.traits

    def get_definition(cls: Any) -> Any:
        make(next(known for known in cls.__mro__ if known in waiting))
        return cls.get_irdl_definition()

    traits_later, definition_later = Traits(), classmethod(get_definition)

    def later(cls: Any) -> Any:
        if cls.assembly_format is not None or not issubclass(cls, base):
            return define(cls)
        if any("get_irdl_definition" in known.__dict__ for known in cls.__mro__ if known != base):
            return define(cls)
        waiting[cls] = cls.__dict__.get("traits", _MISSING)
        cls.traits = traits_later
        cls.get_irdl_definition = definition_later
        return cls

    assert without_definition is not None
    return later


def _deferred_attributes(irdl: Any, define: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`irdl_param_attr_definition`, its reading of the class put off."""
    from dataclasses import dataclass

    from xdsl.utils.runtime_final import runtime_final

    def later(cls: Any) -> Any:
        if "get_type_index" in cls.__dict__:
            return define(cls)

        def get_definition(owner: Any) -> Any:
            made = irdl.ParamAttrDef.from_pyrdl(cls)
            cls.get_irdl_definition = classmethod(lambda _: made)
            return made

        def get_type_index(owner: Any) -> int:
            names = [name for name, _ in owner.get_irdl_definition().parameters]
            return names.index("type")

        cls.get_irdl_definition = classmethod(get_definition)
        if hasattr(cls, "get_type_index"):
            cls.get_type_index = classmethod(get_type_index)
        return runtime_final(dataclass(frozen=True, init=False)(cls))

    return later


class _ByBases(ABCMeta):
    """Classes of which an instance is what has them among its bases, as with ordinary classes."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def check_classes_by_bases() -> None:
    """Lets `isinstance` with xDSL's abstract classes look at base classes only.

    `ABCMeta` looks through all subclasses, too, since one may have been registered: for every pair
    of classes that meet, in trees of hundreds. xDSL registers none with its IR's classes.
    """
    for name, module in list(sys.modules.items()):
        if not name.startswith("xdsl."):
            continue
        for value in list(vars(module).values()):
            if type(value) is ABCMeta and value.__module__ == name:
                value.__class__ = _ByBases


def walk_quickly() -> None:
    """Lets an operation be walked through by one generator for each level of operations.

    xDSL has three (operation, region, block), and two iterators: each operation that is found is
    handed on by all of them.
    """
    operation: Any = getattr(sys.modules.get("xdsl.ir"), "Operation", None)
    if operation is None or "walk" not in vars(operation):
        return
    in_any_order = operation.walk

    def walk(self: Any, *, reverse: bool = False, region_first: bool = False) -> Iterator[Any]:
        if reverse or region_first:
            yield from in_any_order(self, reverse=reverse, region_first=region_first)
            return
        yield self
        if self.regions:
            yield from _inside(self)

    walk.__doc__ = in_any_order.__doc__
    operation.walk = walk


def _inside(op: Any) -> Iterator[Any]:
    """The operations in an operation, each before those in it.

    As in xDSL the next one is looked up before one is given away, which may be erased then, and
    its regions after that.
    """
    for region in op.regions:
        block = region.first_block
        while block is not None:
            next_block, found = block.next_block, block.first_op
            while found is not None:
                following = found.next_op
                yield found
                if found.regions:
                    yield from _inside(found)
                found = following
            block = next_block
