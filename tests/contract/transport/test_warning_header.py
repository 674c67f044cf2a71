"""The texts of Warning headers, as RFC 7234 quotes them and as Kubernetes sends them."""

from __future__ import annotations

import pytest

from applyprune.cluster.failures import without_values
from applyprune.cluster.transport import warning_texts

CASES: dict[str, tuple[list[str], list[str]]] = {
    "none": ([], []),
    "one": (['299 - "a is deprecated"'], ["a is deprecated"]),
    "quotes and backslashes": ([r'299 - "unknown field \"a\\b\""'], ['unknown field "a\\b"']),
    "a comma in the text": (['299 - "a, b"'], ["a, b"]),
    "several in one header": (['299 - "a", 299 host:80 "b"'], ["a", "b"]),
    "several headers": (['299 - "a"', '299 - "b"'], ["a", "b"]),
    "a date": (
        ['299 - "a" "Wed, 21 Oct 2026 07:28:00 GMT", 299 - "b"'],
        ["a", "b"],
    ),
    "another code": (['110 - "stale", 299 - "a"'], ["a"]),
    "a text in UTF-8": (['299 - "gr\u00c3\u00bc\u00c3\u009fe"'], ["grüße"]),
    "a text in Latin-1": (['299 - "\u00fcber"'], ["über"]),
    "an empty text": (['299 - ""'], [""]),
    "not quoted": (["299 - a"], []),
    "no end": (['299 - "a", 299 - "b'], ["a"]),
    "a backslash at the end": (['299 - "a\\'], []),
    "garbage": (["\x00\xff", ""], []),
}


@pytest.mark.parametrize("name", CASES)
def test_texts_are_unquoted(name: str) -> None:
    headers, texts = CASES[name]
    assert warning_texts(headers) == texts


def test_number_of_warnings_is_limited() -> None:
    """A server may send any number."""
    assert len(warning_texts(['299 - "a",' * 500])) == 100


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "policy/v1beta1 Budget is deprecated in v1.21+, unavailable in v1.25+; use v1 Budget",
            None,
        ),
        ("v1 ComponentStatus is deprecated in v1.19+", None),
        ('unknown field "data.a"', None),
        (
            "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': value hunter2",
            "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b'",
        ),
        ("the password hunter2 is weak", ""),
        ("v1 Secret is deprecated in v1.21+; use hunter2 and more", ""),
    ],
)
def test_warning_about_a_secret_shows_only_what_holds_no_value(
    text: str, shown: str | None
) -> None:
    """None stands for the whole text."""
    assert without_values(text) == (text if shown is None else shown)
