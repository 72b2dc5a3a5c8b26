"""`python -m tileiras.native_launcher`: builds the native program for the Python that runs this."""

from __future__ import annotations

import json
import os
import platform
import secrets
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tileiras.resident.samples import MATMUL
from tileiras.resident.server import sample_target

SOURCE = Path(__file__).absolute().with_name("launcher.c")
STARTER = SOURCE.with_name("snapshot_starter.c")
WRITER = SOURCE.with_name("snapshot_writer.c")
FLAGS = ("-O2", "-std=gnu11", "-Wall", "-Wextra")

SNAPSHOT_VARIABLE = "TILEIRAS_SNAPSHOT"
"""0: the snapshot is left alone; 1: the reason is said where it is not used."""

STARTS_VARIABLE = "TILEIRAS_SNAPSHOT_STARTS"
"""What the program that starts from a snapshot tells itself when it starts again; not for users."""

STARTER_ADDRESS = 0x6000_0000_0000
"""Above the heap of every process, below its libraries: see snapshot_starter.c."""

STARTER_FLAGS = (
    *("-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fcf-protection=none"),
    *("-fno-pie", "-no-pie", "-mcmodel=large", f"-Wl,-Ttext-segment={STARTER_ADDRESS:#x}"),
)

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

    A machine without a C compiler is told so, and keeps the command that it has. Where a snapshot
    cannot be had the program is the one without.
    """
    words = [word for word in argv if word != "--no-snapshot"]
    if len(words) > 1 or any(word.startswith("-") for word in words):
        print("usage: python -m tileiras.native_launcher [--no-snapshot] [PLACE]", file=sys.stderr)
        return 1
    place = Path(words[0] if words else os.path.join(sysconfig.get_path("scripts"), "tileiras"))
    compiler = find_compiler(environ)
    if not compiler:
        print(f"note: no C compiler is found: '{place}' stays as it is", file=sys.stderr)
        return 0
    try:
        build(compiler, place)
        remove_snapshot(place)
        print(f"{place}: a native program for {sys.executable}")
        if len(words) == len(argv):
            with_snapshot(compiler, place)
    except subprocess.CalledProcessError as error:
        print(f"error: '{error.cmd[0]}' failed:\n{error.stderr}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: unable to write '{place}': {error.strerror}", file=sys.stderr)
        return 1
    return 0


def with_snapshot(compiler: Sequence[str], place: Path) -> None:
    """Adds a snapshot of a warmed process where that can be, and says whether. Raises OSError."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print("note: no snapshot: they are for Linux on x86-64")
        return
    try:
        build_snapshot(compiler, place)
    except subprocess.CalledProcessError as error:
        print(f"note: no snapshot: {(error.stderr or str(error)).strip()}")
        return
    size = snapshot_of(place).stat().st_size
    print(f"{snapshot_of(place)}: a warmed process, {size >> 20} MiB")


def snapshot_of(place: Path) -> Path:
    """Where the snapshot of a program lies."""
    return place.with_name(f"{place.name}.snapshot")


def launcher_of(place: Path) -> Path:
    """Where the program without a snapshot lies, beside one that has one."""
    return place.with_name(f"{place.name}.launcher")


def remove_snapshot(place: Path) -> None:
    """Removes what an earlier build has left; the program itself stays."""
    for path in (snapshot_of(place), launcher_of(place)):
        path.unlink(missing_ok=True)


def build_snapshot(compiler: Sequence[str], place: Path) -> None:
    """Writes a snapshot, and makes the program the one that starts from it.

    Raises OSError, and CalledProcessError where compiling fails or the process cannot be written.
    The program comes last: as long as it is the old one, that one is whole.
    """
    place = place.absolute()
    build_name = secrets.token_hex(16)
    texts = {"SNAPSHOT": str(snapshot_of(place)), "LAUNCHER": str(launcher_of(place))}
    named = {
        **texts,
        "BUILD": build_name,
        "VARIABLE": SNAPSHOT_VARIABLE,
        "STARTS": STARTS_VARIABLE,
    }
    with tempfile.TemporaryDirectory(prefix=".tileiras-", dir=place.parent) as folder:
        header, starter = Path(folder, "build.h"), Path(folder, "program")
        library, snapshot = Path(folder, "writer.so"), Path(folder, "snapshot")
        header.write_text(_definitions(named), encoding="ascii")
        _run(
            [*compiler, *FLAGS, *STARTER_FLAGS, "-include", str(header), str(STARTER),
             "-o", str(starter)]
        )  # fmt: skip
        _run([*compiler, *FLAGS, "-shared", "-fPIC", str(WRITER), "-o", str(library)])
        arguments = (str(library), str(snapshot), build_name, texts["LAUNCHER"])
        text = _start_text() + (
            "c._start()\n"
            "from tileiras.native_launcher.snapshot import write\n"
            f"write(*{arguments!r})\n"
        )
        _run([sys.executable, "-I", "-S", "-c", text], env={})
        launcher = Path(folder, "launcher")
        shutil.copy(place, launcher)
        os.replace(launcher, launcher_of(place))
        os.replace(snapshot, snapshot_of(place))
        try:
            rehearse(starter, launcher_of(place))
        except subprocess.CalledProcessError:
            remove_snapshot(place)
            raise
        os.replace(starter, place)


def rehearse(starter: Path, launcher: Path) -> None:
    """Compiles a product with the snapshot and without; raises CalledProcessError for a difference.

    What libraries and the kernel do differently one day is found here, not by a user.
    """
    words = ["-", f"--gpu-name={sample_target()}", "--emit=ptx", "-o", "-"]
    found = [
        subprocess.run(
            [program, *words], input=MATMUL, capture_output=True, env={SNAPSHOT_VARIABLE: "1"}
        )
        for program in (starter, launcher)
    ]
    outcomes = [(done.returncode, done.stdout, done.stderr) for done in found]
    if outcomes[0] != outcomes[1]:
        said = found[0].stderr.decode(errors="replace").strip()
        reason = f"what it does is not the same: exit code {found[0].returncode}, '{said}'"
        raise subprocess.CalledProcessError(1, str(starter), stderr=reason)


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
        command = [*compiler, *FLAGS, "-include", str(header), str(SOURCE), "-o", str(program)]
        try:
            _run([*command, "-static"])  # starts 0.5 ms sooner
        except subprocess.CalledProcessError:  # the C library is only there as a shared one
            _run(command)
        os.replace(program, place)


def definitions() -> str:
    """The header that says what is particular to this Python and this installation."""
    socket = _probe()[1]
    isolated = _start_text() + _RELEASE
    texts = {
        "PYTHON": sys.executable,
        "ISOLATED": f"{isolated}main()",
        "ALONE": f"{isolated}compile_here()",
        "ORDINARY": f"import tileiras_command as c\n{_RELEASE}main()",
        "SOCKET": socket,
    }
    return _definitions(texts)


def _definitions(texts: Mapping[str, str]) -> str:
    """Texts as C takes them."""
    return "".join(f"#define {name} {_quoted(text)}\n" for name, text in texts.items())


def _start_text() -> str:
    """What Python runs to have the package, without looking for it."""
    bare = json.loads(_run([sys.executable, "-I", "-S", "-c", _BARE_PROBE]))
    return _START.format(bare=bare, path=_probe()[0])


def _probe() -> tuple[list[str], str]:
    """Where a Python without variables finds modules, and the name of its socket."""
    path, socket = json.loads(_run([sys.executable, "-E", "-P", "-B", "-X", "utf8", "-c", _PROBE]))
    return path, socket


def _quoted(text: str) -> str:
    """A text as C writes it."""
    return '"' + "".join(f"\\{byte:03o}" for byte in os.fsencode(text)) + '"'


def _run(command: list[str], env: Mapping[str, str] | None = None) -> str:
    """What a command prints; raises CalledProcessError."""
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd="/", env=env,
        stdin=subprocess.DEVNULL,
    ).stdout  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
