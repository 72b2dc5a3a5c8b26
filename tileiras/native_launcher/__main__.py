"""`python -m tileiras.native_launcher`: builds the native program for the Python that runs this."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).absolute().with_name("launcher.c")
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")

_PROBE = """
import json, os, sys
import tileiras_command
from tileiras.resident.protocol import socket_path
path = [os.path.abspath(entry) for entry in sys.path if os.path.exists(entry)]
folder = os.path.dirname(os.path.abspath(tileiras_command.__file__))
print(json.dumps([[*path, *([] if folder in path else [folder])], socket_path("")]))
"""
"""Says where a Python without variables finds modules, and the name of its socket."""

_BARE_PROBE = "import json, sys; print(json.dumps([sys.hexversion, sys.path]))"
"""Says which Python this is, and where it finds modules without the site module."""

_START = """import sys
if [sys.hexversion, sys.path] == {bare!r}:
    sys.path[:] = {path!r}
else:
    import site; site.main()
try:
    import tileiras_command as c
except ModuleNotFoundError:
    import site; site.main()
    import tileiras_command as c
"""
"""What Python runs under `-I -S`. Another Python than that of the build, or packages that are no
longer where they were: the site module says where they are."""

_RELEASE = """import _signal, sys
held = sys._xoptions.get("held", "").split()
_signal.pthread_sigmask(_signal.SIG_UNBLOCK, map(int, held))
c."""
"""Lets the signals through that the program holds while Python starts: a line of ours answers
them now."""


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Builds the program at the place given, else where the command is; returns the exit code.

    A machine without a C compiler is told so, and keeps the command that it has.
    """
    if len(argv) > 1:
        print("usage: python -m tileiras.native_launcher [PLACE]", file=sys.stderr)
        return 1
    place = Path(argv[0] if argv else os.path.join(sysconfig.get_path("scripts"), "tileiras"))
    compiler = find_compiler(environ)
    if not compiler:
        print(f"note: no C compiler is found: '{place}' stays as it is", file=sys.stderr)
        return 0
    try:
        build(compiler, place)
    except subprocess.CalledProcessError as error:
        print(f"error: '{error.cmd[0]}' failed:\n{error.stderr}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: unable to write '{place}': {error.strerror}", file=sys.stderr)
        return 1
    print(f"{place}: a native program for {sys.executable}")
    return 0


def find_compiler(environ: Mapping[str, str]) -> list[str]:
    """The C compiler as $CC names it, else the usual ones; empty where there is none."""
    names = [environ["CC"]] if environ.get("CC", "").strip() else ["cc", "gcc", "clang"]
    for name in names:
        try:
            words = shlex.split(name)
        except ValueError:  # a quotation that does not end
            continue
        found = shutil.which(words[0], path=environ.get("PATH"))
        if found:
            return [os.path.abspath(found), *words[1:]]
    return []


def build(compiler: Sequence[str], place: Path) -> None:
    """Compiles the program and moves it to its place, where it is seen whole or not at all.

    Raises OSError, and CalledProcessError where compiling fails.
    """
    place = place.absolute()
    with tempfile.TemporaryDirectory(prefix=".tileiras-", dir=place.parent) as folder:
        header, program = Path(folder, "build.h"), Path(folder, "program")
        header.write_text(definitions(), encoding="ascii")
        _run([*compiler, *FLAGS, "-include", str(header), str(SOURCE), "-o", str(program)])
        os.replace(program, place)


def definitions() -> str:
    """The header that says what is particular to this Python and this installation."""
    command = [sys.executable, "-E", "-P", "-B", "-X", "utf8", "-c", _PROBE]
    path, socket = json.loads(_run(command))
    bare = json.loads(_run([sys.executable, "-I", "-S", "-c", _BARE_PROBE]))
    isolated = _START.format(bare=bare, path=path) + _RELEASE
    texts = {
        "PYTHON": sys.executable,
        "ISOLATED": f"{isolated}main()",
        "ALONE": f"{isolated}compile_here()",
        "ORDINARY": f"import tileiras_command as c\n{_RELEASE}main()",
        "SOCKET": socket,
    }
    return "".join(f"#define {name} {_quoted(text)}\n" for name, text in texts.items())


def _quoted(text: str) -> str:
    """A text as C writes it."""
    return '"' + "".join(f"\\{byte:03o}" for byte in os.fsencode(text)) + '"'


def _run(command: list[str]) -> str:
    """What a command prints; raises CalledProcessError."""
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
