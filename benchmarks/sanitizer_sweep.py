"""Runs a sample of kernels from every lowering family under NVIDIA's compute-sanitizer.

    python benchmarks/sanitizer_sweep.py [--tools memcheck,racecheck] [--filter mma]

Needs a GPU, `compute-sanitizer` on PATH (or $COMPUTE_SANITIZER) and the extras `dev` and `gpu`. The
kernels are compiled first; then one process for each tool loads and launches them one by one, with
every array in an allocation of exactly its size and room behind it, so that memcheck sees an access
out of bounds. Each entry has a name of its own, which attributes what the tool prints. The exit
status is 1 when a tool reports anything or a kernel fails, or does not end in `--limit` seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

KERNELS = Path(__file__).with_name("kernels")
LAUNCH = "--launch"
"""The hidden first argument of the process under the sanitizer."""

TOOL_OPTIONS = {
    "memcheck": ["--padding=1024", "--leak-check=no"],
    "racecheck": ["--racecheck-report=all"],
    "synccheck": [],
    "initcheck": [],
}

SAMPLE: tuple[tuple[str, int], ...] = (
    (r"^integer-.*-view16x32$", 1),
    (r"^float-divf_f64.*", 1),
    (r"^math-(sin|pow)_f32.*", 2),
    (r"^conversion-fp_to_fp_f32_f8.*", 1),
    (r"^conversion-fp_to_int_.*view512$", 1),
    (r"^view-load_.*_pad_.*", 2),
    (r"^view-load_.*_map.*", 1),
    (r"^view-store_.*_strides.*", 1),
    (r"^view-load_.*_steps.*", 1),
    (r"^view-load_.*_sparse.*", 1),
    (r"^view-store_.*_sparse.*", 1),
    (r"^pointer-gather_.*", 2),
    (r"^pointer-(random|tail)_(masked|padded)_16x32.*", 2),
    (r"^shape-permute_(64x64_10|2x8x64_210).*", 2),
    (r"^shape-permute_2x4x8x16_.*", 1),
    (r"^shape-reshape_2x512_512x2.*", 1),
    (r"^shape-broadcast_64x1.*", 1),
    (r"^shape-cat_.*", 2),
    (r"^shape-extract_64x64.*runtime.*", 1),
    (r"^shape-insert_64x64.*runtime.*", 1),
    (r"^reduce-reduce_addi_i32_(64x64_[01]|8192_0)$", 3),
    (r"^reduce-reduce_argmax_.*x.*", 1),
    (r"^reduce-reduce_affine_i64_16x128_0$", 1),
    (r"^scan-scan_addi_i32_(256_0|64x64_0)$", 2),
    (r"^scan-scan_reverse_affine_.*", 1),
    (r"^matrix-mma_f16_f32_(64x64x64|128x64x64|16x16x16).*", 2),
    (r"^matrix-mma_tf32_f32_32x32x64.*", 1),
    (r"^matrix-mma_f32_f32_64x64x16.*", 1),
    (r"^matrix-mma_f64_f64_16x16x16.*", 1),
    (r"^matrix-mma_f8E4M3FN_f32_64x64.*", 1),
    (r"^matrix-mma_i8_i32_32x32x64.*", 1),
    (r"^matrix-(loop|twice)_.*", 2),
    (r"^atomic-add_.*f?32_masked.*", 1),
    (r"^atomic-cas_.*", 1),
    (r"^atomic-colliding_add-.*", 1),
    (r"^atomic-view_.*", 1),
    (r"^control-loop_break_continue_9$", 1),
    (r"^control-for_transposes_its_tile$", 1),
    (r"^control-hazard_loop_.*", 2),
)
"""Patterns of rows of tests/gpu/operations, and how many of those that match are taken."""

PRODUCTS: tuple[tuple[str, tuple[int, int, int], dict[str, Any]], ...] = (
    ("f16", (128, 128, 64), {"form": "numbered", "order": "columns"}),
    ("f16", (256, 128, 64), {"form": "persistent"}),
    ("f16", (128, 128, 64), {"form": "persistent", "result": "f32"}),
    ("f16", (64, 64, 64), {"form": "split"}),
    ("f16", (128, 64, 32), {"form": "batched"}),
    ("f16", (128, 128, 64), {"chunk": 4}),
    ("f16", (64, 64, 64), {"is_aligned": False}),
    ("f32", (128, 128, 32), {"is_aligned": False}),
    ("i8", (128, 128, 128), {"a": "column"}),
    ("f8E4M3FN", (128, 128, 128), {"form": "persistent"}),
    ("f16", (16, 128, 64), {"b": "turned", "form": "persistent"}),
)
"""Products with warp roles: joined tiles, store warps, locks of clusters, copied views, short rows,
few rows.
"""
SLOT_PRODUCTS: tuple[tuple[str, tuple[int, int, int], dict[str, Any]], ...] = (
    ("f16", (128, 128, 64), {"whole": True}),
    ("bf16", (64, 64, 32), {"b": "turned", "form": "persistent", "whole": True}),
    ("i8", (64, 64, 64), {"b": "turned", "whole": True}),
)
"""Products without wgmma: operands that threads read where others have copied them to."""
RANDOM_PROGRAMS = 6
CLEAN = re.compile(r"SUMMARY: 0 (errors|hazards)")
"""What every tool says last when it has nothing to say."""


@dataclass(frozen=True)
class Case:
    """A kernel to launch: text or bytecode whose entry is `entry`, and arguments."""

    name: str
    entry: str
    source: bytes
    arguments: tuple[Any, ...]
    grid: tuple[int, int, int]
    without: tuple[str, ...] = ()
    """Features that are not used for it."""


@dataclass(frozen=True)
class Finding:
    """What one tool said of one kernel. `status` is clean, reported or failed."""

    name: str
    status: str
    message: str = ""


def row_cases() -> Iterator[Case]:
    """The sample of rows; a pattern that matches too few is a mistake in this file."""
    from xdsl.dialects.builtin import StringAttr

    from tests.gpu.operations.table import ROWS
    from tileiras.bytecode.writer import write_module

    for pattern, count in SAMPLE:
        matching = [row for row in ROWS if re.search(pattern, row.id)]
        if len(matching) < count:
            raise SystemExit(f"error: {len(matching)} rows match '{pattern}', expected {count}")
        for row in matching[:: len(matching) // count][:count]:
            entry = "k_" + re.sub(r"\W", "_", row.id)
            kernel = row.finished()
            kernel.entry.properties["sym_name"] = StringAttr(entry)
            arguments = tuple(row.arguments())
            yield Case(row.id, entry, write_module(kernel.module), arguments, row.grid)


def program_cases() -> Iterator[Case]:
    """Random programs."""
    from xdsl.dialects.builtin import StringAttr

    from tests.kernels.random_programs import make_program
    from tileiras.bytecode.writer import write_module

    for seed in range(RANDOM_PROGRAMS):
        program, entry = make_program(seed), f"k_random_{seed}"
        program.kernel.entry.properties["sym_name"] = StringAttr(entry)
        source = write_module(program.kernel.module)
        arguments = tuple(program.arguments())
        yield Case(f"random-{seed}", entry, source, arguments, program.grid)


def product_cases() -> Iterator[Case]:
    """Products of random shapes."""
    from tests.kernels.product_text import ProductKernel
    from tests.kernels.random_products import make_case

    kernels = [(product, ()) for product in PRODUCTS]
    kernels += [(product, ("wgmma",)) for product in SLOT_PRODUCTS]
    for number, ((element, tile, options), without) in enumerate(kernels):
        kernel = ProductKernel(element, tile, **options)
        case, entry = make_case(kernel, number), f"k_product_{number}"
        source = kernel.text().replace("@product(", f"@{entry}(").encode()
        arguments = tuple(case.arguments())
        yield Case(f"product-{kernel.name}", entry, source, arguments, case.grid, without)


def whole_kernels() -> Iterator[Case]:
    """Softmax, attention and a matrix product, with ragged edges."""
    import numpy as np

    rng = np.random.default_rng(1)
    rows, n = 10, 150
    source = rng.normal(size=(rows, 100)).astype(np.float32)
    text = (KERNELS / "softmax.mlir").read_bytes()
    arguments: tuple[Any, ...] = (source, np.zeros_like(source), np.int32(rows))
    yield Case("softmax", "softmax", text, arguments, (3, 1, 1))
    q, k, v = rng.normal(size=(3, n, 64)).astype(np.float16)
    arguments = (q, k, v, np.zeros_like(q), np.int32(n))
    text = (KERNELS / "attention.mlir").read_bytes()
    yield Case("attention", "attention", text, arguments, (3, 1, 1))
    m, n, k = 136, 72, 200
    a, b = rng.normal(size=(m, k)).astype(np.float16), rng.normal(size=(k, n)).astype(np.float16)
    arguments = (a, b, np.zeros((m, n), np.float16), *map(np.int32, (m, n, k)))
    text = (ROOT / "examples" / "matmul.mlir").read_bytes()
    yield Case("matmul", "matmul", text, arguments, (3, 2, 1))


def compile_case(case: Case, arch: str, features: tuple[str, ...]) -> bytes | str:
    """The cubin, with line information; or the error message."""
    from tileiras.driver import compile_module, with_environment
    from tileiras.errors import TileirasError
    from tileiras.options import CompileOptions

    options = CompileOptions(
        gpu_name=arch, line_info=True, disabled_features=(*features, *case.without)
    )
    try:
        return compile_module(case.source, with_environment(options), filename=case.name).output
    except TileirasError as error:
        return error.render()


def launch_all(work: Path) -> int:
    """The process under the sanitizer: launches what is in the file, notes what ended well."""
    from tests.gpu.launch import launch_exactly

    notes = work.with_suffix(".done")
    for name, entry, cubin, arguments, grid in pickle.loads(work.read_bytes()):
        with notes.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(name) + "\n")
        launch_exactly(cubin, entry, arguments, grid)
    with notes.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps("") + "\n")
    return 0


def watch(arguments: Sequence[str], log: Path, notes: Path, limit: float) -> bool:
    """Runs a process with its output in `log`; kills it and all that it started, and returns False,
    when `notes` has stood still for `limit` seconds."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            arguments, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
        )
    size, since = 0, time.monotonic()
    while True:
        try:
            process.wait(timeout=0.2)
            return True
        except subprocess.TimeoutExpired:
            now = notes.stat().st_size if notes.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > limit:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return False


def run_tool(
    tool: str, command: str, jobs: Sequence[Any], folder: Path, limit: float
) -> list[Finding]:
    """All kernels under one tool. A kernel that ends the process, or does not end in `limit`
    seconds, fails; the rest goes on."""
    left, findings = list(jobs), []
    while left:
        work = folder / f"{tool}-{len(left)}.pickle"
        work.write_bytes(pickle.dumps(left))
        log, notes = work.with_suffix(".log"), work.with_suffix(".done")
        launcher = [sys.executable, str(Path(__file__).resolve()), LAUNCH, str(work)]
        has_stopped = watch(
            [command, f"--tool={tool}", *TOOL_OPTIONS[tool], "--print-limit=200", *launcher],
            log,
            notes,
            limit,
        )
        output = log.read_text(encoding="utf-8", errors="replace")
        lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
        started = [json.loads(line) for line in lines]
        if not started:
            raise SystemExit(f"error: {tool} did not start: {output[-2000:]}")
        has_ended = started[-1] == ""
        ran = left[: len(started) - 1]
        findings += attribute(ran, output)
        left = left[len(ran) :]
        if not has_ended:
            reason = "" if has_stopped else f"did not end in {limit:g} seconds\n"
            findings.append(Finding(left.pop(0)[0], "failed", reason + output[-1500:]))
        elif not CLEAN.search(output) and all(f.status == "clean" for f in findings):
            findings.append(Finding("(no kernel named)", "reported", output[-1500:]))
    return findings


def attribute(jobs: Sequence[Any], log: str) -> list[Finding]:
    """One finding for each kernel: the first block of the log that names its entry."""
    blocks = re.split(r"\n=========\s*\n", log)
    findings = []
    for name, entry, *_ in jobs:
        named = re.compile(rf"\b{re.escape(entry)}\b")
        block = next((text for text in blocks if named.search(text)), "")
        findings.append(Finding(name, "reported" if block else "clean", block[:3000]))
    return findings


def show(tool: str, findings: Sequence[Finding]) -> None:
    """A table line for each kernel, then what was said of the bad ones."""
    for finding in findings:
        print(f"{tool:10} {finding.status:9} {finding.name}")
    for finding in findings:
        if finding.status != "clean":
            print(f"\n--- {tool}: {finding.name}\n{finding.message}")
    clean = sum(finding.status == "clean" for finding in findings)
    print(f"{tool}: {clean} of {len(findings)} kernels clean", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Compiles, runs every tool, prints; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--tools", default="memcheck,racecheck")
    parser.add_argument("--gpu-name", default="", help="default: this machine's GPU")
    parser.add_argument("--filter", default="", help="a regular expression for kernel names")
    parser.add_argument("--disable-feature", default="", help="as the compiler's option")
    parser.add_argument("--compile-only", action="store_true", help="needs no GPU")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a kernel under a tool")
    parser.add_argument("--jobs", type=int, default=min(12, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    arch = options.gpu_name or ("sm_90" if options.compile_only else _this_gpu())
    features = tuple(filter(None, options.disable_feature.split(",")))
    cases = [*row_cases(), *program_cases(), *product_cases(), *whole_kernels()]
    cases = [case for case in cases if re.search(options.filter, case.name)]
    count = len(cases)
    from tileiras.tune.progress import shown

    with ProcessPoolExecutor(options.jobs) as pool:
        made = pool.map(compile_case, cases, [arch] * count, [features] * count)
        cubins = list(shown(made, count))
    errors = [(c.name, text) for c, text in zip(cases, cubins) if isinstance(text, str)]
    for name, text in errors:
        print(f"compiler   failed    {name}: {text}")
    print(f"{count - len(errors)} of {count} kernels compiled for {arch}", flush=True)
    if options.compile_only:
        return int(bool(errors))
    command = os.environ.get("COMPUTE_SANITIZER") or shutil.which("compute-sanitizer")
    if command is None:
        raise SystemExit("error: compute-sanitizer is not on PATH")
    jobs = [
        (case.name, case.entry, cubin, case.arguments, case.grid)
        for case, cubin in zip(cases, cubins)
        if isinstance(cubin, bytes)
    ]
    has_findings = bool(errors)
    with tempfile.TemporaryDirectory() as folder:
        for tool in options.tools.split(","):
            findings = run_tool(tool, command, jobs, Path(folder), options.limit)
            show(tool, findings)
            has_findings |= any(finding.status != "clean" for finding in findings)
    return int(has_findings)


def _this_gpu() -> str:
    from tests.gpu.launch import gpu_name

    return gpu_name()


if __name__ == "__main__":
    if sys.argv[1:2] == [LAUNCH]:
        sys.exit(launch_all(Path(sys.argv[2])))
    sys.exit(main(sys.argv[1:]))
