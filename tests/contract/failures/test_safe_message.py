"""Text of others: harmless on a terminal, and without secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applyprune.cluster.failures import MAX_SHOWN, rule_in, safe_text, without_values

CANARY = "c4n4ryc4n4ry"
FORBIDDEN = 'secrets "s" is forbidden:'
UNFULFILLED = 'Operation cannot be fulfilled on secrets "s":'
MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
UNTYPED = "failed to create typed patch object (d/s; /v1, Kind=Secret):"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("größer 猫", "größer 猫"),
        ("two\n  lines\tand\ttabs", "two lines and tabs"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("bell\x07 nul\x00 del\x7f", "bell\\x07 nul\\x00 del\\u007f"),
        ("c1 \x9b31m", "c1 \\u009b31m"),
        ("\u202eevil\u202c \u2066x\u2069", "\\u202eevil\\u202c \\u2066x\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("half a \ud83d pair", "half a \\ud83d pair"),
    ],
)
def test_server_text_escapes_terminal_sequences(text: str, expected: str) -> None:
    assert safe_text(text) == expected


def test_server_text_is_cut() -> None:
    assert len(safe_text("x" * 10_000_000)) <= MAX_SHOWN + 1


@given(st.text())
def test_server_text_is_one_printable_line(text: str) -> None:
    result = safe_text(text)

    assert len(result) <= MAX_SHOWN + 1
    assert all(character == "…" or character.isprintable() for character in result)


@pytest.mark.parametrize(
    "message",
    [
        'secrets "s" not found',
        'secrets "s" already exists',
        f'{FORBIDDEN} User "u" cannot get resource "secrets" in API group "" in the namespace "n"',
        f"{FORBIDDEN} unable to create new content in namespace n because it is being terminated",
        f"{FORBIDDEN} exceeded quota: q, requested: secrets=1, used: secrets=5, limited: secrets=5",
        f"{UNFULFILLED} {MODIFIED}",
        f"{UNFULFILLED} Precondition failed: UID in precondition: 1b-2c, UID in object meta: 3d-4e",
        'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 4',
        "etcdserver: request timed out",
        "Unauthorized",
    ],
)
def test_server_text_keeps_messages_without_values(message: str) -> None:
    assert without_values(message) == message


FORBIDDEN = "secrets \"s\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b'"


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (
            f"{UNTYPED} .data: expected map, got &{{[{CANARY}]}}",
            f"{UNTYPED} .data: expected map",
        ),
        (
            f"{UNTYPED} errors:\n  .data.k: expected string, got &value{{Value:{CANARY}}}\n",
            f"{UNTYPED} errors: .data.k: expected string",
        ),
        (
            f'admission webhook "w.example.com" denied the request: I saw {CANARY}',
            'admission webhook "w.example.com" denied the request',
        ),
        (f"{FORBIDDEN} denied request: I saw {CANARY}", f"{FORBIDDEN} denied request"),
        (f'Secret "s" is invalid: data[k]: Invalid value: "{CANARY}": no', ""),
        (f"json: cannot unmarshal number {CANARY} into Go value", ""),
        (f'secrets "s" not found {CANARY}', ""),
        (f'{CANARY} secrets "s" not found', ""),
        (f'secrets "s" not found\n{CANARY}', ""),
        (f".data: expected map, got {CANARY}", ""),
        (CANARY, ""),
        (f'secrets "s" not found{"x" * 10_000_000}', ""),
    ],
)
def test_server_text_drops_possible_values(message: str, kept: str) -> None:
    assert without_values(message) == kept


LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)


@pytest.mark.parametrize(
    ("message", "kept", "whole"),
    [
        ("Required value", "Required value", True),
        ("Required value: must be specified", "Required value: must be specified", True),
        (f"Required value: {CANARY}", "Required value", False),
        (
            "Forbidden: field is immutable when `immutable` is set",
            "Forbidden: field is immutable when `immutable` is set",
            True,
        ),
        (
            f'Invalid value: "{CANARY}": field is immutable',
            "Invalid value: field is immutable",
            True,
        ),
        (
            f"Invalid value: \"{CANARY}\": {LABEL} (e.g. 'MyValue', regex used is '.*')",
            f"Invalid value: {LABEL}",
            True,
        ),
        (
            "Too long: may not be more than 1048576 bytes",
            "Too long: may not be more than 1048576 bytes",
            True,
        ),
        (f'Duplicate value: "{CANARY}"', "Duplicate value", True),
        (f'Invalid value: "<redacted>": invalid character {CANARY!r}', "Invalid value", False),
        (f'Invalid value: "x": field is immutable {CANARY}', "Invalid value", False),
        (f'Invalid value: "x": {CANARY} field is immutable', "Invalid value", False),
        (f'Unsupported value: "{CANARY}": supported values: "a"', "Unsupported value", False),
        (f"{CANARY}: Required value", "", False),
        (f"Required value\n{CANARY}", "", False),
        (CANARY, "", False),
        (f"Invalid value: {'x' * 10_000_000}", "", False),
    ],
)
def test_cause_keeps_only_the_fixed_words_of_the_server(
    message: str, kept: str, whole: bool
) -> None:
    assert rule_in(message) == (kept, whole)
