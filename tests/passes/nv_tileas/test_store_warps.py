"""The store warp: which kernels have one, its buffers, and what the interpreter finds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import IntAttr, ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from tests.kernels.gemm import aligned, gemm, persistent, with_result
from tests.kernels.product_text import ProductKernel
from tests.kernels.random_products import aligned_result, dense_case
from tests.kernels.stage_comparison import passes
from tests.kernels.tma_store_programs import AT_ONCE, built, planned_stores
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileas import pipeline as pl
from tileiras.dialects.nv_tileas import tma_stores as ts
from tileiras.driver import compile_module, with_environment
from tileiras.interpreter import InterpreterError, run_entry
from tileiras.interpreter.memory import FIRST_ADDRESS
from tileiras.interpreter.races import Kind, RaceDetector
from tileiras.ir_text import parse_text
from tileiras.options import PREFER_TMA, CompileOptions
from tileiras.remarks import RemarkCollector, RemarkFilter, RemarkKind

SMALL = ProductKernel("f16", (64, 64, 64), form="persistent", result="f16")


def told(source: bytes) -> str:
    """What remarks say about the warp roles of a kernel."""
    remarks = RemarkCollector(RemarkFilter({RemarkKind.PASSED: "all"}))
    options = with_environment(
        CompileOptions(gpu_name="sm_90", emit="nv_tileas", print_generic=True)
    )
    found = compile_module(source, options, remarks=remarks).remarks.remarks
    (message,) = [one.message for one in found if one.name == "Specialized"]
    return message


@pytest.mark.parametrize(
    ("source", "buffers"),
    [
        (persistent(128, 256, 64), "1 stage of 32768 bytes"),
        (persistent(64, 64, 64), "1 stage of 8192 bytes"),
        # Little room is left: pieces of a tile one after another.
        (with_result(persistent(128, 256, 64), "f32"), "4 stages of 8192 bytes"),
    ],
)
def test_kernels_of_many_tiles_have_a_store_warp(source: bytes, buffers: str):
    message = told(source)
    assert message.startswith("1 producer warp, 1 store warp, ")
    assert message.endswith(f"; for stores {buffers} a warpgroup")


@pytest.mark.parametrize(("rows", "warps"), [(128, (8, 4)), (64, (4, 2))])
def test_it_is_one_of_the_warps_that_would_idle_or_one_more(rows: int, warps: tuple[int, int]):
    text = built(persistent(rows, 128, 64), "nv_tileas")
    found = re.search(
        r"consumer_warps = #builtin.int<(\d+)>, producer_warps = #builtin.int<(\d+)>", text
    )
    assert found is not None and tuple(map(int, found.groups())) == warps


OF_THE_PRODUCT = """%sums = reduce %acc dim=1 identities=[0.0 : f32]
      : tile<128x128xf32> -> tile<128xf32> (%p: tile<f32>, %q: tile<f32>) {
      %r = addf %p, %q : tile<f32>
      yield %r : tile<f32>
    }
    %sum = reduce %sums dim=0 identities=[0.0 : f32]
      : tile<128xf32> -> tile<f32> (%p: tile<f32>, %q: tile<f32>) {
      %r = addf %p, %q : tile<f32>
      yield %r : tile<f32>
    }
    %none = constant <f32: 0.0> : tile<f32>
    %kept = cmpf greater_than ordered %sum, %none : tile<f32> -> tile<i1>
    %s = if %kept -> (token) {
      %s0 = STORE
      yield %s0 : token
    } else {
      yield %to : token
    }
    """


def stored_if_positive() -> bytes:
    """A persistent product whose tiles are stored if their sums are greater than 0."""
    text = persistent(128, 128, 64).decode()
    store = re.search(r"%s = (store_view_tko [^\n]*\n[^\n]*)", text)
    assert store is not None
    text = text.replace(store[0], OF_THE_PRODUCT.replace("STORE", store[1]))
    return text.replace("token = %tl", "token = %to").encode()


@pytest.mark.parametrize(
    ("source", "knobs"),
    [
        (aligned(gemm(64, 128, 64)), {PREFER_TMA: "1"}),
        (persistent(128, 128, 64), AT_ONCE),
        (stored_if_positive(), {}),
    ],
    ids=["one tile a block", "at once", "a condition of the consumers"],
)
def test_other_consumers_store_themselves(source: bytes, knobs: dict[str, str]):
    assert all(planned_stores(source, **knobs))
    text = built(source, "nv_tileas", **knobs)
    assert (
        "nv_tileas.async.tiled_tma_store" in text
        and "nv_tileas.async.pipeline.stage_for_tma_store" not in text
    )


def placed(source: str) -> ModuleOp:
    """The kernel with its warp roles."""
    module = parse_text(source, "kernel.mlir")
    for _ in passes(module, (), "sm_90"):
        pass
    return module


def only(module: ModuleOp, kind: type[Operation]) -> list[Operation]:
    """The operations of a class."""
    found = [op for op in module.walk() if isinstance(op, kind)]
    assert found
    return found


def run(change: Callable[[ModuleOp], None]) -> None:
    """Interprets the placed kernel after a change."""
    module = placed(aligned_result(SMALL))
    change(module)
    case = dense_case(SMALL, (130, 130, 64), 2)
    arguments = case.arguments()
    run_entry(module, "product", arguments, case.grid)
    assert not case.difference(arguments[2])


def test_a_store_warp_that_does_all_passes():
    run(lambda module: None)


@pytest.mark.parametrize("blocks", [1, 3, 4])
def test_roles_of_clusters_store_what_their_own_tile_block_has(blocks: int):
    """Both keep in step: one that has no tile left does its partner's for nothing."""
    kernel = replace(SMALL, tile=(128, 256, 64))
    module = placed(aligned_result(kernel))
    [func] = [op for op in only(module, aa.FuncOp) if isinstance(op, aa.FuncOp)]
    assert func.clustered is not None and only(module, ts.StoreStageOp)
    case = dense_case(kernel, (300, 270, 64), blocks)
    arguments = case.arguments()
    run_entry(module, "product", arguments, case.grid)
    assert not case.difference(arguments[2])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (ts.StageForTmaStoreOp, "never staged"),
        (ts.StoreStageOp, "never stored"),
        (ts.StoreTailOp, "before its stores are complete"),
    ],
)
def test_what_a_store_warp_lacks_is_found(kind: type[Operation], message: str):
    def change(module: ModuleOp) -> None:
        first = only(module, kind)[0]
        first.detach()
        first.erase()

    with pytest.raises(InterpreterError, match=message):
        run(change)


def test_stores_of_a_store_warp_race_with_whatever_the_block_did_to_an_element():
    op, place = pl.FreePipelinesOp.create(), np.array([FIRST_ADDRESS + 8])
    races = RaceDetector()
    races.access(op, place, 4, np.zeros(1, np.int32), Kind(is_write=False))
    races.barrier()
    races.background(op, place + 4, 4)
    with pytest.raises(InterpreterError, match="race"):
        races.background(op, place, 4)
    races.end_block()
    races.background(op, place, 4)


def test_the_text_of_the_roles_is_read_back():
    text = built(persistent(128, 128, 64), "nv_tileas")
    module = parse_text(text, "kernel.mlir")
    [switch] = only(module, pl.AgentSwitchOp)
    assert isinstance(switch, pl.AgentSwitchOp) and switch.store is not None
    again = compile_module(text.encode(), with_environment(CompileOptions(gpu_name="sm_90")))
    assert again.output


def test_the_verifier_wants_a_warp_that_stores_and_room():
    module = placed(persistent(128, 128, 64).decode())
    [switch] = only(module, pl.AgentSwitchOp)
    [maker] = only(module, ts.CreateStorePipelineOp)
    for op, name, value in ((switch, "producer_warps", 1), (maker, "stages", 0)):
        before = op.properties[name]
        op.properties[name] = IntAttr(value)
        with pytest.raises(VerifyException):
            op.verify()
        op.properties[name] = before
    module.verify()
