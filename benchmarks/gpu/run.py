"""Times the prepared cubins on this machine's GPU, beside the libraries; checks them first.

    python benchmarks/gpu/run.py --directory build/bench-gpu --json bench-gpu.json

Needs torch and cuda-bindings, no compiler. The measuring happens in `worker.py`, a process that a
bad kernel may take down: it is then started again, without the kernel that did it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import figures, rich_table

WORKER = Path(__file__).with_name("worker.py")
ENDINGS = {41: "hangs", 42: "breaks the context"}


@dataclass
class Session:
    """What is known so far, and what is left to do."""

    manifest: Path
    entries: list[dict[str, Any]]
    output: Path
    tools: str
    deadline: float
    todo: list[int]
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    results: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    lost: dict[int, dict[str, str]] = field(default_factory=dict[int, dict[str, str]])
    note: str = ""

    def run_worker(self) -> None:
        """One worker, until it has done everything or ends early."""
        work = json.dumps([[index, list(self.lost.get(index, {}))] for index in self.todo])
        command = [sys.executable, str(WORKER), str(self.manifest), work, "--tools", self.tools]
        begun: tuple[int, str] | None = None
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as worker,
        ):
            for line in worker.stdout or ():
                begun = self._hear(json.loads(line), begun)
                if time.monotonic() > self.deadline and begun is None:
                    worker.kill()
                    break
            status = worker.wait()
            errors.seek(0)
            said = errors.read().strip()
        if begun is not None:
            self._lose(begun, ENDINGS.get(status, f"ends with status {status}"), said)
        elif status and time.monotonic() <= self.deadline:
            raise SystemExit(f"worker ended with status {status}:\n{said}")

    def _hear(
        self, message: dict[str, Any], begun: tuple[int, str] | None
    ) -> tuple[int, str] | None:
        """Takes in a line of the worker; returns the step that it is in."""
        if "begin" in message:
            return message["begin"], message["step"]
        if "done" in message:
            index = message["done"]
            self.results[index] = message["result"]
            self.todo.remove(index)
            self.save()
            print(f"{index} {self.entries[index]['name']}", file=sys.stderr, flush=True)
            return None
        if "broken" in message:
            self.note = message["broken"]
        else:
            self.facts |= message
        return begun

    def _lose(self, begun: tuple[int, str], how: str, said: str) -> None:
        """Notes the step that ended the worker; an entry that is lost in its setup is left out."""
        index, step = begun
        detail = ": ".join(part for part in (how, self.note or said[-600:]) if part)
        self.note = ""
        print(f"entry {index}, {step}: {detail}", file=sys.stderr, flush=True)
        if step == "setup" or step in self.lost.get(index, {}):
            self.results[index] = {"error": f"{step}: {detail}", "tools": {}}
            self.todo.remove(index)
            return
        self.lost.setdefault(index, {})[step] = detail

    def save(self) -> None:
        """Writes what is known, so that a run that is stopped leaves its results."""
        self.output.write_text(json.dumps(self.outcome(), indent=1) + "\n")

    def outcome(self) -> dict[str, Any]:
        """The JSON document: facts of the machine and a row for each entry."""
        rows = []
        for index, entry in enumerate(self.entries):
            result = self.results.get(index)
            if result is None:
                continue
            for step, detail in self.lost.get(index, {}).items():
                tool = step.removeprefix("time ")
                result["tools"].setdefault(tool, {})["error"] = detail
            rows.append(figures(entry, result, self.facts))
        return {"machine": self.facts, "rows": rows}


def main() -> int:
    """Parses the arguments, measures, prints the table and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", type=Path, default=Path("build/bench-gpu"))
    parser.add_argument("--json", type=Path, default=Path("bench-gpu.json"))
    parser.add_argument("--only", help="a regular expression that names must match")
    parser.add_argument(
        "--tools", default="ours,vendor", help="which cubins: ours, vendor, or variants"
    )
    parser.add_argument("--budget", type=float, default=3600, help="seconds; no entry starts after")
    options = parser.parse_args()
    manifest = options.directory / "manifest.json"
    if not manifest.exists():
        print(f"{manifest} does not exist: run benchmarks/gpu/prepare.py first", file=sys.stderr)
        return 2
    entries = json.loads(manifest.read_text())["entries"]
    todo = [
        index
        for index, entry in enumerate(entries)
        if re.search(options.only or "", f"{entry['group']} {entry['name']}")
    ]
    deadline = time.monotonic() + options.budget
    session = Session(manifest, entries, options.json, options.tools, deadline, todo)
    while session.todo and time.monotonic() < session.deadline:
        session.run_worker()
    session.save()
    outcome = session.outcome()
    rich_table(outcome)
    for index in session.todo:
        print(f"not measured, the time was over: {entries[index]['name']}")
    bad = [row["name"] for row in outcome["rows"] if row["faults"]]
    print(f"{len(outcome['rows'])} entries, {len(bad)} with faults of our compiler")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
