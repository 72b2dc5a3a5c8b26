"""What to disable so that a newer GPU runs the code of an older or smaller one."""

from __future__ import annotations

from tileiras.codegen.target import get_target
from tileiras.codegen.target.features import Feature


def missing_features(arch: str, other: str) -> tuple[str, ...]:
    """What `arch` has and `other` lacks, as `--disable-feature` takes it."""
    missing = get_target(arch).features - get_target(other).features
    return tuple(feature.value for feature in Feature if feature in missing)


IMITATED = ("sm_80", "sm_120")
"""Targets whose code a Hopper GPU can run this way."""
