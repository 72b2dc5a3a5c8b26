"""A watch over files tells every change, and nothing of files beside them."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tileiras.resident import source_watch
from tileiras.resident.source_watch import watch_sources


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a source, a second name of it, and a link to the folder with both."""
    place = Path(tempfile.mkdtemp(prefix="tr-", dir="/tmp"))
    package = place / "package"
    package.mkdir()
    (package / "source.py").write_text("one\n")
    os.link(package / "source.py", place / "second.py")
    (place / "link").symlink_to("package")
    yield place
    shutil.rmtree(place)


def replace_keeping_times(folder: Path) -> None:
    """As `cp -p` of another version does, which may have the same size and time."""
    new = folder / "new"
    shutil.copy2(folder / "package" / "source.py", new)
    os.replace(new, folder / "package" / "source.py")


def swap_link(folder: Path) -> None:
    """As an installer does that keeps versions side by side."""
    shutil.copytree(folder / "package", folder / "other")
    (folder / "new").symlink_to("other")
    os.replace(folder / "new", folder / "link")


def write_through_mapping(folder: Path) -> None:
    """As some linkers and editors do."""
    source = folder / "package" / "source.py"
    before = source.stat().st_mtime_ns
    with source.open("r+b") as stream:
        mapping = mmap.mmap(stream.fileno(), 0)
    mapping[0] = ord("t")
    mapping.close()
    assert source.stat().st_mtime_ns != before  # which is asked for once something is told


CHANGES: dict[str, Callable[[Path], object]] = {
    "written": lambda folder: (folder / "package" / "source.py").write_text("two\n"),
    "made longer": lambda folder: os.truncate(folder / "package" / "source.py", 100),
    "touched": lambda folder: os.utime(folder / "package" / "source.py"),
    "written by its second name": lambda folder: (folder / "second.py").write_text("two\n"),
    "written through a mapping": write_through_mapping,
    "removed": lambda folder: (folder / "package" / "source.py").unlink(),
    "replaced": replace_keeping_times,
    "moved": lambda folder: (folder / "package" / "source.py").rename(folder / "away"),
    "folder moved": lambda folder: (folder / "package").rename(folder / "away"),
    "folder removed": lambda folder: shutil.rmtree(folder / "package"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", ["package", "link"])
def test_change_is_told(folder: Path, change: str, way: str) -> None:
    watch = watch_sources([str(folder / way / "source.py")])
    assert watch is not None and watch.is_quiet()
    CHANGES[change](folder)
    assert not watch.is_quiet()
    assert not watch.is_quiet()  # until there is another watch
    watch.close()


def test_link_on_the_way_that_leads_elsewhere_is_told(folder: Path) -> None:
    watch = watch_sources([str(folder / "link" / "source.py")])
    assert watch is not None
    swap_link(folder)
    assert not watch.is_quiet()
    watch.close()


def test_files_beside_it_are_not_told(folder: Path) -> None:
    watch = watch_sources([str(folder / "package" / "source.py")])
    assert watch is not None
    (folder / "package" / "other.py").write_text("one\n")
    (folder / "package" / "other.py").unlink()
    (folder / "package" / "source.py").read_text()
    assert watch.is_quiet()
    watch.close()


def test_file_that_is_not_there_is_not_watched(folder: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert watch_sources([str(folder / "missing.py")]) is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_file_system_that_others_change_is_not_watched(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_watch, "_LOCAL", ("nfs4",))
    assert watch_sources([str(folder / "package" / "source.py")]) is None
