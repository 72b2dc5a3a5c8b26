"""An example of every operation of `cute_nvgpu`, and the kernel around one operation."""

from __future__ import annotations

from tests.kernels.cute_operations import INT, WARP
from tests.kernels.cute_operations import MMA as WARP_MMA
from tests.kernels.cute_operations import row as cute_row


def row(name: str, operands: list[str], result: str, statics: str = "") -> tuple[str, ...]:
    """As in `cute`, with the dialect's name."""
    return cute_row(f"cute_nvgpu.{name}", operands, result, statics)


ATOM = "!cute.copy_atom<{}, {}>".format
WARPGROUP = "!cute.mma_atom<warpgroup, (64,64,16), f16, f16, f32>"
TCGEN05 = "!cute.mma_atom<tcgen05, (128,64,16), f16, f16, f32>"
PAIR = "!cute.mma_atom<tcgen05_2sm, (256,128,16), f16, f16, f32>"
PAIR_MMA = "!cute.tiled_mma<tcgen05_2sm, (256,128,16), f16, f16, f32, (1,1,1):(0,0,0)>"
GROUPS = "!cute.tiled_mma<warpgroup, (64,64,16), f16, f16, f32, (2,1,1):(1,0,0)>"
TENSOR_MMA = "!cute.tiled_mma<tcgen05, (128,64,16), f16, f16, f32, (1,1,1):(0,0,0)>"
BARRIER = "!cute.ptr<i64, smem, align<8>>"
A = "!cute.tensor<f16, smem, align<1024>, S<2,3,3> o 0 o (128,32):(32,1)>"
B = "!cute.tensor<f16, smem, align<1024>, S<2,3,3> o 0 o (64,32):(32,1)>"
D = "!cute.tensor<f32, rmem, align<16>, ((2,2,8),1,1):((1,2,4),32,32)>"
TMA = "!cute_nvgpu.tma_atom<f16, (32,128), 64>"
SLOT = "!cute.tensor<i32, smem, align<4>, 1:1>"
AT = "!cute.coord<(0,?)>"
COLUMNS = "!cute.tensor<f32, rmem, align<16>, 32:1>"
WORDS = "!cute.tensor<f32, rmem, align<16>, 2:1>"
PAIRS = "!cute.ptr<f32, smem, align<8>>"
SCALED = "!cute.tiled_mma<warp, (16,8,32), f8E4M3FN, f8E4M3FN, f32, f8E8M0FNU, 32, (1,1,1):(0,0,0)>"
SCALED_TENSOR = SCALED.replace("warp, (16,8,32)", "tcgen05, (128,64,32)")
SCALED_A = "!cute.tensor<f8E4M3FN, rmem, align<16>, ((4,2,2),1,1):((1,4,8),0,0)>"
SCALED_B = "!cute.tensor<f8E4M3FN, rmem, align<16>, ((4,2),1,1):((1,4),0,0)>"
SCALED_D = "!cute.tensor<f32, rmem, align<16>, ((2,2),1,1):((1,2),0,0)>"
SCALE = "!cute.tensor<f8E8M0FNU, rmem, align<16>, (1,1,1):(0,0,0)>"
FRAGMENTS = [SCALED, SCALED_D, SCALED_A, SCALE, SCALED_B, SCALE, SCALED_D]
CHUNK = "!cute.tensor<f8E8M0FNU, smem, align<128>, ((32,4),4):((16,4),1)>"
BYTES_A = "!cute.tensor<f8E4M3FN, smem, align<1024>, S<3,4,3> o 0 o (128,128):(128,1)>"
BYTES_B = BYTES_A.replace("(128,128)", "(64,128)")
ANSWER = "!cute.tensor<i32, smem, align<16>, 4:1>"
REDUCTIONS = ("add", "min", "max", "and", "or", "xor")
MATRIX_ATOMS = ("ldmatrix", "ldmatrix_trans", "stmatrix", "stmatrix_trans")

EXAMPLES: tuple[tuple[str, ...], ...] = (
    row("make_universal_copy_atom", [], ATOM("universal", 128), "128"),
    row("make_cp_async_atom", [], ATOM("cp_async", 128), "128"),
    *(row(f"make_{kind}_atom", [], ATOM(kind, 128), "4") for kind in MATRIX_ATOMS),
    row("make_warp_mma_atom", [], WARP),
    row("make_warpgroup_mma_atom", [], WARPGROUP),
    row("make_tcgen05_mma_atom", [], TCGEN05),
    row("make_tcgen05_mma_atom", [], PAIR),
    row("atom_get_value", [GROUPS], INT(1), "0"),
    row("atom_set_value", [GROUPS, INT(0)], GROUPS, "0"),
    row("atom_set_value", [GROUPS, INT("?")], GROUPS, "0"),
    row(
        "make_tiled_copy_a",
        [ATOM("ldmatrix", 128), WARP_MMA],
        "!cute.tiled_copy<ldmatrix, 128, ((16,2),8):((1,128),16), (16,16)>",
    ),
    row(
        "make_tiled_copy_b",
        [ATOM("ldmatrix", 64), WARP_MMA],
        "!cute.tiled_copy<ldmatrix, 64, ((8,2,2),8):((1,64,0),8), (8,16)>",
    ),
    row(
        "make_tiled_copy_c",
        [ATOM("universal", 32), WARP_MMA],
        "!cute.tiled_copy<universal, 32, ((4,8),(2,2)):((32,1),(16,8)), (16,8)>",
    ),
    row("elect_sync", [], "!cute.bool<?>"),
    row("warp_idx", [], INT("?")),
    row("lane_idx", [], INT("?")),
    row("mbarrier_init", [BARRIER], "", "1"),
    row("mbarrier_init_fence", [], ""),
    row("mbarrier_arrive", [BARRIER], ""),
    row("mbarrier_arrive", [BARRIER, INT(1)], ""),
    row("mbarrier_arrive_and_expect_tx", [BARRIER], "", "8192"),
    row("mbarrier_wait", [BARRIER, INT(1)], ""),
    row("mbarrier_try_wait", [BARRIER, INT("?")], "!cute.bool<?>"),
    row("mbarrier_arrive_copies", [BARRIER], ""),
    row("fence_proxy_async", [], ""),
    row("sync_warp", [], ""),
    row("cp_async_commit_group", [], ""),
    row("cp_async_wait_group", [], "", "0"),
    row("block_idx_in_cluster", [], INT("?")),
    row("block_in_cluster_idx", [], INT("?"), "0"),
    row("block_in_cluster_dim", [], INT("?"), "1"),
    row("cluster_idx", [], INT("?"), "2"),
    row("cluster_dim", [], INT("?"), "0"),
    row("cluster_arrive", [], ""),
    row("cluster_arrive_relaxed", [], ""),
    row("cluster_wait", [], ""),
    row("mapa", [BARRIER, INT(1)], BARRIER.replace("smem", "dsmem")),
    row("store_async", [WORDS, PAIRS, BARRIER, INT(1)], ""),
    row("warpgroup_reg_alloc", [], "", "232"),
    row("warpgroup_reg_dealloc", [], "", "40"),
    row("issue_clc_query", [ANSWER, BARRIER], ""),
    row("issue_clc_query_multicast", [ANSWER, BARRIER], ""),
    row("clc_response", [ANSWER], "!cute.coord<(?,?,?,?)>"),
    row("make_exec_tma", [TMA], TMA),
    row("prefetch_tma_desc", [TMA], ""),
    row("tma_load", [TMA, A, BARRIER, AT], ""),
    row("tma_load", [TMA, A, BARRIER, AT], "", "2"),
    row("tma_load_multicast", [TMA, A, BARRIER, AT, INT(3)], ""),
    row("tma_load_multicast", [TMA, A, BARRIER, AT, INT(3)], "", "2"),
    row("tma_store", [TMA, A, AT], ""),
    *(row(f"tma_reduce_{kind}", [TMA, A, AT], "") for kind in REDUCTIONS),
    row("tma_store_commit", [], ""),
    row("tma_store_wait", [], "", "7"),
    row("tma_store_wait_read", [], "", "1"),
    row("warpgroup_arrive", [], ""),
    row("warpgroup_mma", [GROUPS, D, A, B], ""),
    row("warpgroup_commit_batch", [], ""),
    row("warpgroup_wait", [], "", "1"),
    row("tmem_alloc", [SLOT], "", "64"),
    row("tmem_alloc", [SLOT], "", "64,2"),
    row("tmem_address", [SLOT], INT("?")),
    row("tmem_dealloc", [INT("?")], "", "64"),
    row("tmem_dealloc", [INT("?")], "", "64,2"),
    row("tcgen05_mma", [TENSOR_MMA, INT("?"), A, B], ""),
    row("tcgen05_mma", [PAIR_MMA, INT("?"), A, B], ""),
    row("tcgen05_commit", [BARRIER], ""),
    row("tcgen05_commit", [BARRIER], "", "2"),
    row("tcgen05_commit_multicast", [BARRIER, INT(3)], ""),
    row("tcgen05_commit_multicast", [BARRIER, INT("?")], "", "2"),
    row("tcgen05_load", [INT("?"), COLUMNS], ""),
    row("tcgen05_store", [COLUMNS, INT("?")], ""),
    row("tcgen05_fence_before", [], ""),
    row("tcgen05_fence_after", [], ""),
    row("gemm_block_scaled", FRAGMENTS, ""),
    row("tcgen05_cp", [INT("?"), CHUNK], ""),
    row("tcgen05_cp", [INT("?"), CHUNK], "", "2"),
    row(
        "tcgen05_mma_block_scaled",
        [SCALED_TENSOR, INT("?"), INT(128), INT(132), BYTES_A, BYTES_B],
        "",
    ),
)
"""(operation, operands' types, result's type, static parameters)."""


def program(name: str, operands: str, result: str, statics: str) -> str:
    """A kernel with one operation, and values for its operands."""
    arguments, lines, uses = [], [], []
    for number, kind in enumerate(operands.split("|") if operands else []):
        use = f"%v{number}"
        uses.append(use)
        match kind.partition("<")[0]:
            case "!cute.tensor" if "gmem" not in kind:
                lines.append(f"{use} = cute.alloc() -> {kind}")
            case "!cute.ptr" if "smem" in kind:
                element = kind.partition("<")[2].removesuffix(">")
                lines.append(f"%t{number} = cute.alloc() -> !cute.tensor<{element}, 1:1>")
                lines.append(f"{use} = cute.get_iter(%t{number})")
            case "!cute.tensor" | "!cute.ptr" | "!cute_nvgpu.tma_atom":
                arguments.append(f"{use}: {kind}")
            case "!cute.int" if "?" in kind:
                lines.append(f"{use} = cute.thread_idx<0>()")
            case "!cute.bool" if "?" in kind:
                lines.append(f"{use} = cute_nvgpu.elect_sync()")
            case "!cute.coord" if "?" in kind:
                lines.append(f"%t{number} = cute.thread_idx<0>()")
                lines.append(f"{use} = cute.make_coord(%t{number}) -> {kind}")
            case _:
                lines.append(f"{use} = cute.static() -> {kind}")
    parameters = f"<{statics}>" if statics else ""
    call = f"{name}{parameters}({', '.join(uses)}){f' -> {result}' if result else ''}"
    lines.append(f"%r = {call}" if result else call)
    return "\n".join(
        [f"cute.func @k({', '.join(arguments)}) threads 256 {{", *lines, "cute.return\n}"]
    )
