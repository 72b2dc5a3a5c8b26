"""The kernel that is debugged: the client's program for `scale_rows.py`, and its source."""

from __future__ import annotations

import shutil
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "gpu" / "debugger"
SOURCE = "scale_rows.py"


def write_kernel(folder: Path, *, with_source: bool = True) -> Path:
    """The program in a folder, whose places are those of the source beside it."""
    if with_source:
        shutil.copy(FOLDER / SOURCE, folder)
    program = folder / "scale_rows.mlir"
    text = (FOLDER / program.name).read_text()
    program.write_text(text.replace("@FOLDER@", str(folder)))
    return program
