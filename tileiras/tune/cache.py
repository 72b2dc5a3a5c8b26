"""Results of a tuning, kept in a file that is added to: a run that ends early is gone on with.

A file belongs to everything that times depend on: the user's sources, arguments, compiler, GPU. A
line is a result; one that is torn or damaged counts as missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from tileiras.tune.description import Point
from tileiras.tune.search import key_of


@dataclass(frozen=True)
class Result:
    """What became of a point: its times in milliseconds, or how and why it failed.

    `kind` of a failure is `make` (it cannot be compiled), `wrong` (its results are), or how its
    process failed: `hang`, `crash`, `error`.
    """

    point: Point
    times: tuple[float, ...] = ()
    kind: str = ""
    message: str = ""
    registers: int = 0
    spills: int = 0

    @property
    def median(self) -> float | None:
        """Half of the launches take as long or longer; None for a point that failed."""
        from statistics import median

        return median(self.times) if self.times else None


class ResultFile:
    """The results of one tuning; without a folder they are kept nowhere."""

    def __init__(self, folder: str | None, parts: Mapping[str, Any]):
        self._results: dict[str, Result] = {}
        self._path = ""
        if folder is None:
            return
        text = json.dumps(parts, sort_keys=True)
        self._path = os.path.join(folder, f"{sha256(text.encode()).hexdigest()[:32]}.jsonl")
        with suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        with suppress(OSError), open(self._path, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                self._take(line)

    def find(self, point: Point) -> Result | None:
        """What is known of a point."""
        return self._results.get(key_of(point))

    def keep(self, result: Result) -> None:
        """Adds a result; where it cannot be written it is known in this run only."""
        self._results[key_of(result.point)] = result
        if not self._path:
            return
        line = json.dumps(asdict(result)) + "\n"
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
                os.write(descriptor, (b"\n" if torn else b"") + line.encode())
            finally:
                os.close(descriptor)

    def forget_failures(self) -> None:
        """Failed points count as not tried."""
        self._results = {key: one for key, one in self._results.items() if not one.kind}

    def _take(self, line: str) -> None:
        """Takes a line over if it is a result."""
        with suppress(ValueError, TypeError, KeyError):
            data = json.loads(line)
            result = Result(**{**data, "times": tuple(map(float, data["times"]))})
            if result.times or result.kind:
                self._results[key_of(result.point)] = result
