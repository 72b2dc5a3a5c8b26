"""Marks in cubins: of several releases of ptxas, in damaged files, and what stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileiras.codegen.cubin import Language, kernel_language, with_language
from tileiras.codegen.cubin.attributes import Format, KernelAttribute, read_attributes
from tileiras.codegen.cubin.elf import read_sections
from tileiras.errors import InternalError

CUBINS = sorted((Path(__file__).parent / "cubins").glob("*.cubin"))
"""Two empty kernels, `first` of 64 threads and `second` of any number, by releases of ptxas."""
UNMARKED = ("13.0", "13.1")
"""Releases that write no mark."""


def release(path: Path) -> str:
    """The release of ptxas in a file's name, such as 13.0."""
    return path.name.split("-")[1].removesuffix(".cubin")


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.stem)
def test_one_kernel_is_marked_and_nothing_else_changes(path: Path) -> None:
    before = path.read_bytes()
    assert kernel_language(before, "first") is (None if release(path) in UNMARKED else Language.PTX)
    after = with_language(before, ["first"], Language.TILEIR)
    assert kernel_language(after, "first") is Language.TILEIR
    assert kernel_language(after, "second") is kernel_language(before, "second")
    for old, new in zip(read_sections(before), read_sections(after), strict=True):
        assert (old.name, old.kind) == (new.name, new.kind)
        assert old.data == new.data or old.name == ".nv.info.first"
    assert with_language(after, ["first"], Language.TILEIR) == after


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.stem)
def test_other_attributes_stay_in_order(path: Path) -> None:
    before = path.read_bytes()
    after = with_language(before, ["first"], Language.TILEIR)
    old, new = (
        [a for a in read_attributes(section.data) if a.number != 0x66]
        for cubin in (before, after)
        for section in read_sections(cubin)
        if section.name == ".nv.info.first"
    )
    assert old == new and any(attribute.number == 0x10 for attribute in new)


def test_there_are_cubins_of_every_release() -> None:
    assert {release(path) for path in CUBINS} == {f"13.{minor}" for minor in range(6)}


def test_a_kernel_without_threads_cannot_be_marked() -> None:
    with pytest.raises(InternalError, match="'second' has no required block size"):
        with_language(CUBINS[0].read_bytes(), ["second"], Language.TILEIR)


def test_a_missing_kernel_is_an_error() -> None:
    with pytest.raises(InternalError, match="kernel 'third' is not in the cubin"):
        with_language(CUBINS[0].read_bytes(), ["third"], Language.TILEIR)


@pytest.mark.parametrize("data", [b"", b"\x7fELF", bytes(100), b"\x7fELF\x02\x01" + bytes(58)])
def test_other_files_are_errors(data: bytes) -> None:
    with pytest.raises(InternalError, match="unexpected form of the cubin"):
        with_language(data, ["first"], Language.TILEIR)


def test_a_cut_file_is_an_error() -> None:
    cubin = CUBINS[0].read_bytes()
    for size in range(0, len(cubin), 97):
        with pytest.raises(InternalError):
            with_language(cubin[:size], ["first"], Language.TILEIR)


def test_damaged_headers_never_end_in_a_foreign_exception() -> None:
    cubin = bytearray(CUBINS[-1].read_bytes())
    for place in range(64):
        damaged = bytearray(cubin)
        damaged[place] ^= 0xFF
        try:
            kernel_language(bytes(damaged), "first")
        except InternalError:
            continue


def test_an_unknown_mark_is_an_error() -> None:
    section = next(s for s in read_sections(CUBINS[-1].read_bytes()) if s.name == ".nv.info.first")
    marks = [a for a in read_attributes(section.data) if a.number == 0x66]
    assert marks == [KernelAttribute(Format.SVAL, 0x66, (3).to_bytes(4, "little"))]
    data = CUBINS[-1].read_bytes().replace(marks[0].encode(), b"\x04\x66\x04\x00\x09\0\0\0")
    with pytest.raises(InternalError, match="marked with language 9"):
        with_language(data, ["first"], Language.TILEIR)


@pytest.mark.parametrize("data", [b"\x04\x66", b"\x09\x66\0\0", b"\x04\x66\xff\0\1"])
def test_attributes_of_another_form_are_errors(data: bytes) -> None:
    with pytest.raises(InternalError):
        read_attributes(data)
