"""Dependency files: the rule that tells make and ninja what an output was made from."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.file_io import write_output


def write_rule(path: str, output: str, inputs: Sequence[str]) -> None:
    """Writes the rule `output: inputs` to a file."""
    write_output(path, make_rule(output, inputs).encode(errors="surrogateescape"))


def make_rule(output: str, inputs: Sequence[str]) -> str:
    """The rule `output: inputs`, with the characters escaped that make and ninja would read.

    stdin (`-`) is no file and left out, and each file is named once.
    """
    named = [_escaped(path) for path in dict.fromkeys(inputs) if path != "-"]
    return " \\\n  ".join([f"{_escaped(output)}:", *named]) + "\n"


def _escaped(path: str) -> str:
    """A path as a word of a rule."""
    escapes = {" ": "\\ ", "#": "\\#", "$": "$$"}
    return "".join(escapes.get(character, character) for character in path)
