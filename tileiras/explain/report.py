"""An explanation as text: the kernel, then every line that costs something, with its remarks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tileiras.explain.analysis import Explanation
from tileiras.explain.prediction import LineCost
from tileiras.remarks import Remark, RemarkKind

HONESTY = (
    "Times are computed from documents' rates; nothing was measured. Units overlap, so the slowest "
    "is the prediction. Launches, prologues, epilogues and last waves are not in it; memory counts "
    "every tensor once, L2 every tile that is loaded."
)
LEAST_SHARE = 0.05
"""Policy: units of which a line takes less of its slowest are not named."""


def to_text(explanation: Explanation) -> str:
    """The whole report."""
    return "\n".join(_lines(explanation)) + "\n"


def _lines(explanation: Explanation) -> Iterator[str]:
    prediction, kernel = explanation.prediction, explanation.kernel
    yield f"{kernel.name} on {explanation.target}"
    yield ""
    yield from (f"  {line}" for line in summary(explanation))
    yield ""
    files = dict.fromkeys(line.place[0] for line in prediction.lines)
    for filename in files:
        yield f"{filename}:"
        yield ""
        for line in prediction.lines:
            if line.place[0] == filename:
                yield from _line(explanation, line)
    if rest := explanation.remarks_elsewhere:
        yield "the kernel:"
        yield ""
        for remark in rest:
            yield from _remark(remark)
        yield ""
    if prediction.times:
        yield HONESTY
        yield from (f"- {note}" for note in prediction.notes)


def summary(explanation: Explanation) -> list[str]:
    """What the report says first: time and bound for the shape, resources, loops not known."""
    prediction, shape = explanation.prediction, explanation.shape
    found: list[str] = []
    if shape is not None and prediction.times:
        grid = "x".join(map(str, shape.grid))
        found.append(
            f"predicted: {micros(prediction.time)} for a grid of {grid} tile blocks, bound by "
            f"{prediction.bound} ({prediction.slowest})"
        )
        found.append(f"units: {units(prediction.times, 0)}")
    else:
        found.append("no shape is given (--grid, --arg): what follows is for one tile block")
    for place, line in prediction.unknown:
        name = place.rpartition("/")[2]
        found.append(
            f"one iteration is counted of the loop at {name}:{line}: its number is unknown"
        )
    found += [one.message for one in explanation.remarks if one.name == "Resources"]
    missed = [one for one in explanation.remarks if is_missed(one)]
    if missed:
        found.append(f"{len(missed)} missed, marked with !")
    return found


def is_missed(remark: Remark) -> bool:
    """Whether a remark tells of something that could be faster."""
    return remark.kind in (RemarkKind.MISSED, RemarkKind.FAILED)


def _line(explanation: Explanation, line: LineCost) -> Iterator[str]:
    filename, number = line.place
    text = explanation.text_of(filename, number).strip()
    yield f"  {number:>5}  {text}".rstrip()
    yield f"         {line.kind}: {cost(line)}"
    for remark in explanation.remarks_at(filename, number):
        yield from _remark(remark)
    yield ""


def cost(line: LineCost) -> str:
    """What a line costs: times with a shape, else what one tile block does."""
    if line.times and line.time:
        return f"{micros(line.time)}, bound by {line.bound}: {units(line.times, LEAST_SHARE)}"
    work, words = line.work, list[str]()
    if work.bytes:
        words.append(f"{work.bytes:g} bytes")
    if work.flops:
        words.append(f"{sum(work.flops.values()):g} flops")
    words += [f"{cycles:g} cycles of {unit.value}" for unit, cycles in work.cycles.items()]
    return ", ".join(words) or "nothing that is counted"


def units(times: Mapping[str, float], least: float) -> str:
    """Times of the units in order, the largest first, those below `least` of it left out."""
    ordered = sorted(times.items(), key=lambda item: -item[1])
    most = ordered[0][1] if ordered else 0.0
    return ", ".join(f"{name} {micros(us)}" for name, us in ordered if us > least * most)


def micros(time: float) -> str:
    """Microseconds in words."""
    return f"{time:.1f} us" if time < 10_000 else f"{time / 1000:.1f} ms"


def _remark(remark: Remark) -> Iterator[str]:
    mark = "!" if is_missed(remark) else "-"
    yield f"         {mark} {remark.message}"
    change = dict(remark.arguments).get("Change", "")
    if change and is_missed(remark):
        yield f"           to change it: {change}"
