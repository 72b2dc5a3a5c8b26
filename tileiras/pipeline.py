"""THE list of passes, in order, one line each with the reason for its place.

Read this file first to understand the compiler. `stage` is the level that the module is on after
the pass; `--emit=STAGE` stops after the last pass of that stage. `min_opt` is the lowest -O level
that runs the pass, `needs` the target features without which it has nothing to do, `needs_one`
those of which one is enough. Without a target (`--emit=nv_tileaa` with no GPU named) those that
`needs_target` are left out, too; those that are `only_debug` run with `-g` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileiras.options import CUTE, STAGES, CompileOptions

if TYPE_CHECKING:
    from tileiras.codegen.target import GpuTarget


@dataclass(frozen=True)
class Step:
    """One pass in its place."""

    pass_name: str
    stage: str
    reason: str
    min_opt: int = 0
    needs: tuple[str, ...] = ()
    needs_one: tuple[str, ...] = ()
    needs_target: bool = False
    only_debug: bool = False


PIPELINE: tuple[Step, ...] = (
    Step(
        "check-target",
        "cuda_tile",
        "a program with types that the target lacks is rejected even where they are not used",
    ),
    Step(
        "canonicalize",
        "cuda_tile",
        "clients write constants and unused values freely: fewer operations for all that follows",
        min_opt=1,
    ),
    Step(
        "uplift-while-to-for",
        "cuda_tile",
        "bounds and steps are constants by now, and all that follows knows `for` best",
        min_opt=1,
    ),
    Step(
        "unroll-loops",
        "cuda_tile",
        "bounds are constants by now, and cse merges what iterations of several loops load",
        min_opt=1,
    ),
    Step(
        "hoist-views",
        "cuda_tile",
        "known sizes are constants by now, and cse merges the views that then stand side by side",
        min_opt=1,
    ),
    Step(
        "cse",
        "cuda_tile",
        "equal views and indices become one value, so that the facts below see them as one",
        min_opt=1,
    ),
    Step(
        "convert-cudatile-to-tileaa",
        "nv_tileaa",
        "makes memory order and pointer facts explicit, before anything is placed",
    ),
    Step(
        "tileaa-name-variables",
        "nv_tileaa",
        "operations are still those of the source; what follows keeps the values that have names",
        only_debug=True,
    ),
    Step(
        "tileaa-legalize-scaled-dot",
        "nv_tileaa",
        "products are what the target can do before anything asks how large their operands are",
        needs_target=True,
    ),
    Step(
        "tileas-slicing",
        "nv_tileaa",
        "tiles beyond the register file become loops, while every dim is still as good as another",
    ),
    Step(
        "choose-strategy",
        "nv_tileaa",
        "tiles have the rows and columns that they keep; what cuts K and sums asks who multiplies",
        min_opt=1,
        needs=("TMA",),
    ),
    Step(
        "split-k",
        "nv_tileaa",
        "steps of K whose operands do not fit become several, once rows and columns do",
        min_opt=1,
    ),
    Step(
        "slice-epilogue",
        "nv_tileaa",
        "once sums have the size that they will have, what follows them may be too much at once",
        min_opt=1,
    ),
    Step(
        "hoist-loads",
        "nv_tileaa",
        "tokens say what a load must wait for, and layouts do not tie it to its branch yet",
        min_opt=1,
    ),
    Step(
        "join-lock-sharers",
        "nv_tileaa",
        "loops are as they are written: what several tile blocks do in turn is one section still",
        min_opt=1,
    ),
    Step(
        "unroll-locked-loops",
        "nv_tileaa",
        "loads of a critical section stand in front of its branches, and loops as they are written",
        min_opt=1,
    ),
    Step(
        "simplify-addresses",
        "nv_tileaa",
        "facts about pointers are on their users by now, so that their sums may be taken apart",
        min_opt=1,
    ),
    Step(
        "coarsen-locks",
        "nv_tileaa",
        "loads of a critical section stand in front of its branches; only then is it one of places",
        min_opt=1,
        needs=("CLUSTER_LAUNCH", "MBARRIER_TRY_WAIT"),
    ),
    Step(
        "split-reductions",
        "nv_tileaa",
        "loops are as they are written, and no other pass has made clusters of the kernel",
        min_opt=1,
        needs=("CLUSTER_LAUNCH", "MBARRIER_TRY_WAIT"),
    ),
    Step(
        "order-tile-blocks",
        "nv_tileaa",
        "loops are as they are written, and clusters whose CTAs divide a tile block have been made",
        min_opt=1,
        needs_target=True,
    ),
    Step(
        "choose-strategy",
        "nv_tileaa",
        "what passes since then have changed may be another one; joining tile blocks asks for it",
        min_opt=1,
        needs=("TMA",),
    ),
    Step(
        "multicast-remote-tiles",
        "nv_tileaa",
        "strategies stand; what comes over a link between GPUs is dearer than what is shared below",
        min_opt=1,
        needs=("WGMMA", "TMA", "CLUSTER_LAUNCH"),
    ),
    Step(
        "tiles-per-cta",
        "nv_tileaa",
        "what one CTA computes by itself at once need not be shared in a cluster",
        min_opt=1,
        needs=("WGMMA", "TMA"),
    ),
    Step(
        "tileas-dynamic-persistent",
        "nv_tileaa",
        "strategies stand on kernels; clusters are formed of what runs as a loop over tiles",
        min_opt=1,
        needs=("TMA",),
        needs_one=("CLUSTER_LAUNCH_CONTROL", "WGMMA"),
    ),
    Step(
        "form-clusters",
        "nv_tileaa",
        "which tile blocks run as a cluster changes their control flow, so before it is scheduled",
        min_opt=1,
        needs=("TMA", "CLUSTER_LAUNCH"),
        needs_one=("WGMMA", "TCGEN05"),
    ),
    Step(
        "join-iterations",
        "nv_tileaa",
        "tile blocks stand, and with them CTAs that share an SM; what it joins is scheduled next",
        min_opt=1,
        needs_target=True,
    ),
    Step(
        "split-accumulation",
        "nv_tileaa",
        "which loops overlap depends on it, and it is decided next; tile blocks stand",
        min_opt=1,
        needs=("WGMMA", "TMA"),
    ),
    Step(
        "tileas-generate-schedule",
        "nv_tileaa",
        "operations are whole tiles, whose costs are known; control flow stands",
        min_opt=1,
        needs=("CP_ASYNC",),
    ),
    Step(
        "tileas-expand-schedule",
        "nv_tileaa",
        "iterations overlap from here on; each copy of an operation gets layouts of its own",
        min_opt=1,
        needs=("CP_ASYNC",),
    ),
    Step(
        "tileaa-prefetch-scales",
        "nv_tileaa",
        "loads that there is room for start early by now; only the plan looks at loops after it",
        min_opt=1,
        needs=("BLOCK_SCALED_MMA", "TMA"),
    ),
    Step(
        "tileas-insert-OCG-knobs",
        "nv_tileaa",
        "no pass rebuilds loops any more; accesses still have the hints of their author",
        needs_target=True,
    ),
    Step(
        "choose-strategy",
        "nv_tileaa",
        "loops that overlap are other loops; from here on only the next pass changes a kernel",
        min_opt=1,
        needs=("TMA",),
    ),
    Step(
        "tileaa-expand-scaled-dot",
        "nv_tileaa",
        "the kernel stands as it is planned next, so that its plan says whether scales have room",
        needs_target=True,
        needs=("TCGEN05_SCALED",),
    ),
    Step(
        "tileas-plan-cta",
        "nv_tileaa",
        "the program stands: warps, their roles and the ways of operands are decided once, for all",
        needs_target=True,
    ),
    Step(
        "tileas-assign-dot-layouts",
        "nv_tileaa",
        "products are the most demanding: all that meets them lies as their instructions say",
        needs_target=True,
    ),
    Step(
        "tileas-assign-load-store-layouts",
        "nv_tileaa",
        "what products leave free is decided by accesses to memory, then by what has to match",
        needs_target=True,
    ),
    Step(
        "tileas-share-exp2",
        "nv_tileaa",
        "products have their instructions: what is asynchronous runs beside what threads compute",
        min_opt=1,
        needs=("TMA",),
        needs_one=("WGMMA", "TCGEN05"),
    ),
    Step(
        "insert-barriers",
        "nv_tileaa",
        "tokens order all accesses now; none will order those that other warps are given",
        needs_target=True,
    ),
    Step(
        "tileas-assign-warp-roles",
        "nv_tileaa",
        "nothing is added to the program any more; each role has layouts and barriers of its own",
        min_opt=1,
        needs=("TMA",),
    ),
    Step(
        "convert-tileaa-to-tileas",
        "nv_tileas",
        "layouts and plan are written beside the operations: types and roles follow from them",
    ),
    Step(
        "tileas-order-producer",
        "nv_tileas",
        "the producer has a program of its own only now; the others do not depend on its order",
        min_opt=1,
        needs=("TMA",),
    ),
    Step(
        "tileas-defer-reductions",
        "nv_tileas",
        "which threads share a row is known only now; changes of layout are not in the way yet",
        min_opt=1,
    ),
    Step(
        "tileas-put-off-products",
        "nv_tileas",
        "tiles have their places in stages, and each product its wait; these are put off next",
        min_opt=1,
        needs=("WGMMA", "TMA"),
    ),
    Step(
        "tileas-move-transposes",
        "nv_tileas",
        "each transpose stands at its product only now, between the wait and the release",
        min_opt=1,
        needs=("WGMMA", "TMA"),
    ),
    Step(
        "tileas-hoist-transposes",
        "nv_tileas",
        "each transpose stands at its product only now, whose wait is not put off yet",
        min_opt=1,
        needs=("WGMMA", "TMA"),
    ),
    Step(
        "tileas-hoist-layout-conversions",
        "nv_tileas",
        "conversions stand in front of their users only now; those before a lock cost nobody time",
    ),
    Step(
        "tileas-fuse-products",
        "nv_tileas",
        "tiles have their places in stages; what is one product needs one wait",
        min_opt=1,
        needs=("WGMMA", "TMA"),
    ),
    Step(
        "tileas-optimize-dot-accumulation",
        "nv_tileas",
        "what reads sums stands where it stays; products hold stages until they are waited for",
        min_opt=1,
        needs=("WGMMA", "TMA"),
    ),
    Step(
        "tileas-group-products",
        "nv_tileas",
        "layouts say which operands products share; the lowering computes neighbours together",
    ),
    Step(
        "tileas-remove-barriers",
        "nv_tileas",
        "operations stand where they stay, and layouts say which threads access which elements",
    ),
    Step(
        "tileas-legalize-reduce",
        "nv_tileas",
        "rows have the threads that they keep; what steps convert is shared memory to be counted",
    ),
    Step(
        "tileas-materialize-convert-layout",
        "nv_tileas",
        "no pass adds or moves a conversion any more; those through shared memory need some of it",
    ),
    Step(
        "tileas-optimize-alloc-tensor",
        "nv_tileas",
        "the programs of all roles stand, so that what they leave of shared memory is known",
    ),
    Step(
        "convert-nv-tileas-to-llvm",
        "llvm-dialect",
        "places are fixed: what is left is one thread's program",
    ),
)

CUTE_PIPELINE: tuple[Step, ...] = (
    Step(
        "cute-fold",
        CUTE,
        "what the algebra knows without a thread is a number before threads are looked at",
        min_opt=1,
    ),
    Step(
        "convert-cute-to-llvm",
        "llvm-dialect",
        "the program says already what each thread does",
    ),
)
"""The passes of programs in CuTe's dialects, another input language."""

PRINTING: tuple[Step, ...] = (
    Step(
        "tileas-print-decomposed-tv-layout",
        "nv_tileas",
        "whoever wants to see layouts names it in `--pass-pipeline`",
    ),
)
"""Passes that stand in no pipeline: they print something and leave the module as it is."""

EVERY_STEP = (*PIPELINE, *CUTE_PIPELINE, *PRINTING)
"""All of them, those that run twice twice."""


def _applies(step: Step, options: CompileOptions, target: GpuTarget | None) -> bool:
    """Whether the options and the target select the step."""
    if step.only_debug and not options.device_debug:
        return False
    if options.opt_level < step.min_opt:
        return False
    if not step.needs:
        return target is not None or not step.needs_target
    present = {feature.name for feature in target.features} if target is not None else set()
    if step.needs_one and not any(feature in present for feature in step.needs_one):
        return False
    return all(feature in present for feature in step.needs)


def select_steps(
    options: CompileOptions, target: GpuTarget | None, start: str = "cuda_tile"
) -> tuple[Step, ...]:
    """The steps from a module of stage `start` to the stage that the options ask for.

    A step takes the stage that the step before it leaves. Programs in CuTe's dialects have steps of
    their own, which end with stage llvm-dialect.
    """
    if start == CUTE:
        return tuple(step for step in CUTE_PIPELINE if _applies(step, options, target))
    first, last = STAGES.index(start), STAGES.index(options.stage)
    taken = ("cuda_tile", *(step.stage for step in PIPELINE))
    return tuple(
        step
        for before, step in zip(taken, PIPELINE)
        if first <= STAGES.index(before)
        and STAGES.index(step.stage) <= last
        and _applies(step, options, target)
    )
