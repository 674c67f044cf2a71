"""Bundles on a terminal of 80 columns: the list, all about one, and the controller's log."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from applyprune.output.printers import OutputTarget, discard, printer
from applyprune.output.terminal import rendered
from tests.support.output.bundles import BUNDLE, DIGEST, LINE

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from applyprune.model.events import Event

WIDTH = 80


def shown(form: str, *events: Event) -> str:
    """Return what a printer writes to a terminal, with one age for all times."""
    written: list[str] = []
    target = OutputTarget(written.append, discard, width=WIDTH, redraw=discard)
    one = printer(form, target)
    for event in events:
        one.show(event)
    one.close()
    text = rendered("\n".join(written), colour=False)
    return re.sub(r"\b\d+[smhd]\b", "9d", text)


def test_list_fits_the_terminal(golden: SnapshotAssertion) -> None:
    """The columns of `kubectl get bundles`, and a word for what nobody works on."""
    text = shown(
        "text",
        BUNDLE,
        replace(BUNDLE, name="api", ready="True", reason="Applied", drifted="", suspended=True),
        replace(BUNDLE, name="gone", deleting=True),
        replace(
            BUNDLE, name="new", ready="Unknown", reason="", drifted="", revision="", objects=None
        ),
    )
    assert text + "\n" == golden(name="output/bundle-list.txt")
    assert max(map(len, text.splitlines())) <= WIDTH


def test_details_fit_the_terminal(golden: SnapshotAssertion) -> None:
    """Only a digest, which is to be copied, is wider."""
    text = shown("bundle", BUNDLE)
    assert text + "\n" == golden(name="output/bundle-show.txt")
    wide = [line for line in text.splitlines() if len(line) > WIDTH]
    assert [line for line in wide if "sha256:" not in line] == []


def test_approved_plan_says_so() -> None:
    """And no longer how to approve it."""
    assert BUNDLE.pending is not None
    text = shown("bundle", replace(BUNDLE, pending=replace(BUNDLE.pending, approved=True)))
    assert f"  digest: {DIGEST}\n  approved; the controller has not applied it yet\n" in text
    assert "bundle approve" not in text


def test_log_line_is_one_line() -> None:
    """Its fields as words; what has spaces is quoted, and what moves a cursor is escaped."""
    told = shown("text", replace(LINE, fields={"bundle": "web", "detail": "a\x1b[2J\nb"}))
    assert told == (
        "2026-11-23T07:00:01.250+00:00 warning bundle reconciled bundle=web "
        'detail="a\\u001b[2J\\nb"'
    )


def test_names_are_those_of_kubectl() -> None:
    """So that they can be given to it."""
    assert shown("name", BUNDLE, LINE) == "bundle.applyprune.dev/web"
