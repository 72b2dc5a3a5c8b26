"""Runs CTAs: the threads that stand at the smallest program counter go first, all at once.

Threads of a warp that parted come together again because whoever is behind runs first. Where the
ISA asks that they be together (`.sync`, `.aligned`), those who come early are parked. Threads that
spin (a failed test, an atomic) let the others go first. Asynchronous work finishes as late as can
be: when no thread of the cluster can go on without it; so what does not wait, reads too early.
"""

from __future__ import annotations

import numpy as np

from tileiras.interpreter.ptx.decoding import Step
from tileiras.interpreter.ptx.errors import PtxRuntimeError
from tileiras.interpreter.ptx.state import (
    BLOCKED,
    EXITED,
    PARKED,
    READY,
    WARP,
    Active,
    Cluster,
    Cta,
    Grid,
)

_NEVER = 1 << 60


def run_grid(grid: Grid) -> None:
    """Runs all clusters of a grid; those that wait for others take turns."""
    resident: list[Cluster] = []
    while grid.waiting or resident:
        for _ in range(grid.limits.ctas_per_sm):
            _start_cluster(grid, resident)
        before = grid.executed
        still = []
        for cluster in resident:
            run_cluster(cluster)
            if not all(cta.is_done for cta in cluster.ctas):
                still.append(cluster)
        resident = still
        goes_on = grid.executed != before or any(cluster.ends_turn for cluster in resident)
        can_start = grid.waiting and len(resident) < grid.limits.resident
        if resident and not goes_on and not can_start:
            for cluster in resident:
                _report_waiting(cluster)
            raise PtxRuntimeError("no CTA makes progress")


def _start_cluster(grid: Grid, resident: list[Cluster]) -> None:
    """Starts a cluster that waits, if there is room."""
    if not grid.waiting or len(resident) >= grid.limits.resident:
        return
    resident.append(Cluster(grid, grid.waiting.popleft(), _free_slot(resident)))
    if grid.checks_races:
        _watch(resident[-1])


def _free_slot(resident: list[Cluster]) -> int:
    """The first slot that no resident cluster has."""
    taken = {cluster.slot for cluster in resident}
    return next(slot for slot in range(len(taken) + 1) if slot not in taken)


def _watch(cluster: Cluster) -> None:
    from tileiras.interpreter.ptx.races import Shadow

    for cta in cluster.ctas:
        cta.shadow = Shadow(cta)


def run_cluster(cluster: Cluster) -> None:
    """Runs until all CTAs have ended, or all that can go on are spinning, or wait for others.

    Of clusters that share SMs every other one has its CTAs begin in the opposite order.
    """
    order = cluster.ctas[:: -1 if cluster.slot % cluster.grid.limits.ctas_per_sm % 2 else 1]
    cluster.ends_turn = False
    while True:
        progress = False
        for cta in order:
            progress |= run_cta(cta)
            if cluster.ends_turn:
                _forget_yields(cluster)
                return
        if progress:
            continue
        if all(cta.is_done for cta in cluster.ctas):
            _drain(cluster)
            return
        if cluster.pending:
            cluster.pending.popleft().finish()
            continue
        if any((cta.yielded & (cta.status == READY)).any() for cta in cluster.ctas):
            _forget_yields(cluster)
            return
        if any(waiter.is_for_others for cta in cluster.ctas for waiter in cta.waiters):
            return
        _deadlock(cluster)


def _drain(cluster: Cluster) -> None:
    """What is still under way when the last thread exits happens nevertheless."""
    while cluster.pending:
        cluster.pending.popleft().finish()
    for cta in cluster.ctas:
        if cta.tmem is not None:
            cta.tmem.check_freed(cta)


def _forget_yields(cluster: Cluster) -> None:
    """Threads that let others go first go on in the cluster's next turn."""
    for cta in cluster.ctas:
        cta.yielded[:] = False


def _report_waiting(cluster: Cluster) -> None:
    """A fault at whoever waits for CTAs of other clusters, of which none goes on."""
    for cta in cluster.ctas:
        for waiter in cta.waiters:
            if waiter.is_for_others:
                thread = int(np.flatnonzero(waiter.mask)[0])
                cta.fault(waiter.line, f"deadlock: no CTA gives back {waiter.what}", thread)


def _deadlock(cluster: Cluster) -> None:
    for cta in cluster.ctas:
        for waiter in cta.waiters:
            thread = int(np.flatnonzero(waiter.mask)[0])
            cta.fault(waiter.line, f"deadlock: nobody can end the wait of {waiter.what}", thread)
        for thread in np.flatnonzero(cta.status == PARKED):
            line = cta.grid.steps[int(cta.pc[thread])].line
            cta.fault(line, "deadlock: the rest of the warp never comes here", int(thread))
    raise PtxRuntimeError("deadlock")


def run_cta(cta: Cta) -> bool:
    """Runs while threads are ready; whether anything was done."""
    progress = False
    while True:
        ready = (cta.status == READY) & ~cta.yielded
        if cta.cluster.ends_turn:
            return progress
        if ready.any():
            _run_group(cta, ready)
            progress = True
        elif not _poll(cta):
            return progress
        else:
            progress = True


def _poll(cta: Cta) -> bool:
    """Releases the waiters whose condition holds; whether there were any."""
    done = [waiter for waiter in cta.waiters if waiter.poll()]
    for waiter in done:
        cta.waiters.remove(waiter)
        waiter.resume()
        cta.status[waiter.mask & (cta.status == BLOCKED)] = READY
    return bool(done)


def _run_group(cta: Cta, ready: np.ndarray) -> None:
    """Runs the threads that are behind until they catch up with others or must stop."""
    pcs, grid, steps = cta.pc, cta.grid, cta.grid.steps
    pc = int(pcs[ready].min())
    mask = ready & (pcs == pc)
    others = ready & ~mask
    limit = int(pcs[others].min()) if others.any() else _NEVER
    on = Active(mask)
    count = 0
    while True:
        step: Step = steps[pc]
        count += 1
        active = on
        if step.guard is not None:
            predicate = cta.regs[step.guard]
            chosen = mask & (~predicate if step.negated else predicate)
            if not chosen.any():
                pc += 1
                if pc >= limit:
                    break
                continue
            active = Active(chosen)
        if cta.unfinished and not step.is_accumulating:
            _check_unfinished(cta, step, active)
        if step.is_control or step.meets:
            cta.pc[mask] = pc + 1
            cta.pc[active.mask] = pc
            cta.clock += count
            _count(grid, count, step)
            _run_meeting(cta, step, active, pc)
            went_on = not step.is_control and bool((cta.pc[mask] == pc + 1).all())
            went_on = went_on and bool((cta.status[mask] == READY).all())
            pc, count = pc + 1, 0
            if went_on and pc < limit and not _joined(cta, mask):
                continue
            return
        step.run(cta, active)
        pc += 1
        if pc >= limit:
            break
    cta.pc[mask] = pc
    cta.clock += count
    _count(grid, count, steps[pc - 1])


def _joined(cta: Cta, mask: np.ndarray) -> bool:
    """Whether threads outside of the group became ready (parked ones that went along)."""
    ready = (cta.status == READY) & ~cta.yielded & ~mask
    return bool(ready.any())


def _count(grid: Grid, count: int, step: Step) -> None:
    grid.executed += count
    if grid.executed > grid.limits.instructions:
        message = f"the budget of {grid.limits.instructions} instructions is spent"
        raise PtxRuntimeError(message, step.line)


def _check_unfinished(cta: Cta, step: Step, active: Active) -> None:
    """A fault for registers of a wgmma under way; a remark for those of a `tcgen05.ld`, which the
    assembler is known to wait for (compilers move their uses before `tcgen05.wait::ld`)."""
    for slot in step.slots:
        under_way = cta.unfinished.get(slot)
        if under_way is None or not (under_way & active.mask).any():
            continue
        if cta.tmem is not None and slot in cta.tmem.loads:
            remark = f"line {step.line}: {step.text} uses a register before tcgen05.wait::ld"
            if remark not in cta.grid.log:
                cta.grid.log.append(remark)
            continue
        thread = int(np.flatnonzero(under_way & active.mask)[0])
        message = f"{step.text} uses a register that unfinished asynchronous work will change"
        cta.fault(step.line, message, thread)


def _run_meeting(cta: Cta, step: Step, active: Active, pc: int) -> None:
    """Runs a step for which the threads of a warp must be together, or that moves the pc."""
    if step.meets:
        complete = _complete(cta, step, active, pc)
        if complete is None:
            return
        active = complete
    if step.is_control:
        step.run(cta, active)
        return
    # The step may block its threads; it then finds them behind it, as they go on from there.
    cta.pc[active.mask] = pc + 1
    step.run(cta, active)


def _complete(cta: Cta, step: Step, active: Active, pc: int) -> Active | None:
    """The threads whose whole warp (or all named lanes) has come; the rest is parked."""
    if active.is_full and step.members is None:
        return active
    here = active.mask | ((cta.status == PARKED) & (cta.pc == pc))
    by_warp = here.reshape(-1, WARP)
    live = cta.live().reshape(-1, WARP)
    if step.members is None:
        passed = (cta.pc.reshape(-1, WARP) == pc + 1) & (step.guard is not None)
        needed = live & ~passed if step.guard is None else live & ~_guarded_out(cta, step, pc)
    else:
        lanes = np.arange(WARP, dtype=np.uint64)
        named = step.members(cta, Active(here)).reshape(-1, WARP)
        first = by_warp.argmax(axis=1)
        masks = named[np.arange(len(named)), first].astype(np.uint64)
        needed = live & ((masks[:, None] >> lanes) & np.uint64(1)).astype(np.bool_)
    whole = (by_warp | ~needed).all(axis=1) & by_warp.any(axis=1)
    runs = (by_warp & whole[:, None]).reshape(-1)
    left = here & ~runs
    cta.status[left] = PARKED
    cta.pc[left] = pc
    if not runs.any():
        return None
    cta.status[runs] = READY
    return Active(runs)


def _guarded_out(cta: Cta, step: Step, pc: int) -> np.ndarray:
    """Threads right behind the step that the guard excluded."""
    assert step.guard is not None
    predicate = cta.regs[step.guard]
    excluded = predicate if step.negated else ~predicate
    return (excluded & (cta.pc == pc + 1)).reshape(-1, WARP)


def exit_threads(cta: Cta, on: Active) -> None:
    """Ends threads; those parked in their warps look again whether all have come."""
    cta.status[on.mask] = EXITED
    warps = np.repeat(on.mask.reshape(-1, WARP).any(axis=1), WARP)
    cta.status[warps & (cta.status == PARKED)] = READY
