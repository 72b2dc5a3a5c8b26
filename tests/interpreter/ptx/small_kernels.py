"""Makes small PTX kernels for tests: a body between the declarations and the store of a result."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interpreter.ptx import run_ptx

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def kernel(body: str, pointers: int, extra: str = "") -> str:
    """A kernel `k` with pointers `%p0`, `%p1`, ... and `%i`, the thread, in 32 and 64 bits."""
    parameters = ", ".join(f".param .u64 p{i}" for i in range(pointers))
    loads = "\n".join(f"ld.param.u64 %p{i}, [p{i}];" for i in range(pointers))
    return f"""{HEADER}{extra}
.visible .entry k({parameters}) {{
.reg .pred %q<16>;
.reg .b16 %h<32>;
.reg .b32 %r<128>;
.reg .f32 %f<64>;
.reg .b64 %d<32>;
.reg .b64 %p<8>;
.reg .b32 %i;
.reg .b64 %w;
{loads}
mov.u32 %i, %tid.x;
cvt.u64.u32 %w, %i;
{body}
ret;
}}
"""


def run(text: str, arrays: list[Any], threads: int = 32, **options: Any) -> Any:
    """Runs a kernel on one CTA of `threads`."""
    return run_ptx(text, arrays, options.pop("grid", (1, 1, 1)), (threads, 1, 1), **options)


def elementwise(
    instruction: str, inputs: list[np.ndarray], result: Any, widths: str = "rrr"
) -> np.ndarray:
    """The results of one instruction `op d, a, b` on arrays, an element per thread.

    `widths` names the register of the result and of each input: `h` 16, `r` 32, `d` 64 bits.
    """
    bits = {"h": 16, "r": 32, "d": 64}
    lines = []
    for number, (array, width) in enumerate(zip(inputs, widths[1:]), 1):
        size = array.dtype.itemsize
        lines.append(f"mad.lo.u64 %d30, %w, {size}, %p{number};")
        lines.append(f"ld.global.b{8 * size} %{width}{number}, [%d30];")
        assert bits[width] >= 8 * size
    names = ", ".join(f"%{width}{n}" for n, width in enumerate(widths[1:], 1))
    size = np.dtype(result).itemsize
    lines.append(f"{instruction} %{widths[0]}10, {names};")
    lines.append(f"mad.lo.u64 %d30, %w, {size}, %p0;")
    lines.append(f"st.global.b{8 * size} [%d30], %{widths[0]}10;")
    threads = len(inputs[0])
    body = "mov.u32 %r99, %ctaid.x; mad.lo.u32 %i, %r99, 256, %i; cvt.u64.u32 %w, %i;\n"
    body += f"setp.ge.u32 %q0, %i, {threads}; @%q0 ret;\n" + "\n".join(lines)
    out = np.zeros(threads, result)
    text = kernel(body, len(inputs) + 1)
    run(text, [out, *inputs], 256, grid=(-(-threads // 256), 1, 1))
    return out
