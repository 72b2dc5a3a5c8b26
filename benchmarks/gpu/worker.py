"""Measures entries of a manifest, one after the other, in a process that may be lost.

`run.py` starts it and reads JSON lines from its standard output: {"begin": entry, "step": step}
before anything that a bad kernel can break, {"done": entry, "result": {...}} after. A kernel that
does not end, or that breaks the context, ends this process; `run.py` notes the step and goes on
with a new one that leaves the step out.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attention_references
import axis_references
import elementwise_references
import loop_references
import references
import torch
import training_references
import transform_references
from cuda.bindings import driver

HANG_SECONDS = 10.0
EXIT_HUNG, EXIT_BROKEN = 41, 42
ROUNDS = 9
BATCH_MS = 1.5
ENTRY_MS = 1200.0
MAX_BATCH = 64
DEVICE = "cuda"
_REFERENCES = (
    *(references, attention_references, elementwise_references),
    *(loop_references, training_references, transform_references, axis_references),
)
EXPECTED = {name: f for module in _REFERENCES for name, f in module.EXPECTED.items()}
LIBRARY = {name: f for module in _REFERENCES for name, f in module.LIBRARY.items()}


def say(**message: Any) -> None:
    """One line to `run.py`."""
    print(json.dumps(message), flush=True)


def finish_or_die() -> None:
    """Waits for the GPU; ends the process where it does not become idle or has failed."""
    event = torch.cuda.Event()
    deadline = time.monotonic() + HANG_SECONDS
    try:
        event.record()
        while not event.query():
            if time.monotonic() > deadline:
                os._exit(EXIT_HUNG)
            time.sleep(0.0001)
    except Exception as error:  # torch's types for a broken context differ by version
        say(broken=str(error)[:300])
        os._exit(EXIT_BROKEN)


def checked(result: tuple[Any, ...]) -> Any:
    """The value of a driver call."""
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


def make_array(array: dict[str, Any], seed: int, entry: dict[str, Any]) -> torch.Tensor:
    """An array argument, filled as its `fill` says."""
    dtype, shape = getattr(torch, array["dtype"]), array["shape"]
    generator = torch.Generator(DEVICE).manual_seed(seed)
    size = math.prod(shape)
    match array["fill"]:
        case "normal" if dtype == torch.int8:
            flat = torch.randint(-127, 128, (size,), generator=generator, device=DEVICE)
            flat = flat.to(dtype)
        case "normal" if dtype == torch.float8_e4m3fn:
            flat = torch.randn(size, generator=generator, device=DEVICE).to(dtype)
        case "normal":
            flat = torch.randn(size, generator=generator, device=DEVICE, dtype=dtype)
        case fill if fill.startswith("around "):
            flat = torch.randn(size, generator=generator, device=DEVICE, dtype=dtype)
            flat += float(fill.removeprefix("around "))
        case "slots" | "experts":
            slots, experts = route(entry)
            flat = slots if array["fill"] == "slots" else experts
        case "groups":
            from catalogue import GROUP_TILES

            owners = [group for group, count in enumerate(GROUP_TILES) for _ in range(count)]
            flat = torch.tensor(owners, device=DEVICE, dtype=dtype)
        case fill if fill.startswith("roots "):
            count = int(fill.removeprefix("roots "))
            flat = transform_references.roots(shape, count, DEVICE).flatten().to(dtype)
        case fill if fill.startswith("below "):
            end = int(fill.removeprefix("below "))
            flat = torch.randint(end, (size,), generator=generator, device=DEVICE, dtype=dtype)
        case _:
            flat = torch.zeros(size, device=DEVICE, dtype=dtype)
    return torch.as_strided(flat, shape, array["strides"])


def route(entry: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Slots sorted by expert and padded to whole tiles, and every tile's expert; uneven."""
    from catalogue import expert_counts

    tile, count = entry["constants"][1], entry["arguments"][2]["shape"][0]
    order = torch.randperm(count, generator=torch.Generator().manual_seed(1))
    slots, experts, start = [], [], 0
    for expert, size in enumerate(expert_counts()):
        padding = -size % tile
        slots += [order[start : start + size].sort().values, torch.full((padding,), count)]
        experts += [expert] * ((size + padding) // tile)
        start += size
    return (
        torch.cat(slots).to(DEVICE, torch.int32),
        torch.tensor(experts, device=DEVICE, dtype=torch.int32),
    )


class Kernel:
    """A loaded cubin with its arguments."""

    def __init__(self, cubin: bytes, symbol: str, grid: list[int], arguments: list[Any]):
        self._module = checked(driver.cuModuleLoadData(cubin))
        self._function = checked(driver.cuModuleGetFunction(self._module, symbol.encode()))
        self._grid = grid
        self._arguments = arguments  # graphs and launches know addresses alone
        self._values, self._types = flatten(arguments)

    def launch(self) -> None:
        """On torch's stream."""
        stream = torch.cuda.current_stream().cuda_stream
        packed = (self._values, self._types)
        checked(driver.cuLaunchKernel(self._function, *self._grid, 1, 1, 1, 0, stream, packed, 0))


class Table:
    """A list of arrays as kernels get it: a row of address, sizes and strides for each."""

    def __init__(self, arrays: torch.Tensor):
        self._arrays = arrays  # the table knows addresses alone
        rows = [[array.data_ptr(), *array.shape, *array.stride()] for array in arrays]
        self.rows = torch.tensor(rows, device=DEVICE, dtype=torch.int64)


def flatten(arguments: list[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The entry's parameters: an array is a pointer, its sizes and its strides in elements.

    A list of arrays is a pointer to a table of these, and its length.
    """
    values: list[Any] = []
    types: list[Any] = []
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            extents = [*argument.shape, *argument.stride()]
            values += [argument.data_ptr(), *extents]
            types += [ctypes.c_void_p, *[ctypes.c_int32] * len(extents)]
        elif isinstance(argument, Table):
            values += [argument.rows.data_ptr(), argument.rows.shape[0]]
            types += [ctypes.c_void_p, ctypes.c_int32]
        else:
            values.append(argument)
            types.append(ctypes.c_float if isinstance(argument, float) else ctypes.c_int32)
    return tuple(values), tuple(types)


def poison(output: torch.Tensor) -> None:
    """Fills an output with what no kernel computes, so that unwritten elements are seen."""
    output.fill_(float("nan") if output.dtype.is_floating_point else -(2**31) + 1)


def graph_of(call: Callable[[], Any], count: int) -> Callable[[], Any]:
    """A graph of `count` calls; the calls one by one where capturing is refused."""
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
        return graph.replay
    except RuntimeError:
        torch.cuda.synchronize()
        return lambda: [call() for _ in range(count)]


def once_ms(call: Callable[[], Any]) -> float:
    """Milliseconds between events around a call."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    finish_or_die()
    return start.elapsed_time(end)


def time_all(calls: dict[str, Callable[[], Any]], entry: int) -> dict[str, dict[str, float]]:
    """Microseconds of every contender: median and fastest, in turns, warm.

    Every second round goes backwards: at the power limit a contender is slower behind one that
    heats the GPU, and faster behind one that leaves it idle for 50 ms.
    """
    batches: dict[str, tuple[int, Callable[[], Any]]] = {}
    spent = 0.0
    for name, call in calls.items():
        say(begin=entry, step=f"time {name}")
        single = min(once_ms(call) for _ in range(2))
        count = max(1, min(MAX_BATCH, round(BATCH_MS / max(single, 1e-3))))
        spent += single * count
        batches[name] = (count, graph_of(call, count))
        once_ms(batches[name][1])
    rounds = max(3, min(ROUNDS, int(ENTRY_MS / max(spent, 1e-3))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in list(batches)[:: -1 if number % 2 else 1]:
            count, run = batches[name]
            say(begin=entry, step=f"time {name}")
            times[name].append(once_ms(run) / count * 1e3)
    return {
        name: {"us": statistics.median(values), "best_us": min(values)}
        for name, values in times.items()
    }


def compare(pieces: Any, outputs: dict[str, torch.Tensor]) -> dict[str, dict[str, Any]]:
    """How far every contender's output is from the answer, in units of the allowed error."""
    worst = dict.fromkeys(outputs, 0.0)
    wrong = dict.fromkeys(outputs, 0)
    for place, exact, bound in pieces:
        for name, output in outputs.items():
            error = (output[place].to(torch.float64) - exact).abs_()
            is_right = error <= bound
            wrong[name] += int(error.numel() - is_right.sum())
            share = torch.where(error == 0, 0.0, error / bound)
            worst[name] = max(worst[name], float(share.nan_to_num(1e9, 1e9).max()))
    return {name: {"wrong": wrong[name], "worst": round(worst[name], 3)} for name in outputs}


def arguments_for(entry: dict[str, Any]) -> list[Any]:
    """The arguments that all contenders read."""
    arguments: list[Any] = []
    for position, argument in enumerate(entry["arguments"]):
        if isinstance(argument, dict):
            argument = make_array(argument, position + 1, entry)
        arguments.append(argument)
    return arguments


def own_outputs(entry: dict[str, Any], shared: list[Any]) -> list[Any]:
    """The shared arguments with new tensors for what the kernel writes."""
    mine = list(shared)
    for position, argument in enumerate(entry["arguments"]):
        if isinstance(argument, dict) and argument["fill"] in ("output", "sum", "zeros"):
            mine[position] = torch.zeros_like(shared[position])
            if argument["fill"] == "output":
                poison(mine[position])
    return mine


def measure(
    entry: dict[str, Any], index: int, directory: Path, skip: set[str], tools: list[str]
) -> dict[str, Any]:
    """Checks and times an entry; steps in `skip` are known to end the process."""
    shared = arguments_for(entry)
    fills = [
        argument["fill"] if isinstance(argument, dict) else "" for argument in entry["arguments"]
    ]
    written = [fills.index("sum")] if "sum" in fills else []
    written = written or [position for position, fill in enumerate(fills) if fill == "output"]
    calls: dict[str, Callable[[], Any]] = {}
    outputs: dict[str, torch.Tensor] = {}
    result: dict[str, Any] = {"tools": {}}
    for name in tools:
        cubin = entry.get(name, {}).get("cubin")
        if cubin is None or skip & {name, f"time {name}"}:
            continue
        say(begin=index, step=name)
        mine = own_outputs(entry, shared)
        try:
            passed = [
                Table(value) if isinstance(about, dict) and about.get("listed") else value
                for about, value in zip(entry["arguments"], mine)
            ]
            code = (directory / cubin).read_bytes()
            kernel = Kernel(code, entry["symbol"], entry["grid"], passed)
            kernel.launch()
        except RuntimeError as error:
            result["tools"][name] = {"error": str(error)[:300]}
            continue
        finish_or_die()
        outputs[name] = torch.stack([mine[position] for position in written])
        if len(written) == 1:
            outputs[name] = outputs[name][0]
        calls[name] = kernel.launch
    expected = EXPECTED[entry["reference"]]([*shared, *entry["constants"]])
    for name, verdict in compare(expected, outputs).items():
        result["tools"][name] = verdict
    outputs.clear()
    if not skip & {"library", "time library"} and (library := LIBRARY[entry["reference"]]):
        say(begin=index, step="library")
        try:
            if (call := library([*shared, *entry["constants"]])) is not None:
                call()
                calls["library"] = call
        except RuntimeError as error:
            result["tools"]["library"] = {"error": str(error)[:300]}
        finish_or_die()
    for name, times in time_all(calls, index).items():
        result["tools"].setdefault(name, {}).update(times)
    return result


def copy_rate() -> float:
    """Bytes per second of a copy on the device, read and written."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    times = [once_ms(lambda: target.copy_(source)) for _ in range(8)]
    return 2 * source.numel() / (statistics.median(times) / 1e3)


def main() -> int:
    """Measures what is asked for; see the module's text."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("manifest", type=Path)
    parser.add_argument("work", help="JSON: [[entry, [steps to leave out]], ...]")
    parser.add_argument("--tools", default="ours,vendor")
    options = parser.parse_args()
    entries = json.loads(options.manifest.read_text())["entries"]
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.zeros(1, device=DEVICE)
    properties = torch.cuda.get_device_properties(0)
    say(device=properties.name, multiprocessors=properties.multi_processor_count, copy=copy_rate())
    for index, skip in json.loads(options.work):
        say(begin=index, step="setup")
        try:
            result = measure(
                entries[index],
                index,
                options.manifest.parent,
                set(skip),
                options.tools.split(","),
            )
        except Exception as error:  # one entry's trouble must not end the others
            finish_or_die()
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__} at {place.name}:{place.lineno}: {error}"
            result = {"error": text[:400], "tools": {}}
        say(done=index, result=result)
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
