"""CTAs of a simulated cluster: they run by rank, so what is stored for a later one waits for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from simulated_ops import Machine, Rule, SentWords


def expect(machine: Machine, op: Any) -> None:
    """So many bytes have to arrive before a wait is over."""
    machine.expected[int(machine.values[op.barrier][0])] = op.bytes.data


def meet(machine: Machine, op: Any) -> None:
    """The threads of all CTAs, so those of this one, too."""
    machine.shared.barrier()


def send(machine: Machine, op: Any) -> None:
    """Words of all threads, on their way to one CTA."""
    words = [machine.values[word].astype(np.uint32) for word in op.words]
    data = np.ascontiguousarray(np.stack(words, axis=1)).view(np.uint8)
    addresses = machine.values[op.pointer].astype(np.int64)
    if np.any(addresses % data.shape[1]):
        raise RuntimeError("a store to another CTA is not aligned")
    rank, barrier = int(machine.values[op.rank][0]), int(machine.values[op.barrier][0])
    machine.sent.append(SentWords(rank, addresses, data, barrier))


def wait(machine: Machine, op: Any) -> None:
    """All that was sent here has arrived, which must be as much as is expected."""
    barrier, arrived = int(machine.values[op.barrier][0]), 0
    for words in machine.sent:
        if words.rank == machine.rank and words.barrier == barrier:
            machine.shared.store(machine.thread_ids, words.addresses, words.data)
            machine.shared.barrier()
            arrived += words.data.size
    if arrived != machine.expected[barrier]:
        raise RuntimeError(f"{arrived} of {machine.expected[barrier]} bytes arrive: a wait hangs")


CLUSTER_RULES: dict[str, Rule] = {
    "nvvm.mbarrier_init": lambda machine, op: None,
    "nvvm.fence_mbarrier_init": lambda machine, op: None,
    "nvvm.mbarrier_expect_tx": expect,
    "nvvm.mbarrier_wait": wait,
    "nvvm.cluster_arrive": lambda machine, op: None,
    "nvvm.cluster_wait": meet,
    "nvvm.store_async": send,
}
