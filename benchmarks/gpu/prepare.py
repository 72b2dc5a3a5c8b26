"""Makes the benchmark's cubins: bytecode by the client, then our compiler and NVIDIA's.

    python benchmarks/gpu/prepare.py --directory build/bench-gpu

Run it with a Python that has the package cuda-tile; no GPU is needed. `tileiras` is found on PATH,
NVIDIA's compiler by $VENDOR_TILEIRAS (left out where unset). What is there already is kept:
bytecode that did not change is compiled by NVIDIA's compiler once. `--variant NAME=FLAGS` adds a
contender NAME: our compiler with these flags, from the same bytecode.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import attention_kernels
import axis_kernels
import cuda.tile as ct
import elementwise_kernels
import kernels
import loop_kernels
import training_kernels
import transform_kernels
from catalogue import ITEM_BYTES, Array, Entry, entries
from cuda.tile.compilation import (
    ArrayConstraint,
    CallingConvention,
    KernelSignature,
    ListConstraint,
    ScalarConstraint,
    export_kernel,
)
from variants import variant

SYMBOL = "benchmark"
TARGET = "sm_90"
RESOURCES = re.compile(r"(\d+) registers, (\d+) bytes of shared memory, (\d+) bytes spilled")
ADVISORY = re.compile(r"C75\d\d|wgmma.*serializ", re.IGNORECASE)
SECONDS = 300
INSTALLED = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""Our modules are compiled to Python's bytecode once, as those of an installation."""


def constraint(argument: Array | int | float) -> Any:
    """What the client would assume of an argument: aligned memory, lengths by 16."""
    if not isinstance(argument, Array):
        return ScalarConstraint(ct.int32 if isinstance(argument, int) else ct.float32)
    if argument.listed:
        element = replace(argument, shape=argument.shape[1:], listed=False)
        return ListConstraint(constraint(element), alias_groups=(), elements_may_alias=False)
    factor = 16 // ITEM_BYTES[argument.dtype]
    return ArrayConstraint(
        getattr(ct, argument.dtype),
        len(argument.shape),
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[1 if stride == 1 else None for stride in argument.strides],
        stride_divisible_by=[factor if step % factor == 0 else 1 for step in argument.strides],
        shape_divisible_by=[16 if size % 16 == 0 else 1 for size in argument.shape],
        base_addr_divisible_by=16,
    )


def export(entry: Entry) -> bytes:
    """The client's bytecode."""
    modules = (
        *(kernels, attention_kernels, elementwise_kernels),
        *(loop_kernels, training_kernels, transform_kernels, axis_kernels),
    )
    module = next(module for module in modules if hasattr(module, entry.kernel))
    kernel = getattr(module, entry.kernel).replace_hints(**entry.hints)
    parameters = [*map(constraint, entry.arguments), *entry.constants]
    signature = KernelSignature(parameters, CallingConvention.cutile_python_v1(), SYMBOL)
    buffer = io.BytesIO()
    export_kernel(
        kernel,
        [signature],
        buffer,
        gpu_code=TARGET,
        output_format="tileir_bytecode",
        bytecode_version=entry.bytecode,
    )
    return buffer.getvalue()


def compiler(command: list[str], source: Path, output: Path) -> dict[str, Any]:
    """Runs a compiler: its seconds, and an error's text where it failed."""
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, str(source), "--gpu-name", TARGET, "-o", str(output)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=INSTALLED,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no result after {SECONDS} s"}
    record: dict[str, Any] = {"seconds": round(time.perf_counter() - start, 3)}
    if done.returncode:
        output.unlink(missing_ok=True)
        return record | {"error": (done.stderr or done.stdout).strip()[:2000]}
    return record | {"cubin": output.name, "said": (done.stderr + done.stdout).strip()}


def compile_ours(source: Path) -> dict[str, Any]:
    """Our cubin, with what ptxas says of it and whether warps are specialised."""
    cubin = source.with_suffix(".ours.cubin")
    record = compiler(["tileiras", "-v", "--remarks=all"], source, cubin)
    said = record.pop("said", "")
    record["remarks"] = [line for line in said.splitlines() if "remark" in line]
    record["advisories"] = [line for line in said.splitlines() if ADVISORY.search(line)]
    if found := RESOURCES.search(said):
        registers, shared, spills = map(int, found.groups())
        record |= {"registers": registers, "shared": shared, "spills": spills}
    if "error" not in record:
        dump = source.with_suffix(".nv_tileas.mlir")
        compiler(["tileiras", "--emit=nv_tileas"], source, dump)
        record["specialised"] = dump.exists() and "agent_switch" in dump.read_text()
    return record


def compile_variant(source: Path, name: str, flags: list[str]) -> dict[str, Any]:
    """Our cubin by further flags of the command line."""
    record = compiler(["tileiras", "-v", *flags], source, source.with_suffix(f".{name}.cubin"))
    if found := RESOURCES.search(record.pop("said", "")):
        registers, shared, spills = map(int, found.groups())
        record |= {"registers": registers, "shared": shared, "spills": spills}
    return record | {"flags": flags}


def compile_vendor(source: Path) -> dict[str, Any]:
    """NVIDIA's cubin, made once for each bytecode."""
    cubin = source.with_suffix(".vendor.cubin")
    if cubin.exists():
        return {"cubin": cubin.name}
    record = compiler([os.environ["VENDOR_TILEIRAS"]], source, cubin)
    record.pop("said", None)
    return record


def write_bytecode(entry: Entry, directory: Path) -> Path:
    """The file with an entry's bytecode; entries that differ in shapes alone share it."""
    bytecode = export(entry)
    name = f"{entry.kernel}-{hashlib.sha256(bytecode).hexdigest()[:12]}"
    source = directory / f"{name}.tileirbc"
    source.write_bytes(bytecode)
    return source


def compile_all(source: Path, with_vendor: bool, variants: dict[str, list[str]]) -> dict[str, Any]:
    """What both compilers, and ours with the flags of `variants`, make of a file."""
    made: dict[str, Any] = {"symbol": SYMBOL, "ours": compile_ours(source)}
    if with_vendor:
        made["vendor"] = compile_vendor(source)
    for name, flags in variants.items():
        made[name] = compile_variant(source, name, flags)
    made["variants"] = list(variants)
    print(f"{source.stem}: {summary(made)}", file=sys.stderr, flush=True)
    return made


def described(entry: Entry, made: dict[str, Any]) -> dict[str, Any]:
    """An entry of the manifest."""
    record: dict[str, Any] = asdict(entry)
    for argument, given in zip(record["arguments"], entry.arguments):
        if isinstance(given, Array):
            argument["strides"] = given.strides
    return record | made


def summary(record: dict[str, Any]) -> str:
    """One line on what came out."""
    ours = record["ours"]
    if "error" in ours:
        return f"ERROR {ours['error'][:300]}"
    words = [f"{ours.get('registers')} registers", f"{ours.get('spills')} bytes spilled"]
    words.append("specialised" if ours["specialised"] else "not specialised")
    words += ours["advisories"]
    if "error" in record.get("vendor", {}):
        words.append(f"vendor: {record['vendor']['error'][:200]}")
    return ", ".join(words)


def main() -> int:
    """Parses the arguments, compiles everything, writes the manifest."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--directory", type=Path, default=Path("build/bench-gpu"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="a regular expression that names must match")
    parser.add_argument(
        "--variant",
        action="append",
        type=variant,
        default=[],
        metavar="NAME=FLAGS",
        help="a further contender: our compiler with these flags",
    )
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    chosen = [
        entry for entry in entries() if re.search(options.only or "", f"{entry.group} {entry.name}")
    ]
    if shutil.which("tileiras") is None:
        print("tileiras is not on PATH", file=sys.stderr)
        return 2
    sources = [write_bytecode(entry, options.directory) for entry in chosen]
    distinct = list(dict.fromkeys(sources))
    with_vendor = "VENDOR_TILEIRAS" in os.environ
    work = partial(compile_all, with_vendor=with_vendor, variants=dict(options.variant))
    with ThreadPoolExecutor(options.jobs) as pool:
        made = dict(zip(distinct, pool.map(work, distinct)))
    records = [described(entry, made[source]) for entry, source in zip(chosen, sources)]
    manifest = options.directory / "manifest.json"
    manifest.write_text(json.dumps({"entries": records}, indent=1) + "\n")
    contenders = ["ours", *dict(options.variant)]
    failed = sum(any("error" in record[name] for name in contenders) for record in records)
    print(f"{manifest}: {len(records)} entries, {failed} that tileiras does not compile")
    return 0


if __name__ == "__main__":
    sys.exit(main())
