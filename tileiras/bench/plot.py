"""A measurement as a picture: an SVG with the time of each batch and how much of the GPU was used.

Nothing in it comes from elsewhere, and the same measurement gives the same bytes.
"""

from __future__ import annotations

import math
from html import escape

from tileiras.bench.measurement import Measurement, Times
from tileiras.codegen.target.rates import RATES

_WIDTH, _LEFT, _RIGHT = 760, 150, 30
_ROW, _HEAD, _AXIS = 64, 56, 40
"""Policy: pixels. A row is one kernel or one unit of the GPU."""

_COLOURS = ("#2f6fb2", "#b3541e")
"""Policy: of the kernel and of the one that it is compared with; both are readable on white."""

_TICKS = 5
"""Policy: about so many numbers on the axis."""

_LETTERS = 18
"""Policy: what is longer than the space beside a row is cut off."""


def to_svg(found: Measurement) -> str:
    """The picture."""
    kernel = found.explanation.kernel.name
    series = [(kernel, found.times)]
    if found.comparison is not None:
        series.append((found.other, Times(found.comparison.second_times)))
    used = _used(found)
    height = _HEAD + _AXIS + _ROW * len(series) + (_ROW // 2) * len(used) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13" role="img">',
        f"<title>{escape(kernel)}: time of each batch</title>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(16, 26, f"{kernel} on {found.explanation.target}", 'font-size="17"'),
        *_times(series, found.explanation.prediction.time / 1000),
    ]
    top = _HEAD + _AXIS + _ROW * len(series)
    for number, (name, achieved, most, unit) in enumerate(used):
        parts += _bar(top + number * _ROW // 2, name, achieved, most, unit)
    return "\n".join([*parts, "</svg>", ""])


def _times(series: list[tuple[str, Times]], predicted: float) -> list[str]:
    """A row of dots for each kernel, one dot for each batch; a line at the median."""
    most = max(max(times.each) for _, times in series)
    most = max(most, predicted, 1e-6)
    step = _step(most / _TICKS)
    most = step * math.ceil(most / step)
    bottom = _HEAD + _ROW * len(series)
    parts = [_line(_LEFT, bottom, _WIDTH - _RIGHT, bottom, "#666666")]
    for number in range(round(most / step) + 1):
        time = step * number
        parts.append(_line(_place(time, most), bottom, _place(time, most), bottom + 5, "#666666"))
        parts.append(_text(_place(time, most), bottom + 20, f"{time:.3g}", 'text-anchor="middle"'))
    parts.append(_text(_LEFT - 10, bottom + 20, "ms", 'text-anchor="end"'))
    if predicted:
        x = _place(predicted, most)
        parts.append(_line(x, _HEAD - 8, x, bottom, "#666666", ' stroke-dasharray="4 3"'))
        side = "end" if x > _WIDTH / 2 else "start"
        parts.append(_text(x, _HEAD - 12, "predicted", f'text-anchor="{side}" fill="#666666"'))
    for row, (name, times) in enumerate(series):
        top, colour = _HEAD + row * _ROW, _COLOURS[row]
        parts.append(_text(_LEFT - 10, top + 28, _short(name), 'text-anchor="end"'))
        parts.append(_text(_LEFT - 10, top + 46, f"{times.median:.4f} ms", 'text-anchor="end"'))
        for number, time in enumerate(times.each):
            y = top + 12 + 40 * number / max(len(times.each) - 1, 1)
            parts.append(
                f'<circle cx="{_place(time, most):.1f}" cy="{y:.1f}" r="3.5" fill="{colour}" '
                'fill-opacity="0.6"/>'
            )
        x = _place(times.median, most)
        parts.append(_line(x, top + 6, x, top + _ROW - 6, colour, ' stroke-width="2"'))
    return parts


def _step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)


def _short(name: str) -> str:
    """A name, or that of a file without its folder, as long as there is space for."""
    name = name.rpartition("/")[2]
    return name if len(name) <= _LETTERS else f"{name[: _LETTERS - 3]}..."


def _used(found: Measurement) -> list[tuple[str, float, float, str]]:
    """What was achieved of what the GPU could do: name, both numbers, unit."""
    rates = RATES.get(found.explanation.target)
    used: list[tuple[str, float, float, str]] = []
    if rates is not None and found.bytes:
        used.append(("memory", found.gigabytes, rates.memory, "GB/s"))
    if rates is not None and found.flops:
        used.append(("products", found.teraflops, rates.tensor["f16"], "TFLOP/s"))
    return used


def _bar(top: float, name: str, achieved: float, most: float, unit: str) -> list[str]:
    """A bar that is full where all of the GPU is used."""
    whole = _WIDTH - _LEFT - _RIGHT
    part = min(achieved / most, 1.0)
    told = f"{achieved:.4g} of {most:g} {unit}, {100 * achieved / most:.0f} %"
    return [
        _text(_LEFT - 10, top + 20, name, 'text-anchor="end"'),
        f'<rect x="{_LEFT}" y="{top + 6}" width="{whole}" height="20" fill="#e8e8e8"/>',
        f'<rect x="{_LEFT}" y="{top + 6}" width="{whole * part:.1f}" height="20" '
        f'fill="{_COLOURS[0]}" fill-opacity="0.35"/>',
        _text(_LEFT + 8, top + 21, told, ""),
    ]


def _place(time: float, most: float) -> float:
    """Where a time is on the axis."""
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * time / most


def _line(x: float, y: float, to_x: float, to_y: float, colour: str, more: str = "") -> str:
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"{more}/>'
    )


def _text(x: float, y: float, text: str, more: str) -> str:
    space = " " if more else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{space}{more}>{escape(text)}</text>'
