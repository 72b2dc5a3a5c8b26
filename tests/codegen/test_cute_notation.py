"""`--emit=cute` of tile kernels: what it says of layouts, copies and products is so."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import f16, f32
from xdsl.parser import Parser

from tests.kernels.softmax_attention import softmax_attention
from tileiras.cli import run
from tileiras.codegen.atoms.shared_operands import SharedOperand
from tileiras.codegen.cute_notation.layouts import staging_tensor, tmem_tensor
from tileiras.codegen.cute_notation.listing import RULES
from tileiras.dialects.assembly.aliases import collect_aliases
from tileiras.dialects.cute.algebra.expressions import evaluate
from tileiras.dialects.cute.algebra.layout import Layout
from tileiras.dialects.cute.algebra.linear import distributed_linear, shared_linear
from tileiras.dialects.cute.tiled import OPERATIONS, make_tiled_mma
from tileiras.dialects.cute.values import MmaAtom
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.mma import wgmma_accumulator
from tileiras.dialects.nv_tileas import NvTileAS
from tileiras.dialects.nv_tileas.cute_layouts import smem_layout, thread_value_text
from tileiras.dialects.nv_tileas.encoding import LayoutEncodingAttr
from tileiras.dialects.nv_tileas.memdesc import (
    MemDescType,
    NvmmaSharedAttr,
    TensorMemoryAttr,
)
from tileiras.driver import compile_module, read_source
from tileiras.errors import CompileError, TargetError
from tileiras.interpreter.cute_state import tensor_of
from tileiras.ir_text import register_dialects
from tileiras.options import CompileOptions

EXAMPLES = Path(__file__).parents[2] / "examples"
KERNELS = {
    "vector_add": (EXAMPLES / "vector_add.mlir").read_bytes(),
    "gemm": (EXAMPLES / "matmul.mlir").read_bytes(),
    "attention": softmax_attention("causal", 128, 128, 128),
}
SHOWN = [(name, target) for name in KERNELS for target in ("sm_80", "sm_90", "sm_100")]
ALIAS = re.compile(r"^  (#\w+) = (\S+)  // \((.*)\)$", re.MULTILINE)


def emitted(name: str, target: str, stage: str = "cute") -> str:
    """A kernel's text."""
    options = CompileOptions(gpu_name=target, emit=stage)
    return compile_module(KERNELS[name], options).output.decode()


def layouts_of(text: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name -> the layout's text and its tile."""
    found = ALIAS.findall(text)
    return {name: (layout, tuple(map(int, tile.split(",")))) for name, layout, tile in found}


def types_of(text: str) -> list[str]:
    """All types of CuTe's dialects, with layouts in place of their names."""
    for name, (layout, _) in layouts_of(text).items():
        text = re.sub(rf"{name}\b", layout, text)
    found: list[str] = []
    for start in re.finditer(r"!cute(?:_nvgpu)?\.\w+<", text):
        depth, at = 1, start.end()
        while depth:
            depth += {"<": 1, ">": -1}.get(text[at], 0)
            at += 1
        found.append(text[start.start() : at])
    return found


@pytest.mark.parametrize(("name", "target"), SHOWN)
class TestEveryKernel:
    """Three kernels, for Ampere, Hopper and Blackwell."""

    def test_types_are_those_of_the_dialect(self, name: str, target: str) -> None:
        """Each is read, and written again as it stands."""
        types = types_of(emitted(name, target))
        assert types
        context = Context(allow_unregistered=True)
        register_dialects(context)
        for text in types:
            assert str(Parser(context, text).parse_type()) == text

    def test_layouts_of_registers_are_those_of_nv_tileas(self, name: str, target: str) -> None:
        """Turned back, each is the layout that the text of nv_tileas has under the same name."""
        shown = layouts_of(emitted(name, target))
        module = read_source(emitted(name, target, "nv_tileas").encode())
        aliases = collect_aliases(list(module.body.block.ops))
        defined = {
            alias: attribute.data
            for attribute, alias in aliases.items()
            if isinstance(attribute, LayoutEncodingAttr)
        }
        assert shown
        for alias, (layout, tile) in shown.items():
            value = evaluate(layout)
            assert isinstance(value, Layout)
            assert distributed_linear(value, tile) == defined[alias]

    def test_nothing_else_is_shown(self, name: str, target: str) -> None:
        """No arithmetic, no tokens, no program ids."""
        text = emitted(name, target)
        assert "nv_tile" not in text and "token" not in text and "get_program_id" not in text

    def test_the_same_text_comes_again(self, name: str, target: str) -> None:
        """Of the same kernel."""
        assert emitted(name, target) == emitted(name, target)


class TestProducts:
    """Against CuTe's own layouts of the instructions."""

    def test_vectors_of_a_copy(self) -> None:
        """Four elements along the fast dim, in the order of the threads."""
        assert "!cute.tiled_copy<universal, 32, #blocked0, (1024)>" in emitted(
            "vector_add", "sm_90"
        )
        assert "#blocked0 = (128,8):(1,128)  // (1024)" in emitted("vector_add", "sm_90")

    @pytest.mark.parametrize("columns", [8, 64, 128, 256])
    @pytest.mark.parametrize("warpgroups", [1, 2])
    def test_sums_of_a_warpgroup_are_those_of_the_tiled_mma(
        self, columns: int, warpgroups: int
    ) -> None:
        """What `partition_c` gives each thread of `((4,8,4),(2,2,N/8))`."""
        shape = (64 * warpgroups, columns)
        atom = MmaAtom("warpgroup", (64, columns, 16), ("f16", "f16", "f32"))
        mma = make_tiled_mma(atom, Layout((warpgroups, 1, 1), (1, 0, 0)))
        sums = evaluate(thread_value_text(wgmma_accumulator(shape, warpgroups)))
        assert isinstance(sums, Layout)
        threads, table = 128 * warpgroups, sums.indices
        tensor = tensor_of(np.zeros(sums.static_size), Layout.compact(shape), "f32")
        partition = next(op for op in OPERATIONS if op.name == "cute.partition_c")
        for thread in (0, 1, 5, 37, 127, threads - 1):
            values = [table[thread + threads * v] for v in range(sums[1].static_size)]
            part = partition.FUNCTION(mma, tensor, thread)
            assert values == [part.engine.offset + index for index in part.layout.indices]

    def test_a_transposed_product_says_so(self) -> None:
        """A is what was right, (N,K); D lies as the transposed tile."""
        text = emitted("gemm", "sm_90")
        call = "cute_nvgpu.warpgroup_mma(!cute.tiled_mma<warpgroup, (64,64,16), f16, f16, f32, "
        _, found, rest = text.partition(call)
        assert found
        _, a, b, d = rest.splitlines()[:4]
        assert a.endswith("!cute.tensor<f16, smem, align<1024>, S<3,3,3> o 0 o (64,32):(1,64)>")
        assert b.endswith("!cute.tensor<f16, smem, align<1024>, S<2,3,3> o 0 o (64,32):(32,1)>")
        assert d.endswith("f32, rmem, #mma0  // of the transposed tile")
        assert "of the transposed tile" not in emitted("attention", "sm_90")

    def test_products_of_each_generation(self) -> None:
        """One kernel, three instructions; none of another generation."""
        kinds = {
            "sm_80": "cute.gemm(!cute.tiled_mma<warp, (16,8,16), f16, f16, f32",
            "sm_90": "cute_nvgpu.warpgroup_mma(!cute.tiled_mma<warpgroup, (64,64,16), f16, f16,",
            "sm_100": "cute_nvgpu.tcgen05_mma(!cute.tiled_mma<tcgen05, (64,64,16), f16, f16,",
        }
        for target in kinds:
            text = emitted("gemm", target)
            assert [each for each, call in kinds.items() if call in text] == [target]

    def test_tiles_have_a_mode_for_stages(self) -> None:
        """(M,K,stages); a pipeline of one stage has none."""
        text = emitted("attention", "sm_90")
        assert "S<3,3,3> o 0 o ((64,2),128,2):((1,8192),64,16384)>" in text
        assert "%pipeline_2.stage + 0 : !cute.tensor<f16, smem, align<1024>, " in text
        assert "S<3,3,3> o 0 o (128,(64,2)):(64,(1,8192))>\n" in text


class TestLayouts:
    """Of memory."""

    @pytest.mark.parametrize("swizzle", [32, 64, 128])
    @pytest.mark.parametrize("major", [0, 1])
    def test_a_tile_lies_as_its_operand(self, swizzle: int, major: int) -> None:
        """As TMA writes it and wgmma reads it, in one panel and in several."""
        for extent, k in ((64, 64), (128, 128)):
            type = MemDescType((extent, k), f16, NvmmaSharedAttr(swizzle, major))
            operand = SharedOperand("k" if major == 1 else "mn", extent, k, 16, swizzle)
            found = smem_layout(type)
            assert found is not None
            assert shared_linear(found) == operand.layout()

    def test_lanes_and_columns_of_tensor_memory(self) -> None:
        """A lane is 65536; 64 rows are in the lower half of each warp's lanes."""
        whole = MemDescType((128, 64), f32, TensorMemoryAttr(128))
        assert tmem_tensor(whole, 2, 64) == "tmem f32, (128,64,2):(65536,1,64)"
        assert tmem_tensor(whole) == "tmem f32, (128,64):(65536,1)"
        blocks = MemDescType((256, 64), f32, TensorMemoryAttr(128))
        assert tmem_tensor(blocks) == "tmem f32, ((128,2),64):((65536,64),1)"
        half = MemDescType((64, 32), f32, TensorMemoryAttr(64))
        assert tmem_tensor(half) == "tmem f32, ((16,4),32):((65536,2097152),1)"

    def test_bits_are_shown_where_no_strides_say_it(self) -> None:
        """Lanes that are added by ^."""
        text = "{register: [(1)], lane: [(2), (4), (8), (16), (3)], warp: []} -> 32"
        assert thread_value_text(LinearLayout.parse(text)) == text
        swizzled = "{offset: [(1,0), (2,0), (3,1), (0,2)]} -> 4x4"
        assert staging_tensor(f16, LinearLayout.parse(swizzled)) == f"f16, smem, {swizzled}"
        plain = LinearLayout.parse("{offset: [(0,1), (0,2), (1,0), (2,0)]} -> 4x4")
        wanted = "!cute.tensor<f16, smem, align<16>, (4,4):(4,1)>"
        assert staging_tensor(f16, plain) == wanted


def test_every_operation_of_nv_tileas_is_shown() -> None:
    """But those that are regions, which the listing walks through."""
    walked = {
        "nv_tileas.async.pipeline.agent_switch",
        "nv_tileas.product_warp",
        "nv_tileas.transpose_warps",
    }
    assert {op.name for op in NvTileAS.operations} - walked <= set(RULES)


class TestOtherInput:
    """What `--emit=cute` needs."""

    def test_text_of_nv_tileas_is_shown_too(self) -> None:
        """The same as from the beginning."""
        text = emitted("gemm", "sm_90", "nv_tileas").encode()
        options = CompileOptions(gpu_name="sm_90", emit="cute")
        assert compile_module(text, options).output.decode() == emitted("gemm", "sm_90")

    def test_later_stages_have_no_layouts(self) -> None:
        """They cannot be taken back."""
        text = emitted("vector_add", "sm_90", "llvm-dialect").encode()
        with pytest.raises(CompileError, match="stage llvm-dialect cannot be taken back to cute"):
            compile_module(text, CompileOptions(gpu_name="sm_90", emit="cute"))

    def test_a_kernel_without_tiles(self) -> None:
        """There is nothing to show, and that is no mistake."""
        text = b"cuda_tile.module @m { entry @k() { return } }"
        options = CompileOptions(gpu_name="sm_90", emit="cute")
        assert compile_module(text, options).output.decode() == "kernel @k warps 1 {\n}\n"

    def test_a_target_is_needed(self) -> None:
        """Layouts are a target's."""
        with pytest.raises(TargetError, match="no GPU architecture given"):
            compile_module(KERNELS["gemm"], CompileOptions(gpu_name="", emit="cute"))

    def test_passes_that_end_before(self) -> None:
        """There are no layouts yet."""
        options = CompileOptions(gpu_name="sm_90", emit="cute")
        with pytest.raises(CompileError, match="a module of stage cuda_tile has no layouts"):
            compile_module(KERNELS["gemm"], options, pass_names=("canonicalize",))

    def test_other_functions_are_left_out(self) -> None:
        """By `--print-funcs`."""
        options = CompileOptions(gpu_name="sm_90", emit="cute", print_funcs=("other",))
        assert compile_module(KERNELS["gemm"], options).output.decode().strip() == ""

    def test_the_command_writes_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        """To stdout."""
        source = str(EXAMPLES / "matmul.mlir")
        assert run([source, "--emit=cute", "--gpu-name=sm_90", "-o", "-"]) == 0
        assert capsys.readouterr().out == emitted("gemm", "sm_90")
