"""Reads, rewrites and damages every bytecode file of a directory; prints what is not as it should.

    python tests/sweeps/bytecode_corpus.py ../shared/corpus --damage 20

Exit status 1 if a file is refused, is not written back byte for byte, or a damaged copy raises
anything but BytecodeError.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tileiras.bytecode.reader import read_layout, read_module
from tileiras.bytecode.writer import write_module
from tileiras.errors import BytecodeError


@dataclass
class Report:
    """Counts over all files, and the failures."""

    files: int = 0
    equal_by_rule: int = 0
    damaged: int = 0
    damaged_refused: int = 0
    read_seconds: float = 0.0
    slowest: tuple[float, str] = (0.0, "")
    failures: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """The summary."""
        milliseconds = 1e3 * self.read_seconds / max(self.files, 1)
        return [
            f"{self.files} files, {len(self.failures)} failures",
            f"{self.equal_by_rule} numbered as the writer numbers",
            f"{self.damaged} damaged copies, {self.damaged_refused} refused",
            f"{milliseconds:.2f} ms to read a file; slowest {self.slowest[0] * 1e3:.1f} ms "
            f"({self.slowest[1]})",
        ]


def check_file(path: Path, report: Report) -> None:
    """Reads a file and writes it back, with its layout and by rule."""
    data = path.read_bytes()
    report.files += 1
    start = time.perf_counter()
    try:
        module = read_module(data)
    except BytecodeError as error:
        report.failures.append(f"{path.name}: refused: {error.message}")
        return
    seconds = time.perf_counter() - start
    report.read_seconds += seconds
    report.slowest = max(report.slowest, (seconds, path.name))
    if write_module(module, layout=read_layout(data)) != data:
        report.failures.append(f"{path.name}: not written back byte for byte")
    report.equal_by_rule += write_module(module, (data[8], data[9])) == data


def damage_file(path: Path, copies: int, report: Report) -> None:
    """Reads copies with one to three bytes changed."""
    rng = random.Random(path.name)
    data = path.read_bytes()
    for copy in range(copies):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(12, len(data))] = rng.randrange(256)
        report.damaged += 1
        try:
            read_module(bytes(damaged))
        except BytecodeError:
            report.damaged_refused += 1
        except Exception as error:  # the defect that this looks for
            report.failures.append(f"{path.name}, copy {copy}: {error!r}")


def main(arguments: list[str]) -> int:
    """Runs the sweep; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--damage", type=int, default=0, help="damaged copies of every file")
    options = parser.parse_args(arguments)
    report = Report()
    for path in sorted(options.directory.glob("*.tileirbc")):
        check_file(path, report)
        damage_file(path, options.damage, report)
    print("\n".join(report.failures + report.lines()))
    return int(bool(report.failures) or not report.files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
