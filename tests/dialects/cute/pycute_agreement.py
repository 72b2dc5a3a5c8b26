"""Random layouts on which our algebra and CUTLASS's Python reference are compared.

    PYCUTE=/path/to/cutlass/python .venv/bin/python -m tests.dialects.cute.pycute_agreement 100000

Nothing of the reference is part of this project: `$PYCUTE` names a folder with a package `pycute`.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from tileiras.dialects.cute.algebra import AlgebraError, Layout
from tileiras.dialects.cute.algebra.composition import composition
from tileiras.dialects.cute.algebra.coordinates import idx2crd
from tileiras.dialects.cute.algebra.divides import logical_divide, tiled_divide, zipped_divide
from tileiras.dialects.cute.algebra.int_tuples import IntTuple, static_product
from tileiras.dialects.cute.algebra.inverses import complement, left_inverse, right_inverse
from tileiras.dialects.cute.algebra.leaves import static
from tileiras.dialects.cute.algebra.products import logical_product, tiled_product, zipped_product
from tileiras.dialects.cute.algebra.transforms import coalesce, filter_layout

VARIABLE = "PYCUTE"

FUNCTIONS: dict[str, tuple[Callable[..., Layout], Callable[[Layout, Layout], tuple[Any, ...]]]] = {
    "coalesce": (coalesce, lambda a, b: (a,)),
    "filter": (filter_layout, lambda a, b: (a,)),
    "complement": (complement, lambda a, b: (a, 96)),
    "right_inverse": (right_inverse, lambda a, b: (a,)),
    "left_inverse": (left_inverse, lambda a, b: (a,)),
    "composition": (composition, lambda a, b: (a, b)),
    "logical_divide": (logical_divide, lambda a, b: (a, b)),
    "zipped_divide": (zipped_divide, lambda a, b: (a, b)),
    "tiled_divide": (tiled_divide, lambda a, b: (a, b)),
    "logical_product": (logical_product, lambda a, b: (a, b)),
    "zipped_product": (zipped_product, lambda a, b: (a, b)),
    "tiled_product": (tiled_product, lambda a, b: (a, b)),
}
"""Name -> our function, and its operands among two random layouts."""


def random_shape(choose: random.Random, depth: int = 2) -> IntTuple:
    """A nested shape with small extents."""
    if depth == 0 or choose.random() < 0.4:
        return choose.choice((1, 2, 2, 3, 4, 4, 6))
    return tuple(random_shape(choose, depth - 1) for _ in range(choose.randint(1, 3)))


def random_layout(choose: random.Random) -> Layout:
    """A layout of at most 256 elements with compact or arbitrary strides."""
    shape = random_shape(choose)
    while static_product(shape, "a shape") > 256:
        shape = random_shape(choose)
    if choose.random() < 0.3:
        return Layout.compact(shape)
    if choose.random() < 0.3:
        return Layout.row_major(shape)
    return Layout(shape, _strides(choose, shape))


def _strides(choose: random.Random, shape: IntTuple) -> IntTuple:
    if isinstance(shape, tuple):
        return tuple(_strides(choose, mode) for mode in shape)
    return choose.choice((0, 1, 1, 2, 2, 3, 4, 4, 6, 8, 12, 16, 24, 32))


def compare(count: int, seed: int = 0) -> Counter[str]:
    """How often each function agrees ("same"), is rejected by us, and differs, on `count` layouts.

    What we reject, the reference rejects too or answers without the law of the function; where it
    obeys the law, the row is "rejected without need". A right inverse of a layout with a stride of
    0 is "longer" where ours goes on and obeys the law: the reference stops at the 0, CuTe does not.
    """
    sys.path.insert(0, os.environ[VARIABLE])
    pycute: Any = importlib.import_module("pycute")
    choose = random.Random(seed)
    result: Counter[str] = Counter()

    for _ in range(count):
        a, b = random_layout(choose), random_layout(choose)
        for name, (ours, operands) in FUNCTIONS.items():
            reference = getattr(pycute, name)
            result[f"{name}: {_verdict(name, a, b, ours, reference, operands)}"] += 1
        index = choose.randrange(a.static_size)
        same = a(index) == _theirs(pycute, a)(index) and idx2crd(index, a.shape) == pycute.idx2crd(
            index, a.shape
        )
        result[f"coordinates: {'same' if same else 'differs'}"] += 1
    return result


def _theirs(pycute: Any, layout: Layout) -> Any:
    return pycute.Layout(layout.shape, layout.stride)


def _verdict(
    name: str,
    a: Layout,
    b: Layout,
    ours: Callable[..., Layout],
    reference: Callable[..., Any],
    operands: Callable[[Layout, Layout], tuple[Any, ...]],
) -> str:
    arguments = operands(a, b)
    pycute = sys.modules["pycute"]
    converted = [_theirs(pycute, x) if isinstance(x, Layout) else x for x in arguments]
    try:
        expected = reference(*converted)
        expected = Layout(expected.shape, expected.stride)
    except (AssertionError, AlgebraError, ZeroDivisionError, IndexError):
        expected = None
    try:
        found = ours(*arguments)
    except AlgebraError:
        lawful = expected is not None and is_lawful(name, a, b, expected)
        return "rejected without need" if lawful else "rejected"
    if expected is None:
        if is_lawful(name, a, b, found):
            return "accepted more"
        print(f"{name} of {a} and {b}: {found} is wrong, the reference rejects it")
        return "differs"
    if found == expected:
        return "same"
    broadcast = any(stride == 0 for _, stride in a.pairs)
    if name == "right_inverse" and broadcast and is_lawful(name, a, b, found):
        return "longer"
    if is_lawful(name, a, b, expected):
        print(f"{name} of {a} and {b}: {found}, the reference has {expected}")
        return "differs"
    return "reference breaks the law"


def is_lawful(name: str, a: Layout, b: Layout, result: Layout) -> bool:
    """Whether a result obeys the law of the function; beyond its size, `a` goes on coalesced."""
    goes_on = coalesce(a)
    match name:
        case "composition":
            return result.indices == [goes_on(i) for i in b.indices if isinstance(i, int)]
        case "complement":
            both = [i for i in Layout.of([filter_layout(a), result]).indices if isinstance(i, int)]
            return sorted(both) == list(range(len(both)))
        case "right_inverse":
            return all(a(i) == n for n, i in enumerate(result.indices) if isinstance(i, int))
        case "left_inverse":
            return all(result(i) == n for n, i in enumerate(a.indices) if isinstance(i, int))
        case "logical_divide" | "zipped_divide" | "tiled_divide":
            rest = complement_or_none(b, a.static_size)
            if rest is None:
                return False
            split = Layout.of([b, rest])
            return result.indices == [goes_on(i) for i in split.indices if isinstance(i, int)]
        case "logical_product" | "zipped_product" | "tiled_product":
            room = a.static_size * static(b.cosize, "a cosize")
            rest = complement_or_none(a, room)
            if rest is None:
                return False
            second = [rest(i) for i in b.indices if isinstance(i, int)]
            first = a.indices
            return result.indices == [i + j for j in second for i in first]
        case _:
            return result.indices == a.indices


def complement_or_none(layout: Layout, size: int) -> Layout | None:
    """The complement, if there is one."""
    try:
        return complement(layout, size)
    except AlgebraError:
        return None


if __name__ == "__main__":
    for row, number in sorted(compare(int(sys.argv[1])).items()):
        print(f"{number:8} {row}")
