"""One comparison: a kernel, its arrays, and how it is launched."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"
REGISTERS = """.reg .pred %q<32>;
.reg .b16 %h<64>;
.reg .b32 %r<320>;
.reg .b64 %d<64>;
.reg .b64 %p<8>;
.reg .b32 %i;
.reg .b64 %w;
"""


@dataclass
class Case:
    """A kernel `name` whose first array is the result; the others are read only.

    A fatal one is ended by a GPU, and refused by the machine.
    """

    name: str
    entry: str
    arrays: list[np.ndarray]
    grid: int = 1
    block: int = 32
    is_fatal: bool = False

    @property
    def text(self) -> str:
        """A whole PTX file."""
        return HEADER + self.entry


def make_case(
    name: str, body: str, arrays: list[np.ndarray], grid: int = 1, block: int = 32, shared: str = ""
) -> Case:
    """A case of a body: `%i` is the thread of the grid, `%w` the same in 64 bits, `%p0` and so on
    the arrays."""
    parameters = ", ".join(f".param .u64 {name}_{i}" for i in range(len(arrays)))
    loads = "\n".join(f"ld.param.u64 %p{i}, [{name}_{i}];" for i in range(len(arrays)))
    entry = f"""
.visible .entry {name}({parameters})
.reqntid {block}
{{
{REGISTERS}{shared}
{loads}
mov.u32 %i, %tid.x;
mov.u32 %r319, %ctaid.x;
mad.lo.u32 %i, %r319, {block}, %i;
cvt.u64.u32 %w, %i;
{body}
ret;
}}
"""
    return Case(name, entry, arrays, grid, block)


def load(register: str, array: int, size: int, item: int = 0, per_thread: int = 1) -> str:
    """Loads a thread's item of an array of `per_thread` items each into a register."""
    at = f"mad.lo.u64 %d63, %w, {size * per_thread}, %p{array};"
    return f"{at} ld.global.b{8 * size} {register}, [%d63+{size * item}];\n"


def store(register: str, size: int, item: int = 0, per_thread: int = 1) -> str:
    """Stores a register as a thread's item of the result."""
    at = f"mad.lo.u64 %d63, %w, {size * per_thread}, %p0;"
    return f"{at} st.global.b{8 * size} [%d63+{size * item}], {register};\n"
