"""What `--version` and `--list-versions` print."""

from __future__ import annotations

COMPATIBLE_RELEASE = "13.5.37"
"""NVIDIA's release whose behaviour the tests of tests/oracle compare with."""


def version_text(program: str) -> str:
    """What `--version` prints: who we are, then the release that we are compatible with.

    Clients look for the release in words that NVIDIA's own tool prints (docs/clients.md).
    """
    from tileiras import __version__

    versions = bytecode_versions()
    release = COMPATIBLE_RELEASE.rpartition(".")[0]
    return (
        f"{program}: open compiler for CUDA Tile IR, version {__version__}\n"
        f"Tile IR bytecode of release {versions[0]} to release {versions[-1]}\n"
        f"Compatible with Cuda compilation tools, release {release}, V{COMPATIBLE_RELEASE}"
    )


def bytecode_versions() -> tuple[str, ...]:
    """The bytecode versions that can be read, oldest first."""
    from tileiras.bytecode.format import VERSIONS

    return tuple(f"{major}.{minor}" for major, minor in VERSIONS)
