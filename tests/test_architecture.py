"""The house rules that a program can check, read off the syntax trees of the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tileiras.pipeline import EVERY_STEP

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tileiras"
MAX_LINES = 600

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "termination", "early_signals", "file_replacement"),
    ("colors",),
    ("excerpts", "suggestions", "text_limits", "diagnostic_output", "argument_parser"),
    ("limits",),
    ("options",),
    ("remarks",),
    ("ir_pass",),
    ("dialects",),
    ("bytecode", "codegen", "runtime"),
    ("interpreter",),
    ("analysis",),
    ("planning",),
    ("passes",),
    ("pipeline",),
    ("registry",),
    ("pass_names",),
    ("stages", "ir_text"),
    ("dumps",),
    ("settled",),
    ("launch_info", "pass_manager", "foreign_input"),
    ("resource_remarks",),
    (
        "driver",
        "command_line",
        "depfile",
        "fast_start",
        "file_io",
        "reproducer",
        "response_files",
        "result_cache",
        "versions",
    ),
    ("batch", "reducer"),
    ("cli", "__main__", "api"),
    ("reduce_command",),
    ("explain", "layout_command"),
    ("bench", "c_launcher"),
    ("tune",),
    ("completion",),
    ("resident",),
    ("native_launcher",),
)
"""Parts of the package from floor to roof: a part imports itself and lower layers only."""

JUDGES = ("interpreter",)
"""Parts that only tests and tools outside of the compiler may use."""

TARGETS_AND_ATOMS = ("tileiras.codegen.target", "tileiras.codegen.atoms")
CODE_GENERATION_KNOWN_TO: dict[str, tuple[str, ...]] = {
    "passes": TARGETS_AND_ATOMS,
    "planning": TARGETS_AND_ATOMS,
    "analysis": TARGETS_AND_ATOMS,
    "interpreter": ("tileiras.codegen.atoms",),
}
"""Parts that know of code generation only this."""
ENVIRONMENT_READERS = (
    "native_launcher/__main__.py",
    "native_launcher/snapshot.py",
    "cli.py",
    "driver.py",
    "reduce_command.py",
    "tune/command.py",
)
CAPABILITY_NAMES = re.compile(r"^(sm|cc|arch|sm_version|capability|compute_capability)$")
Rule = Callable[[Path], None]
"""Fails on a file that breaks it."""
VAGUE_FILE_NAMES = ("utils.py", "util.py", "helpers.py", "helper.py", "misc.py", "common.py")


def sources() -> list[Path]:
    """All sources of the package, in a fixed order."""
    return sorted(PACKAGE.rglob("*.py"))


def all_python() -> list[Path]:
    """The package, its tests and its benchmarks."""
    others = (path for part in ("tests", "benchmarks") for path in (ROOT / part).rglob("*.py"))
    return sorted([*sources(), *others])


def files_of_tests() -> list[Path]:
    """The tests and what they share."""
    return sorted((ROOT / "tests").rglob("*.py"))


def name_of(path: Path) -> str:
    """The path as messages show it."""
    return str(path.relative_to(ROOT))


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a source."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


def rank_of(part: str) -> int | None:
    """The layer of a part of the package, None for one that is not listed."""
    return next((i for i, parts in enumerate(LAYERS) if part in parts), None)


def part_of(path: Path) -> str:
    """The part of the package that a source belongs to, such as `dialects`."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def runtime_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes, without what stands under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for other in node.orelse:
                yield from runtime_nodes(other)
            continue
        yield node
        yield from runtime_nodes(node)


def imports_of(path: Path) -> Iterator[tuple[str, int]]:
    """The modules of ours that a source imports, with the line."""
    package = ("tileiras", *path.relative_to(PACKAGE).parts[:-1])
    for node in runtime_nodes(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, node.module) if node.module else base)
            if module in ("tileiras", "tileiras.codegen"):
                yield from ((f"{module}.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield module, node.lineno


ASKS_FOR_PLANS: dict[str, tuple[str, ...]] = {
    "plan_roles": ("planning/strategy.py", "planning/warp_roles/plan.py"),
    "choose_strategy": ("planning/strategy.py", "passes/nv_tileaa/choose_strategy.py"),
    "choose_again": ("planning/strategy.py", "passes/nv_tileaa/coarsen_locks.py"),
    "would_specialise": (
        "planning/strategy.py",
        "passes/nv_tileaa/dynamic_persistent.py",
        "passes/nv_tileaa/expand_scaled_dot.py",
        "passes/nv_tileaa/expand_schedule.py",
        "passes/nv_tileaa/form_clusters.py",
        "passes/nv_tileaa/join_iterations.py",
        "passes/nv_tileaa/multicast_remote_tiles.py",
        "passes/nv_tileaa/pair_ctas.py",
        "passes/nv_tileaa/split_accumulation.py",
        "passes/nv_tileaa/split_steps.py",
        "passes/nv_tileaa/split_mn.py",
        "passes/nv_tileaa/tiles_per_cta.py",
    ),
    "plan_with_stores": (
        "passes/nv_tileaa/choose_strategy.py",
        "passes/nv_tileaa/dynamic_persistent.py",
        "passes/nv_tileaa/form_clusters.py",
        "passes/nv_tileaa/tiles_per_cta.py",
        "planning/kernel.py",
        "planning/stores.py",
    ),
    "with_store_warp": ("planning/stores.py", "planning/warp_roles/store_warp.py"),
    "overlap_products": (
        "passes/nv_tileaa/generate_schedule.py",
        "passes/nv_tileaa/join_iterations.py",
        "passes/nv_tileaa/split_accumulation.py",
        "planning/schedule/overlap.py",
    ),
    "plan_conversion": (
        "dialects/layout/conversion.py",
        "planning/layouts/assignment.py",
        "planning/layouts/conversions.py",
    ),
    "way_between": (
        "passes/nv_tileas/materialize_convert_layout.py",
        "planning/layouts/conversions.py",
        "planning/layouts/reductions.py",
    ),
    "steps_of_reduction": (
        "passes/nv_tileas/reduction_steps.py",
        "planning/layouts/reductions.py",
    ),
}
"""Who plans the warps of a kernel: one pass, and passes that try a change on a copy. Others read
what stands on the kernel (decisions 0030, 0054). Who decides how tiles go from threads to threads
(0041).
"""


def kernels_are_planned_in_one_place(path: Path) -> None:
    """A pass that wants to know how a kernel is computed reads its strategy."""
    own = path.relative_to(PACKAGE).as_posix()
    for node in ast.walk(tree_of(path)):
        for key in ("id", "attr", "name"):
            name = getattr(node, key, None)
            if name in ASKS_FOR_PLANS:
                where = f"{name_of(path)}:{getattr(node, 'lineno', 0)} asks {name}"
                assert own in ASKS_FOR_PLANS[name], where


def test_passes_that_may_ask_do() -> None:
    """The list above has nobody who does not."""
    for name, known_to in ASKS_FOR_PLANS.items():
        for path in known_to:
            assert name in (PACKAGE / path).read_text(encoding="utf-8"), (name, path)


def modules_of_passes() -> dict[str, str]:
    """The modules that hold a pass, with its name."""
    found: dict[str, str] = {}
    for path in sources():
        for node in tree_of(path).body:
            if not isinstance(node, ast.ClassDef) or "IrPass" not in map(ast.unparse, node.bases):
                continue
            parts = path.relative_to(ROOT).with_suffix("").parts
            module = ".".join(parts).removesuffix(".__init__")
            found[module] = next(
                statement.value.value
                for statement in node.body
                if isinstance(statement, ast.Assign)
                and ast.unparse(statement.targets[0]) == "name"
                and isinstance(statement.value, ast.Constant)
            )
    return found


def known_to(module: str, paths: dict[str, Path]) -> set[str]:
    """The modules of passes that one imports, and those that these import."""
    found, pending = {module}, [module]
    while pending:
        imported = {other for other, _ in imports_of(paths[pending.pop()])} & paths.keys()
        pending += imported - found
        found |= imported
    return found


def test_passes_know_no_later_ones() -> None:
    """What an earlier pass needs of a later one's decisions is planning, or a module of both."""
    passes = modules_of_passes()
    names = [step.pass_name for step in EVERY_STEP]
    assert set(names) == set(passes.values())
    last = {name: place for place, name in enumerate(names)}
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sources()
        if part_of(path) == "passes"
    }
    wrong = [
        f"{passes[module]} knows {passes[other]}"
        for module in passes.keys() & paths.keys()
        for other in known_to(module, paths) & passes.keys()
        if names.index(passes[other]) > last[passes[module]]
    ]
    assert not wrong


def docstrings(tree: ast.Module) -> frozenset[int]:
    """Identities of the constants that are docstrings (of anything, also of fields)."""
    found = []
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                found.append(id(statement.value))
    return frozenset(found)


def imports_point_down(path: Path) -> None:
    """A part imports nothing from a higher layer, nor from a neighbour it must not know."""
    part = part_of(path)
    if part == "__init__":
        return
    rank = rank_of(part)
    assert rank is not None, f"{part} is in no layer: add it to LAYERS and to docs/architecture.md"
    for module, line in imports_of(path):
        if not module.startswith("tileiras."):
            continue
        other = module.split(".")[1]
        if other in (part, "__version__"):
            continue
        other_rank = rank_of(other)
        where = f"{name_of(path)}:{line} imports {module}"
        assert other_rank is not None, where
        assert other_rank <= rank, where
        assert {part, other} != {"bytecode", "codegen"}, where
        assert other not in JUDGES, f"{where}, which judges the compiler"
        if part in CODE_GENERATION_KNOWN_TO and other == "codegen":
            assert module.startswith(CODE_GENERATION_KNOWN_TO[part]), where


def files_are_short(path: Path) -> None:
    """A file over 600 lines is two ideas."""
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= MAX_LINES, f"{lines} lines"


def everything_public_has_a_docstring(path: Path) -> None:
    """Modules, public classes, and public functions that are not nested in functions."""
    tree = tree_of(path)
    missing = [] if ast.get_docstring(tree) else ["the module"]

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if child.name.startswith("_") or is_overload(child):
                    continue
                if not ast.get_docstring(child):
                    missing.append(f"{prefix}{child.name} (line {child.lineno})")
                if isinstance(child, ast.ClassDef):
                    visit(child, f"{child.name}.")

    visit(tree, "")
    assert not missing, "no docstring: " + ", ".join(missing)


def is_overload(node: ast.AST) -> bool:
    """Whether a function is an `@overload` or the setter of a property."""
    decorators = [ast.unparse(d) for d in getattr(node, "decorator_list", ())]
    return any(d.endswith(("overload", ".setter")) for d in decorators)


def targets_are_named_in_one_place(path: Path) -> None:
    """No `sm_90` and no comparison of capability numbers outside codegen/target."""
    if path.is_relative_to(PACKAGE / "codegen" / "target"):
        return
    tree = tree_of(path)
    skipped = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = re.search(r"\bsm_\d", node.value)
            default = part_of(path) == "options"  # the one default, checked by the target table
            assert not named or id(node) in skipped or default, f"line {node.lineno}: {node.value}"
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                word = getattr(side, "attr", getattr(side, "id", ""))
                assert not CAPABILITY_NAMES.match(word), f"line {node.lineno} compares {word}"


def environment_is_read_at_the_roof(path: Path) -> None:
    """Knobs are fields of CompileOptions; only cli.py and driver.py see the environment."""
    if name_of(path) in tuple(f"tileiras/{name}" for name in ENVIRONMENT_READERS):
        return
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            assert text not in ("os.environ", "os.getenv"), f"line {node.lineno}: {text}"
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            names = [alias.name for alias in node.names]
            assert "environ" not in names and "getenv" not in names, f"line {node.lineno}"


def errors_say_something(path: Path) -> None:
    """No `raise SomeError()` and no `raise SomeError`."""
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Raise) or node.exc is None:
            continue
        bare_class = isinstance(node.exc, ast.Name) and node.exc.id.endswith(("Error", "Exception"))
        empty_call = isinstance(node.exc, ast.Call) and not node.exc.args and not node.exc.keywords
        assert not bare_class and not empty_call, f"line {node.lineno}: {ast.unparse(node)}"


def no_iteration_over_bare_sets(path: Path) -> None:
    """The order of a set differs from run to run; output must not."""
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.For | ast.comprehension):
            continue
        source = node.iter
        called = isinstance(source, ast.Call) and ast.unparse(source.func) in ("set", "frozenset")
        literal = isinstance(source, ast.Set | ast.SetComp)
        assert not called and not literal, f"line {source.lineno}: {ast.unparse(source)}"


def file_names_say_what_is_inside(path: Path) -> None:
    """No utils.py."""
    assert path.name not in VAGUE_FILE_NAMES, "says nothing"


LOOKS_AT_CODE: dict[str, str] = {
    "passes/cuda_tile/test_hoist_views.py": "compares the code of two texts",
    "passes/nv_tileaa/test_carried_extremes.py": "runs the code in the PTX machine",
    "passes/nv_tileaa/test_coarsen_locks.py": "asks whether there is room for what is sent",
    "passes/nv_tileaa/test_divided_columns.py": "runs the code in the PTX machine",
    "passes/nv_tileaa/test_insert_ocg_knobs.py": "hints are for ptxas, which reads them there",
    "passes/nv_tileaa/test_online_columns.py": "runs the code in the PTX machine",
    "passes/nv_tileaa/test_pipelined_loads.py": "asks which copies leave tiles in L1",
    "passes/nv_tileaa/test_scans_side_by_side.py": "runs the code in the PTX machine",
    "passes/nv_tileaa/test_split_reductions.py": "runs the code in the PTX machine",
    "passes/nv_tileas/test_cta_config.py": "asks ptxas how many registers and bytes there are",
    "passes/nv_tileas/test_explained_operations.py": "remarks are told at the end",
    "passes/nv_tileas/test_tma_preferences.py": "runs the code in the PTX machine",
    "planning/test_strategy.py": "compares remarks of a whole compilation",
    "planning/test_written_schedules.py": "compares the code of two texts",
}
"""Tests of passes and of planning that compile to PTX, and what for."""


def names_ptx(path: Path) -> bool:
    """Whether a test names that stage."""
    nodes = ast.walk(tree_of(path))
    return any(isinstance(node, ast.Constant) and node.value == "ptx" for node in nodes)


@pytest.mark.parametrize("folder", ["passes", "planning"])
def test_what_a_pass_decides_is_looked_for_where_it_is_written(folder: str) -> None:
    """Not in PTX: whoever counts instructions tests the lowering, and stands in tests/codegen."""
    tests = ROOT / "tests"
    found = [
        path.relative_to(tests).as_posix()
        for path in sorted((tests / folder).rglob("*.py"))
        if names_ptx(path)
    ]
    assert found == [name for name in LOOKS_AT_CODE if name.startswith(folder)]


SHARED_BY_TESTS = (
    "tests.kernels",
    "tests.conftest",
    "tests.gpu.launch",
    "tests.bytecode.files",
    "tests.bytecode.kernels",
)
"""What tests of any folder may import: kernels, what the machine has, how a GPU is used."""


def imports_between_tests(path: Path) -> Iterator[tuple[str, int]]:
    """The modules of tests that a test imports, with the line."""
    folder = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = folder[: len(folder) - node.level + 1] if node.level else ()
        module = ".".join((*base, node.module) if node.module else base)
        yield from ((f"{module}.{alias.name}", node.lineno) for alias in node.names)


def modules_share_kernels_and_not_each_other(path: Path) -> None:
    """No module of tests imports another, and folders share what is in `tests.kernels` alone."""
    folder = path.relative_to(ROOT / "tests").parts[:-1]
    for module, line in imports_between_tests(path):
        where = f"{name_of(path)}:{line} imports {module}"
        assert not any(part.startswith("test_") for part in module.split(".")[:-1]), where
        if folder and module.startswith("tests.") and not module.startswith(SHARED_BY_TESTS):
            assert module.split(".")[1] == folder[0], where


RULES: tuple[tuple[Rule, Callable[[], list[Path]]], ...] = (
    (kernels_are_planned_in_one_place, sources),
    (imports_point_down, sources),
    (files_are_short, all_python),
    (everything_public_has_a_docstring, sources),
    (targets_are_named_in_one_place, sources),
    (environment_is_read_at_the_roof, sources),
    (errors_say_something, sources),
    (no_iteration_over_bare_sets, sources),
    (file_names_say_what_is_inside, all_python),
    (modules_share_kernels_and_not_each_other, files_of_tests),
)
"""What every file keeps, and which files."""


@pytest.mark.parametrize(("rule", "files"), RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_every_file_keeps(rule: Rule, files: Callable[[], list[Path]]) -> None:
    """One test a rule: a thousand files times ten rules are more tests than all others."""
    broken = [f"{name_of(path)}: {said}" for path in files() if (said := breach(rule, path))]
    assert not broken, "\n".join(broken)


def breach(rule: Rule, path: Path) -> str:
    """What a file does against a rule, empty for nothing."""
    try:
        rule(path)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("import os\nx = os.environ['A']\n", environment_is_read_at_the_roof),
        ("def f():\n    raise ValueError()\n", errors_say_something),
        ("def f():\n    raise ValueError\n", errors_say_something),
        ("for x in set([1]):\n    pass\n", no_iteration_over_bare_sets),
        ("y = [x for x in {1, 2}]\n", no_iteration_over_bare_sets),
        ("if t == 'sm_90':\n    pass\n", targets_are_named_in_one_place),
        ("if target.sm >= 90:\n    pass\n", targets_are_named_in_one_place),
        ("def f():\n    pass\n", everything_public_has_a_docstring),
        ("import tileiras.driver\n", imports_point_down),
        ("from tileiras import cli\n", imports_point_down),
        ("import tileiras.interpreter\n", imports_point_down),
        ("from tileiras.codegen.lowering import context\n", imports_point_down),
        ("def f():\n    from tileiras.pipeline import PIPELINE\n", imports_point_down),
        (
            "from tileiras.planning.warp_roles.plan import plan_roles\n",
            kernels_are_planned_in_one_place,
        ),
        (
            "from tileiras.planning import strategy\nstrategy.would_specialise(1, 2)\n",
            kernels_are_planned_in_one_place,
        ),
        ("x = 1\n" * 601, files_are_short),
    ],
)
def test_rules_find_violations(
    code: str, rule: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rule fails on a file that breaks it."""
    assert callable(rule)
    package = tmp_path / "tileiras"
    bad = package / "passes" / "bad.py"
    bad.parent.mkdir(parents=True)
    bad.write_text(code)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(globals(), "PACKAGE", package)
    with pytest.raises(AssertionError):
        rule(bad)


@pytest.mark.parametrize(
    "code",
    [
        "from tests.codegen.rows import ROWS",
        "from tests.passes.test_other import kernel",
        "from .test_other import kernel",
        "from test_other import kernel",
        "from ..codegen.rows import ROWS",
    ],
)
def test_tests_that_share_are_found(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By any way to say it; what lies in the same folder or in `tests.kernels` is fine."""
    bad = tmp_path / "tests" / "passes" / "test_bad.py"
    bad.parent.mkdir(parents=True)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    bad.write_text("from tests.kernels.gemm import gemm\nfrom .rows import ROWS\n")
    modules_share_kernels_and_not_each_other(bad)
    bad = bad.with_name("test_worse.py")
    bad.write_text(code)
    with pytest.raises(AssertionError):
        modules_share_kernels_and_not_each_other(bad)
