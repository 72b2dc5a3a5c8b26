"""Contenders that are our compiler with further flags: `NAME=FLAGS` on the command line."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import fields

from catalogue import Entry

TAKEN = {*(field.name for field in fields(Entry)), "ours", "vendor", "library"}
TAKEN |= {"symbol", "variants"}
"""Names that a record of the manifest has already."""
NAME = re.compile(r"[a-z][a-z0-9-]*")


def variant(text: str) -> tuple[str, list[str]]:
    """A contender's name and flags. Raises argparse's error where the text is no `NAME=FLAGS`."""
    name, equals, flags = text.partition("=")
    if not equals or not NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f"expected NAME=FLAGS, found {text!r}")
    if name in TAKEN:
        raise argparse.ArgumentTypeError(f"{name!r} is something else in a manifest")
    return name, shlex.split(flags)
