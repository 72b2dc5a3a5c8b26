"""A process that launches kernels on a GPU in Python, which can hang, crash, fail and be wrong.

    python tests/kernels/fake_launcher.py PLAN serve
    python tests/kernels/fake_launcher.py PLAN device

The process is the real one of `tileiras.runtime.isolated_worker` but for the driver. PLAN is a JSON
file: what happens to kernels by a part of their name: milliseconds, one of the words below, or a
list of either for one load after the other, the last one for all others; `second` and a word is for
every other kernel that is loaded. What is loaded and launched is noted
in PLAN.log. Without a plan for a kernel a launch takes 0.25 ms.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.kernels.fake_driver import FakeDriver  # noqa: E402
from tileiras.runtime import cuda_driver, isolated_worker  # noqa: E402

MISALIGNED = 716
"""CUDA_ERROR_MISALIGNED_ADDRESS."""


class Misbehaving(FakeDriver):
    """Does what the plan says of the kernel that is launched."""

    def __init__(self, plan: dict[str, Any], log: str) -> None:
        super().__init__()
        self.plan, self.log = plan, log
        self.what: Any = 0.25
        self.plans: dict[tuple[str, int], tuple[Any, float]] = {}
        self.enqueued, self.recording = 0.0, False
        self.graphs: list[float] = [0.0]
        self.between: list[float] = []

    def _cuDeviceGetName(self, *_: object) -> tuple[bytes]:
        return (b"a GPU in Python\0\0",)

    def _cuDriverGetVersion(self) -> tuple[int]:
        return (13000,)

    def _cuModuleLoadData(self, cubin: bytes) -> tuple[str]:
        self.note(f"process {os.getpid()}")
        self.note(f"cubin {len(cubin)}")
        return ("module",)

    def note(self, line: str) -> int:
        """Adds a line to the log; how many there are that say the same."""
        with open(self.log, "a+") as stream:
            stream.write(f"{line}\n")
            stream.seek(0)
            return stream.read().splitlines().count(line)

    def _cuModuleGetFunction(self, _: object, name: bytes) -> tuple[tuple[str, int]]:
        found = [what for part, what in self.plan.items() if part in name.decode()]
        self.what = found[0] if found else 0.25
        times = self.note(f"load {name.decode()}")
        if isinstance(self.what, list):
            self.what = self.what[min(times, len(self.what)) - 1]
        if isinstance(self.what, str) and self.what.startswith("second "):
            self.what = self.what.removeprefix("second ") if times % 2 == 0 else 0.25
        noise = float(times) if self.what == "drift" else 0.0
        self.plans[name.decode(), times] = self.what, noise
        return ((name.decode(), times),)

    def _cuStreamBeginCapture(self, *_: object) -> tuple[()]:
        self.recording = True
        self.graphs.append(0.0)
        return ()

    def _cuStreamEndCapture(self, *_: object) -> tuple[int]:
        self.recording = False
        return (len(self.graphs) - 1,)

    def _cuGraphInstantiate(self, graph: int, *_: object) -> tuple[int]:
        return (graph,)

    def _cuGraphLaunch(self, graph: int, *_: object) -> tuple[()]:
        self.enqueued += self.graphs[graph]
        return ()

    def _cuEventRecord(self, *_: object) -> tuple[()]:
        self.between.append(self.enqueued)
        self.enqueued = 0.0
        return ()

    def _cuLaunchKernel(self, function: Any, *rest: Any) -> tuple[()]:
        self.note(f"launch {function[0]} {rest[:3]}")
        self.what, self.noise = self.plans[function]
        took = self.what if isinstance(self.what, float) else 0.25
        if self.recording:
            self.graphs[-1] += took
        else:
            self.enqueued += took
        match self.what:
            case "hang":
                time.sleep(1000)
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "break":
                self.failing["cuCtxSynchronize"] = MISALIGNED
                return ()
            case "wrong":
                self.noise = 1.0
            case "hang later":
                if len([call for call in self.calls if call[0] == "cuLaunchKernel"]) > 1:
                    time.sleep(1000)
            case _:
                pass
        return super()._cuLaunchKernel(function, *rest)

    def _cuEventElapsedTime(self, *_: object) -> tuple[float]:
        return (self.between[-1],)


if __name__ == "__main__":
    plan = Path(sys.argv[1])
    driver = Misbehaving(json.loads(plan.read_text()), f"{plan}.log")
    if "no GPU" in driver.plan:
        driver.failing["cuInit"] = 100
    cuda_driver._bindings = lambda: driver  # type: ignore[assignment]
    isolated_worker.main(sys.argv[2])
