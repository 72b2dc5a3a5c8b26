"""A cheaper start changes how long things take, and nothing else."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tileiras.fast_start import TRICKS, cache_folder, lazy_dataclasses

ROOT = Path(__file__).resolve().parent.parent

MOST_MODULES = 495
"""Policy: how many modules a vector add may load; it was 492 when this was written."""

DEFINE = """
import sys
from tileiras.fast_start import start_fast
save = start_fast(sys.argv[1])
import builtins
compiled = []
real = builtins.compile
builtins.compile = lambda *a, **k: (compiled.append(a[0]), real(*a, **k))[1]
import dataclasses, re

@dataclasses.dataclass(frozen=True, order=True)
class Point:
    x: int
    y: int = 2

assert Point(1) == Point(1, 2) < Point(1, 3)
assert repr(Point(1)) == "Point(x=1, y=2)" and hash(Point(1)) == hash(Point(1, 2))
try:
    Point(1).x = 3
except dataclasses.FrozenInstanceError:
    pass
else:
    raise SystemExit("not frozen")
parsed = []
real_parse = re._parser.parse
re._compiler._parser.parse = lambda *a, **k: (parsed.append(a[0]), real_parse(*a, **k))[1]
assert re.compile(r"(?P<word>[a-z]+) (\\d+)", re.I).fullmatch("Hot 7")["word"] == "Hot"
save()
print(len(compiled))
"""

BEHAVIOUR = """
import sys
from tileiras.fast_start import start_fast
start_fast(None, without=tuple(sys.argv[1:]))
import dataclasses
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import ClassVar

@dataclass
class Plain:
    a: int
    b: list[int] = field(default_factory=list)
    kind: ClassVar[str] = "plain"
    def __post_init__(self):
        self.c = self.a + len(self.b)

@dataclass(frozen=True)
class Frozen:
    name: str
    size: int = 4

@dataclass(frozen=True)
class Child(Frozen):
    more: tuple[int, ...] = ()

@dataclass(eq=False)
class Same:
    x: int

@dataclass(frozen=True)
class OwnHash:
    x: int
    def __hash__(self):
        return 7

@dataclass(frozen=True)
class OwnEquality:
    x: int
    def __eq__(self, other):
        return True

@dataclass(frozen=True, slots=True)
class Stages:
    x: int

@dataclass(order=True, kw_only=True)
class Ordered:
    x: int
    self: int = 1

@dataclass(repr=False, init=False)
class Bare:
    x: int = 3

def tried(what):
    try:
        return repr(what())
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def matched(value):
    match value:
        case Child(name, size, more):
            return "child", name, size, more
        case Frozen(name, size):
            return "frozen", name, size
        case Plain(a):
            return "plain", a

print([f.name for f in fields(Child)], is_dataclass(Same), is_dataclass(int), Child.__match_args__)
print(Plain(1), Plain(1, [2]).c, Plain(1) == Plain(1), Plain(1) == Same(1), Plain.kind)
print(Plain.__hash__, hash(Frozen("a")) == hash(("a", 4)), hash(OwnHash(1)), Same(1) == Same(1))
print(tried(lambda: hash(Plain(1))), tried(lambda: Plain()), tried(lambda: Plain(1, 2, 3)))
print(matched(Child("c")), matched(Frozen("f", 1)), matched(Plain(9)))
print(replace(Child("c"), size=1), OwnEquality(1) == 5, hash(OwnEquality(3)) == hash((3,)))
print(Stages(1), hash(Stages(1)) == hash((1,)), hasattr(Stages(1), "__dict__"))
print(Ordered(x=1) < Ordered(x=2), Ordered(x=1), tried(lambda: Ordered(1)))
print(Bare().x, Bare() == Bare(), Frozen.size, Child("a") == Frozen("a"), Child("a") == Child("a"))
print(tried(lambda: setattr(Frozen("a"), "size", 1)), tried(lambda: delattr(Child("a"), "name")))
print(Child.__init__.__qualname__, Frozen.__eq__.__name__, Child("x").__repr__())
print(dataclasses.asdict(Child("z", more=(1,))), Frozen.__dataclass_params__.frozen)
"""

DEFINITIONS = """
import sys
from tileiras.fast_start import start_fast
start_fast(None, without=tuple(sys.argv[1:]))
import importlib
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Attribute, Operation, TypedAttribute
for name in ("cuda_tile", "nv_tileaa", "nv_tileas", "llvm", "nvvm"):
    importlib.import_module(f"tileiras.dialects.{name}")

def below(cls):
    for one in cls.__subclasses__():
        yield one
        yield from below(one)

classes = [*below(Operation), *below(Attribute)]
known = {f"{cls.__module__}.{cls.__qualname__}": cls for cls in classes}
for name in sorted(known):
    cls = known[name]
    traits = sorted(type(trait).__name__ for trait in cls.traits) if hasattr(cls, "traits") else ()
    definition = getattr(cls, "get_irdl_definition", lambda: None)
    kind = cls.get_type_index() if issubclass(cls, TypedAttribute) else ""
    found = definition()
    print(name, traits, kind, "" if found is None else (found.name, sorted(vars(found))))
    for field in ("operands", "results", "regions", "properties", "attributes", "parameters"):
        print("  ", field, list(getattr(found, field, ())))
    print("  ", sorted(key for key in vars(cls) if not key.startswith("__")))
print(IntegerAttr(3, i32).get_type())
"""

BASES = """
import sys
from tileiras.fast_start import start_fast
start_fast(None, without=tuple(sys.argv[1:]))
import collections.abc
from xdsl.dialects.builtin import ArrayAttr, ContainerType, IntegerType, TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
import tileiras.dialects.cuda_tile as tile
values = [i32, ArrayAttr([i32]), TensorType(i32, [4]), 3, [], "text"]
classes = [Attribute, TypeAttribute, ContainerType, Operation, SSAValue, IntegerType,
           collections.abc.Sequence, collections.abc.Hashable]
print([[isinstance(v, c) for c in classes] for v in values])
print([[issubclass(type(v), c) for c in classes] for v in values])
"""

QUESTIONS = """
import sys
from tileiras.fast_start import start_fast
start_fast(None, without=tuple(sys.argv[1:]))
import functools, inspect
from inspect import getfullargspec

class Plain:
    a: int
    b: "list[int]" = []
    def method(self): ...

class Child(Plain):
    pass

def function(one, *rest, key=1, **more) -> "int":
    local = one

async def waits(): ...

@functools.wraps(function)
def wrapped(*given): ...

def tried(what):
    try:
        return repr(what())
    except Exception as error:
        return f"{type(error).__name__}: {error}"

print([inspect.isclass(x) for x in (Plain, Plain(), list[int], int, None)])
print([inspect.ismethod(x) for x in (Plain.method, Plain().method, [].append, len)])
print([inspect.iscoroutinefunction(x) for x in (waits, function, Plain, functools.partial(waits))])
get = inspect.get_annotations
for eval_str in (False, True):
    print([tried(lambda: get(x, eval_str=eval_str)) for x in (Plain, Child, int, function, 3)])
for known in (function, wrapped, waits):
    names = inspect.signature(known).parameters
    print([name in names for name in ("one", "rest", "key", "more", "local", "given")])
    print(list(names), len(names), tried(lambda: names["one"].kind), tried(lambda: names.keys()))
    print(inspect.signature(known), tried(lambda: inspect.signature(known).return_annotation))
print(tried(lambda: inspect.signature(3)), getfullargspec(function).varargs)
print(inspect.getdoc(inspect.cleandoc), inspect.isfunction(function), tried(lambda: inspect.none))
"""

WALKS = """
import sys
from tileiras.fast_start import start_fast
start_fast(None, without=tuple(sys.argv[1:]))
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.test import TestOp
from xdsl.ir import Block, Operation, Region

def op(name, *regions):
    made = TestOp(regions=regions)
    made.results_name = name
    return made

def program():
    inner = op("c", Region(Block([op("d"), op("e")])), Region([Block([op("f")]), Block()]))
    return op("a", Region([Block([op("b"), inner, op("g")]), Block([op("h"), op("i")])]))

def erase(found):
    if found.results_name in "begh":
        found.detach()

def erase_next(found):
    if found.results_name in "bdh":
        found.next_op.detach()

def insert(found):
    if found.results_name in "be":
        found.parent.insert_ops_after([op("new")], found)
        found.parent.insert_ops_before([op("before")], found)

def fill(found):
    if found.results_name in "bi":
        found.add_region(Region([Block([op("in " + found.results_name)]), Block([op("too")])]))

def empty(found):
    if found.results_name in "ac":
        found.detach_region(0)

for change in (lambda _: None, erase, erase_next, insert, fill, empty):
    for order in ({}, {"reverse": True}, {"region_first": True}):
        top, names = program(), []
        for found in top.walk(**order):
            names.append(found.results_name)
            change(found)
        print(names, [left.results_name for left in top.walk()])
print(Operation.walk.__name__, [found.name for found in ModuleOp([]).walk()])
"""

OTHER_VERSIONS = ("3.11", "3.12", "3.13")
"""Pythons whose own `dataclasses` is asked, where they are installed."""

COMPILE = "import tileiras_command; tileiras_command.main()"


def run(
    script: str, *arguments: str | Path, python: str = sys.executable, **environment: str
) -> str:
    """The output of a script in a process of its own."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [python, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_second_process_compiles_nothing(tmp_path: Path) -> None:
    """The generated methods come from the file and behave the same."""
    assert int(run(DEFINE, tmp_path / "cache")) > 0
    assert run(DEFINE, tmp_path / "cache") == "0"


@pytest.mark.parametrize("content", [b"", b"garbage", b"\xa7\r\r\n" + b"\xff" * 40])
def test_damaged_file_is_ignored(tmp_path: Path, content: bytes) -> None:
    """And replaced."""
    run(DEFINE, tmp_path)
    (cache,) = tmp_path.iterdir()
    cache.write_bytes(content)
    assert int(run(DEFINE, tmp_path)) > 0
    assert run(DEFINE, tmp_path) == "0"


def test_truncated_file_is_ignored(tmp_path: Path) -> None:
    """A valid head does not make it valid."""
    run(DEFINE, tmp_path)
    (cache,) = tmp_path.iterdir()
    cache.write_bytes(cache.read_bytes()[:-10])
    assert int(run(DEFINE, tmp_path)) > 0


def test_code_that_is_damaged_is_read_from_its_source(tmp_path: Path) -> None:
    run(DEFINE, tmp_path)
    (cache,) = tmp_path.iterdir()
    data = cache.read_bytes()
    cache.write_bytes(data[:-200_000] + b"\xff" * 200_000)
    assert run(DEFINE, tmp_path) == "0"


def test_unwritable_folder_is_ignored(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "file").write_text("")
    assert int(run(DEFINE, tmp_path / "file" / "cache")) > 0


def test_file_of_another_user_is_ignored(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only the superuser gives files away")
    run(DEFINE, tmp_path)
    (cache,) = tmp_path.iterdir()
    os.chown(cache, 12345, 12345)
    assert int(run(DEFINE, tmp_path)) > 0


WATCH = """
import sys
sys.path.insert(1, sys.argv[2])
from tileiras.fast_start import start_fast
save = start_fast(sys.argv[1])
import watched, watched_package.inner
save()
print(watched.VALUE, watched_package.inner.VALUE, type(watched.__spec__.loader).__name__,
      watched.__spec__.cached is not None,
      watched_package.__path__ == [sys.argv[2] + "/watched_package"])
"""


def test_code_is_kept_where_python_keeps_none(tmp_path: Path) -> None:
    """Containers set PYTHONDONTWRITEBYTECODE, and packages lie in folders that are read-only."""
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "lonely.py").write_text("X = 1\n")
    script = """
import sys
from tileiras.fast_start import start_fast
save = start_fast(sys.argv[1])
import lonely
save()
print(type(lonely.__loader__).__name__, lonely.X)
"""
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": f"{tmp_path}/place:{ROOT}"}
    assert run(script, tmp_path / "cache", **environment) == "SourceFileLoader 1"
    assert run(script, tmp_path / "cache", **environment) == "PreparedLoader 1"
    assert not list(tmp_path.glob("place/__pycache__"))


def test_changed_source_is_read_again(tmp_path: Path) -> None:
    """And from the file once it has been."""
    modules, cache = tmp_path / "modules", tmp_path / "cache"
    (modules / "watched_package").mkdir(parents=True)
    (modules / "watched.py").write_text("VALUE = 1\n")
    (modules / "watched_package" / "__init__.py").write_text("")
    (modules / "watched_package" / "inner.py").write_text("VALUE = 5\n")
    assert run(WATCH, cache, modules) == "1 5 SourceFileLoader True True"
    assert run(WATCH, cache, modules) == "1 5 PreparedLoader True True"
    (modules / "watched.py").write_text("VALUE = 22\n")
    assert run(WATCH, cache, modules) == "22 5 SourceFileLoader True True"
    assert run(WATCH, cache, modules) == "22 5 PreparedLoader True True"


def test_module_that_moved_is_found_where_it_is(tmp_path: Path) -> None:
    """Another search path has a file of its own."""
    for name in ("one", "two"):
        (tmp_path / name / "watched_package").mkdir(parents=True)
        (tmp_path / name / "watched.py").write_text(f"VALUE = '{name}'\n")
        (tmp_path / name / "watched_package" / "__init__.py").write_text("")
        (tmp_path / name / "watched_package" / "inner.py").write_text("VALUE = 5\n")
    for name in ("one", "two", "one"):
        assert run(WATCH, tmp_path / "cache", tmp_path / name).startswith(f"{name} 5")


def test_few_files_are_kept(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"start-old-{number}.marshal").write_text("")
        os.utime(tmp_path / f"start-old-{number}.marshal", (number, number))
    (tmp_path / "libdevice").mkdir()
    run(DEFINE, tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 9 and "libdevice" in names
    assert "start-old-11.marshal" in names and "start-old-4.marshal" not in names


@pytest.mark.parametrize("script", [BEHAVIOUR, DEFINITIONS, BASES, QUESTIONS, WALKS])
def test_classes_are_the_same_as_without(script: str) -> None:
    """Dataclasses behave, operations and attributes are defined, as by the real decorators; what
    is asked of `inspect` has the real answer, and programs are walked through in the same order."""
    changed = run(script)
    assert changed == run(script, *TRICKS)
    assert changed


def python_of(version: str) -> str:
    """A Python of that version: on PATH, or installed beside this one. Empty: there is none."""
    beside = sorted(Path(sys.base_prefix).parent.glob(f"*{version}*/bin/python{version}"))
    for found in (shutil.which(f"python{version}"), *map(str, beside)):
        # a name on PATH may be a stand-in for a Python that is not chosen
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0:
            return found
    return ""


@pytest.mark.parametrize("version", OTHER_VERSIONS)
def test_dataclasses_of_other_pythons_are_the_same_as_without(version: str) -> None:
    """Their module differs from version to version; no library is needed to ask it."""
    python = python_of(version)
    if not python:
        pytest.skip(f"no Python {version} is installed")
    for script in (BEHAVIOUR, QUESTIONS):
        changed = run(script, python=python)
        assert changed == run(script, *TRICKS, python=python)
        assert changed


@pytest.mark.parametrize("more", [(), ("match_args", "kw_only", "slots", "weakref_slot")])
def test_parameters_of_a_class_are_those_that_this_python_has(
    monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    """Six before Python 3.12, ten since."""
    names = ("init", "repr", "eq", "order", "unsafe_hash", "frozen", *more)

    class Parameters:
        __slots__ = names

        def __init__(self, *given: object):
            assert len(given) == len(names)
            for name, value in zip(names, given):
                setattr(self, name, value)

    monkeypatch.setattr(dataclasses, "_DataclassParams", Parameters)
    read = lazy_dataclasses._deferring_classes(lambda cls, *given: cls)
    given = (True, True, False, False, False, True, True, False, False, False)
    kept = read(type("Point", (), {}), *given).__dataclass_params__
    assert [getattr(kept, name) for name in names] == list(given[: len(names)])


def test_what_else_dataclasses_asks_of_inspect_is_answered() -> None:
    """Since Python 3.12 it reads annotations by it; signatures stay unwritten."""
    script = """
from tileiras.fast_start import start_fast
start_fast(None)
import dataclasses
from dataclasses import inspect
class Point:
    x: int
print(inspect.get_annotations(Point)["x"].__name__, repr(inspect.signature(Point)))
"""
    assert run(script) == "int ''"


def test_plain_questions_leave_inspect_unread() -> None:
    """Another question reads it, and then everybody has it."""
    script = """
import sys
from tileiras.fast_start import start_fast
start_fast(None)
import dataclasses, inspect, xdsl.dialects.builtin
dataclasses.dataclass(type("Point", (), {"__annotations__": {"x": int}}))(1)
print("ast" in sys.modules, "dis" in sys.modules)
inspect.getsource
import inspect as again
print("ast" in sys.modules, again.getsource is inspect.getsource, again.__file__ is not None)
"""
    assert run(script).splitlines() == ["False False", "True True True"]


def test_inspect_that_is_loaded_is_left_alone() -> None:
    script = """
import inspect as before
from tileiras.fast_start import start_fast
start_fast(None)
import inspect
print(inspect is before)
"""
    assert run(script) == "True"


def test_traits_are_known_before_the_definition() -> None:
    script = """
from tileiras.fast_start import start_fast
start_fast(None)
from xdsl.traits import Pure, IsTerminator
import tileiras.dialects.cuda_tile as tile
print(tile.AddFOp.has_trait(Pure), tile.AddFOp.has_trait(IsTerminator))
"""
    assert run(script) == "True False"


def test_dialects_are_importable_without_the_finder() -> None:
    """Both forms of import, and xDSL's own users of the package."""
    script = """
from tileiras.fast_start import skip_dialect_finder
skip_dialect_finder()
from xdsl.dialects import builtin
import xdsl.dialects.test
from xdsl.dialects.builtin import ModuleOp
import xdsl.pattern_rewriter, xdsl.passes, xdsl.parser
assert ModuleOp is builtin.ModuleOp
print(str(ModuleOp([])).split()[0])
"""
    assert run(script) == "builtin.module"


def test_finder_that_is_loaded_is_left_alone() -> None:
    """The package is not replaced behind the back of those who have it."""
    script = """
import xdsl.dialects as before
from tileiras.fast_start import skip_dialect_finder
skip_dialect_finder()
import sys
print(sys.modules["xdsl.dialects"] is before)
"""
    assert run(script) == "True"


def test_library_replaces_nothing() -> None:
    """Only commands take the process as theirs."""
    script = """
import dataclasses, sys
before = dict(vars(dataclasses)), list(sys.meta_path)
import tileiras.driver, tileiras.cli, tileiras.fast_start
now = dict(vars(dataclasses)), list(sys.meta_path)
print(before == now)
"""
    assert run(script) == "True"


def test_few_modules_are_loaded_for_a_vector_add(tmp_path: Path) -> None:
    """Start-up time is a feature: this number does not depend on the machine."""
    source = ROOT / "examples" / "vector_add.mlir"
    code = (
        "import sys, os; leave = os._exit;"
        "os._exit = lambda code: (os.write(1, b'%d %d' % (code, len(sys.modules))), leave(code));"
        "import tileiras_command; tileiras_command.main()"
    )
    bytecode = tmp_path / "k.tileirbc"
    command = [sys.executable, "-c", "from tileiras.cli import asm_main; asm_main()"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([*command, source, "-o", bytecode], check=True, env=environment)
    count = run(code, bytecode, "--gpu-name=sm_90", "-o", tmp_path / "k.cubin")
    status, modules = map(int, count.split())
    assert status == 0
    assert 100 < modules <= MOST_MODULES


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/tileiras"),
        ({"HOME": "/h"}, "/h/.cache/tileiras"),
        ({}, None),
    ],
)
def test_place_of_the_cache(environ: dict[str, str], folder: str | None) -> None:
    """As the XDG base directory specification says."""
    assert cache_folder(environ) == folder
