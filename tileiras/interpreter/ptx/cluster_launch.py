"""Taking over clusters that have not started (PTX ISA, "clusterlaunchcontrol.try_cancel",
"clusterlaunchcontrol.query_cancel").

The hardware's answer of 128 bits is opaque. Here its low half is 1 and z above, or 0 where nothing
was left; its high half is x and y of the cluster's first CTA.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interpreter.ptx.barriers import complete_bytes, owner_of
from tileiras.interpreter.ptx.decoding import Decoder, Execute, spread
from tileiras.interpreter.ptx.program import Reg
from tileiras.interpreter.ptx.rules import rule
from tileiras.interpreter.ptx.state import Active, Cta
from tileiras.interpreter.ptx.types import PRED, U32

ANSWER_BYTES = 16


@rule("clusterlaunchcontrol.try_cancel")
def try_cancel(d: Decoder) -> Execute:
    """Asks for a cluster; the answer comes to shared memory with its bytes on an mbarrier."""
    if not (d.flag("async") and d.flag("mbarrier::complete_tx::bytes")):
        d.error("expected .async and .mbarrier::complete_tx::bytes")
    d.choice("shared::cta")
    to_all = d.flag("multicast::cluster::all")
    if not d.flag("b128"):
        d.error("expected .b128")
    address, barrier_at, line, text = d.address(0), d.address(1), d.line, d.text

    def run(cta: Cta, on: Active) -> None:
        for thread in on.index:
            owner, offset = owner_of(cta, int(spread(address(cta), cta)[thread]), line)
            _, bar_offset = owner_of(cta, int(spread(barrier_at(cta), cta)[thread]), line)
            receivers = cta.cluster.ctas if to_all else [owner]

            def finish(offset: int = offset, bar: int = bar_offset, to: Any = receivers) -> None:
                answer = _answer(cta)
                for receiver in to:
                    barrier = receiver.mbarriers.get(bar)
                    if barrier is None:
                        cta.fault(line, f"no mbarrier at shared address {bar:#x}")
                    receiver.shared.data[offset : offset + ANSWER_BYTES] = answer
                    complete_bytes(receiver, barrier, ANSWER_BYTES)

            cta.cluster.later(finish, line, text)

    return run


def _answer(cta: Cta) -> np.ndarray:
    words = np.zeros(2, np.uint64)
    if cta.grid.waiting:
        index = cta.grid.waiting.popleft()
        x, y, z = (place * size for place, size in zip(index, cta.grid.cluster))
        words[:] = 1 | z << 32, x | y << 32
    return words.view(np.uint8)


@rule("clusterlaunchcontrol.query_cancel")
def query_cancel(d: Decoder) -> Execute:
    """Reads an answer: whether a cluster was taken, and where it begins."""
    what = d.choice("is_canceled", "get_first_ctaid")
    part = d.choice("get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z")
    if not d.flag("b128"):
        d.error("expected .b128")
    source = d.operands[1]
    if not isinstance(source, Reg) or source.type.bits != 128:
        d.error("expected a register of 128 bits")
    slot = source.slot
    low32 = np.uint64(0xFFFFFFFF)
    if what == "is_canceled":
        d.flag("pred")
        write = d.dst(0, PRED)
        return lambda cta, on: write(cta, on, cta.regs[slot][:, 0] & np.uint64(1) != 0)

    def coordinates(cta: Cta) -> list[np.ndarray]:
        low, high = cta.regs[slot][:, 0], cta.regs[slot][:, 1]
        values = (high & low32, high >> np.uint64(32), low >> np.uint64(32))
        return [value.astype(np.uint32) for value in values]

    d.flag("v4")
    d.flag("b32")
    if part is not None:
        number, write_one = "xyz".index(part[-1]), d.dst(0, U32)
        return lambda cta, on: write_one(cta, on, coordinates(cta)[number])
    writes = [d.dst(item, U32) for item in d.items(0)[:3]]

    def run(cta: Cta, on: Active) -> None:
        for write, value in zip(writes, coordinates(cta)):
            write(cta, on, value)

    return run
