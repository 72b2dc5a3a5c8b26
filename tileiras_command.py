"""The commands as they are installed: what a process does before it imports the compiler.

- A shell that completes a command line is answered.
- A signal in the first milliseconds ends the process with one line.
- The resident compiler does the work where that is allowed (`tileiras/resident`).
- What makes importing cheaper is in place (`tileiras/fast_start`).
- The compiler comes from where this file lies, and its libraries from the Python that it is
  installed for. `PYTHONPATH` comes last: a `click.py` or `tileiras.py` in the folder where somebody
  works is not imported. A checkout on `PYTHONPATH` has this file, too, and is used.

Imports nothing but what every Python process has (os, sys, gc) before the path is in order.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn


def main() -> None:
    """The command `tileiras`."""
    _complete("tileiras")
    from tileiras.resident.client import compile_there, is_allowed

    if is_allowed(sys.argv[1:], os.environ):
        code = compile_there(sys.argv[1:], os.environ)
        if code is not None:
            os._exit(code)
    compile_here()


def compile_here() -> None:
    """The command `tileiras`, in this process whatever is allowed."""
    _start()
    from tileiras.cli import main as run

    run()


def serve() -> None:
    """Is the resident compiler: what a command starts in the background that may use one."""
    _start()
    from tileiras.cli import run, run_as_process
    from tileiras.resident import server

    def compile_and_exit(argv: "Sequence[str]", tell: "Callable[[int], None]") -> "NoReturn":
        def command(words: "Sequence[str]") -> int:
            code = run(words)
            tell(code)  # the end of a process takes some ms
            return code

        run_as_process(command, argv)

    server.serve(os.environ, compile_and_exit, server.warm_up, server.rehearse)


def disassemble() -> None:
    """The command `tileirdisasm`."""
    _complete("tileirdisasm")
    _start()
    from tileiras.cli import disasm_main as run

    run()


def assemble() -> None:
    """The command `tileirasm`."""
    _complete("tileirasm")
    _start()
    from tileiras.cli import asm_main as run

    run()


def reduce() -> None:
    """The command `tileiras-reduce`."""
    _complete("tileiras-reduce")
    from tileiras.reduce_command import main as run

    run()


def explain() -> None:
    """The command `tileiras-explain`."""
    _complete("tileiras-explain")
    from tileiras.explain.command import main as run

    run()


def bench() -> None:
    """The command `tileiras-bench`."""
    _complete("tileiras-bench")
    from tileiras.bench.command import main as run

    run()


def tune() -> None:
    """The command `tileiras-tune`."""
    _complete("tileiras-tune")
    from tileiras.tune.command import main as run

    run()


def run_ptx() -> None:
    """The command `tileiras-run`."""
    from tileiras.interpreter.ptx.command import main as run
    from tileiras.interpreter.ptx.command import option_names

    _complete("tileiras-run", option_names)
    from tileiras.diagnostic_output import use_colors_of

    use_colors_of(sys.argv[1:], os.environ)
    run()


def layout() -> None:
    """The command `tileiras-layout`."""
    from tileiras.layout_command.command import main as run
    from tileiras.layout_command.command import option_names

    _complete("tileiras-layout", option_names)

    sys.exit(run())


def _complete(program: str, named: "Callable[[], Sequence[tuple[str, str, str]]]" = tuple) -> None:
    """Ends the process where a shell asks what may stand on the command line.

    `named` gives the options of a command that has no table of them.
    """
    instruction = os.environ.get(f"_{program.upper().replace('-', '_')}_COMPLETE")
    if instruction is not None:
        from tileiras.completion import run as answer

        sys.exit(answer(program, instruction, named()))


def _start() -> None:
    """Makes what follows cheaper to import.

    What is imported stays, so looking for garbage among it finds none and costs 3 ms.
    """
    import gc

    gc.disable()
    from tileiras.fast_start import cache_folder, start_fast

    start_fast(cache_folder(os.environ))


def isolate() -> None:
    """Moves what `PYTHONPATH` names behind everything else; takes the package from this folder."""
    named = os.environ.get("PYTHONPATH")
    if named is None or sys.flags.ignore_environment:
        return
    last = [os.path.abspath(entry) for entry in named.split(os.pathsep)]
    first = [entry for entry in sys.path if os.path.abspath(entry) not in last]
    sys.path[:] = [*first, *(entry for entry in sys.path if entry not in first)]
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("tileiras", [os.path.dirname(os.path.abspath(__file__))])
    if spec is None or spec.loader is None:
        return
    package = sys.modules["tileiras"] = module_from_spec(spec)
    spec.loader.exec_module(package)


try:
    isolate()
    from tileiras.early_signals import end_quickly

    end_quickly()
except KeyboardInterrupt:
    os.write(2, b"error: interrupted\n")
    os._exit(130)
