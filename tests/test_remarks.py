"""Remarks: what is kept, and how it is written for people and for tools."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tileiras.errors import SourceLocation
from tileiras.remarks import (
    Remark,
    RemarkCategory,
    RemarkCollector,
    RemarkFilter,
    RemarkKind,
    to_text,
    to_yaml,
    yaml_scalar,
)

LOAD = Remark(
    RemarkCategory.MEMORY,
    RemarkKind.PASSED,
    "some-pass",
    "RemarkMemoryLoadInstructionSelected",
    "Load instruction selected: it's wide",
    "kernel",
    SourceLocation("/src/a b.py", 40, 13),
    (("Shape", "[32, 32]"),),
)
MISSED = Remark(
    RemarkCategory.TENSOR_CORE, RemarkKind.MISSED, "p", "RemarkMMA", "No tensor core", "kernel"
)


def documents(text: str) -> list[tuple[str, dict[str, object]]]:
    """The YAML stream as (tag, mapping) pairs."""

    class Loader(yaml.SafeLoader):
        """Reads the tag of a document as part of the value."""

    def construct(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> object:
        assert isinstance(node, yaml.MappingNode)
        return suffix, loader.construct_mapping(node, deep=True)

    Loader.add_multi_constructor("!", construct)
    return list(yaml.load_all(text, Loader))


def test_yaml_is_one_document_for_each_remark() -> None:
    """A YAML reader gets back what was said."""
    (tag, load), (other_tag, missed) = documents(to_yaml([LOAD, MISSED]))
    assert (tag, other_tag) == ("Passed", "Missed")
    assert load["Pass"] == "Memory"
    assert load["Name"] == "RemarkMemoryLoadInstructionSelected"
    assert load["DebugLoc"] == {"File": "/src/a b.py", "Line": 40, "Column": 13}
    assert load["Function"] == "kernel"
    assert load["Args"] == [
        {"RemarkId": 1},
        {"Remark": "Load instruction selected: it's wide"},
        {"Shape": "[32, 32]"},
        {"CompilerPass": "some-pass"},
    ]
    assert missed["Pass"] == "Tensor-core"
    assert "DebugLoc" not in missed


def test_no_remarks_give_an_empty_stream() -> None:
    """The file is then empty, not malformed."""
    assert to_yaml([]) == ""


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_yaml_scalar_is_read_back_as_the_same_string(text: str) -> None:
    """Whatever a file or a kernel is called."""
    assert yaml.safe_load(yaml_scalar(text)) == text


@pytest.mark.parametrize(
    "text", ["yes", "1", "0x1f", "~", "1:30", "-", "? x", "a: b", "2020-01-01"]
)
def test_yaml_scalar_quotes_what_yaml_would_misread(text: str) -> None:
    """Strings that look like something else."""
    assert yaml.safe_load(yaml_scalar(text)) == text


def test_text_groups_by_function_and_category() -> None:
    """The place in the source and the facts stand under each remark."""
    text = to_text([LOAD, MISSED])
    assert text.index("in function: kernel:") < text.index("category: Memory")
    assert text.index("category: Memory") < text.index("category: Tensor-core")
    assert "    remark[passed]: Load instruction selected" in text
    assert '      --> "/src/a b.py":40:13' in text
    assert "       = note: Shape = [32, 32]" in text
    assert text.count("in function") == 1


def test_collector_keeps_what_the_filter_accepts() -> None:
    """Kind and category must both be wanted."""
    collector = RemarkCollector(RemarkFilter({RemarkKind.PASSED: "memory"}))
    collector.add(LOAD)
    collector.add(MISSED)
    assert collector.remarks == [LOAD]
    assert not collector.wants(RemarkKind.PASSED, RemarkCategory.TENSOR_CORE)


def test_filter_without_wishes_accepts_nothing() -> None:
    """The default costs nothing."""
    assert RemarkFilter().is_empty
    assert RemarkFilter({RemarkKind.MISSED: "none"}).is_empty
    assert not RemarkFilter({RemarkKind.MISSED: "all"}).is_empty
    assert not RemarkFilter().accepts(RemarkKind.PASSED, RemarkCategory.MEMORY)
