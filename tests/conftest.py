"""What all tests share: options, and which marked tests can run on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


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


@pytest.fixture
def fuzz_round(pytestconfig: pytest.Config) -> int:
    """The number that makes the random inputs of fuzz tests differ between rounds."""
    return int(pytestconfig.getoption("--fuzz-round"))


def has_gpu() -> bool:
    """Whether a CUDA device node exists (no driver is loaded to find out)."""
    return Path("/dev/nvidiactl").exists()


def find_vendor_tileiras() -> str | None:
    """NVIDIA's own compiler: $VENDOR_TILEIRAS, else `nvidia-tileiras` on PATH."""
    return os.environ.get("VENDOR_TILEIRAS") or shutil.which("nvidia-tileiras")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips, with the reason, what this machine cannot run."""
    missing = []
    if not os.environ.get("CUDA_TILE_SUITE"):
        skip = pytest.mark.skip(reason="CUDA_TILE_SUITE is not set")
        missing.append(("public_suite", skip))
    if not has_gpu():
        missing.append(("gpu", pytest.mark.skip(reason="no CUDA device")))
    if find_vendor_tileiras() is None:
        missing.append(("oracle", pytest.mark.skip(reason="VENDOR_TILEIRAS is not set")))
    for item in items:
        for name, skip in missing:
            if item.get_closest_marker(name) is not None:
                item.add_marker(skip)
