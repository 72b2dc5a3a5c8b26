"""One compilation from input to output: reads, runs the pipeline, calls LLVM and ptxas.

Only this module and the command line look at the environment; everything below gets its knobs in
`CompileOptions`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tileiras.errors import BytecodeError, CompileError, InternalError, TargetError, TileirasError
from tileiras.excerpts import show_source
from tileiras.limits import (
    MAX_PROGRAM_SIZE,
    check_entries,
    check_program_size,
    check_text_size,
)
from tileiras.options import (
    ALWAYS_SWIZZLE,
    BYTECODE,
    CUTE,
    DELAY_TMA_STORE_WAIT,
    DYNAMIC_PERSISTENT,
    EXP2_ON_FMA,
    LARGE_CLUSTERS,
    LISTED,
    PREFER_TMA,
    STAGES,
    CompileOptions,
)
from tileiras.termination import begin

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tileiras.codegen.ptxas_log import KernelResources
    from tileiras.codegen.target import GpuTarget
    from tileiras.dumps import DumpFolder
    from tileiras.errors import SourceLocation
    from tileiras.launch_info import KernelLaunch, SourceTypes
    from tileiras.pass_manager import ScheduledPass, Timings
    from tileiras.remarks import RemarkCollector

MAGIC = b"\x7fTileIR\x00"
"""How every Tile IR bytecode file begins (a version and sections follow)."""

KNOWN_KNOBS = (
    ALWAYS_SWIZZLE,
    DELAY_TMA_STORE_WAIT,
    DYNAMIC_PERSISTENT,
    EXP2_ON_FMA,
    LARGE_CLUSTERS,
    PREFER_TMA,
)
"""The environment variables of NVIDIA's compiler that clients set, and those of ours."""

SEARCH_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "PATH", "XDG_CACHE_HOME", "HOME", "TMPDIR")
"""Where the backends look for ptxas and libdevice and keep files; passed on with the knobs."""

_BACKEND_STAGES = ("ptx", "cubin")
"""The stages that need LLVM."""

_TEXT = "utf-8-sig"
"""The encoding of text; a byte order mark before it, as some editors write, is no part of it."""


@dataclass(frozen=True)
class Artefacts:
    """What a compilation made.

    `output` is the text or the cubin of the stage that was asked for. `notes` are worth saying
    under `-v`. `kernels` is filled for the stages after llvm-dialect, `llvm_ir` and `ptx` where the
    output was made from them, `resources` by ptxas.
    """

    output: bytes
    timings: Timings
    remarks: RemarkCollector
    kernels: tuple[KernelLaunch, ...] = ()
    notes: tuple[str, ...] = field(default=())
    llvm_ir: str = ""
    ptx: str = ""
    resources: tuple[KernelResources, ...] = ()


def read_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The knobs of an environment, and the names of `TILEIR_*` variables that are not known."""
    knobs = {name: environ[name] for name in (*KNOWN_KNOBS, *SEARCH_VARIABLES) if environ.get(name)}
    unknown = sorted(
        name for name in environ if name.startswith("TILEIR_") and name not in KNOWN_KNOBS
    )
    return knobs, tuple(unknown)


def with_environment(options: CompileOptions) -> CompileOptions:
    """The options with this process's knobs under those already given."""
    knobs, _ = read_environment(os.environ)
    return replace(options, knobs={**knobs, **options.knobs})


def find_target(options: CompileOptions) -> GpuTarget | None:
    """The target to compile for, less the disabled features.

    None only where nothing was named and the stage asked for does not depend on it.
    """
    from tileiras.codegen.target import TARGET_NAMES, Feature, get_target

    if not options.gpu_name:
        if STAGES.index(options.stage) <= STAGES.index("nv_tileaa"):
            return None
        names = ", ".join(TARGET_NAMES)
        raise TargetError(f"no GPU architecture given, expected --gpu-name with one of {names}")
    target = get_target(options.gpu_name)
    if options.disabled_features:
        target = target.without(options.disabled_features)
    if options.switch(LARGE_CLUSTERS):
        target = target.with_large_clusters()
    if options.launch == "cluster" and not target.has(Feature.CLUSTER_LAUNCH):
        raise TargetError(f"{target.name} has no clusters, expected --launch=tile or explicit")
    if options.launch == "explicit":
        return target.without([Feature.CLUSTER_LAUNCH])
    return target


def check_options(options: CompileOptions) -> None:
    """Raises TargetError for options that cannot be compiled with together."""
    if not 0 <= options.opt_level <= 3:
        raise TargetError(f"invalid optimization level: {options.opt_level}")
    if options.device_debug and options.opt_level != 0:
        raise TargetError(
            "optimized debugging is currently not supported, change the optimization level to 0 "
            "or disable full debug info"
        )


def check_pass_names(options: CompileOptions, pipeline: tuple[str, ...]) -> None:
    """Raises UsageError for a name that is no pass: a mistyped option must not be silent.

    `pipeline` has entries of `--pass-pipeline`; dumps may also name passes of LLVM.
    """
    if not (options.print_before or options.print_after or pipeline):
        return
    from tileiras.pass_names import check_dumped, check_pass, pass_name

    for name in (*options.print_before, *options.print_after):
        check_dumped(name)
    for entry in pipeline:
        check_pass(pass_name(entry))


def is_bytecode(source: bytes) -> bool:
    """Whether the input is bytecode (it may still be broken) rather than text."""
    return source.startswith(MAGIC)


def input_kind(source: bytes, filename: str = "<input>") -> str:
    """ "bytecode" or "text".

    Raises BytecodeError for input that cannot be either, so that this is known before any other
    mistake is reported.
    """
    if is_bytecode(source):
        return "bytecode"
    if not _looks_like_ir(source):
        from tileiras.foreign_input import without_a_word

        raise without_a_word(source, filename)
    check_text_size(len(source))
    try:
        source.decode(_TEXT)
    except UnicodeDecodeError as error:
        from tileiras.foreign_input import not_decoded

        raise not_decoded(source, error.start, filename) from error
    return "text"


def read_source(source: bytes, filename: str = "<input>") -> ModuleOp:
    """The module in the bytecode or text.

    Raises BytecodeError for input that is neither.
    """
    if input_kind(source, filename) == "bytecode":
        from tileiras.bytecode.reader import read_module

        return read_module(source)
    from tileiras.ir_text import parse_text

    text = source.decode(_TEXT)
    with _showing(source, filename):
        try:
            module = parse_text(text, filename)
        except BytecodeError as error:
            from tileiras.foreign_input import later_form

            if (later := later_form(text, filename)) is not None:
                raise later from error
            raise
    _check_size(module)
    return module


def to_bytecode(module: ModuleOp, source: bytes, version: str = "") -> bytes:
    """The module as a bytecode file, all its locations included.

    `version`, such as 13.4, is that of the file; if empty, that of `source`, or the newest where
    `source` is text. Raises BytecodeError for what the version lacks, CompileError for a module of
    a later stage.
    """
    from tileiras.bytecode.format import VERSIONS, version_text
    from tileiras.bytecode.sections import read_header
    from tileiras.bytecode.writer import write_module
    from tileiras.stages import stage_of

    stage = stage_of(module).name
    if stage != STAGES[0]:
        raise CompileError(f"a module of stage {stage} has no bytecode, expected {STAGES[0]}")
    by_name = {version_text(known): known for known in VERSIONS}
    if version:
        return write_module(module, by_name[version])
    return write_module(module, read_header(source) if is_bytecode(source) else VERSIONS[-1])


def verify_input(module: ModuleOp, from_bytecode: bool) -> None:
    """Verifies a user's module; raises BytecodeError with the place of the first mistake.

    Tile IR has rules beyond those of single operations (symbols, debug scopes), and a reader that
    makes well-formed operations only.
    """
    if from_bytecode or any(op.name == "cuda_tile.module" for op in module.body.block.ops):
        from tileiras.dialects.cuda_tile.verification import verify_module as verify_program

        verify_program(module, well_formed=from_bytecode)
        return
    from tileiras.dialects.dominance import check_dominance
    from tileiras.stages import verify_module

    verify_module(module)
    check_dominance(module)
    if any(op.name.startswith("llvm.") for op in module.body.block.ops):
        from tileiras.dialects.llvm.limits import check_limits
    else:
        from tileiras.dialects.nv_tileas.limits import check_limits
    check_limits(module)


@contextmanager
def _showing(source: bytes, filename: str) -> Iterator[None]:
    """Errors raised inside get the lines of the source that they are about, if it is text."""
    try:
        yield
    except TileirasError as error:
        if not is_bytecode(source):
            show_source(error, source.decode(_TEXT), filename)
        raise


@contextmanager
def _blaming_text(stage: str, module: ModuleOp) -> Iterator[None]:
    """Where a pass or LLVM trips over text of a later stage, the text is told to be at fault.

    There anything may stand that no pass would make, and verifiers see single operations only.
    """
    if stage == STAGES[0]:
        yield
        return
    first = module.body.block.first_op
    try:
        yield
    except Exception as error:
        if isinstance(error, TileirasError) and not isinstance(error, InternalError):
            raise
        from tileiras.dialects.locations import place_of

        message, place = str(error) or type(error).__name__, None
        if isinstance(error, InternalError):
            message, place = error.message, error.location
        what = message.removeprefix("internal error").removeprefix(":").strip()
        place = place or (None if first is None else place_of(first))
        blame = BytecodeError(f"text of stage {stage} cannot be compiled: {what}", place)
        blame.notes.append("if tileiras printed this text, that is a bug in tileiras")
        raise blame from error


def check_one_module(module: ModuleOp) -> None:
    """Raises BytecodeError for a text of several programs: one output cannot hold them."""
    programs = [op for op in module.body.block.ops if op.name == "cuda_tile.module"]
    if len(programs) > 1:
        from tileiras.dialects.locations import place_of

        found = f"text holds {len(programs)} modules, expected one to compile"
        raise BytecodeError(found, place_of(programs[1]))


def _looks_like_ir(text: bytes) -> bool:
    """Whether text could be IR: it names a module, an entry or an operation of ours."""
    words = (
        b"entry",
        b"cuda_tile",
        b"module",
        b"nv_tileaa",
        b"nv_tileas",
        b"llvm.",
        b"global",
        b"cute.",
    )
    return any(word in text for word in words)


def _check_size(module: ModuleOp) -> None:
    """Raises CompileError for a module that was read from text and is too large to compile."""
    from tileiras.dialects.locations import place_of

    size = entries = 0
    for op in module.walk():
        size += 1 + len(op.results) + len(op.operands)
        entries += op.name == "cuda_tile.entry"
        if size > MAX_PROGRAM_SIZE:
            check_program_size(size, place_of(op))
    check_entries(entries)


def _scheduled(
    options: CompileOptions, target: GpuTarget | None, start: str, names: tuple[str, ...]
) -> tuple[ScheduledPass, ...]:
    """The passes to run: those named, or the pipeline's from stage `start`."""
    from tileiras.pass_manager import ScheduledPass
    from tileiras.pipeline import select_steps
    from tileiras.registry import load_pass

    if names:
        from tileiras.pass_names import make_pass

        return tuple(ScheduledPass(make_pass(name)) for name in names)
    steps = select_steps(options, target, start)
    return tuple(ScheduledPass(load_pass(step.pass_name)(), step.stage) for step in steps)


def compile_module(
    source: bytes,
    options: CompileOptions,
    filename: str = "<input>",
    remarks: RemarkCollector | None = None,
    pass_names: tuple[str, ...] = (),
) -> Artefacts:
    """Compiles bytecode or text up to the stage `options.stage`.

    `pass_names` replaces the built-in list of passes, `name` or `name{option=value}`; unless they
    lead to stage llvm-dialect the output is the text of the module after them. Raises a
    TileirasError; nothing is written but dumps.
    """
    input_kind(source, filename)
    check_options(options)
    target = find_target(options)
    if options.emit in _BACKEND_STAGES:
        from tileiras.codegen.llvm_backend import prepare

        prepare()
    if options.emit != "cubin":
        return _through_stages(source, options, target, filename, remarks, pass_names)
    from tileiras.codegen.ptxas_process import started_ahead

    with started_ahead(target, options):
        return _through_stages(source, options, target, filename, remarks, pass_names)


def _through_stages(
    source: bytes,
    options: CompileOptions,
    target: GpuTarget | None,
    filename: str,
    remarks: RemarkCollector | None,
    pass_names: tuple[str, ...],
) -> Artefacts:
    """What `compile_module` does, with options that are checked."""
    from tileiras.ir_pass import CompileContext
    from tileiras.pass_manager import Timings, run_passes
    from tileiras.remarks import RemarkCollector
    from tileiras.stages import find_stage, print_stage, stage_of

    check_pass_names(options, pass_names)
    timings = Timings()
    remarks = remarks if remarks is not None else RemarkCollector()
    with timings.measure("read input"):
        module = read_source(source, filename)
    with timings.measure("verify input"), _showing(source, filename):
        verify_input(module, from_bytecode=is_bytecode(source))
        if options.reject_hints:
            from tileiras.codegen.target import TARGET_NAMES
            from tileiras.dialects.cuda_tile.hints import check_hints

            check_hints(module, TARGET_NAMES)
        try:
            start = stage_of(module)
        except InternalError as error:
            raise BytecodeError(error.message.removeprefix("internal error: ")) from error
        if options.emit != start.name or pass_names:
            check_one_module(module)
    if options.print_funcs:
        from tileiras.dumps import functions_of

        options = replace(options, print_funcs=functions_of(module, options.print_funcs))
    if start.name == CUTE:
        with _showing(source, filename):
            return _of_cute(module, options, target, timings, remarks, pass_names)
    in_cute = options.emit == CUTE
    if in_cute:
        options = replace(options, emit=LISTED)
        target = find_target(options)
    if STAGES.index(start.name) > STAGES.index(options.stage) and not pass_names:
        wanted = CUTE if in_cute else options.emit
        raise CompileError(f"input of stage {start.name} cannot be taken back to {wanted}")
    context = CompileContext(target=target, options=options, remarks=remarks)
    shown = {}
    if find_stage(options.stage) is None:
        from tileiras.launch_info import source_types

        shown = source_types(module)
    with timings.measure("import passes"):
        passes = _scheduled(options, target, start.name, pass_names)
    folder = _dump_folder(options)
    with _showing(source, filename), _blaming_text(start.name, module):
        run_passes(module, passes, context, timings, folder)
    if options.emit == BYTECODE:
        return Artefacts(to_bytecode(module, source), timings, remarks)
    if in_cute:
        from tileiras.codegen.cute_notation.listing import print_listing

        found = stage_of(module).name
        if pass_names and found != LISTED:
            raise CompileError(f"a module of stage {found} has no layouts, expected {LISTED}")
        text = print_listing(module, options.text_style.functions)
        return Artefacts(text.encode(), timings, remarks)
    stops_early = pass_names and stage_of(module).name != "llvm-dialect"
    if stops_early or find_stage(options.emit) is not None:
        text = print_stage(module, style=options.text_style)
        return Artefacts(text.encode(), timings, remarks)
    if target is None:
        raise TargetError("no GPU architecture given, expected --gpu-name")
    with _showing(source, filename), _blaming_text(start.name, module):
        return _generate(module, options, target, shown, remarks, timings, folder)


def _of_cute(
    module: ModuleOp,
    options: CompileOptions,
    target: GpuTarget | None,
    timings: Timings,
    remarks: RemarkCollector,
    pass_names: tuple[str, ...],
) -> Artefacts:
    """A program in CuTe's dialects, which has passes of its own; CompileError for tiles' passes."""
    from tileiras.ir_pass import CompileContext
    from tileiras.pass_manager import run_passes
    from tileiras.stages import print_stage, stage_of

    if options.emit == CUTE and not pass_names:
        return Artefacts(print_stage(module, style=options.text_style).encode(), timings, remarks)
    early = STAGES.index(options.stage) < STAGES.index("llvm-dialect") and options.emit != CUTE
    if (early and not pass_names) or options.emit == BYTECODE:
        raise CompileError(f"input of stage {CUTE} has no form in stage {options.emit}")
    _check_passes_of_cute(pass_names)
    if target is None:
        raise TargetError("no GPU architecture given, expected --gpu-name")
    context = CompileContext(target=target, options=options, remarks=remarks)
    with timings.measure("import passes"):
        passes = _scheduled(options, target, CUTE, pass_names)
    folder = _dump_folder(options)
    run_passes(module, passes, context, timings, folder)
    if stage_of(module).name == CUTE or options.emit in (CUTE, "llvm-dialect"):
        return Artefacts(print_stage(module, style=options.text_style).encode(), timings, remarks)
    return _generate(module, options, target, {}, remarks, timings, folder)


def _check_passes_of_cute(names: tuple[str, ...]) -> None:
    """Raises CompileError for a pass that would not know what to do with CuTe's dialects."""
    from tileiras.pass_names import pass_name
    from tileiras.pipeline import CUTE_PIPELINE

    known = [step.pass_name for step in CUTE_PIPELINE]
    for name in map(pass_name, names):
        if name not in known:
            raise CompileError(
                f"pass '{name}' takes no input of stage {CUTE}, expected {' or '.join(known)}"
            )


def _dump_folder(options: CompileOptions) -> DumpFolder | None:
    """Where `--dump-dir` writes; None without it."""
    if not options.dump_dir:
        return None
    from tileiras.dumps import DumpFolder

    return DumpFolder(options.dump_dir)


def _dump_cubin(folder: DumpFolder, cubin: bytes, options: CompileOptions) -> None:
    """The cubin, and its SASS where nvdisasm is installed."""
    from tileiras.codegen.nvdisasm import disassemble

    place = folder.write("ptxas", "cubin", cubin)
    sass = disassemble(place, options.knobs)
    if sass is not None:
        folder.write("ptxas", "sass", sass)


def _generate(
    module: ModuleOp,
    options: CompileOptions,
    target: GpuTarget,
    shown: SourceTypes,
    remarks: RemarkCollector,
    timings: Timings,
    folder: DumpFolder | None,
) -> Artefacts:
    """From the llvm dialect to LLVM IR, PTX or a cubin."""
    from tileiras.codegen.llvm_backend import llvm_ir_to_ptx
    from tileiras.codegen.llvmir.printer import print_module
    from tileiras.launch_info import describe_kernels

    kernels = describe_kernels(module, target, shown, options.launch)
    with timings.measure("print LLVM IR"):
        llvm_text = print_module(module, target, options)
    if folder is not None:
        folder.write("llvm", "ll", llvm_text.encode())
    if options.emit == "llvm":
        return Artefacts(llvm_text.encode(), timings, remarks, kernels)
    with timings.measure("LLVM"):
        begin("LLVM", _place_of_only(module, kernels))
        ptx = llvm_ir_to_ptx(llvm_text, target, options)
    if folder is not None:
        folder.write("llvm", "ptx", ptx.encode())
    if options.emit == "ptx":
        return Artefacts(ptx.encode(), timings, remarks, kernels, _evidence(target))
    from tileiras.codegen.ptxas_backend import ptx_to_cubin

    with timings.measure("ptxas"):
        result = ptx_to_cubin(ptx, target, options)
    if folder is not None:
        _dump_cubin(folder, result.cubin, options)
    resources = {kernel.name: kernel for kernel in result.kernels}
    kernels = tuple(
        replace(kernel, registers=used.registers, shared_memory_bytes=used.shared)
        if (used := resources.get(kernel.name)) is not None
        else kernel
        for kernel in kernels
    )
    if not remarks.filter.is_empty:
        from tileiras.resource_remarks import explain_resources

        explain_resources(remarks, kernels, result.kernels, target)
    usage = (
        f"{used.name}: {used.registers} registers, {used.shared} bytes of shared memory, "
        f"{used.spill_stores + used.spill_loads} bytes spilled"
        for used in result.kernels
    )
    cubin = _marked(result.cubin, kernels)
    notes = (*usage, *result.advice, *_evidence(target))
    return Artefacts(cubin, timings, remarks, kernels, notes, llvm_text, ptx, result.kernels)


def _evidence(target: GpuTarget) -> tuple[str, ...]:
    """A note where nobody has run code for the target on hardware."""
    from tileiras.codegen.target.evidence import evidence_of

    note = evidence_of(target.name).note(target.name)
    return (note,) if note else ()


def _marked(cubin: bytes, kernels: tuple[KernelLaunch, ...]) -> bytes:
    """The cubin with those kernels marked that the driver shall launch as Tile IR's."""
    from tileiras.codegen.cubin import Language, with_language

    names = [kernel.name for kernel in kernels if kernel.launch == "tile"]
    return with_language(cubin, names, Language.TILEIR) if names else cubin


def _place_of_only(module: ModuleOp, kernels: tuple[KernelLaunch, ...]) -> SourceLocation | None:
    """The place of the module's kernel; None where there are several."""
    from tileiras.dialects.locations import place_of

    if len(kernels) != 1:
        return None
    for op in module.body.block.ops:
        symbol = op.properties.get("sym_name")
        if getattr(symbol, "data", None) == kernels[0].name:
            return place_of(op)
    return None
