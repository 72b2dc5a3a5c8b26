"""What a signal does before the compiler is loaded: it ends the process with one line.

Imports nothing that Python has not loaded by itself.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` would load what the process may never need
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
else:
    import _signal as signal  # the same without enums, which take 3 ms

REASONS: dict[int, str] = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hung up",
}
"""The signals that ask a process to end, and the word for each."""


def end_quickly() -> None:
    """Until `termination.watch` is called: the signals end the process with one line and do
    nothing else."""

    def leave(number: int, _: object) -> None:
        try:
            os.write(2, f"error: {REASONS[number]}\n".encode())
        finally:
            os._exit(128 + number)

    handle_requests(leave)


def handle_requests(handler: Callable[[int, object], None]) -> None:
    """Installs a handler for the signals that are not ignored (as `nohup` and shells do)."""
    for number in REASONS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)
