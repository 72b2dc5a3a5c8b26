"""The processes that run the user's file: one tells what is to be tuned, others make candidates.

python -m tileiras.tune.worker describe FILE VARIABLE FOLDER
python -m tileiras.tune.worker make FILE VARIABLE
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tileiras.errors import TileirasError, UsageError
from tileiras.runtime.child_process import how_it_ended, serve
from tileiras.suggestions import did_you_mean
from tileiras.tune.description import Description, Point, label_of, read_description

if TYPE_CHECKING:
    import numpy as np

_MODULE = "tuned_kernel"
"""The name under which the user's file is imported."""


def load(path: str, variable: str) -> Description:
    """The description in a file; raises UsageError, and what the file itself raises."""
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"'{path}' is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        if (error.name or "").startswith("cuda"):
            raise UsageError(
                f"'{path}' needs cuTile Python: install cuda-tile ({error})"
            ) from error
        raise UsageError(f"'{path}' cannot be imported: {error}") from error
    except OSError as error:
        raise UsageError(f"unable to read input file '{path}': {error.strerror}") from error
    if not hasattr(module, variable):
        label = did_you_mean(variable, [name for name in vars(module) if name[0] != "_"])
        raise UsageError(
            f"'{path}' has no {variable}: a dictionary that says what to try", label=label
        )
    return read_description(getattr(module, variable), variable)


def make_array(name: str, place: int, value: Any, filled: bool = True) -> Any:
    """An argument: an array of random values where a type and extents are given.

    The same ones each time; `filled`: or any, where they do not matter. Raises UsageError for what
    is no argument.
    """
    import numpy as np

    from tileiras.bench.arguments import random_array

    if isinstance(value, int | float):
        return value
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise UsageError(f"argument '{name}' is an array with gaps, expected a contiguous one")
        return value
    form = "expected (dtype, extents...), an array of numpy, or a number"
    if not isinstance(value, tuple) or len(value) < 2:
        raise UsageError(f"argument '{name}' is {value!r}, {form}")
    kind, *extents = value
    if not all(isinstance(extent, int) and extent > 0 for extent in extents):
        raise UsageError(
            f"argument '{name}' has the extents {tuple(extents)}, expected positive ones"
        )
    dtype = _dtype(str(kind), name)
    if not filled:
        return np.empty(tuple(extents), dtype)
    return random_array(dtype, tuple(extents), place, f"argument '{name}'")


def _dtype(kind: str, name: str) -> np.dtype[Any]:
    """numpy's type of this name, or that of ml_dtypes; raises UsageError."""
    import numpy as np

    try:
        return np.dtype(kind)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError as error:
        found = f"argument '{name}' has the type '{kind}', which needs ml_dtypes"
        raise UsageError(f"{found}: install tileiras[gpu]") from error
    if not hasattr(ml_dtypes, kind):
        raise UsageError(f"argument '{name}' has the type '{kind}', expected one such as float16")
    return np.dtype(getattr(ml_dtypes, kind))


def arguments_of(description: Description, filled: bool = True) -> dict[str, Any]:
    """The arguments by name, in the kernel's order; arrays have their values if they are filled."""
    names = list(description.arguments)
    if description.kernel is not None:
        from tileiras.tune.client import check_parameters

        names = check_parameters(description)
    return {
        name: make_array(name, place, description.arguments[name], filled)
        for place, name in enumerate(names)
    }


def describe(path: str, variable: str, folder: str, say: Callable[..., None]) -> None:
    """Tells everything that the search must know; arrays are written to the folder.

    First the points, so that they can be made; then the arguments, when their values and the
    results of the reference are there.
    """
    description = load(path, variable)
    arguments_of(description, filled=False)  # says what is wrong with them
    points = [(point, description.grid_of(point)) for point in description.points()]
    client = ""
    if description.kernel is not None:
        from tileiras.tune.client import client_version

        client = client_version()
    say(
        client=client,
        sources=_hash_of_sources(path),
        points=[{"point": point, "grid": grid} for point, grid in points],
        relative=description.relative,
        absolute=description.absolute,
        has_reference=description.reference is not None,
    )
    arguments = arguments_of(description)
    expected = _expected(description, arguments)
    say(arguments=_write_arguments(description, arguments, expected, folder))


def _write_arguments(
    description: Description,
    arguments: Mapping[str, Any],
    expected: Mapping[str, Any] | None,
    folder: str,
) -> list[dict[str, Any]]:
    """The entry's arguments: files of arrays, and numbers. An array of a client's kernel has more.

    Those are its extents and its strides in elements.
    """
    told: list[dict[str, Any]] = []
    for place, (name, value) in enumerate(arguments.items()):
        if not hasattr(value, "strides"):
            told.append({"value": value})
            continue
        files = {"file": os.path.join(folder, f"argument{place}")}
        value.tofile(files["file"])
        if expected is not None:
            files["expected"] = files["file"]
            if not _is_same(expected[name], value):
                files["expected"] = os.path.join(folder, f"expected{place}")
                expected[name].tofile(files["expected"])
        told.append({"name": name, "dtype": value.dtype.name, "shape": value.shape, **files})
        if description.kernel is not None:
            sizes = (*value.shape, *(stride // value.itemsize for stride in value.strides))
            told += [{"value": int(size)} for size in sizes]
    return told


def _expected(description: Description, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The arguments after the reference did its work; None without one.

    Raises UsageError for a reference that writes into none of them.
    """
    if description.reference is None:
        return None
    copies = {
        name: value.copy() if hasattr(value, "strides") else value
        for name, value in arguments.items()
    }
    description.reference(*copies.values())
    arrays = [name for name, value in arguments.items() if hasattr(value, "strides")]
    if all(_is_same(copies[name], arguments[name]) for name in arrays):
        raise UsageError("the reference changes no array, expected results written into arguments")
    return copies


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have the same bytes."""
    import numpy as np

    return np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8))


def _hash_of_sources(path: str) -> str:
    """Of the file and of what it imported from its folder and below."""
    top = Path(path).resolve()
    found = {top}
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if name and (place := Path(name).resolve()).is_relative_to(top.parent):
            found.add(place)
    total = sha256()
    for place in sorted(found):
        if "site-packages" not in place.parts:
            total.update(sha256(place.read_bytes()).digest())
    return total.hexdigest()


def make(
    description: Description, path: str, values: Point, folder: str, target: str
) -> dict[str, Any]:
    """Compiles the candidate of a point; tells what to launch. Writes a cubin to the folder."""
    from tileiras.api import compile

    if description.source is not None:
        source = description.source(description.known(values))
        if not isinstance(source, str | bytes | os.PathLike):
            raise UsageError(f"the source of {label_of(values)} is a {type(source).__name__}")
        filename = ""
    else:
        from tileiras.tune.client import make_bytecode

        arguments = arguments_of(description, filled=False)
        source = make_bytecode(description, values, arguments, target)
        filename = path
    level = values.get("opt_level")
    compiled = compile(source, target, filename=filename, opt_level=3 if level is None else level)
    name = description.entry or compiled.name
    kernel = next((one for one in compiled.kernels if one.name == name), None)
    if kernel is None:
        found = ", ".join(one.name for one in compiled.kernels)
        raise UsageError(f"no entry '{name}', found: {found}")
    cubin = os.path.join(folder, "kernel.cubin")
    Path(cubin).write_bytes(compiled.cubin)
    used = compiled.resources.get(name)
    return {
        "cubin": cubin,
        "entry": name,
        "block": kernel.block,
        "cluster_size": kernel.cluster_size,
        "types": [parameter.type for parameter in kernel.parameters],
        "resources": asdict(used) if used is not None else {},
    }


def keep_making(
    work: Callable[[Point, str, str], dict[str, Any]],
    say: Callable[..., None],
    hear: Callable[[], dict[str, Any]],
) -> None:
    """Makes what it is told, one after the other: each in a fork, which may do what it likes.

    `work` gets a point, a folder and a target. The answer is what it returns, or a failure.
    """
    while True:
        told = hear()
        log = os.path.join(told["folder"], "make.log")
        child = os.fork()
        if not child:
            _make_and_exit(work, told, log, say)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code:
            say(failure=how_it_ended(code, log), crashed=True)


def _make_and_exit(
    work: Callable[[Point, str, str], dict[str, Any]],
    told: Mapping[str, Any],
    log: str,
    say: Callable[..., None],
) -> NoReturn:
    """Is the fork: what it prints goes to the log."""
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(stream, 2)
    os.dup2(stream, 1)
    try:
        answer = work(told["point"], told["folder"], told["target"])
    except TileirasError as error:
        answer = {"failure": error.render().removeprefix("error: "), "crashed": False}
    except Exception as error:
        import traceback

        traceback.print_exc()
        answer = {"failure": f"{type(error).__name__}: {error}", "crashed": False}
    sys.stdout.flush()
    sys.stderr.flush()
    say(**answer)
    os._exit(0)


def do(words: list[str], say: Callable[..., None], hear: Callable[[], dict[str, Any]]) -> None:
    """Does what the command line says."""
    what, path, variable, *folder = words
    try:
        if what == "describe":
            describe(path, variable, folder[0], say)
        else:
            description = load(path, variable)
            _warm_up()
            keep_making(partial(make, description, path), say, hear)
    except TileirasError as error:
        say(error=error.render().removeprefix("error: "))


def _warm_up() -> None:
    """Loads what compiling needs, so that no fork has to."""
    import gc

    from tileiras.codegen.llvm_backend import load_llvm
    from tileiras.registry import PASSES, load_pass

    load_llvm()
    for module in ("tileiras.api", "tileiras.codegen.ptxas_backend"):
        import_module(module)
    for name in PASSES:
        load_pass(name)
    gc.freeze()


if __name__ == "__main__":
    serve(lambda say, hear: do(sys.argv[1:], say, hear))
