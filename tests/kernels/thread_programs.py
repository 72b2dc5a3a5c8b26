"""Small kernels in the llvm and nvvm dialects, and the way from them to PTX and cubins."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import SSAValue

from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
from tileiras.codegen.llvmir.builder import ThreadBuilder
from tileiras.codegen.llvmir.printer import print_module
from tileiras.codegen.ptxas_backend import PtxasResult, ptx_to_cubin
from tileiras.codegen.target import get_target
from tileiras.dialects.llvm.control import FuncOp
from tileiras.dialects.llvm.types import pointer_type
from tileiras.options import CompileOptions

OPTIONS = CompileOptions(opt_level=3)
TARGETS = ("sm_80", "sm_90", "sm_120")
Body = Callable[[ThreadBuilder, Sequence[SSAValue]], None]


def kernel_module(body: Body, *, pointers: int = 4, **launch: object) -> ModuleOp:
    """A module with one kernel `k(pointers..., i32)`; `body` builds all but the return."""
    types = [*[pointer_type(1)] * pointers, i32]
    func = FuncOp.make_kernel("k", types, **launch)  # type: ignore[arg-type]
    builder = ThreadBuilder(func.entry)
    body(builder, func.entry.args)
    builder.ret()
    module = ModuleOp([func])
    module.verify()
    return module


def llvm_text(body: Body, target: str = "sm_90", **launch: object) -> str:
    """The LLVM IR text of a kernel."""
    return print_module(kernel_module(body, **launch), get_target(target), OPTIONS)


def ptx_text(body: Body, target: str = "sm_90", **launch: object) -> str:
    """The PTX text of a kernel."""
    return llvm_ir_to_ptx(llvm_text(body, target, **launch), get_target(target), OPTIONS)


def cubin(body: Body, target: str = "sm_90", **launch: object) -> PtxasResult:
    """The cubin of a kernel; calls that nobody defines would fail here."""
    ptx = ptx_text(body, target, **launch)
    assert ".extern" not in ptx
    return ptx_to_cubin(ptx, get_target(target), OPTIONS)


@dataclass(frozen=True)
class Outcome:
    """How a forked child ended: its exit status and what it wrote on stderr."""

    status: int
    errors: str


def in_child(action: Callable[[], object]) -> Outcome:
    """Runs `action` in a forked process: LLVM ends the process on what it cannot lower."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the child does not touch what other threads may hold
        child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(writer, 2)
        status = 0
        try:
            action()
        except BaseException as error:
            os.write(2, str(error).encode())
            status = 1
        os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        errors = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return Outcome(status, errors)


@cache
def options_with(**fields: object) -> CompileOptions:
    """Compile options that differ from the defaults in these fields."""
    return CompileOptions(**fields)  # type: ignore[arg-type]
