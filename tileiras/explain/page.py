"""An explanation as one HTML file: no script, no network, nothing beside it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tileiras.explain.analysis import Explanation
from tileiras.explain.prediction import LineCost
from tileiras.explain.report import HONESTY, cost, is_missed, micros, summary
from tileiras.remarks import Remark

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.2rem; overflow-wrap: anywhere; }
h2 { font-size: 1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
td { padding: .15rem .5rem; vertical-align: top; }
td.n, td.t { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { margin: 0; white-space: pre-wrap; font: 13px/1.5 ui-monospace, monospace; }
tr.cost { border-top: 1px solid #8884; }
.bar { display: inline-block; height: .6rem; width: 0; vertical-align: middle; }
.memory { background: #4a86c5; } .tensor { background: #5aa469; }
.latency { background: #c56b4a; } .compute { background: #9a6fb0; }
details { margin: .2rem 0; } summary { cursor: pointer; }
li.missed { color: #b3541e; } li.missed::marker { content: "! "; }
footer { margin-top: 2rem; color: #666; font-size: .85rem; }
@media (prefers-color-scheme: dark) { li.missed { color: #e8935f; } footer { color: #999; } }
"""


def to_html(explanation: Explanation) -> str:
    """The page."""
    title = f"{explanation.kernel.name} on {explanation.target}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            _list(summary(explanation)),
            *_files(explanation),
            *_kernel(explanation),
            *_footer(explanation),
            "</body></html>",
            "",
        ]
    )


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _files(explanation: Explanation) -> Iterator[str]:
    """A table for every file: all of its lines that are there, else those that cost something."""
    costs = {line.place: line for line in explanation.prediction.lines}
    most = max((line.time for line in costs.values()), default=0.0)
    for filename in dict.fromkeys(place[0] for place in costs):
        numbers = [place[1] for place in costs if place[0] == filename]
        known = explanation.source.get(filename, [])
        shown = range(min(numbers), max(numbers) + 1) if known else sorted(numbers)
        yield f"<h2>{escape(filename)}</h2><table>"
        for number in shown:
            yield from _row(explanation, filename, number, costs.get((filename, number)), most)
        yield "</table>"


def _row(
    explanation: Explanation, filename: str, number: int, line: LineCost | None, most: float
) -> Iterator[str]:
    """A line of source, with its bar, its cost and its remarks."""
    code = escape(explanation.text_of(filename, number))
    if line is None:
        yield f'<tr><td class="n">{number}</td><td class="t"></td><td><pre>{code}</pre></td></tr>'
        return
    time = micros(line.time) if line.time else ""
    width = 100 * line.time / most if most else 0
    bar = f'<span class="bar {line.bound}" style="width:{width / 20:.2f}rem"></span>'
    remarks = explanation.remarks_at(filename, number)
    is_open = " open" if any(map(is_missed, remarks)) else ""
    yield (
        f'<tr class="cost"><td class="n">{number}</td><td class="t">{bar} {time}</td>'
        f"<td><pre>{code}</pre><details{is_open}><summary>{escape(line.kind)}: "
        f"{escape(cost(line))}</summary>{_remarks(remarks)}</details></td></tr>"
    )


def _remarks(remarks: list[Remark]) -> str:
    items: list[str] = []
    for remark in remarks:
        kind = ' class="missed"' if is_missed(remark) else ""
        change = dict(remark.arguments).get("Change", "") if is_missed(remark) else ""
        advice = f"<br>to change it: {escape(change)}" if change else ""
        items.append(f"<li{kind}>{escape(remark.message)}{advice}</li>")
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _kernel(explanation: Explanation) -> Iterator[str]:
    if rest := explanation.remarks_elsewhere:
        yield "<h2>The kernel</h2>"
        yield _remarks(rest)


def _footer(explanation: Explanation) -> Iterator[str]:
    if explanation.prediction.times:
        notes = "; ".join(explanation.prediction.notes)
        yield f"<footer>{escape(HONESTY)} {escape(notes)}.</footer>"
