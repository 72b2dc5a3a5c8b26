"""A measurement as a table and as JSON."""

from __future__ import annotations

import json
from typing import Any

from tileiras.bench.measurement import Measurement, Times
from tileiras.codegen.target.rates import RATES


def rows(found: Measurement) -> list[tuple[str, str]]:
    """What is told, with its name."""
    explanation = found.explanation
    prediction, target = explanation.prediction, explanation.target
    table = [("kernel", explanation.kernel.name), ("target", target), *_time("time", found.times)]
    rates = RATES.get(target)
    if rates is not None and found.bytes:
        part = 100 * found.gigabytes / rates.memory
        table.append(("memory", f"{found.gigabytes:.0f} GB/s, {part:.0f} % of {rates.memory}"))
    if rates is not None and found.flops:
        most = rates.tensor["f16"]
        part = 100 * found.teraflops / most
        table.append(("products", f"{found.teraflops:.1f} TFLOP/s, {part:.0f} % of {most:g} (f16)"))
    if prediction.times:
        part = 100 * found.of_prediction
        table.append(
            (
                "predicted",
                f"{prediction.time / 1000:.4f} ms ({part:.0f} % of the time), bound by "
                f"{prediction.bound} ({prediction.slowest})",
            )
        )
    if found.fact("Occupancy"):
        table.append(
            ("occupancy", f"{found.fact('Occupancy')} %, limited by {found.fact('Limit')}")
        )
    if (other := found.comparison) is not None:
        table += _time(found.other, Times(other.second_times))
        table.append(("speedup", f"{other.speedup:.3f} over {found.other}"))
        worst = max(other.largest_errors.values(), default=0.0)
        verdict = "agree" if other.agrees else "DIFFER"
        table.append(("results", f"{verdict}, largest difference {worst:g}"))
    elif found.failure:
        table.append((found.other, f"FAILED: {found.failure}"))
    return table


def _time(name: str, times: Times) -> list[tuple[str, str]]:
    """The median, the range and the spread."""
    least, most = min(times.each), max(times.each)
    text = f"{times.median:.4f} ms (of {len(times.each)}: {least:.4f} to {most:.4f}"
    return [(name, f"{text}, spread {100 * times.spread:.1f} %)")]


def to_text(found: Measurement) -> str:
    """The table."""
    table = rows(found)
    width = max(len(name) for name, _ in table)
    return "".join(f"{name:<{width}}  {text}\n" for name, text in table)


def to_json(found: Measurement) -> str:
    """The numbers; times in milliseconds."""
    explanation, other = found.explanation, found.comparison
    data: dict[str, Any] = {
        "kernel": explanation.kernel.name,
        "target": explanation.target,
        "times_ms": list(found.times.each),
        "median_ms": found.times.median,
        "spread": found.times.spread,
        "gigabytes_per_second": found.gigabytes,
        "teraflops": found.teraflops,
        "predicted_ms": explanation.prediction.time / 1000,
        "bound": explanation.prediction.bound,
        "occupancy_percent": int(found.fact("Occupancy") or 0),
        "limit": found.fact("Limit"),
    }
    if other is not None:
        data["against"] = {
            "name": found.other,
            "times_ms": list(other.second_times),
            "speedup": other.speedup,
            "agrees": other.agrees,
            "largest_errors": {str(place): error for place, error in other.largest_errors.items()},
        }
    elif found.failure:
        data["against"] = {"name": found.other, "failure": found.failure}
    return json.dumps(data, indent=2) + "\n"
