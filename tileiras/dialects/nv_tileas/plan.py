"""What `choose-strategy` and `tileas-plan-cta` decide, as attributes of nv_tileaa.

    nv_tileaa.func @gemm attributes {
      plan = #nv_tileas.kernel_plan<num_warps = 8, warpgroups = 2, ...>,
      pipelines = [#nv_tileas.pipeline_plan<bytes = 49152, least = 2, may_grow = 1>] } {
      %a = load ...  {pipeline = #nv_tileas.filled_by<pipeline = 0, content = 0, place = 0>}
      %b = load ...  {pipeline = #nv_tileas.filled_by<pipeline = 0, content = 0, place = 1>}
      %d = dot %a, %b, ...  {mma = #nv_tileas.wgmma<lhs = smem, fragments = none, transposed = 0>}
      store ...  {by_tma}

They last until `convert-tileaa-to-tileas` has acted on them; what says how many stages pipelines
may have stands beside the function and its pipelines until `tileas-optimize-alloc-tensor`.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import irdl_attr_definition

from tileiras.dialects.named_values import NamedValues

PLAN, PIPELINES, PIPELINE, MMA = "plan", "pipelines", "pipeline", "mma"
"""Names of the attributes of functions, functions, loads and products."""
BY_TMA, BY_ROWS = "by_tma", "by_rows"
"""And of stores: tiles that leave by TMA, or row by row."""
NAMES = (PLAN, PIPELINES, PIPELINE, MMA, BY_TMA, BY_ROWS)
STRATEGY = "strategy"
"""The attribute of a function that says which strategy the other attributes are of."""


@irdl_attr_definition
class StrategyAttr(NamedValues):
    """Which strategy computes the products of a kernel, and why those before it do not.

    Of a function, from `choose-strategy` to `tileas-plan-cta`. `chosen` is `none` where all warps
    do the same. The others are strategies that were asked first, with their reasons.
    """

    name = "nv_tileas.strategy"
    required: ClassVar[tuple[str, ...]] = ("chosen",)
    optional: ClassVar[tuple[str, ...]] = ("tcgen05", "wgmma", "mma_sync")

    @property
    def refusals(self) -> dict[str, str]:
        """Strategy -> why it does not compute the kernel."""
        return {name: str(value) for name, value in self.data if name in self.optional}


@irdl_attr_definition
class KernelPlanAttr(NamedValues):
    """Warps of a tile block; of a specialised kernel also its roles, registers and memory.

    Of a function. `ctas` of its kind fit an SM. Registers are those of a thread: as launched, and
    of each role where they are traded (0: they are not). Bytes of shared memory beside pipelines:
    `smem_transpose` for operands that threads transpose, `scratch` for one operation at once.
    """

    name = "nv_tileas.kernel_plan"
    required: ClassVar[tuple[str, ...]] = ("num_warps",)
    optional: ClassVar[tuple[str, ...]] = (
        "warpgroups",
        "ctas",
        "producer_warps",
        "registers",
        "producer_registers",
        "consumer_registers",
        "smem_transpose",
        "scratch",
        "stores_delayed",
        "store_warp",
    )


@irdl_attr_definition
class PipelinePlanAttr(NamedValues):
    """A circular buffer in shared memory: `bytes` of a stage, and how many it has at `least`.

    Of a function, in a list. `within`: the number of the one in whose memory it lies. `prefetch`:
    stages that it may have more than others, since its loads are said to take long. `skipped`:
    bytes of a stage that mostly do not come, their tile being in the stage already. `rows`: bytes
    of a stage for small tiles that threads read.
    """

    name = "nv_tileas.pipeline_plan"
    required: ClassVar[tuple[str, ...]] = ("bytes", "least", "may_grow")
    optional: ClassVar[tuple[str, ...]] = ("within", "prefetch", "skipped", "rows")


@irdl_attr_definition
class FilledByAttr(NamedValues):
    """Which pipeline brings the tile of a load: as one of which of its contents, at which place."""

    name = "nv_tileas.filled_by"
    required: ClassVar[tuple[str, ...]] = ("pipeline", "content", "place")


@irdl_attr_definition
class WgmmaAttr(NamedValues):
    """A product by wgmma: `lhs` in smem or registers, the operand whose `fragments` threads read.

    `transposed`: the instructions compute the transposed product. `by_columns`: two warpgroups have
    half of its columns each.
    """

    name = "nv_tileas.wgmma"
    required: ClassVar[tuple[str, ...]] = ("lhs", "fragments", "transposed")
    optional: ClassVar[tuple[str, ...]] = ("by_columns",)


@irdl_attr_definition
class StagedMmaSyncAttr(NamedValues):
    """A product by mma.sync from stages of pipelines: `lhs` in smem or registers.

    `by_rows`: each warp computes whole rows of the result.
    """

    name = "nv_tileas.staged_mma_sync"
    required: ClassVar[tuple[str, ...]] = ("lhs", "by_rows")


@irdl_attr_definition
class Tcgen05Attr(NamedValues):
    """A product by tcgen05 from stages of pipelines, whose sum lies in tensor memory.

    The sum has `buffers` stages of `columns`, from column `column` on; `load` is the shape of the
    instructions that bring it to registers. `scales` is the column where those of a block-scaled
    product begin, `left` the one where a left operand does that consumers compute. `in_turn`: it is
    issued step by step with the product before, whose left operand it has.
    """

    name = "nv_tileas.tcgen05"
    required: ClassVar[tuple[str, ...]] = ("column", "columns", "buffers", "load")
    optional: ClassVar[tuple[str, ...]] = ("scales", "left", "in_turn")
