"""How many iterations before its own the operands of mma.sync products are loaded.

They stay where they are copied to, so that a loop needs no memory for them beside the slots, and no
registers. Several tile blocks on an SM work while one of them waits for the others of its threads;
but each needs slots enough to have tiles on their way while it works.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tileiras.planning.schedule.early_loads import EarlyLoad
from tileiras.planning.schedule.load_distance import LoadSchedule, slot_bytes

MOST_AHEAD = 3
"""Policy: iterations ahead at most: four slots."""
WANTED_AHEAD = 2
"""Policy: so many are worth more than another tile block on the SM."""
LEAST_CTAS = 2
"""Policy: tile blocks on an SM that overlap each other."""
MOST_LOSS = 2
"""Policy: a tile block alone on an SM is better off with slots than one that shares it with more
than one other. Decoding of 512 times 4096 keys of 128 elements, tiles of 16x128, us on one H100:
alone with three slots 363, five tile blocks without slots 348; 64 times 16384 keys: 269 and 334.
"""


def schedule_operands(
    loads: Sequence[EarlyLoad],
    shared: Sequence[EarlyLoad],
    threads: int,
    most_ctas: int,
    room: Callable[[int], int],
) -> LoadSchedule | None:
    """The schedule of loads of which products read those that are `shared` in their slots.

    `most_ctas`: for so many tile blocks an SM has registers; `room`: the bytes of one where so many
    share it. None if there is none for a slot ahead, or if slots would leave one tile block alone
    where there could be several. The other loads stay where they are if they do not fit.
    """
    for chosen in (tuple(loads), tuple(shared)):
        slot = sum(slot_bytes(load, threads) for load in chosen)
        found = [
            (min(ahead, WANTED_AHEAD), ctas, ahead)
            for ctas in range(1, most_ctas + 1)
            if (ahead := min(MOST_AHEAD, room(ctas) // slot - 1)) >= 1
        ]
        if found:
            _, ctas, ahead = max(found)
            if ctas < LEAST_CTAS and ctas * MOST_LOSS < most_ctas:
                return None
            is_cut = ahead < WANTED_AHEAD or len(chosen) < len(loads)
            bytes = (ahead + 1) * slot
            return LoadSchedule(chosen, ahead, 0, 0, bytes, is_cut, tuple(shared), ctas)
    return None
