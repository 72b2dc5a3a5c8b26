"""Kernels with two products in a loop that read a loaded tile in common, as text.

Two results of 128x128 f32 a block; operands are 144x208 (A, D) and 208x144 (B, E).
"""

from __future__ import annotations

from collections.abc import Sequence

ROWS, COLUMNS, DEPTH = 144, 144, 208

_KERNEL = """
cuda_tile.module @m {
  entry @shared(%A: tile<ptr<ELEMENT>>, %B: tile<ptr<ELEMENT>>, %D: tile<ptr<ELEMENT>>,
                %E: tile<ptr<ELEMENT>>, %C: tile<ptr<f32>>, %F: tile<ptr<f32>>) {
    MAPS
    %t0 = make_token : token
    %c0 = constant <i32: 0> : tile<i32>
    %c1 = constant <i32: 1> : tile<i32>
    %steps = constant <i32: STEPS> : tile<i32>
    %z = constant <f32: 0.0> : tile<128x128xf32>
    %x, %y, %bz = get_tile_block_id : tile<i32>
    %s, %t = for %k in (%c0 to %steps, step %c1) : tile<i32>
        iter_values(%u = %z, %v = %z) -> (tile<128x128xf32>, tile<128x128xf32>) {
      BODY
      continue %p, %q : tile<128x128xf32>, tile<128x128xf32>
    }
    %m = mulf %s, %t : tile<128x128xf32>
    %w0 = store_view_tko weak %s, %pC[%x, %y] token = %t0
        : tile<128x128xf32>, VIEWC, tile<i32> -> token
    %w1 = store_view_tko weak %m, %pF[%x, %y] token = %t0
        : tile<128x128xf32>, VIEWC, tile<i32> -> token
    return
  }
}
"""
BYTES = {"f16": 2, "f32": 4, "f8E4M3FN": 1}
FORMS: dict[str, tuple[str, ...]] = {
    "left": ("A", "B", "dot %p A B %u", "E", "dot %q A E %v"),
    "left, loaded first": ("A", "B", "E", "dot %p A B %u", "dot %q A E %v"),
    "right": ("A", "B", "D", "dot %p A B %u", "dot %q D B %v"),
    "three": ("A", "B", "D", "E", "dot %p A B %u", "dot %h D B %v", "dot %q D E %h"),
    "right is left": ("A", "D", "turn %At A", "dot %p A %At %u", "dot %q D %At %v"),
    "one at a time": (
        "A",
        "B",
        "dot %g A B %z",
        "%p = maxf %g, %u : tile<128x128xf32>",
        "E",
        "dot %h A E %z",
        "%q = maxf %h, %p : tile<128x128xf32>",
    ),
    "one goes on": (
        "A",
        "B",
        "E",
        "dot %g A B %z",
        "dot %q A E %v",
        "%p = maxf %g, %u : tile<128x128xf32>",
    ),
}
"""Loads, products and what is between them, by what the products share."""
APART: dict[str, tuple[str, ...]] = {
    "both go on": ("A", "B", "dot %p A B %u", "D", "E", "dot %q D E %v"),
    "the first goes on": (
        "A",
        "B",
        "dot %p A B %u",
        "D",
        "E",
        "dot %h D E %z",
        "%q = maxf %h, %v : tile<128x128xf32>",
    ),
    "the second goes on": (
        "A",
        "B",
        "dot %g A B %z",
        "%p = maxf %g, %u : tile<128x128xf32>",
        "D",
        "E",
        "dot %q D E %v",
    ),
}
"""Products that share nothing."""


def shared_operands(form: str, element: str = "f16", step: int = 64, transposed: str = "") -> str:
    """The kernel of a form; operands in `transposed` are contiguous along their other dim."""
    parts = (FORMS | APART)[form]
    body = "\n      ".join(_line(part, element, step) for part in parts)
    maps = "\n    ".join(_view(name, element, step, name in transposed) for name in "ABDECF")
    text = _KERNEL.replace("BODY", body).replace("MAPS", maps)
    for name in ("A", "B", "C"):
        text = text.replace(f"VIEW{name}", _type(name, element, step, name in transposed))
    return text.replace("ELEMENT", element).replace("STEPS", str(-(-DEPTH // step)))


def _tile(name: str, step: int) -> tuple[int, int]:
    return {"A": (128, step), "D": (128, step), "B": (step, 128), "E": (step, 128)}.get(
        name, (128, 128)
    )


def _tensor(
    name: str, element: str, is_transposed: bool
) -> tuple[Sequence[int], Sequence[int], str]:
    """Shape and strides of an array, and its type."""
    rows, columns = {"A": (ROWS, DEPTH), "D": (ROWS, DEPTH)}.get(name, (DEPTH, COLUMNS))
    if name in "CF":
        rows, columns, element = ROWS, COLUMNS, "f32"
    strides = (1, rows) if is_transposed else (columns, 1)
    listed = ",".join(map(str, strides))
    return (rows, columns), strides, f"tensor_view<{rows}x{columns}x{element}, strides=[{listed}]>"


def _type(name: str, element: str, step: int, is_transposed: bool) -> str:
    tensor = _tensor(name, element, is_transposed)[2]
    rows, columns = _tile(name, step)
    return f"partition_view<tile=({rows}x{columns}), padding_value = zero, {tensor}>"


def _view(name: str, element: str, step: int, is_transposed: bool) -> str:
    """`%pNAME`, tiles of an array that is known to be aligned."""
    shape, strides, tensor = _tensor(name, element, is_transposed)
    pointee = "f32" if name in "CF" else element
    return (
        f"%{name}1 = assume div_by<16>, %{name} : tile<ptr<{pointee}>>\n"
        f"    %t{name} = make_tensor_view %{name}1, shape = [{shape[0]}, {shape[1]}], "
        f"strides = [{strides[0]}, {strides[1]}] : {tensor}\n"
        f"    %p{name} = make_partition_view %t{name} : {_type(name, element, step, is_transposed)}"
    )


def _line(part: str, element: str, step: int) -> str:
    """An operation of the loop: a load, a product, or as it stands."""
    kind = "tf32" if element == "f32" else element
    match part.split():
        case [name]:
            rows, columns = _tile(name, step)
            index = "%x, %k" if name in "AD" else "%k, %y"
            loaded = f"tile<{rows}x{columns}x{element}>"
            text = (
                (
                    f"%{name}v, %{name}k = load_view_tko weak %p{name}[{index}] token = %t0 "
                    f": VIEW{name}, tile<i32> -> {loaded}, token"
                )
                .replace("VIEWD", "VIEWA")
                .replace("VIEWE", "VIEWB")
            )
            if kind != element:
                wanted = f"tile<{rows}x{columns}x{kind}>"
                return f"{text}\n      %{name}o = ftof %{name}v : {loaded} -> {wanted}"
            return text.replace(f"%{name}v", f"%{name}o")
        case ["turn", result, name]:
            rows, columns = _tile(name, step)
            types = f"tile<{rows}x{columns}x{kind}> -> tile<{columns}x{rows}x{kind}>"
            return f"{result} = permute %{name}o [1, 0] : {types}"
        case ["dot", result, left, right, acc]:
            right = right if right.startswith("%") else f"%{right}o"
            return (
                f"{result} = mmaf %{left}o, {right}, {acc} : tile<128x{step}x{kind}>, "
                f"tile<{step}x128x{kind}>, tile<128x128xf32>"
            )
        case _:
            return part
