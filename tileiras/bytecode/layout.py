"""What a bytecode file says beyond its meaning."""

from dataclasses import dataclass

from xdsl.ir import Attribute

from tileiras.bytecode.format import Version


@dataclass(frozen=True)
class FileLayout:
    """Version, section order and the order of the tables.

    Tables may hold what nothing refers to, and their order is the writer's choice; handed to
    `write_module`, a layout reproduces the file byte for byte.
    """

    version: Version
    sections: tuple[int, ...]
    strings: tuple[bytes, ...]
    types: tuple[Attribute, ...]
    constants: tuple[bytes, ...]
    """Items of the constant section, without their lengths."""
    debug_attributes: tuple[Attribute, ...]
