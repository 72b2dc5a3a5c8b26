"""Which names and alignments LLVM and ptxas can be given; LLVM ends the process on others.

A name that only the module sees (a shared buffer, a message) is renamed by LLVM where PTX has no
such name. One that the host looks up cannot be.
"""

from __future__ import annotations

from collections.abc import Container

from tileiras.codegen.target.ptx_names import name_mistake
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.memory import MAX_ALIGN, GlobalOp
from tileiras.dialects.locations import place_of
from tileiras.errors import CompileError
from tileiras.excerpts import shown_input


def check_symbol(op: FuncOp | GlobalOp, declared: Container[str]) -> None:
    """Raises CompileError for a function or global that cannot be printed.

    `declared` holds the names of what the module calls: functions of the CUDA runtime.
    """
    name = op.sym_name.data
    shown = shown_input(name)
    what = "entry" if isinstance(op, FuncOp) else "global"
    if name in declared:
        raise CompileError(
            f"{what} has the name of a function that it calls: {shown}", place_of(op)
        )
    if isinstance(op, FuncOp) or op.visible is not None:
        mistake = name_mistake(what, name)
        if mistake:
            raise CompileError(mistake, place_of(op))
    elif "\0" in name or not name:
        raise CompileError(f"{what} has the name '{shown}', which LLVM has not", place_of(op))
    if isinstance(op, GlobalOp) and op.align.data > MAX_ALIGN:
        found = f"{what} '{shown}' has alignment {op.align.data}"
        raise CompileError(f"{found}, expected at most {MAX_ALIGN}", place_of(op))
