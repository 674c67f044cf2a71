"""The DNS rules of Kubernetes."""

from __future__ import annotations

import pytest

from applyprune.model.text import is_dns_label, is_dns_subdomain

LABELS = ["a", "0", "a-b", "a" * 63]
SUBDOMAINS = ["a.b", "a-b.c-d", "a" * 253, f"{'a' * 100}.b"]
NEITHER = ["", "-a", "a-", "A", "a_b", "a..b", ".a", "a.", "a\n", "../x", "a/b", "a" * 254, "ä"]


@pytest.mark.parametrize("text", [*LABELS, *SUBDOMAINS, *NEITHER])
def test_label_has_no_dot_and_at_most_63_characters(text: str) -> None:
    """A label names a namespace."""
    assert is_dns_label(text) is (text in LABELS)


@pytest.mark.parametrize("text", [*LABELS, *SUBDOMAINS, *NEITHER])
def test_subdomain_has_at_most_253_characters(text: str) -> None:
    """Only the whole is bounded, not each label."""
    assert is_dns_subdomain(text) is (text in {*LABELS, *SUBDOMAINS})
