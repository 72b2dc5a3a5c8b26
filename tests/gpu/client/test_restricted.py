"""The client's kernels again, compiled as if the GPU lacked what older or smaller ones lack.

The client writes the command line and keeps what it has compiled, so each set of features gets a
process of its own, and the compiler hears of it through TILEIRAS_FLAGS.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cuda.tile", reason="cuda-tile is not installed")
pytest.importorskip("numpy")

from ..restrictions import IMITATED, missing_features  # noqa: E402
from .bytecode import export  # noqa: E402
from .cases import KernelCase, all_cases  # noqa: E402

ONE_OF_EACH = {case.kernel: case for case in all_cases()}


@pytest.mark.gpu
@pytest.mark.parametrize("other", IMITATED)
def test_kernels_run_with_the_features_of(other: str):
    from ..launch import gpu_name

    features = ",".join(missing_features(gpu_name(), other))
    test = Path(__file__).with_name("test_launch.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", str(test)],
        env={**os.environ, "TILEIRAS_FLAGS": f"--disable-feature={features}"},
        cwd=test.parents[3],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.parametrize("other", IMITATED)
@pytest.mark.parametrize("case", list(ONE_OF_EACH.values())[::6], ids=lambda case: case.name)
def test_client_compiles_with_the_features_of(
    case: KernelCase, other: str, compiler_on_path: Any, monkeypatch: pytest.MonkeyPatch
):
    features = ",".join(missing_features("sm_90", other))
    monkeypatch.setenv("TILEIRAS_FLAGS", f"--disable-feature={features}")
    assert export(case, "cubin")[:4] == b"\x7fELF"
    monkeypatch.setenv("TILEIRAS_FLAGS", "--disable-feature=warp-drive")
    with pytest.raises(Exception, match="warp-drive"):
        export(case, "cubin")
