"""A progress bar on terminals, and nothing elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_Item = TypeVar("_Item")

Tell = Callable[[int, str], None]
"""Takes how many points were tried and a few words."""


@contextmanager
def progress(total: int, wanted: bool) -> Iterator[Tell]:
    """A bar on standard error, if it is wanted and a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield lambda done, words: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, words: bar.update(task, completed=done, description=words)


def shown(items: Iterable[_Item], total: int) -> Iterator[_Item]:
    """The items one after the other, with a bar for how many there were."""
    with progress(total, wanted=True) as tell:
        for done, item in enumerate(items, 1):
            tell(done, "")
            yield item
