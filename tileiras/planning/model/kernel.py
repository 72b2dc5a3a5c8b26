"""What is decided for a whole kernel."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.layout import LinearLayout
from tileiras.dialects.layout.shared import ATOM_BYTES
from tileiras.dialects.layout.tmem import BLOCK_ROWS
from tileiras.planning.mma.scaled_sums import scaling_of
from tileiras.planning.mma.tcgen05 import Accumulator, Tcgen05Dot, accumulators
from tileiras.planning.model.dots import PlannedDot
from tileiras.planning.model.pipelines import Pipeline, is_read_by_threads, row_bytes
from tileiras.planning.operands.tma import OperandLoad
from tileiras.planning.resources.cta import (
    ROWS_PER_WARPGROUP,
    WARPGROUP_THREADS,
    CtaConfig,
)


@dataclass(frozen=True)
class RolePlan:
    """How the warps of a kernel share its work: configuration, products, pipelines, stores."""

    shape: CtaConfig
    dots: dict[Operation, PlannedDot]
    pipelines: tuple[Pipeline, ...]
    stores: tuple[aa.TiledStoreOp | aa.TiledAtomicRedOp, ...] = ()
    """The tiles that leave by TMA."""
    are_stores_delayed: bool = True
    """Whether the wait for them comes when their memory is needed again, not at once."""
    has_store_warp: bool = False
    """Whether a warp beside the producer's issues the stores."""
    smem_transpose: int = 0
    """Shared memory for operands that threads transpose, one after another."""
    scratch: int = 0
    """Shared memory that one operation of the consumers needs at once (`Requirements.scratch`)."""
    row_stores: tuple[aa.StoreOp, ...] = ()
    """The tiles that leave row by row."""
    becomes_loop: bool = False
    """Whether the kernel is looked at as one whose tile blocks go through many tiles, and store
    again and again. Not so of what stands on a kernel.
    """

    @property
    def is_asynchronous(self) -> bool:
        """Whether products are issued and waited for later, by instructions of a warpgroup."""
        return all(planned.is_asynchronous for planned in self.dots.values())

    @property
    def is_in_tmem(self) -> bool:
        """Whether sums lie in tensor memory, and a warp of its own issues the products."""
        return any(planned.is_in_tmem for planned in self.dots.values())

    @property
    def piece_rows(self) -> int:
        """Rows of a piece of a tile that leaves by TMA, at most."""
        return BLOCK_ROWS if self.is_in_tmem else ROWS_PER_WARPGROUP

    @property
    def sums(self) -> list[Accumulator]:
        """The sums in tensor memory, in program order."""
        return accumulators([p for p in self.dots.values() if isinstance(p, Tcgen05Dot)])

    @property
    def scalings(self) -> list[Operation]:
        """What scales sums that stay in tensor memory."""
        return [
            scaling_of(planned.dot)[0]
            for planned in self.dots.values()
            if isinstance(planned, Tcgen05Dot) and planned.accumulator.is_scaled
        ]

    @property
    def warpgroups(self) -> int:
        """Warpgroups of consumers."""
        return self.shape.warpgroups

    @property
    def threads_of_rows(self) -> int:
        """Consumer threads that tiles are divided between; the others hold copies."""
        copies = max((planned.copies for planned in self.dots.values()), default=1)
        return self.shape.warpgroups * WARPGROUP_THREADS // copies

    @property
    def is_transposed(self) -> bool:
        """Whether all products are computed transposed."""
        return all(planned.transposed for planned in self.dots.values())

    def result_layout(self, dot: Operation) -> LinearLayout:
        """Where the threads hold the result of a product."""
        return self.dots[dot].result_layout(self.warpgroups)

    def atom_of(self, load: OperandLoad) -> int:
        """Bytes of the tile of a load that its swizzle keeps together."""
        read = (o for planned in self.dots.values() for o in (planned.lhs, planned.rhs))
        return next((o.atom for o in read if o is not None and o.load is load), ATOM_BYTES)

    def loads_of(self, loop: Operation) -> list[OperandLoad]:
        """The loads in a loop whose tiles pipelines bring."""
        loads = (load for pipeline in self.pipelines for load in pipeline.loads)
        return [load for load in loads if load.parent_op() is loop]

    def products_sharing_stages(self, planned: PlannedDot) -> list[PlannedDot]:
        """The products that read tiles of the same stages, in program order, this one included."""
        for pipeline in self.pipelines:
            if planned.rhs.load in pipeline.loads:
                content = pipeline.content(planned.rhs.load)
                return [other for other in self.dots.values() if other.rhs.load in content]
        return [planned]

    def is_read_by_warps(self, pipeline: Pipeline) -> bool:
        """Whether threads read tiles of the pipeline, warp by warp."""
        return is_read_by_threads(pipeline, self.dots.values()) or row_bytes(pipeline) > 0

    def pipeline_of(self, load: Operation) -> int | None:
        """The number of the pipeline that brings the tile of a load."""
        for number, pipeline in enumerate(self.pipelines):
            if load in pipeline.loads:
                return number
        return None
