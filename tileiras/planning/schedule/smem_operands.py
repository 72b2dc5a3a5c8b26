"""How many iterations before its own the operands of mma.sync products are loaded.

They stay where they are copied to, so that a loop needs no memory for them beside the stages, and
no registers. Several tile blocks on an SM work while one of them waits for the others of its
threads; but each needs stages enough to have tiles on their way while it works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tileiras.planning.schedule.pipelined_loads import PipelinedLoad
from tileiras.planning.schedule.prefetch_distance import LoadSchedule, stage_bytes

MOST_DISTANCE = 3
"""Policy: iterations ahead (the prefetch distance) at most: four stages."""
WANTED_DISTANCE = 2
"""Policy: so many are worth more than another tile block on the SM."""
LEAST_CTAS = 2
"""Policy: tile blocks on an SM that overlap each other."""
MOST_LOSS = 2
"""Policy: a tile block alone on an SM is better off with stages than one that shares it with more
than one other. Decoding of 512 times 4096 keys of 128 elements, tiles of 16x128, us on one H100:
alone with three stages 363, five tile blocks without stages 348; 64 times 16384 keys: 269 and 334.
"""


def schedule_operands(
    loads: Sequence[PipelinedLoad],
    shared: Sequence[PipelinedLoad],
    threads: int,
    most_ctas: int,
    smem: Callable[[int], int],
) -> LoadSchedule | None:
    """The schedule of loads of which products read those that are `shared` in their stages.

    `most_ctas`: for so many tile blocks an SM has registers; `smem`: the bytes of one where so many
    share it. None if there is none for a stage ahead, or if stages would leave one tile block alone
    where there could be several. The other loads stay where they are if they do not fit.
    """
    for chosen in (tuple(loads), tuple(shared)):
        stage = sum(stage_bytes(load, threads) for load in chosen)
        found = [
            (min(distance, WANTED_DISTANCE), ctas, distance)
            for ctas in range(1, most_ctas + 1)
            if (distance := min(MOST_DISTANCE, smem(ctas) // stage - 1)) >= 1
        ]
        if found:
            _, ctas, distance = max(found)
            if ctas < LEAST_CTAS and ctas * MOST_LOSS < most_ctas:
                return None
            is_cut = distance < WANTED_DISTANCE or len(chosen) < len(loads)
            bytes = (distance + 1) * stage
            return LoadSchedule(chosen, distance, 0, 0, bytes, is_cut, tuple(shared), ctas)
    return None
