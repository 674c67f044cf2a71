"""No old word and none of the worst phrases, in docs, help, schemas, messages, docstrings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs import words
from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", words.documents(), ids=_name)
def test_documents_use_no_rejected_words(path: Path) -> None:
    """The help of every command is among them, as docs/reference/cli.md."""
    assert list(map(str, words.in_file(path))) == []


def test_modules_and_messages_use_no_rejected_words() -> None:
    """Messages, docstrings and comments, without an exception."""
    assert [str(found) for path in words.sources() for found in words.in_file(path)] == []


@pytest.mark.parametrize(
    "text",
    [
        "Objects that were abandoned.",
        "it bears the set's\nmarks",
        "Use --keep for it.",
        "this is no rule",
        "LostRace",
    ],
)
def test_rejected_words_are_found(text: str) -> None:
    """In any case, across line ends, and as a word of its own."""
    assert list(words.found_in(text, "here"))


@pytest.mark.parametrize(
    "text",
    ["There is no set.", "It is no longer there.", "ready-when", "outstanding", "--keep-going"],
)
def test_good_english_is_accepted(text: str) -> None:
    """What merely contains a rejected word."""
    assert list(words.found_in(text, "here")) == []
