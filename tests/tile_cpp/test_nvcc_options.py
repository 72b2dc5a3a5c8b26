"""How nvcc calls `tileiras`, and what its options for tile code do."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import nvcc as nvcc_module
from .cases import EXAMPLES
from .nvcc import Nvcc, NvccError, find_nvcc, missing

needs_nvcc = pytest.mark.skipif(bool(missing()), reason=missing())
SOURCE = """
#include <cuda_tile.h>
namespace ct = cuda::tiles;
extern "C" __tile_global__ void kernel(int *out) {
  out[ct::bid().x] = ct::bid().x;
}
"""


@pytest.fixture
def nvcc(tmp_path: Path) -> Nvcc:
    """The compiler under test on nvcc's PATH."""
    return Nvcc.prepare(tmp_path)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small kernel."""
    path = tmp_path / "kernel.cu"
    path.write_text(SOURCE)
    return path


def output_options(call: list[str]) -> list[str]:
    """The options of a call, without files."""
    return [word for word in call if word.startswith("-") and word != "-o"]


@needs_nvcc
@pytest.mark.parametrize(
    "options, passed, section",
    [
        ((), [], ""),
        (("-lineinfo",), ["--lineinfo"], ".debug_line"),
        (("-G",), ["--device-debug", "--opt-level=0", "--lineinfo"], ".nv_debug_info_reg_sass"),
        (("-tile-preview", "simt"), ["--preview"], ""),
        (("-Xtileiras", "-O1,--lineinfo"), ["-O1", "--lineinfo"], ".debug_line"),
    ],
    ids=["plain", "lineinfo", "G", "preview", "Xtileiras"],
)
def test_options_reach_the_compiler_and_work(
    nvcc: Nvcc, source: Path, options: tuple[str, ...], passed: list[str], section: str
) -> None:
    """A plain cubin has no debug information."""
    cubin = source.with_suffix(".cubin")
    assert nvcc.cubin(source, cubin, *options) == ""
    (call,) = nvcc.calls()
    always = ["--host-arch=x86_64", "--host-os=linux", "-arch=sm_90"]
    assert output_options(call) == [*always, *passed]
    data = cubin.read_bytes()
    assert b".text.kernel" in data
    if section:
        assert section.encode() in data
    else:
        assert b".debug_line" not in data


@needs_nvcc
def test_messages_of_the_compiler_reach_the_user(nvcc: Nvcc, source: Path) -> None:
    """On success and on failure; nvcc ends with an error then."""
    said = nvcc.cubin(source, source.with_suffix(".cubin"), "-Xtileiras", "-v")
    assert "note: kernel: " in said and "registers" in said
    with pytest.raises(NvccError, match="unknown option '--no-such-option'|no-such-option"):
        nvcc.cubin(source, source.with_suffix(".cubin"), "-Xtileiras", "--no-such-option")


@needs_nvcc
def test_a_fatbin_holds_machine_code_of_every_target(nvcc: Nvcc, source: Path) -> None:
    """One call of `tileiras` for each."""
    output = source.with_suffix(".fatbin")
    targets = [f"-gencode=arch=compute_{cc},code=sm_{cc}" for cc in (90, 100)]
    nvcc.run(source, output, "--tilefatbin", *targets, arch="")
    called = [word for call in nvcc.calls() for word in call if word.startswith("-arch")]
    assert sorted(called) == ["-arch=sm_100", "-arch=sm_90"]
    assert output.read_bytes()[:4] == bytes.fromhex("50ed55ba")


@needs_nvcc
def test_an_example_is_a_whole_program(nvcc: Nvcc, tmp_path: Path) -> None:
    """Host code, the runtime and the kernel's machine code are linked."""
    program = tmp_path / "softmax"
    nvcc.run(EXAMPLES / "softmax.cu", program)
    assert b"_Z7softmaxILi1024EEvPKfPfii" in program.read_bytes()


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why the tests above are skipped, one reason at a time."""
    toolkit = tmp_path / "toolkit"
    (toolkit / "bin").mkdir(parents=True)
    monkeypatch.setattr(nvcc_module, "find_nvcc", lambda: None)
    assert missing().startswith("nvcc is not installed")
    monkeypatch.setattr(nvcc_module, "find_nvcc", lambda: toolkit / "bin" / "nvcc")
    for header, package in (
        ("cuda_tile.h", "crt"),
        ("cuda_runtime.h", "runtime"),
        ("cccl/nv/target", "cccl"),
    ):
        assert missing() == f"nvcc has no {header} (pip install nvidia-cuda-{package})"
        path = toolkit / "include" / header
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (toolkit / "bin" / "tileiras").touch()
    assert "has a tileiras of its own" in missing()


def test_nvcc_is_looked_for_on_the_path_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one of the pip packages is first."""
    (tmp_path / "nvcc").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nvcc_module.sysconfig, "get_paths", lambda: {"purelib": str(tmp_path)})
    assert find_nvcc() == tmp_path / "nvcc"
    packaged = tmp_path / "nvidia" / "cu13" / "bin" / "nvcc"
    packaged.parent.mkdir(parents=True)
    packaged.touch()
    assert find_nvcc() == packaged
