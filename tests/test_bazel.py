"""The Bazel rules of tileiras/bazel and the project of integrations/bazel.

Where Bazel is installed it builds the project, without a network. Everywhere else the rules run in
a Starlark evaluator of their own, in which what Bazel would give them is written in Starlark, and
the compiler gets the command line that comes out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tileiras import cli

starlark: Any = pytest.importorskip("starlark")

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "tileiras" / "bazel"
PROJECT = ROOT / "integrations" / "bazel"

BUILTINS = """
def fields(**named):
    return struct(**named)

def provider(**_):
    return fields

DefaultInfo = fields
OutputGroupInfo = fields
platform_common = struct(ToolchainInfo = fields)

def rule(implementation, attrs = {}, **_):
    return struct(implementation = implementation, attrs = sorted(attrs))

repositories = []
toolchains = []
native = struct(register_toolchains = toolchains.append)

def repository_rule(implementation, **_):
    def repository(name):
        repositories.append(name)
    return repository

def module_extension(implementation, **_):
    return struct(implementation = implementation)

def a_kind(**_):
    return None

attr = struct(label = a_kind, label_list = a_kind, output = a_kind, string = a_kind,
              string_list = a_kind)

def depset(files = [], transitive = []):
    return files + [file for more in transitive for file in more]

def a_file(path):
    return struct(path = path, short_path = path, basename = path.split("/")[-1])

def some_arguments():
    words = []
    def add(value, other = None, format = "%s"):
        for one in [value] if other == None else [value, other]:
            words.append(format % (one if type(one) == "string" else one.path))
    return struct(add = add, words = words)

def a_build(path, name, src, gpu_name, options, data, out = None):
    actions = []
    def declare_file(basename, sibling = None):
        return a_file("out/" + basename)
    def run(executable, arguments, inputs, outputs, **_):
        words = [word for argument in arguments for word in argument.words]
        actions.append(struct(executable = executable, words = words,
                              inputs = [file.path for file in inputs],
                              outputs = [file.path for file in outputs]))
    def expand_location(text, targets):
        for target in targets:
            text = text.replace("$(location %s)" % target.path, target.path)
        return text
    data = [a_file(file) for file in data]
    context = struct(
        actions = struct(args = some_arguments, declare_file = declare_file, run = run),
        attr = struct(data = data, gpu_name = gpu_name, options = options),
        expand_location = expand_location,
        file = struct(src = a_file(src)),
        files = struct(data = data),
        label = struct(name = name),
        outputs = struct(out = out and a_file(out)),
        runfiles = lambda files: [file.path for file in files],
        toolchains = {
            "@tileiras//:toolchain_type": struct(executable = path, files = [a_file("version")]),
        },
    )
    return context, actions
"""
"""What Bazel defines for .bzl files, as far as ours use it."""


def evaluate(text: str, *names: str) -> Any:
    """The value of a Starlark text after these files of the rules, each in a scope with the rest.

    A load in them takes what the scope has already.
    """
    files = [re.sub(r"(?m)^load\(.*\)$", "", (RULES / name).read_text()) for name in names]
    scope = starlark.Globals.extended_by([starlark.LibraryExtension.StructType])
    program = "\n".join([BUILTINS, *files, text])
    parsed = starlark.parse("rules.bzl", program, starlark.Dialect.extended())
    return starlark.eval(starlark.Module(), parsed, scope)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def build(**attributes: Any) -> dict[str, Any]:
    """The one action of `tileiras_cubin` with these attributes."""
    given = {"gpu_name": "sm_90", "options": [], "data": [], **attributes}
    arguments = ", ".join(f"{name} = {json.dumps(value)}" for name, value in given.items())
    return evaluate(
        f"context, actions = a_build('/bin/tileiras', 'k', {arguments})\n"
        "given = tileiras_cubin.implementation(context)\n"
        "action, = actions\n"
        "{'executable': action.executable, 'words': action.words, 'inputs': action.inputs,\n"
        " 'outputs': action.outputs, 'default': [file.path for file in given[0].files],\n"
        " 'runfiles': given[0].runfiles,\n"
        " 'group': [file.path for file in given[1].launch_info], 'gpu': given[2].gpu_name}",
        "defs.bzl",
    )


def test_files_are_starlark_without_extensions() -> None:
    """As Bazel reads them: no annotations, no lambda in BUILD files, no code at the top level."""
    paths = [*RULES.iterdir(), *PROJECT.iterdir()]
    read = [path for path in paths if path.suffix in (".bzl", ".bazel") or path.name == "WORKSPACE"]
    assert len(read) == 9
    for path in read:
        starlark.parse(path.name, path.read_text(), starlark.Dialect.standard())


def test_command_line_of_the_rule_is_one_that_the_compiler_takes() -> None:
    Path("flags").write_text("--lineinfo")
    Path("out").mkdir()
    shutil.copy(PROJECT / "vector_add.mlir", "k.mlir")
    action = build(src="k.mlir", options=["-O2", "@$(location flags)"], data=["flags"])
    assert action["executable"] == "/bin/tileiras"
    assert action["inputs"] == ["k.mlir", "flags", "version"]
    assert action["outputs"] == ["out/k.cubin", "out/k.cubin.json"] == action["runfiles"]
    assert action["default"] == ["out/k.cubin"] and action["group"] == ["out/k.cubin.json"]
    assert action["gpu"] == "sm_90"
    assert cli.run(action["words"]) == 0
    assert cli.run(["k.mlir", "--gpu-name=sm_90", "-O2", "--lineinfo", "-o", "expected"]) == 0
    assert Path("out/k.cubin").read_bytes() == Path("expected").read_bytes()
    assert json.loads(Path("out/k.cubin.json").read_text())["kernels"][0]["name"] == "vector_add"


def test_output_may_have_a_name_of_its_own() -> None:
    action = build(src="k.mlir", out="elsewhere.bin")
    assert action["outputs"][0] == "elsewhere.bin" and "elsewhere.bin" in action["words"]


@pytest.mark.parametrize(
    ("compiler", "path", "problem"),
    [
        ("None", "/bin/tileiras", ""),
        ("tool", "", ""),
        ("tool", "/x", "either"),
        ("None", "", "eit"),
    ],
)
def test_toolchain_has_one_compiler(compiler: str, path: str, problem: str) -> None:
    text = (
        "tool = {DefaultInfo: struct(files_to_run = 'built')}\n"
        f"context = struct(attr = struct(compiler = {compiler}, path = '{path}'), label = 'here',\n"
        "                 files = struct(version = ['version.txt']))\n"
        "found, = tileiras_toolchain.implementation(context)\n"
        "[found.executable] + found.files"
    )
    if problem:
        with pytest.raises(starlark.StarlarkError, match=problem):
            evaluate(text, "defs.bzl")
    else:
        assert evaluate(text, "defs.bzl") == [path or "built", "version.txt"]


def local_repository(environ: dict[str, str], on_path: str | None, code: int = 0) -> Any:
    """The files that the repository rule writes."""
    which = "None" if on_path is None else f"a_path('{on_path}')"
    return evaluate(
        "def a_path(text):\n"
        "    return struct(exists = text != '/gone', __str__ = text)\n"
        "def str(path):\n"
        "    return path.__str__\n"
        "written = {}\n"
        "def file(name, text):\n"
        "    written[name] = text\n"
        "def execute(words):\n"
        "    if words[1:] != ['--version']:\n"
        "        fail(words)\n"
        f"    return struct(return_code = {code}, stdout = 'release 1', stderr = 'broken')\n"
        f"context = struct(os = struct(environ = {environ}), path = a_path, file = file,\n"
        f"                 which = lambda name: {which}, execute = execute)\n"
        "_local(context)\n"
        "written",
        "repositories.bzl",
    )


def test_installed_compiler_is_found() -> None:
    files = local_repository({}, "/usr/bin/tileiras")
    assert files["version.txt"] == "release 1"
    assert 'path = "/usr/bin/tileiras",' in files["BUILD.bazel"]
    starlark.parse("BUILD.bazel", files["BUILD.bazel"], starlark.Dialect.standard())
    files = local_repository({"TILEIRAS_EXECUTABLE": "/mine"}, "/usr/bin/tileiras")
    assert 'path = "/mine",' in files["BUILD.bazel"]


@pytest.mark.parametrize(
    ("environ", "on_path", "code", "problem"),
    [
        ({}, None, 0, "set TILEIRAS_EXECUTABLE"),
        ({"TILEIRAS_EXECUTABLE": "/gone"}, "/usr/bin/tileiras", 0, "no compiler at /gone"),
        ({}, "/usr/bin/tileiras", 2, "--version: broken"),
    ],
)
def test_missing_compiler_is_said(
    environ: dict[str, str], on_path: str | None, code: int, problem: str
) -> None:
    with pytest.raises(starlark.StarlarkError, match=problem):
        local_repository(environ, on_path, code)


def test_modules_and_workspaces_name_the_same_toolchain() -> None:
    """MODULE.bazel uses the repository that its extension makes, and registers what is in it."""
    module = (RULES / "MODULE.bazel").read_text()
    text = (
        "def use_extension(file, name):\n"
        "    return {'//:extensions.bzl compiler': compiler}[file + ' ' + name]\n"
        "def use_repo(extension, name):\n"
        "    extension.implementation(None)\n"
        "    if name not in repositories:\n"
        "        fail(name)\n"
        "def module(name):\n"
        "    pass\n"
        f"register_toolchains = toolchains.append\n{module}\n"
        "tileiras_repositories()\n"
        "[repositories, toolchains]"
    )
    repositories, toolchains = evaluate(text, "repositories.bzl", "extensions.bzl")
    assert repositories == ["tileiras_local"] * 2
    assert toolchains == ["@tileiras_local//:toolchain"] * 2


class Bazel:
    """Bazel in a copy of the project, without a network and with nothing kept outside `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        shutil.copytree(PROJECT, self.project)
        self.compiler = folder / "bin" / "tileiras"
        self.compiler.parent.mkdir()
        self.install("")

    def install(self, change: str) -> None:
        """Makes this checkout's compiler the installed one; `change` is Python before it runs."""
        main = f"import sys; {change}\nfrom tileiras.cli import main; main()"
        self.compiler.write_text(
            f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec '{sys.executable}' -c '{main}' \"$@\"\n"
        )
        self.compiler.chmod(0o755)

    def stubs(self) -> list[str]:
        """Options that give Bazel's own tools the rules that they would download: native ones."""
        rules = {
            "cc": ("binary", "import", "library", "test", "toolchain", "toolchain_suite"),
            "java": ("binary", "import", "library", "runtime", "toolchain"),
        }
        for language, kinds in rules.items():
            folder = self.folder / f"rules_{language}"
            place = folder / language
            place.mkdir(parents=True, exist_ok=True)
            (folder / "WORKSPACE").touch()
            (place / "BUILD").touch()
            lines = [f"{language}_{kind} = native.{language}_{kind}\n" for kind in kinds]
            (place / "defs.bzl").write_text("".join(lines))
        return [f"--override_repository=rules_{name}={self.folder}/rules_{name}" for name in rules]

    def build(self, *more: str, code: int = 0) -> str:
        """What `bazel build //...` says; it must end so."""
        command = ["bazel", "--batch", f"--output_user_root={self.folder}/bazel", "build"]
        command += [f"--override_repository=tileiras={RULES}", *self.stubs()]
        command += [f"--repo_env=TILEIRAS_EXECUTABLE={self.compiler}", *more, "//..."]
        done = subprocess.run(
            command,
            cwd=self.project,
            env={**os.environ, "HOME": str(self.folder)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        return done.stderr

    def output(self, name: str) -> Path:
        """A file that was built."""
        return self.project / "bazel-bin" / name


@pytest.fixture
def bazel(scratch: Path) -> Bazel:
    """Bazel where it is installed and reads WORKSPACE files without a flag, as before 7."""
    if shutil.which("bazel") is None:
        pytest.skip("bazel is not installed")
    asked = subprocess.run(
        ["bazel", "--batch", f"--output_user_root={scratch}/bazel", "version"],
        capture_output=True,
        text=True,
        cwd=scratch,
    )
    found = re.search(r"Build label: (\d+)", asked.stdout)
    if found and int(found[1]) >= 7:
        pytest.skip("this Bazel has modules only, whose registry is on the network")
    return Bazel(scratch)


def test_bazel_builds_the_project(bazel: Bazel) -> None:
    """Once; again when the source or the compiler has changed; and says what is wrong with it."""
    what = "# //:vector_add [action 'Compiling Tile IR vector_add.mlir for sm_90'"
    assert bazel.build("--subcommands").count(what) == 1
    expected = bazel.folder / "expected"
    source = bazel.project / "vector_add.mlir"
    assert cli.run([str(source), "--gpu-name=sm_90", "-o", str(expected)]) == 0
    assert bazel.output("vector_add.cubin").read_bytes() == expected.read_bytes()
    launch = json.loads(bazel.output("vector_add.cubin.json").read_text())
    assert launch["kernels"][0]["name"] == "vector_add"
    assert what not in bazel.build("--subcommands")
    bazel.install('import tileiras.versions as v; v.version_text = lambda name: "other"')
    assert what in bazel.build("--subcommands")
    source.write_text(source.read_text().replace("addf", "adff"))
    assert "unknown operation 'adff'" in bazel.build(code=1)


def test_bazel_says_that_the_compiler_is_missing(bazel: Bazel) -> None:
    bazel.compiler.unlink()
    assert f"no compiler at {bazel.compiler}" in bazel.build(code=1)
