"""The installed command does not import what lies in the folder where somebody works."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.robustness.processes import COMPILE, run

COMMAND = find_spec("tileiras_command")
assert COMMAND is not None and COMMAND.origin is not None
SOURCES = Path(COMMAND.origin).parent
"""Where the compiler under test lies: a checkout, or `site-packages`."""

TRAP = "raise ImportError('this file has nothing to do with the compiler')\n"
NAMES = ["tileiras", "xdsl", "llvmlite", "signal", "dataclasses"]
PATHS = ["", "{here}", "{here}:.", ":/nonexistent"]
CASES = [("click", path) for path in PATHS] + [(name, ".") for name in ("click", *NAMES)]


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def installed_command(folder: Path) -> list[str]:
    """The script that pip writes for `tileiras`, for sources in `folder`.

    Like an editable installation, `folder` is found by a finder behind those of the path.
    """
    script = Path("bin/tileiras")
    script.parent.mkdir(exist_ok=True)
    script.write_text(
        "import sys\n"
        "from importlib.machinery import PathFinder\n"
        "class Editable:\n"
        "    def find_spec(self, name, *_):\n"
        f"        return PathFinder.find_spec(name, [{str(folder)!r}])\n"
        "sys.meta_path.append(Editable())\n"
        "from tileiras_command import main\n"
        "if __name__ == '__main__':\n"
        "    sys.exit(main())\n"
    )
    return [sys.executable, str(script.absolute())]


@pytest.mark.parametrize(("name", "path"), CASES)
def test_files_with_names_of_libraries(name: str, path: str, tmp_path: Path) -> None:
    """Neither for a compilation nor for help, which imports more."""
    command = installed_command(SOURCES)
    Path("work").mkdir()
    Path(f"work/{name}.py").write_text(TRAP)
    variables = {**os.environ, "PYTHONPATH": path.format(here=tmp_path / "work")}
    for arguments in (["--help"], [COMPILE[0], "--emit=cuda_tile"]):
        done = run(*arguments, program=command, env=variables, cwd="work")
        assert (done.returncode, done.stderr) == (0, "")


def test_package_in_the_folder() -> None:
    """A folder named like the package."""
    command = installed_command(SOURCES)
    Path("work/tileiras").mkdir(parents=True)
    Path("work/tileiras/__init__.py").write_text(TRAP)
    variables = {**os.environ, "PYTHONPATH": "."}
    done = run("--version", program=command, env=variables, cwd="work")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("tileiras: open compiler")


def test_checkout_on_the_path_is_used() -> None:
    """A developer who names one means it: it has the command's own module."""
    command = installed_command(SOURCES)
    other = Path("checkout")
    other.mkdir()
    shutil.copy(SOURCES / "tileiras_command.py", other)
    shutil.copytree(SOURCES / "tileiras", other / "tileiras")
    version = other / "tileiras" / "__init__.py"
    version.write_text(version.read_text().replace('__version__ = "', '__version__ = "9.'))
    variables = {**os.environ, "PYTHONPATH": str(other.absolute())}
    done = run("--version", program=command, env=variables)
    assert ", version 9." in done.stdout, done.stderr
    variables.pop("PYTHONPATH")
    assert ", version 9." not in run("--version", program=command, env=variables).stdout


def test_library_that_is_only_on_the_path_is_found() -> None:
    """`pip install --target` and PYTHONPATH: what is nowhere else comes from there."""
    Path("there").mkdir()
    Path("there/only_there.py").write_text("print('found')\n")
    script = "import tileiras_command, sys; import only_there; print(sys.path[-1])"
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCES), "there"])}
    done = run(program=[sys.executable, "-c", script], env=variables)
    assert done.stdout.split() == ["found", str(Path("there").absolute())], done.stderr


def test_path_is_left_alone_without_the_variable() -> None:
    """Nothing to pay for on the ordinary way."""
    script = (
        f"import sys; sys.path.insert(0, {str(SOURCES)!r}); before = list(sys.path)\n"
        "import tileiras_command; print(sys.path == before, 'importlib.util' in sys.modules)"
    )
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = run(program=[sys.executable, "-S", "-c", script], env=variables)
    assert done.stdout.split() == ["True", "False"], done.stderr
