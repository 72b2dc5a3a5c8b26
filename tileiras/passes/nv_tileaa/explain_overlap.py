"""Remarks on loops whose products run beside other work, by what stands in their schedules."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.locations import remark_about
from tileiras.dialects.nv_tileaa.schedule import LoopScheduleAttr
from tileiras.remarks import Remark, RemarkKind


def overlap(pass_name: str, func: aa.FuncOp, schedules: Sequence[LoopScheduleAttr]) -> Remark:
    """What became of the loops of products of a kernel that have these schedules."""
    late = [schedule for schedule in schedules if schedule.integer("stages") > 1]
    early = [schedule for schedule in schedules if schedule.integer("stages") == 1]
    kinds = (
        ("products run beside the iteration after theirs", late),
        ("products are issued early", early),
    )
    text = "; ".join(f"{said}: {_cycles(found)}" for said, found in kinds if found)
    return _remark(RemarkKind.PASSED, pass_name, func, text, len(schedules))


def no_overlap(pass_name: str, func: aa.FuncOp, reason: str) -> Remark:
    """Why the loops of products of a kernel stay as they are."""
    text = f"products are waited for in their own iteration: {reason}"
    return _remark(RemarkKind.MISSED, pass_name, func, text, 0)


def _cycles(schedules: Sequence[LoopScheduleAttr]) -> str:
    """How long the iterations of loops take."""
    parts = [
        f"{schedule.integer('initiation_interval')} of {schedule.integer('serial')} cycles, "
        f"{schedule.integer('registers')} registers"
        for schedule in schedules
    ]
    return "; ".join(parts)


def _remark(kind: RemarkKind, pass_name: str, func: aa.FuncOp, text: str, loops: int) -> Remark:
    return remark_about(
        func, pass_name, "Overlap", text, kind=kind, arguments=(("Loops", str(loops)),)
    )
