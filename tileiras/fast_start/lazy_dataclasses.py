"""Dataclasses that are read, and methods that are made, when they are first used.

`dataclasses` looks through the fields of every class, writes the source of six methods, compiles
it and runs it: for 380 classes and two thousand methods, in a process that uses 60 and 150. Here a
class gets stand-ins, which do that when the first of them is used and are gone then; and each
method is made when it is called. What is compiled is kept in the prepared file.
"""

from __future__ import annotations

import abc
import builtins
import dataclasses
import marshal
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from tileiras.fast_start.prepared_file import Prepared

_SUPPORTED = ((3, 11), (3, 12))
"""Versions of Python whose `dataclasses` makes methods by the functions that are replaced."""

_MAKERS = {"_init_fn": "__init__", "_repr_fn": "__repr__", "_hash_fn": "__hash__"}
"""Functions of `dataclasses` and the method that each makes."""

_FIELDS, _MATCHED, _PARAMETERS = (
    "__dataclass_fields__",
    "__match_args__",
    "__dataclass_params__",
)
_MISSING = object()


class _NoSignatures:
    """The module `inspect` as `dataclasses` sees it: all of it, but for what takes long."""

    def __init__(self, module: Any):
        self._module = module

    @staticmethod
    def signature(_: object) -> str:
        """Nothing, which is added to the name of the class in missing docstrings."""
        return ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def defer_dataclasses(prepared: Prepared) -> None:
    """From now on dataclasses are read and their methods made on first use.

    Where `dataclasses` is not as expected, only the compiled code is kept.
    """
    setattr(dataclasses, "exec", _keeping_code(prepared))  # noqa: B010 (a builtin there)
    expected = (*_MAKERS, "_cmp_fn", "_frozen_get_del_attr", "_process_class", "inspect")
    if sys.version_info[:2] not in _SUPPORTED or not all(
        hasattr(dataclasses, name) for name in expected
    ):
        return
    for maker, name in _MAKERS.items():
        setattr(dataclasses, maker, _deferring(name, getattr(dataclasses, maker)))
    compare = getattr(dataclasses, "_cmp_fn")  # noqa: B009 (private there)
    guard = getattr(dataclasses, "_frozen_get_del_attr")  # noqa: B009

    def compare_later(name: str, *given: Any, **named: Any) -> Any:
        return _stand_in(name, lambda: compare(name, *given, **named))

    def guard_later(*given: Any) -> Any:
        return (
            _stand_in("__setattr__", lambda: guard(*given)[0]),
            _stand_in("__delattr__", lambda: guard(*given)[1]),
        )

    for name, value in (
        ("_cmp_fn", compare_later),
        ("_frozen_get_del_attr", guard_later),
        ("_process_class", _deferring_classes(getattr(dataclasses, "_process_class"))),  # noqa: B009
        ("inspect", _NoSignatures(getattr(dataclasses, "inspect"))),  # noqa: B009
    ):
        setattr(dataclasses, name, value)


def _deferring(name: str, make: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `dataclasses` that makes method `name`, put off."""

    def later(*given: Any, **named: Any) -> Any:
        return _stand_in(name, lambda: make(*given, **named))

    return later


def _stand_in(name: str, make: Callable[[], Any]) -> Any:
    """A method that, when it is called, is replaced in its class by the one that `make` makes."""

    def method(self: Any, /, *given: Any, **named: Any) -> Any:
        made = make()
        for owner in type(self).__mro__:
            if owner.__dict__.get(name) is method:
                made.__qualname__ = method.__qualname__
                setattr(owner, name, made)
                break
        return made(self, *given, **named)

    method.__name__ = name
    return method


def _deferring_classes(process: Callable[..., Any]) -> Callable[..., Any]:
    """What `@dataclass` does to a class, put off until a field or a method is asked for."""
    make_parameters: Any = getattr(dataclasses, "_DataclassParams")  # noqa: B009

    def later(
        cls: Any,
        init: bool,
        repr: bool,
        eq: bool,
        order: bool,
        unsafe_hash: bool,
        frozen: bool,
        match_args: bool,
        kw_only: bool,
        slots: bool,
        *others: Any,
    ) -> Any:
        given = (init, repr, eq, order, unsafe_hash, frozen, match_args, kw_only, slots, *others)
        own = cls.__dict__
        if order or unsafe_hash or slots or any(others) or _has_fields_with_options(own):
            return process(cls, *given)
        waiting: dict[str, Any] = {}

        def now() -> None:
            for name, before in waiting.items():
                if before is _MISSING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, before)
            waiting.clear()
            process(cls, *given)

        names = ["__init__"] if init else []
        names += ["__repr__"] if repr else []
        names += ["__eq__"] if eq else []
        names += ["__setattr__", "__delattr__"] if frozen else []
        names = [name for name in names if name not in own]
        if eq and not _has_own_hash(own):
            names.append("__hash__")
        waiting = {name: own.get(name, _MISSING) for name in names}
        attributes = [_FIELDS, _MATCHED] if match_args and _MATCHED not in own else [_FIELDS]
        waiting.update(dict.fromkeys(attributes, _MISSING))
        for name in names:
            stand_in = None if name == "__hash__" and not frozen else _method(cls, name, now)
            setattr(cls, name, stand_in)
        for name in attributes:
            setattr(cls, name, _Attribute(cls, name, now))
        setattr(cls, _PARAMETERS, make_parameters(*given[: len(make_parameters.__slots__)]))
        if getattr(cls, "__abstractmethods__", None):
            abc.update_abstractmethods(cls)
        return cls

    return later


def _has_fields_with_options(own: Any) -> bool:
    """Whether a class says more of a field than its type and default: its attributes change."""
    return any(type(value) is dataclasses.Field for value in own.values())


def _has_own_hash(own: Any) -> bool:
    """Whether a class has written its hash itself; Python writes None where it has `__eq__`."""
    found = own.get("__hash__", _MISSING)
    return not (found is _MISSING or (found is None and "__eq__" in own))


def _method(cls: Any, name: str, now: Callable[[], None]) -> Any:
    """A method of a class that waits."""

    def method(self: Any, /, *given: Any, **named: Any) -> Any:
        if cls.__dict__.get(name) is method:
            now()
        return getattr(cls, name)(self, *given, **named)

    method.__name__ = name
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


class _Attribute:
    """An attribute of a class that waits."""

    def __init__(self, cls: Any, name: str, now: Callable[[], None]):
        self._given = cls, name, now

    def __get__(self, instance: object, owner: Any) -> Any:
        cls, name, now = self._given
        if cls.__dict__.get(name) is self:
            now()
        return getattr(cls, name)


def _keeping_code(prepared: Prepared) -> Callable[..., None]:
    """`exec`, with the compilation of text kept."""
    known = prepared.methods

    def run(source: str | CodeType, *scopes: Any) -> None:
        if isinstance(source, str):
            kept = known.get(source)
            if kept is not None:
                source = marshal.loads(kept)
            else:
                text, source = source, compile(source, "<string>", "exec")
                known[text] = marshal.dumps(source)
                prepared.grew = True
        builtins.exec(source, *scopes)

    return run
