"""Products with operands in common stand together; their kernels share SMs."""

from __future__ import annotations

import re

from tileiras.driver import compile_module, with_environment
from tileiras.options import CompileOptions

TILE, VIEW = "tile<RxRxT>", "tensor_view<RxRxT, strides=[R,1]>"
LOAD = """
    %vN = make_tensor_view %pN, shape = [R, R], strides = [R, 1] : VIEW
    %wN = make_partition_view %vN : partition_view<tile=(RxR), VIEW>
    %tN, %kN = load_view_tko weak %wN[%i, %i] token = %t
        : partition_view<tile=(RxR), VIEW>, tile<i32> -> TILE, token"""


def kernel(body: str, result: str, rows: int = 32, element: str = "f32") -> bytes:
    """Loads four tiles %t0 to %t3, stores a result over the first."""
    text = "cuda_tile.module @m {\n  entry @k("
    text += ", ".join(f"%p{n}: tile<ptr<T>>" for n in range(4)) + ") {"
    text += "\n    %t = make_token : token\n    %i = constant <i32: 0> : tile<i32>"
    text += f"\n    %zero = constant <{element}: 0.0> : TILE"
    text += "".join(re.sub("(?<=%[pvwtk])N", str(n), LOAD) for n in range(4))
    text += body
    text += f"""
    %done = store_view_tko weak {result}, %w0[%i, %i] token = %t
        : TILE, partition_view<tile=(RxR), VIEW>, tile<i32> -> token
    return
  }}
}}"""
    for name, value in (("TILE", TILE), ("VIEW", VIEW), ("RxRxT", f"{rows}x{rows}x{element}")):
        text = text.replace(name, value)
    text = text.replace("RxR", f"{rows}x{rows}").replace("[R, R]", f"[{rows}, {rows}]")
    text = text.replace("[R,1]", f"[{rows},1]").replace("[R, 1]", f"[{rows}, 1]")
    return text.replace("ptr<T>", f"ptr<{element}>").encode()


def product(name: str, lhs: str, rhs: str, acc: str = "%zero") -> str:
    """A product."""
    return f"\n    {name} = mmaf {lhs}, {rhs}, {acc} : TILE, TILE, TILE"


COMPLEX = (
    product("%a", "%t0", "%t2")
    + product("%b", "%t1", "%t3")
    + "\n    %re = subf %a, %b : TILE"
    + product("%c", "%t1", "%t2")
    + product("%d", "%t0", "%t3")
    + "\n    %im = addf %c, %d : TILE"
    + "\n    %all = addf %re, %im : TILE"
)


def placed(source: bytes) -> list[str]:
    """The operations of nv_tileas from the first product to the last; f32 by multiply-adds."""
    options = with_environment(
        CompileOptions(gpu_name="sm_89", emit="nv_tileas", print_generic=True)
    )
    text = compile_module(source, options).output.decode()
    names = re.findall(r'"nv_tile\w+\.(\w+)"', text)
    products = [at for at, name in enumerate(names) if name.endswith("_dot")]
    return names[products[0] : products[-1] + 1]


def test_products_of_common_operands_stand_together():
    assert placed(kernel(COMPLEX, "%all")) == ["fma_dot"] * 4


def test_products_without_common_operands_stay_apart():
    body = product("%a", "%t0", "%t1") + "\n    %e = exp %t2 : TILE" + product("%b", "%e", "%t3")
    assert "exp" in placed(kernel(body + "\n    %all = mulf %a, %b : TILE", "%all"))


def test_product_of_what_another_makes_stays_behind_it():
    body = product("%a", "%t0", "%t1") + "\n    %e = exp %a : TILE" + product("%b", "%t0", "%e")
    assert placed(kernel(body, "%b")) == ["fma_dot", "exp", "fma_dot"]


def test_products_by_mma_sync_stand_together_if_they_stage_a_common_operand():
    body = product("%a", "%t0", "%t2") + "\n    %e = exp %a : TILE" + product("%b", "%t1", "%t2")
    source = kernel(body + "\n    %all = addf %e, %b : TILE", "%all", element="f16")
    assert placed(source) == ["mma_dot", "mma_dot"]
