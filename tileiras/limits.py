"""How large an input may be, so that one that is too large is told so and does not fill memory.

Every limit is far above what real programs have; a program beyond it is not wrong, it is refused.
"""

from __future__ import annotations

from tileiras.errors import CompileError, SourceLocation

MAX_INPUT_BYTES = 512 << 20
"""Of a file. One constant has at most 128 MB: 2^24 elements of 8 bytes."""

MAX_TEXT_BYTES = 16 << 20
"""Of text. A real kernel's has some 100 KB; a parsed operation takes 30 times its text's room."""

MAX_PROGRAM_SIZE = 1 << 20
"""Operations, results and operands together. A large real program has some 10^4; each takes about
300 bytes of memory, and an operation about a millisecond to compile."""

MAX_TABLE_ITEMS = 1 << 18
"""Items of one table of a bytecode file, such as its strings; each takes about 200 bytes."""

MAX_ENTRIES = 4096
"""Kernels of a program. A small one takes 4 ms to compile."""


def check_text_size(size: int) -> None:
    """Raises CompileError for text of so many bytes that it is not parsed."""
    if size > MAX_TEXT_BYTES:
        raise CompileError(f"text of {size} bytes is too large, expected at most {MAX_TEXT_BYTES}")


def check_program_size(size: int, location: SourceLocation | None = None) -> None:
    """Raises CompileError for a program with so many operations, results and operands."""
    if size > MAX_PROGRAM_SIZE:
        raise CompileError(
            "program is too large, expected at most "
            f"{MAX_PROGRAM_SIZE} operations, results and operands together",
            location,
        )


def check_table_size(count: int, what: str) -> None:
    """Raises CompileError for a table of so many items."""
    if count > MAX_TABLE_ITEMS:
        raise CompileError(
            f"program has {count} {what} in one table, expected at most {MAX_TABLE_ITEMS}"
        )


def check_entries(count: int) -> None:
    """Raises CompileError for a program of so many kernels."""
    if count > MAX_ENTRIES:
        raise CompileError(f"program has {count} entries, expected at most {MAX_ENTRIES}")
