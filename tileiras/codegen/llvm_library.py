"""A small ctypes binding of the LLVM in llvmlite's shared library.

`llvmlite.binding` costs 40 ms to import and this needs two dozen functions, all of which release
the GIL. LLVM's own fatal errors end the process; what reaches it must be known to be good.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from importlib.util import find_spec

from tileiras.errors import InternalError, UsageError

_WHERE = "LLVM"
_INTERNAL_LINKAGE = 8
_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "InitializeAllTargetInfos": (None, []),
    "InitializeAllTargets": (None, []),
    "InitializeAllTargetMCs": (None, []),
    "InitializeAllAsmPrinters": (None, []),
    "GetVersionInfo": (ctypes.c_uint, []),
    "SetCommandLine": (None, [c_char_p, c_char_p]),
    "ContextCreate": (c_void_p, []),
    "ContextDispose": (None, [c_void_p]),
    "ParseAssembly": (c_void_p, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "ParseBitcode": (c_void_p, [c_void_p, c_char_p, c_size_t, POINTER(c_void_p)]),
    "WriteBitcodeToString": (None, [c_void_p, POINTER(c_void_p), POINTER(c_size_t)]),
    "VerifyModule": (ctypes.c_bool, [c_void_p, POINTER(c_void_p)]),
    "LinkModules": (c_int, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "DisposeModule": (None, [c_void_p]),
    "DisposeString": (None, [c_void_p]),
    "ModuleFunctionsIter": (c_void_p, [c_void_p]),
    "FunctionsIterNext": (c_void_p, [c_void_p]),
    "DisposeFunctionsIter": (None, [c_void_p]),
    "GetValueName": (c_char_p, [c_void_p]),
    "IsDeclaration": (c_int, [c_void_p]),
    "SetLinkage": (None, [c_void_p, c_int]),
    "GetTargetFromTriple": (c_void_p, [c_char_p, POINTER(c_void_p)]),
    "CreateTargetMachine": (
        c_void_p,
        [c_void_p, *[c_char_p] * 3, c_int, *[c_char_p] * 2, c_int, c_int, c_char_p],
    ),
    "DisposeTargetMachine": (None, [c_void_p]),
    "TargetMachineEmitToMemory": (c_void_p, [c_void_p, c_void_p, c_int, POINTER(c_void_p)]),
    "GetBufferStart": (c_void_p, [c_void_p]),
    "GetBufferSize": (c_size_t, [c_void_p]),
    "DisposeMemoryBuffer": (None, [c_void_p]),
    "CreatePipelineTuningOptions": (c_void_p, []),
    "DisposePipelineTuningOptions": (None, [c_void_p]),
    "CreatePassBuilder": (c_void_p, [c_void_p, c_void_p]),
    "DisposePassBuilder": (None, [c_void_p]),
    "CreateNewModulePassManager": (c_void_p, []),
    "DisposeNewModulePassManger": (None, [c_void_p]),
    "RunNewModulePassManager": (None, [c_void_p, c_void_p, c_void_p]),
    "buildPerModuleDefaultPipeline": (c_void_p, [c_void_p, c_int, c_int]),
    "module_AddAlwaysInlinerPass": (None, [c_void_p]),
    "module_AddGlobalDCEPass": (None, [c_void_p]),
    "module_AddSROAPass": (None, [c_void_p]),
    "module_AddSimplifyCFGPass": (None, [c_void_p]),
    "module_AddInstCombinePass": (None, [c_void_p]),
}
"""Functions used, without their `LLVMPY_` prefix: result and parameter types."""


def find_llvm_library() -> str:
    """Path of llvmlite's shared library, without importing llvmlite. Raises UsageError."""
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        raise UsageError("cannot find the Python package llvmlite, which brings LLVM")
    folder = os.path.join(os.path.dirname(spec.origin), "binding")
    for name in ("libllvmlite.so", "libllvmlite.dylib", "llvmlite.dll"):
        if os.path.exists(path := os.path.join(folder, name)):
            return path
    raise UsageError(f"no LLVM library in {folder}")


class LlvmLibrary:
    """The loaded library with all targets initialised. Make one per process (`load_llvm`)."""

    def __init__(self, path: str):
        library = ctypes.CDLL(path)
        for name, (result, parameters) in _FUNCTIONS.items():
            function = getattr(library, f"LLVMPY_{name}")
            function.restype, function.argtypes = result, parameters
            setattr(self, name, function)
        self.call("InitializeAllTargetInfos")
        self.call("InitializeAllTargets")
        self.call("InitializeAllTargetMCs")
        self.call("InitializeAllAsmPrinters")

    def call(self, name: str, *args: object) -> int:
        """Calls a function of the table; results are handles or numbers (None becomes 0)."""
        return getattr(self, name)(*args) or 0

    def version(self) -> str:
        """LLVM's version, such as "22.1.0"."""
        packed = self.call("GetVersionInfo")
        return f"{packed >> 16 & 0xFF}.{packed >> 8 & 0xFF}.{packed & 0xFF}"

    def set_option(self, option: str) -> None:
        """Sets one of LLVM's command-line options, such as `-print-after-all=true`."""
        self.call("SetCommandLine", b"tileiras", option.encode())

    def take_string(self, handle: c_void_p) -> str:
        """Copies and frees a string that LLVM allocated."""
        if not handle.value:
            return ""
        text = ctypes.string_at(handle.value).decode(errors="replace")
        self.call("DisposeString", handle)
        return text

    def parse_text(self, context: int, text: str) -> int:
        """A module from LLVM IR text; text that does not parse is our own mistake."""
        message = c_void_p()
        module = self.call("ParseAssembly", context, text.encode(), byref(message))
        problem = self.take_string(message)
        if not module:
            raise InternalError(f"LLVM IR does not parse: {_first_lines(problem)}", where=_WHERE)
        return module

    def parse_bitcode(self, context: int, data: bytes) -> int:
        """A module from bitcode."""
        message = c_void_p()
        module = self.call("ParseBitcode", context, data, len(data), byref(message))
        problem = self.take_string(message)
        if not module:
            raise InternalError(f"bitcode does not parse: {_first_lines(problem)}", where=_WHERE)
        return module

    def write_bitcode(self, module: int) -> bytes:
        """The module as bitcode."""
        text, size = c_void_p(), c_size_t()
        self.call("WriteBitcodeToString", module, byref(text), byref(size))
        data = ctypes.string_at(text.value, size.value) if text.value else b""
        self.call("DisposeString", text)
        return data

    def verify(self, module: int) -> None:
        """Raises InternalError if LLVM's verifier rejects the module."""
        message = c_void_p()
        broken = self.call("VerifyModule", module, byref(message))
        problem = self.take_string(message)
        if broken:
            raise InternalError(f"LLVM IR is not valid: {_first_lines(problem)}", where=_WHERE)

    def link(self, into: int, module: int) -> None:
        """Moves the contents of `module` into `into`; `module` is gone afterwards."""
        message = c_void_p()
        failed = self.call("LinkModules", into, module, byref(message))
        problem = self.take_string(message)
        if failed:
            raise InternalError(f"cannot link modules: {_first_lines(problem)}", where=_WHERE)

    def defined_functions(self, module: int) -> Iterator[tuple[str, int]]:
        """(name, handle) of every function with a body."""
        iterator = self.call("ModuleFunctionsIter", module)
        try:
            while function := self.call("FunctionsIterNext", iterator):
                if not self.call("IsDeclaration", function):
                    yield self.name_of(function), function
        finally:
            self.call("DisposeFunctionsIter", iterator)

    def name_of(self, value: int) -> str:
        """The name of a function or global."""
        name: bytes = getattr(self, "GetValueName")(value)  # noqa: B009 - set in __init__
        return name.decode()

    def make_internal(self, function: int) -> None:
        """Gives a function internal linkage."""
        self.call("SetLinkage", function, _INTERNAL_LINKAGE)

    def target_machine(self, triple: str, cpu: str, features: str, opt_level: int) -> int:
        """A target machine; dispose of it with `DisposeTargetMachine`."""
        message = c_void_p()
        target = self.call("GetTargetFromTriple", triple.encode(), byref(message))
        problem = self.take_string(message)
        if not target:
            raise InternalError(f"LLVM has no target {triple}: {problem}", where=_WHERE)
        names = (triple.encode(), cpu.encode(), features.encode())
        machine = self.call(
            "CreateTargetMachine", target, *names, opt_level, b"default", b"default", 0, 0, b""
        )
        if not machine:
            raise InternalError(f"LLVM has no processor {cpu}", where=_WHERE)
        return machine

    def run_passes(self, module: int, machine: int, passes: tuple[str, ...]) -> None:
        """Runs module passes by their name in the table, such as `GlobalDCE`."""
        self._run(module, machine, lambda _: self._manager_of(passes))

    def run_pipeline(self, module: int, machine: int, level: int) -> None:
        """Runs LLVM's pipeline of a level; that of 0 has little but the target's first passes."""
        name = "buildPerModuleDefaultPipeline"
        self._run(module, machine, lambda builder: self.call(name, builder, level, 0))

    def _manager_of(self, passes: tuple[str, ...]) -> int:
        manager = self.call("CreateNewModulePassManager")
        for name in passes:
            self.call(f"module_Add{name}Pass", manager)
        return manager

    def _run(self, module: int, machine: int, make: Callable[[int], int]) -> None:
        """Runs the passes that `make` puts together with a pass builder."""
        tuning = self.call("CreatePipelineTuningOptions")
        builder = self.call("CreatePassBuilder", machine, tuning)
        manager = make(builder)
        self.call("RunNewModulePassManager", manager, module, builder)
        self.call("DisposeNewModulePassManger", manager)
        self.call("DisposePassBuilder", builder)
        self.call("DisposePipelineTuningOptions", tuning)

    def emit_assembly(self, machine: int, module: int) -> str:
        """Runs code generation; returns the assembly text."""
        message = c_void_p()
        buffer = self.call("TargetMachineEmitToMemory", machine, module, 0, byref(message))
        problem = self.take_string(message)
        if not buffer:
            raise InternalError(f"LLVM cannot emit code: {_first_lines(problem)}", where=_WHERE)
        start, size = self.call("GetBufferStart", buffer), self.call("GetBufferSize", buffer)
        text = ctypes.string_at(start, size).decode()
        self.call("DisposeMemoryBuffer", buffer)
        return text


def _first_lines(text: str, count: int = 3) -> str:
    return "; ".join(line.strip() for line in text.splitlines()[:count] if line.strip())
