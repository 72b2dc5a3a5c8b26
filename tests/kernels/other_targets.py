"""Targets that differ from the real ones in what a test is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tileiras.codegen.target import get_target, records


def set_multiprocessors(monkeypatch: pytest.MonkeyPatch, count: int, name: str = "sm_90") -> None:
    """For the rest of a test a target has so many SMs."""
    target = get_target(name)
    changed = replace(target, performance=replace(target.performance, multiprocessors=count))
    monkeypatch.setitem(records._BY_NAME, name, changed)
