"""Results are kept by what went into them, and never wrong ones."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tileiras import cli, driver, result_cache
from tileiras.options import CompileOptions
from tileiras.resident.samples import MATMUL, VECTOR_ADD
from tileiras.result_cache import ResultCache, cache_of

OPTIONS = CompileOptions(gpu_name="sm_90", knobs={"PATH": os.environ["PATH"]})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that commands use, in whose neighbour they work."""
    (tmp_path / "k.tileirbc").write_bytes(VECTOR_ADD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def results(cache: Path) -> list[Path]:
    """What is kept."""
    return sorted(cache.iterdir()) if cache.exists() else []


def compile_to(output: str, *arguments: str) -> bytes:
    """The output of a command that must not fail."""
    assert cli.run(["k.tileirbc", "--gpu-name=sm_90", "-o", output, *arguments]) == 0
    return Path(output).read_bytes()


def test_second_compilation_compiles_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_to("one")
    (kept,) = results(cache)
    assert kept.stat().st_mode & 0o777 == 0o600

    def never(*_: object, **__: object) -> None:
        raise AssertionError("compiled")

    monkeypatch.setattr(driver, "compile_module", never)
    assert compile_to("two") == first


def test_nothing_is_kept_without_the_variable(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEIRAS_CACHE_DIR")
    compile_to("one", "--emit=ptx")
    assert results(cache) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("-v",),
        ("--time-passes",),
        ("-g", "-O0"),
        ("--remarks=all",),
        ("--dump-dir=dumps",),
        ("--print-after=cse",),
        ("--emit-launch-info=launch",),
        ("--pass-pipeline=cse",),
    ],
)
def test_compilation_that_says_more_is_not_kept(cache: Path, arguments: tuple[str, ...]) -> None:
    compile_to("one", "--emit=nv_tileaa", *arguments)
    assert results(cache) == []


def test_failure_is_not_kept(cache: Path) -> None:
    Path("k.tileirbc").write_bytes(VECTOR_ADD[:-5])
    assert cli.run(["k.tileirbc", "--gpu-name=sm_90", "-o", "out"]) == 3
    assert results(cache) == []


@pytest.mark.parametrize("damage", [b"", b"garbage", None, b"cut"])
def test_damaged_result_is_made_again(cache: Path, damage: bytes | None) -> None:
    first = compile_to("one", "--emit=ptx")
    (kept,) = results(cache)
    data = kept.read_bytes()
    torn = data[:-1] if damage == b"cut" else data[:-1] + b"?" if damage is None else damage
    kept.write_bytes(torn)
    assert compile_to("two", "--emit=ptx") == first
    assert kept.read_bytes() == data


def test_result_of_another_key_is_not_taken(tmp_path: Path) -> None:
    """A file that was renamed is damaged, too."""
    cache = ResultCache(str(tmp_path), 1000)
    cache.keep("one", b"output")
    (tmp_path / "one.result").rename(tmp_path / "two.result")
    assert cache.find("two") is None
    assert cache.find("one") is None


def test_everything_that_compiles_is_in_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ResultCache(str(tmp_path), 1000)
    first = cache.key(VECTOR_ADD, OPTIONS)
    assert first is not None and first == cache.key(VECTOR_ADD, OPTIONS)
    others = [
        cache.key(MATMUL, OPTIONS),
        cache.key(VECTOR_ADD, replace(OPTIONS, gpu_name="sm_100")),
        cache.key(VECTOR_ADD, replace(OPTIONS, opt_level=1)),
        cache.key(VECTOR_ADD, replace(OPTIONS, line_info=True)),
        cache.key(VECTOR_ADD, replace(OPTIONS, disabled_features=("tma",))),
        cache.key(
            VECTOR_ADD,
            replace(OPTIONS, knobs={**OPTIONS.knobs, "TILEIR_ALWAYS_SWIZZLE": "1"}),
        ),
    ]
    other = tmp_path / "other"
    other.write_text("")
    for tool in ("find_ptxas", "find_llvm_library", "find_libdevice"):
        with monkeypatch.context() as patch:
            patch.setattr(result_cache, tool, lambda *_: str(other))
            others.append(cache.key(VECTOR_ADD, OPTIONS))
    with monkeypatch.context() as patch:
        patch.setattr(result_cache, "_our_sources", lambda: [str(other)])
        others.append(cache.key(VECTOR_ADD, OPTIONS))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "version", "3.99")
        others.append(cache.key(VECTOR_ADD, OPTIONS))
    assert None not in others
    assert len({first, *others}) == 1 + len(others)


def test_place_of_tools_is_no_part_of_the_options(tmp_path: Path) -> None:
    cache = ResultCache(str(tmp_path), 1000)
    moved = replace(OPTIONS, knobs={**OPTIONS.knobs, "HOME": "/elsewhere"})
    assert cache.key(VECTOR_ADD, OPTIONS) == cache.key(VECTOR_ADD, moved)


def test_what_was_not_used_for_longest_goes(tmp_path: Path) -> None:
    cache = ResultCache(str(tmp_path), 1000)
    for number in range(10):
        cache.keep(f"key{number}", bytes(50))
        os.utime(tmp_path / f"key{number}.result", (number, number))
    assert cache.find("key0") == bytes(50)  # used again
    (tmp_path / "other file").write_bytes(bytes(5000))
    cache.keep("last", bytes(50))
    assert sum(path.stat().st_size for path in tmp_path.glob("*.result")) <= 1000
    assert cache.find("last") and cache.find("key0")
    assert cache.find("key1") is None
    assert (tmp_path / "other file").exists()


def test_result_that_is_too_large_is_not_kept(tmp_path: Path) -> None:
    cache = ResultCache(str(tmp_path), 1000)
    cache.keep("key", bytes(1000))
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ResultCache(str(tmp_path / "file"), 1000).keep("key", b"x")


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, False),
        ({"TILEIRAS_CACHE_DIR": ""}, False),
        ({"TILEIRAS_CACHE_DIR": "/x"}, True),
        ({"TILEIRAS_CACHE_DIR": "/x", "TILEIRAS_CACHE_SIZE": "10"}, True),
        ({"TILEIRAS_CACHE_DIR": "/x", "TILEIRAS_CACHE_SIZE": "0"}, False),
        ({"TILEIRAS_CACHE_DIR": "/x", "TILEIRAS_CACHE_SIZE": "much"}, False),
    ],
)
def test_when_there_is_a_cache(environ: dict[str, str], found: bool) -> None:
    assert (cache_of(environ) is not None) == found


def test_many_writers_at_once(tmp_path: Path) -> None:
    """Each reads what is whole, whoever wrote or removed it."""
    script = (
        "import sys; from tileiras.result_cache import ResultCache\n"
        "cache = ResultCache(sys.argv[1], 3000)\n"
        "for number in range(200):\n"
        "    key = f'key{number % 20}'\n"
        "    cache.keep(key, key.encode() * 30)\n"
        "    assert cache.find(key) in (None, key.encode() * 30)\n"
    )
    commands = [[sys.executable, "-c", script, str(tmp_path)] for _ in range(4)]
    writers = [subprocess.Popen(command) for command in commands]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    assert [path for path in tmp_path.iterdir() if path.suffix != ".result"] == []
