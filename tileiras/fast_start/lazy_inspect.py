"""`inspect`, read when something is asked of it that is not answered here.

Dataclasses, typing's extensions and xDSL import it for small questions about classes and
functions, and it brings Python's grammar, its tokenizer and its disassembler: nine modules. Here
those questions are answered in the plain cases; all else is the real module's.
"""

from __future__ import annotations

import sys
from types import FunctionType, MethodType, ModuleType

TYPE_CHECKING = False  # `typing` shall come from the prepared file
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_NAME = "inspect"

_SUPPORTED = ((3, 11), (3, 12))
"""Versions of Python where a class keeps its annotations among its attributes."""

_ARGUMENTS, _KEYWORDS, _COROUTINE = 0x4, 0x8, 0x80
"""Fixed: flags of a function's code: it has `*args`, it has `**kwargs`, it is `async`."""


def defer_inspect() -> None:
    """From now on `import inspect` gives a stand-in, unless the real module is loaded already."""
    if sys.version_info[:2] in _SUPPORTED and _NAME not in sys.modules:
        sys.modules[_NAME] = _Later()


def _real() -> Any:
    """The real module, loaded in place of the stand-in."""
    if type(sys.modules.get(_NAME)) is _Later:
        del sys.modules[_NAME]
    return __import__(_NAME)


class _Later(ModuleType):
    """A module that has a few functions, and becomes equal to the real one when more is
    asked of it."""

    def __init__(self) -> None:
        super().__init__(_NAME)
        self.__dict__.update(
            isclass=_is_class,
            ismethod=_is_method,
            iscoroutinefunction=_is_coroutine_function,
            get_annotations=_annotations_of,
            signature=_signature_of,
            getfullargspec=lambda function: _real().getfullargspec(function),
        )

    def __getattr__(self, name: str) -> Any:
        if name in ("__path__", "__file__"):  # asked of every module; it is no package
            raise AttributeError(f"module '{_NAME}' has no attribute '{name}'")
        real = _real()
        self.__dict__.update(vars(real))
        return getattr(real, name)


def _is_class(object: object) -> bool:
    return isinstance(object, type)


def _is_method(object: object) -> bool:
    return isinstance(object, MethodType)


def _is_coroutine_function(obj: Any) -> bool:
    if type(obj) is FunctionType and not obj.__dict__:
        return bool(obj.__code__.co_flags & _COROUTINE)
    return _real().iscoroutinefunction(obj)


def _annotations_of(obj: Any, **options: Any) -> dict[str, Any]:
    """A class's own annotations, the text among them evaluated where `eval_str` says so."""
    evaluated = options.get("eval_str", False)
    plain = isinstance(obj, type) and set(options) <= {"eval_str"}
    if not plain or any(hasattr(obj, name) for name in ("__wrapped__", "__globals__")):
        return _real().get_annotations(obj, **options)
    written = obj.__dict__.get("__annotations__") or {}
    if type(written) is not dict or getattr(obj, "__type_params__", ()):
        return _real().get_annotations(obj, **options)
    if not evaluated or not any(isinstance(value, str) for value in written.values()):
        return dict(written)
    module = sys.modules.get(obj.__module__)
    known, own = ({} if module is None else vars(module)), dict(vars(obj))
    return {
        name: eval(value, known, own) if isinstance(value, str) else value
        for name, value in written.items()
    }


def _signature_of(obj: Any, **options: Any) -> Any:
    """What takes part in a function's signature; the real signature where it is not a plain one."""
    if type(obj) is FunctionType and not obj.__dict__ and not options:
        return _Signature(obj)
    return _real().signature(obj, **options)


class _Signature:
    """A signature of which only the names of parameters are known until more is asked."""

    def __init__(self, function: FunctionType):
        self.parameters = _Parameters(function)
        self._function = function

    def __getattr__(self, name: str) -> Any:
        return getattr(_real().signature(self._function), name)

    def __str__(self) -> str:
        return str(_real().signature(self._function))


class _Parameters:
    """The parameters of a function, by name."""

    def __init__(self, function: FunctionType):
        self._function = function

    def __contains__(self, name: object) -> bool:
        code = self._function.__code__
        several = bool(code.co_flags & _ARGUMENTS) + bool(code.co_flags & _KEYWORDS)
        count = code.co_argcount + code.co_kwonlyargcount + several
        return name in code.co_varnames[:count]

    def __getitem__(self, name: str) -> Any:
        return _real().signature(self._function).parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_real().signature(self._function).parameters)

    def __len__(self) -> int:
        return len(_real().signature(self._function).parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(_real().signature(self._function).parameters, name)
