"""What may stand where a pass is named: our passes, LLVM's, and names that others have for work
that is done here under another name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields
from typing import Any

from tileiras.errors import UsageError
from tileiras.ir_pass import IrPass
from tileiras.registry import PASSES, load_pass

_LLVM_NAMES = """
alloca-hoisting atomic-expand block-placement branch-folder callbrprepare canon-freeze
codegenprepare consthoist dead-mi-elimination early-cse early-machinelicm early-tailduplication
expand-ir-insts expand-memcmp expand-reductions fentry-insert finalize-isel
fixup-statepoint-caller-saved gc-lowering generic-to-nvvm gvn infer-address-spaces
load-store-vectorizer localstackalloc loop-reduce loop-simplify lowerinvoke machine-cse
machine-scheduler machine-sink mergeicmps nary-reassociate nvptx-asm-printer
nvptx-assign-valid-global-names nvptx-atomic-lower nvptx-forward-params nvptx-ir-peephole
nvptx-isel nvptx-lower-aggr-copies nvptx-lower-alloca nvptx-lower-args nvptx-lower-ctor-dtor
nvptx-peephole nvptx-prolog-epilog nvptx-proxyreg-erasure nvptx-tag-invariant-loads nvvm-reflect
objc-arc-contract opt-phis partially-inline-libcalls peephole-opt phi-node-elimination
post-inline-ee-instrument postrapseudos pre-isel-intrinsic-lowering processimpdefs
register-coalescer removeredundantdebugvalues replace-with-veclib safe-stack
scalarize-masked-mem-intrin separate-const-offset-from-gep shadow-stack-gc-lowering slsr sroa
stack-coloring stack-protector stack-slot-coloring twoaddressinstruction
unreachable-mbb-elimination unreachableblockelim
"""
LLVM_PASSES = frozenset(_LLVM_NAMES.split())
"""The passes of LLVM's NVPTX code generator (`llc -debug-pass=Arguments`, LLVM 22)."""

_BORDER = "convert-tileaa-to-tileas"
_DOTS = "tileas-assign-dot-layouts"
_LAYOUTS = "tileas-assign-load-store-layouts"
_LAST = "convert-nv-tileas-to-llvm"
_SCHEDULE = "tileas-generate-schedule"
_EXPAND = "tileas-expand-schedule"

ELSEWHERE: dict[str, tuple[str, str]] = {
    "tileas-prepare-for-scheduling": (_SCHEDULE, "loads of a loop are told apart there"),
    "tileas-legalize-fma-dot": (_DOTS, "products without tensor cores are recognised there"),
    "tileas-optimize-reduce": (
        "tileas-legalize-reduce",
        "redux, shuffles and shared memory are chosen there",
    ),
    "tileas-assign-pipeline-layouts": (_BORDER, "tiles in shared memory are swizzled there"),
    "tileas-materialize-async": (_BORDER, "loads become asynchronous copies there"),
    "tileas-unspecialized-pipeline": (_EXPAND, "loops start their loads early from there on"),
    "tileas-materialize-schedule": ("tileas-assign-warp-roles", "warps get roles there"),
    "tileas-resolve-agent-boundary": (_BORDER, "values that cross warp roles are computed twice"),
    "tileas-remove-layout-conversions": (_LAYOUTS, "values are given the layouts of their users"),
    "tileas-remove-buffer-alias": (_LAST, "shared memory is laid out there"),
    "tileas-refine-atom-by-resource": (_DOTS, "the size of instructions is chosen there"),
    "tileas-attach-tma-desc-args": (_LAST, "tensor maps are filled in by the kernel itself"),
    "tileas-remove-dead-args": ("canonicalize", "values without users are removed there"),
    "tileas-legalize-tmem-copy": (
        "tileas-plan-cta",
        "the shape of tcgen05.ld is chosen there",
    ),
    "convert-cute-to-tileas": (
        "convert-cute-to-llvm",
        "programs in CuTe's dialects say what each thread does, so tiles have no part in it",
    ),
    "convert-pipeline-to-nvvm": (_LAST, "pipelines become mbarriers there"),
}
"""Names of passes in NVIDIA's compiler: the pass of ours that does the work, and what it does."""


RENAMED: dict[str, str] = {
    "tileaa-split-large-tiles": "tileas-slicing",
    "tileaa-split-depth": "split-k",
    "tileaa-slice-epilogues": "slice-epilogue",
    "tileaa-hoist-loads": "hoist-loads",
    "tileaa-simplify-addresses": "simplify-addresses",
    "join-tiles": "tiles-per-cta",
    "pair-tile-blocks": "form-clusters",
    "generate-schedule": "tileas-generate-schedule",
}
"""Names that passes of ours had before."""


def _mistake(message: str, word: str, known: Iterable[str], otherwise: str) -> UsageError:
    """The error for an unknown word, with the known one that is most like it, or all of them."""
    from tileiras.suggestions import did_you_mean

    label = did_you_mean(word, sorted(known))
    return UsageError(message if label else message + otherwise, label=label)


def check_pass(name: str) -> None:
    """Raises UsageError for a name that is no pass of ours; it says where the work is done."""
    if name in PASSES:
        return
    if name in RENAMED:
        raise UsageError(f"there is no pass '{name}': it is called '{RENAMED[name]}'")
    if name in ELSEWHERE:
        ours, what = ELSEWHERE[name]
        where = f"its work is done by '{ours}'" if ours else "nothing does its work"
        raise UsageError(f"there is no pass '{name}': {where} ({what})")
    if name in LLVM_PASSES:
        raise UsageError(f"'{name}' is a pass of LLVM, expected one of our own")
    names = f", expected one of {', '.join(sorted(PASSES))}"
    raise _mistake(f"unknown pass '{name}'", name, PASSES, names)


def check_dumped(name: str) -> None:
    """Raises UsageError for a name that is neither a pass of ours nor one of LLVM's."""
    if name not in LLVM_PASSES:
        check_pass(name)


def split_pipeline(text: str) -> tuple[str, ...]:
    """The passes of a list: separated by commas, with their options in braces.

    Raises UsageError for braces that do not match.
    """
    entries, depth = [""], 0
    for char in text:
        depth += (char == "{") - (char == "}")
        if depth not in (0, 1):
            raise UsageError(f"braces in the list of passes do not match: '{text}'")
        if char == "," and depth == 0:
            entries.append("")
        else:
            entries[-1] += char
    if depth:
        raise UsageError(f"braces in the list of passes do not match: '{text}'")
    return tuple(entry.strip() for entry in entries if entry.strip())


def pass_name(entry: str) -> str:
    """The name in an entry of a list of passes, less its options."""
    return entry.partition("{")[0].strip()


def make_pass(entry: str) -> IrPass:
    """The pass of an entry such as `name{key=value other=2}`.

    The options are the fields of the pass's class. Raises UsageError for unknown passes and
    options, and for values of the wrong kind.
    """
    name, brace, rest = entry.partition("{")
    name = name.strip()
    check_pass(name)
    cls: Any = load_pass(name)
    if brace and not rest.endswith("}"):
        raise UsageError(f"found '{entry}', expected '{name}{{option=value,...}}'")
    words = rest[:-1].replace(",", " ").split() if brace else []
    known = {field.name.replace("_", "-"): field for field in fields(cls)}
    given: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        field = known.get(key.replace("_", "-"))
        if field is None:
            names = f", its options are: {', '.join(known)}" if known else ", it has none"
            raise _mistake(f"pass '{name}' has no option '{key}'", key, known, names)
        given[field.name] = _value(name, key, value if equals else "true", str(field.type))
    for key, field in known.items():
        no_default = field.default is MISSING and field.default_factory is MISSING
        if no_default and field.name not in given:
            raise UsageError(f"pass '{name}' needs its option '{key}'")
    return cls(**given)


def _value(name: str, key: str, text: str, kind: str) -> object:
    """The value of an option by the type of its field: bool, int, float or text."""
    kind = kind.removesuffix(" | None")
    try:
        match kind:
            case "bool":
                return {"true": True, "1": True, "false": False, "0": False}[text]
            case "int":
                return int(text)
            case "float":
                return float(text)
            case _:
                return text
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"option '{key}' of pass '{name}' is '{text}', expected a value of type {kind}"
        ) from error
