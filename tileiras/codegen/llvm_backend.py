"""LLVM IR text to PTX, through LLVM's NVPTX backend.

No middle end runs: on the IR that our lowerings write it makes no better code and doubles the time
(the code generator has its own GVN, LICM and scalar replacement).
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from typing import ClassVar

from tileiras.codegen.libdevice import link_libdevice, used_functions
from tileiras.codegen.llvm_library import LlvmLibrary, find_llvm_library
from tileiras.codegen.target import GpuTarget
from tileiras.errors import InternalError
from tileiras.options import CompileOptions
from tileiras.termination import crashes_are_reported

_TRIPLE = "nvptx64-nvidia-cuda"
_DUMP_OPTIONS = ("print-before-all", "print-after-all")


class _Shared:
    """The process's one LLVM and the dump options last given to it."""

    lock = allocate_lock()
    library: LlvmLibrary | None = None
    dumps: tuple[bool, ...] = (False, False)
    named: ClassVar[set[str]] = set()
    """Options with names that LLVM has been given; it adds each to those before."""


def load_llvm() -> LlvmLibrary:
    """The process's LLVM, loaded on first use (about 12 ms)."""
    with _Shared.lock:
        if _Shared.library is None:
            _Shared.library = LlvmLibrary(find_llvm_library())
        return _Shared.library


def prepare() -> None:
    """Loads LLVM in a thread, so that it overlaps with imports; errors wait for `load_llvm`."""
    if _Shared.library is not None:
        return
    start_new_thread(_load_quietly, ())


def _load_quietly() -> None:
    try:
        load_llvm()
    except Exception:  # noqa: BLE001 - reported where the result is needed
        return


def _set_dumps(llvm: LlvmLibrary, options: CompileOptions) -> None:
    """LLVM's own IR dumps on stderr. Its options are global, so only changes are passed on.

    Passes and functions can be named only, not taken back: a process that compiles with dumps of
    several sets of names shows them all.
    """
    everything = (options.print_before_all, options.print_after_all)
    wanted = tuple(flag and options.print_llvm for flag in everything)
    for name, before, now in zip(_DUMP_OPTIONS, _Shared.dumps, wanted, strict=True):
        if before != now:
            llvm.set_option(f"-{name}={'true' if now else 'false'}")
    _Shared.dumps = wanted
    lists = (
        ("print-before", options.print_before),
        ("print-after", options.print_after),
        ("filter-print-funcs", options.print_funcs),
    )
    for option in [f"-{name}={value}" for name, values in lists for value in values]:
        if option not in _Shared.named:
            llvm.set_option(option)
            _Shared.named.add(option)


def _retarget(ptx: str, target: GpuTarget) -> str:
    """The text for the target itself where LLVM compiled for an older processor of its family."""
    if target.llvm_processor == target.ptx_target:
        return ptx
    before = _head(target.llvm_ptx_version, target.llvm_processor)
    if ptx.count(before) != 1:
        raise InternalError(f"PTX for {target.name} does not say '{before}' once", where="LLVM")
    return ptx.replace(before, _head(target.ptx_version, target.ptx_target))


def _head(version: int, processor: str) -> str:
    """The lines of a PTX module that say what it is for, such as version 94 for 9.4."""
    return f".version {version // 10}.{version % 10}\n.target {processor}"


def llvm_ir_to_ptx(text: str, target: GpuTarget, options: CompileOptions) -> str:
    """Compiles LLVM IR text to PTX text for `target`.

    libdevice functions that the text declares are linked in. Raises InternalError for IR that LLVM
    rejects and CompileError if libdevice is needed and cannot be found.
    """
    llvm = load_llvm()
    if options.line_info and ", inlinedAt: !" in text:
        from tileiras.codegen.inlined_lines import hide_calls, show_calls

        text, calls = hide_calls(text)
        with crashes_are_reported():
            return show_calls(_compile(llvm, text, target, options), calls)
    with crashes_are_reported():
        return _compile(llvm, text, target, options)


def _compile(llvm: LlvmLibrary, text: str, target: GpuTarget, options: CompileOptions) -> str:
    """LLVM IR text to PTX text in the given LLVM."""
    _set_dumps(llvm, options)
    features = f"+ptx{target.llvm_ptx_version}"
    machine = llvm.target_machine(_TRIPLE, target.llvm_processor, features, options.opt_level)
    context = llvm.call("ContextCreate")
    try:
        module = llvm.parse_text(context, text)
        try:
            llvm.verify(module)
            names = used_functions(text)
            if names:
                link_libdevice(llvm, context, machine, module, names, options.knobs)
            return _retarget(llvm.emit_assembly(machine, module), target)
        finally:
            llvm.call("DisposeModule", module)
    finally:
        llvm.call("ContextDispose", context)
        llvm.call("DisposeTargetMachine", machine)
