"""What all tests share: options, and which marked tests can run on this machine."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from pathlib import Path

import pytest

# Workers share the processors. Threads of numpy's products would wait for each other by spinning:
# on a busy machine a product of 128x64x64 took 26 ms instead of 0.2. Read when numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

GENERATIONS = {"hopper": (9,), "blackwell": (10, 11, 12)}
"""Major compute capabilities (CUDA C++ Programming Guide, "Compute Capabilities")."""


MADE_BETWEEN_COLLECTIONS = 20_000
"""Objects; Python's own number is 700. A larger one takes more memory than it saves time."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--bless` for exact file tests, `--fuzz-round` for tests of random inputs."""
    parser.addoption(
        "--bless",
        action="store_true",
        help="write the actual output into exact file tests instead of comparing",
    )
    parser.addoption(
        "--fuzz-round",
        type=int,
        default=0,
        help="fuzz tests take other random inputs in each round (see `make fuzz-rounds`)",
    )
    parser.addoption(
        "--only-on",
        choices=tuple(GENERATIONS),
        help="tests marked gpu, where the GPU is of this generation; elsewhere they are skipped",
    )


def _allow_busy_machines() -> None:
    """A machine that others use, too, is no fault of a property test."""
    try:
        from hypothesis import HealthCheck, settings
    except ImportError:  # machines with a GPU need not have it
        return
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")


def pytest_configure() -> None:
    """Signals that a shell's background job or `nohup` ignores are taken as usual.

    What a test starts inherits it, and a command that ignores SIGINT as it is told never ends.
    """
    _allow_busy_machines()
    ordinary = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    for number, action in ordinary.items():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, action)


def pytest_collection_finish() -> None:
    """Tests make cycles (operations and what uses them) beside a heap of modules that stay.

    With Python's own thresholds a tenth of the time went into looking through both.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(MADE_BETWEEN_COLLECTIONS)


@pytest.fixture
def fuzz_round(pytestconfig: pytest.Config) -> int:
    """The number that makes the random inputs of fuzz tests differ between rounds."""
    return int(pytestconfig.getoption("--fuzz-round"))


def has_gpu() -> bool:
    """Whether a CUDA device node exists (no driver is loaded to find out)."""
    return Path("/dev/nvidiactl").exists()


def wrong_generation(wanted: str, found: str | None) -> str:
    """Why tests for a generation cannot run on a GPU such as "sm_90"; empty if they can."""
    if found is None:
        return f"needs a GPU of generation {wanted}: no CUDA device"
    if int(found.removeprefix("sm_")) // 10 not in GENERATIONS[wanted]:
        return f"needs a GPU of generation {wanted}: this one is {found}"
    return ""


def found_gpu() -> str | None:
    """The architecture of device 0, None without one."""
    if not has_gpu():
        return None
    from tests.gpu.launch import gpu_name

    return gpu_name()


def find_vendor_tileiras() -> str | None:
    """NVIDIA's own compiler: $VENDOR_TILEIRAS, else `nvidia-tileiras` on PATH."""
    return os.environ.get("VENDOR_TILEIRAS") or shutil.which("nvidia-tileiras")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips, with the reason, what this machine cannot run."""
    missing = []
    wanted = config.getoption("--only-on")
    if wanted is not None:
        items[:] = [item for item in items if item.get_closest_marker("gpu") is not None]
        if reason := wrong_generation(wanted, found_gpu()):
            missing.append(("gpu", pytest.mark.skip(reason=reason)))
    if not os.environ.get("CUDA_TILE_SUITE"):
        skip = pytest.mark.skip(reason="CUDA_TILE_SUITE is not set")
        missing.append(("public_suite", skip))
    if wanted is None and not has_gpu():
        missing.append(("gpu", pytest.mark.skip(reason="no CUDA device")))
    if find_vendor_tileiras() is None:
        missing.append(("oracle", pytest.mark.skip(reason="VENDOR_TILEIRAS is not set")))
    for item in items:
        for name, skip in missing:
            if item.get_closest_marker(name) is not None:
                item.add_marker(skip)
