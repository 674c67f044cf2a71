"""No paragraph of a concept page is too long to read."""

from __future__ import annotations

import pytest

from tests.docs.pages import PAGES, Page

LIMIT = 80
CONCEPTS = [one for one in PAGES if one.name.startswith("docs/concepts/")]


@pytest.mark.parametrize("one", CONCEPTS, ids=lambda one: one.name)
def test_paragraphs_of_a_concept_page_have_at_most_eighty_words(one: Page) -> None:
    """Items of lists too. What is longer is two thoughts, a nested list or a table."""
    assert one.paragraphs
    assert [part for part in one.paragraphs if len(part.split()) > LIMIT] == []
