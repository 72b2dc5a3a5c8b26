"""argparse for the commands off the compile path: mistakes read as those of the other commands."""

from __future__ import annotations

from argparse import Action, ArgumentParser
from typing import NoReturn

from tileiras.errors import UsageError


class CommandParser(ArgumentParser):
    """A parser whose mistakes are UsageErrors; argparse's own print a usage and exit with 2."""

    def error(self, message: str) -> NoReturn:
        """Raises UsageError: what argparse found, and where the options are listed."""
        error = UsageError(message)
        error.notes.append(f"try '{self.prog} --help'")
        raise error

    def option_names(self) -> list[tuple[str, str, str]]:
        """Name, help and placeholder (empty: a flag) of each option, for completion in shells."""
        actions: list[Action] = self._actions
        return [
            (
                action.option_strings[-1].lstrip("-"),
                action.help or "",
                "" if action.nargs == 0 else str(action.metavar or action.dest.upper()),
            )
            for action in actions
            if action.option_strings
        ]
