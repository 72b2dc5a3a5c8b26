"""Matrix products as text: every operand placement and way of sharing the work, for any shape."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    IntegerType,
)
from xdsl.ir import Attribute

from tests.kernels.lock_kernels import LOOP

ELEMENTS: dict[str, Attribute] = {
    "f16": Float16Type(),
    "bf16": BFloat16Type(),
    "f32": Float32Type(),
    "f8E4M3FN": Float8E4M3FNType(),
    "f8E5M2": Float8E5M2Type(),
    "i8": IntegerType(8),
    "i32": IntegerType(32),
}
"""Types in memory; f32 operands are multiplied as tf32."""
BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f8E4M3FN": 1, "f8E5M2": 1, "i8": 1}

Form = Literal["plain", "numbered", "persistent", "split", "batched"]
Order = Literal["rows", "columns", "diagonal"]


@dataclass(frozen=True)
class ProductKernel:
    """C = A @ B for one element type and tile.

    `a` and `b` say how an operand lies: by "row" or "column"; "transposed" by column and seen
    through a view with exchanged dims; "permuted" by column and exchanged as a tile; "any": no unit
    stride.
    """

    element: str
    tile: tuple[int, int, int]
    a: str = "row"
    b: str = "row"
    form: Form = "plain"
    result: str = ""
    is_aligned: bool = True
    chunk: int = 16
    """Bytes of which the operands' starts and strides are multiples, if they are aligned."""
    cluster: int = 0
    """CTAs of a cluster that the kernel asks for, 0 if it does not say."""
    order: Order = "rows"
    """Of tiles in a list (persistent, numbered): neighbours are in one row, in one column, or in
    neither.
    """
    whole: bool = False
    """Whether extents are multiples of a chunk, so that no access ends within one."""

    def __post_init__(self) -> None:
        """The type of the result follows from the operands unless it is given."""
        if not self.result:
            object.__setattr__(self, "result", self.sum)

    @property
    def name(self) -> str:
        """Unique among the kernels."""
        tile = "x".join(map(str, self.tile))
        kind = "aligned" if self.is_aligned else "anywhere"
        kind += f"_to_{self.chunk}" if self.chunk != 16 else ""
        asked = f"_{self.cluster}ctas" if self.cluster else ""
        order = f"_{self.order}" if self.order != "rows" else ""
        order += "_whole" if self.whole else ""
        placed = f"{self.a}_{self.b}_{self.form}_{self.result}_{kind}"
        return f"{self.element}_{tile}_{placed}{asked}{order}"

    @property
    def sum(self) -> str:
        """The type of the accumulator."""
        return "i32" if self.element == "i8" else "f32"

    @property
    def unit(self) -> int:
        """What starts and strides are multiples of if they are aligned."""
        return self.chunk // BYTES[self.element]

    def text(self) -> str:
        """The module."""
        return _Writer(self).module()


def products_in_turn(*kernels: ProductKernel) -> bytes:
    """A kernel that computes several products, one after another."""
    bodies: list[str] = []
    for number, kernel in enumerate(kernels):
        head, body = kernel.text().split("{\n    ", 1)
        body = body.rsplit("\n    return", 1)[0]
        own = set(re.findall(r"%\w+", body)) - set(re.findall(r"%\w+", head))
        names = re.compile("|".join(rf"{name}\b" for name in sorted(own)))
        bodies.append(names.sub(rf"\g<0>_{number}", body))
    whole = "\n    ".join(bodies)
    head = kernels[0].text().split("{\n    ")[0]
    return f"{head}{{\n    {whole}\n    return\n  }}\n}}\n".encode()


class _Writer:
    """Writes the text of a kernel."""

    def __init__(self, kernel: ProductKernel):
        self.kernel = kernel
        self.lines: list[str] = []

    def module(self) -> str:
        """An entry @product; parameters in the order of `ProductCase.arguments`."""
        kernel = self.kernel
        pointers = [f"%{name}0: tile<ptr<{kernel.element}>>" for name in "AB"]
        pointers += [f"%C0: tile<ptr<{kernel.result}>>", "%locks: tile<ptr<i32>>"]
        numbers = ["M", "N", "K"]
        numbers += [f"{name}{part}" for name in "ABC" for part in ("first", "s0", "s1", "s2")]
        parameters = ", ".join([*pointers, *(f"%{name}: tile<i32>" for name in numbers)])
        self._views()
        self._work()
        body = "\n    ".join(self.lines)
        hints = f" optimization_hints=<sm_90 = {{num_cta_in_cga = {kernel.cluster}}}>"
        asked = hints if kernel.cluster else ""
        return (
            f"cuda_tile.module @m {{\n  entry @product({parameters}){asked} {{\n    {body}\n"
            "    return\n  }\n}\n"
        )

    def _add(self, *lines: str) -> None:
        self.lines += lines

    def _views(self) -> None:
        kernel = self.kernel
        m, n, k = kernel.tile
        for number in range(3):
            self._add(f"%c{number} = constant <i32: {number}> : tile<i32>")
        self._add(
            "%t0 = make_token : token",
            "%x, %y, %z = get_tile_block_id : tile<i32>",
            "%nx, %ny, %nz = get_num_tile_blocks : tile<i32>",
            f"%zero = constant <{kernel.sum}: {'0' if kernel.sum == 'i32' else '0.0'}> "
            f": tile<{m}x{n}x{kernel.sum}>",
        )
        if kernel.whole:
            known = f"assume div_by<{kernel.unit}>"
            self._add(*(f"%{name}k = {known}, %{name} : tile<i32>" for name in "MNK"))
        self._view("A", kernel.element, ("M", "K"), (m, k), kernel.a)
        self._view("B", kernel.element, ("K", "N"), (k, n), kernel.b)
        self._view("C", kernel.result, ("M", "N"), (m, n), "row")
        rank = 3 if kernel.form == "batched" else 2
        self._add(f"%space:{rank} = get_index_space_shape %pA : {self.types['A']} -> tile<i32>")
        self.depth = f"%space#{rank - 2 if kernel.a == 'permuted' else rank - 1}"

    types: dict[str, str] = {}

    def _view(
        self, name: str, element: str, extents: tuple[str, str], tile: tuple[int, int], major: str
    ) -> None:
        """`%pNAME`, with tiles in the order of the product unless the operand is permuted."""
        kernel = self.kernel
        is_aligned = kernel.is_aligned and name != "C"
        pointer = f"ptr<{element}>"
        self._add(
            f"%{name}1 = offset %{name}0, %{name}first "
            f": tile<{pointer}>, tile<i32> -> tile<{pointer}>"
        )
        for value, factor in (
            (f"{name}1", kernel.chunk),
            *((f"{name}s{d}", kernel.unit) for d in range(3)),
        ):
            type = f"tile<{pointer}>" if value == f"{name}1" else "tile<i32>"
            known = f"assume div_by<{factor}>, " if is_aligned else "assume div_by<1>, "
            self._add(f"%{value}k = {known}%{value} : {type}")
        strides = [f"%{name}s{dim}k" for dim in range(3)]
        if major == "row":
            strides[2] = "1"
        elif major != "any":
            strides[1] = "1"
        dims = [1, 2] if major not in ("transposed", "permuted") else [2, 1]
        order = [0, *dims] if kernel.form == "batched" else dims
        known = "k" if kernel.whole else ""
        shape = ["%nz", *(f"%{extent}{known}" for extent in extents)]
        types = ",".join("1" if strides[dim] == "1" else "?" for dim in order)
        dynamic = f"tensor_view<{'x'.join('?' * len(order))}x{element}, strides=[{types}]>"
        listed = ", ".join(shape[dim] for dim in order)
        listed_strides = ", ".join(strides[dim] for dim in order)
        self._add(
            f"%t{name} = make_tensor_view %{name}1k, shape = [{listed}], "
            f"strides = [{listed_strides}] : tile<i32> -> {dynamic}"
        )
        extents_of_tile = list(tile) if major != "permuted" else [tile[1], tile[0]]
        if kernel.form == "batched":
            extents_of_tile = [1, *extents_of_tile]
        size = "x".join(map(str, extents_of_tile))
        transposed = ""
        if major == "transposed":
            transposed = ", dim_map=[0, 2, 1]" if kernel.form == "batched" else ", dim_map=[1, 0]"
        padding = "" if name == "C" else "padding_value = zero, "
        self.types = {
            **self.types,
            name: f"partition_view<tile=({size}), {padding}{dynamic}{transposed}>",
        }
        self._add(f"%p{name} = make_partition_view %t{name} : {self.types[name]}")

    def _work(self) -> None:
        match self.kernel.form:
            case "persistent":
                self._persistent()
            case "numbered":
                self._numbered()
            case "split":
                self._sum("%x", "%y", "%z", "%nz")
                self._locked()
            case _:
                self._sum("%x", "%y", "%c0", "%c1")
                self._store("%x", "%y")

    def _persistent(self) -> None:
        """Each block walks over tiles."""
        self._add(
            f"%tiles:2 = get_index_space_shape %pC : {self.types['C']} -> tile<i32>",
            "%total = muli %tiles#0, %tiles#1 : tile<i32>",
            "for %tile in (%x to %total, step %nx) : tile<i32> {",
            *self._place(),
        )
        self._sum("%row", "%column", "%c0", "%c1")
        self._store("%row", "%column")
        self._add("continue", "}")

    def _numbered(self) -> None:
        """One tile a block, the one of its number in a list of all."""
        self._add(
            f"%tiles:2 = get_index_space_shape %pC : {self.types['C']} -> tile<i32>",
            *self._place("%x"),
        )
        self._sum("%row", "%column", "%c0", "%c1")
        self._store("%row", "%column")

    def _place(self, tile: str = "%tile") -> list[str]:
        """`%row` and `%column` of a tile."""
        if self.kernel.order == "rows":
            return [
                f"%row = divi {tile}, %tiles#1 signed : tile<i32>",
                f"%column = remi {tile}, %tiles#1 signed : tile<i32>",
            ]
        column = "%column" if self.kernel.order == "columns" else "%first_column"
        lines = [
            f"%row = remi {tile}, %tiles#0 signed : tile<i32>",
            f"{column} = divi {tile}, %tiles#0 signed : tile<i32>",
        ]
        if self.kernel.order == "diagonal":
            lines += [
                "%moved_column = addi %first_column, %row : tile<i32>",
                "%column = remi %moved_column, %tiles#1 signed : tile<i32>",
            ]
        return lines

    def _sum(self, row: str, column: str, first: str, step: str) -> None:
        """`%sum`, over every `step`-th tile of the depth from `first`."""
        m, n, k = self.kernel.tile
        total = f"tile<{m}x{n}x{self.kernel.sum}>"
        self._add(
            f"%sum = for %k in ({first} to {self.depth}, step {step}) : tile<i32>",
            f"iter_values(%before = %zero) -> ({total}) {{",
        )
        a = self._load("A", (row, "%k"), (m, k), self.kernel.a)
        b = self._load("B", ("%k", column), (k, n), self.kernel.b)
        operands = f"tile<{m}x{k}x{self._kind}>, tile<{k}x{n}x{self._kind}>, {total}"
        if self.kernel.sum == "i32":
            self._add(f"%after = mmai {a}, {b}, %before signed signed : {operands}")
        else:
            self._add(f"%after = mmaf {a}, {b}, %before : {operands}")
        self._add(f"continue %after : {total}", "}")

    @property
    def _kind(self) -> str:
        """The type that is multiplied."""
        return "tf32" if self.kernel.element == "f32" else self.kernel.element

    def _load(self, name: str, index: tuple[str, str], tile: tuple[int, int], major: str) -> str:
        """Loads a tile of an operand, as the product takes it."""
        kernel, element = self.kernel, self.kernel.element
        rows, columns = tile
        value = f"%{name}v"
        held = [rows, columns] if major != "permuted" else [columns, rows]
        places = list(index) if major != "permuted" else [index[1], index[0]]
        plain = f"tile<{held[0]}x{held[1]}x{element}>"
        loaded = plain
        if kernel.form == "batched":
            loaded = f"tile<1x{held[0]}x{held[1]}x{element}>"
            places = ["%z", *places]
        self._add(
            f"{value}, {value}t = load_view_tko weak %p{name}[{', '.join(places)}] token = %t0 "
            f": {self.types[name]}, tile<i32> -> {loaded}, token"
        )
        if kernel.form == "batched":
            self._add(f"{value}f = reshape {value} : {loaded} -> {plain}")
            value += "f"
        if major == "permuted":
            wanted = f"tile<{rows}x{columns}x{element}>"
            self._add(f"{value}p = permute {value} [1, 0] : {plain} -> {wanted}")
            value += "p"
        if self._kind != element:
            self._add(
                f"{value}x = ftof {value} : tile<{rows}x{columns}x{element}> "
                f"-> tile<{rows}x{columns}x{self._kind}>"
            )
            value += "x"
        return value

    def _store(self, row: str, column: str) -> None:
        """Stores `%sum`."""
        kernel = self.kernel
        m, n, _ = kernel.tile
        value, type, places = "%sum", f"tile<{m}x{n}x{kernel.result}>", [row, column]
        if kernel.result != kernel.sum:
            self._add(f"%narrow = ftof %sum : tile<{m}x{n}x{kernel.sum}> -> {type}")
            value = "%narrow"
        if kernel.form == "batched":
            whole = f"tile<1x{m}x{n}x{kernel.result}>"
            self._add(f"%whole = reshape {value} : {type} -> {whole}")
            value, type, places = "%whole", whole, ["%z", *places]
        self._add(
            f"%stored = store_view_tko weak {value}, %pC[{', '.join(places)}] token = %t0 "
            f": {type}, {self.types['C']}, tile<i32> -> token"
        )

    def _locked(self) -> None:
        """Adds `%sum` to the tile while this block holds its lock."""
        kernel = self.kernel
        m, n, _ = kernel.tile
        type, view = f"tile<{m}x{n}x{kernel.sum}>", self.types["C"]
        add = "addi" if kernel.sum == "i32" else "addf"
        self._add(
            "%rows_before = muli %x, %ny : tile<i32>",
            "%number = addi %rows_before, %y : tile<i32>",
            "%lock = offset %locks, %number : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>",
            LOOP,
            f"%there, %read = load_view_tko weak %pC[%x, %y] token = %held "
            f": {view}, tile<i32> -> {type}, token",
            f"%more = {add} %there, %sum : {type}",
            f"%written = store_view_tko weak %more, %pC[%x, %y] token = %read "
            f": {type}, {view}, tile<i32> -> token",
            "%was, %free = atomic_rmw_tko release device %lock, xchg, %c0 token=%written "
            ": tile<ptr<i32>>, tile<i32> -> tile<i32>, token",
        )
