"""Label selectors; the cases are those of ``k8s.io/apimachinery/pkg/labels/selector_test.go``.

``tests/stories/test_part_of_a_set`` holds the same texts against a real API server.
"""

from __future__ import annotations

import pytest

from applyprune.model.text import parse_selector
from tests.support.selectors import BAD, GOOD, LABELS, MATCHES


@pytest.mark.parametrize("text", GOOD)
def test_valid_selector_is_parsed(text: str) -> None:
    """What Kubernetes' parser takes."""
    assert parse_selector(text).text == text.strip()


@pytest.mark.parametrize("text", BAD)
def test_invalid_selector_is_refused(text: str) -> None:
    """What it refuses, with the reason."""
    with pytest.raises(ValueError, match=r"invalid|empty|not a whole number"):
        parse_selector(text)


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_empty_selector_is_refused(text: str) -> None:
    """Kubernetes takes an empty selector for all; here it is a variable that is not set."""
    with pytest.raises(ValueError, match="selector is empty"):
        parse_selector(text)


@pytest.mark.parametrize(("text", "expected"), MATCHES.items())
def test_selector_matches_labels(text: str, expected: bool) -> None:
    """By one set of labels."""
    assert parse_selector(text).matches(LABELS) is expected
