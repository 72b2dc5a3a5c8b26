"""The process that makes candidates for `tileiras-tune`, without a compiler: tests of the search.

The user's file is read by the real one. A kernel is a file that begins as a cubin, and its name has
the point in it. PLAN says of which points making hangs or crashes. Each is noted in PLAN.made.

    python tests/kernels/quick_maker.py PLAN describe|make ...
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tileiras.errors import UsageError  # noqa: E402
from tileiras.runtime.child_process import serve  # noqa: E402
from tileiras.tune import worker  # noqa: E402


def make(plan: Path, point: Mapping[str, Any], folder: str, target: str) -> dict[str, Any]:
    """What to launch for a point."""
    name = "_".join(f"{key}{value}" for key, value in point.items())
    with open(f"{plan}.made", "a") as stream:
        stream.write(f"{name}\n")
    for part, what in json.loads(plan.read_text()).items():
        if part == f"make {name}":
            match what:
                case "hang":
                    time.sleep(1000)
                case "crash":
                    os.kill(os.getpid(), signal.SIGKILL)
                case _:
                    raise UsageError(what)
    cubin = Path(folder, "kernel.cubin")
    cubin.write_bytes(b"\x7fELF" + target.encode())
    types = ["ptr<f32>"] * 3 + ["i32"]
    resources = {"registers": 7}
    return {
        "cubin": str(cubin), "entry": name, "block": [1, 1, 1], "cluster_size": 1, "types": types,
        "resources": resources,
    }  # fmt: skip


if __name__ == "__main__":
    words = sys.argv[2:]
    if words[0] == "make":
        plan = Path(sys.argv[1])
        serve(partial(worker.keep_making, partial(make, plan)))
    serve(lambda say, hear: worker.do(words, say, hear))
