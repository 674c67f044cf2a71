"""Each file in ``fixtures/broken`` is refused with the message beside it: path, line, advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from applyprune.errors import InputError, problems_of
from applyprune.sources import read

BROKEN = Path(__file__).parents[2] / "fixtures" / "broken"
CASES = sorted(
    str(path.relative_to(BROKEN))
    for path in BROKEN.rglob("*")
    if path.is_file() and path.suffix != ".txt" and "server" not in path.parts
)
"""What is wrong without asking anybody; for what a server must say see tests/e2e."""

WITHOUT_PLACE = {"unbuilt/kustomization.yaml", "utf-16.yaml"}
# No kind tells that they are no Secrets.
WITHOUT_LINE = {
    "directive.yaml",
    "half-a-surrogate.json",
    "json-stops-in-the-middle.json",
    "not-a-mapping.yaml",
    "not-an-object.yaml",
    "separator-with-content.yaml",
    "text-indented-less.yaml",
    "three-errors.yaml",
    "unbuilt/kustomization.yaml",
}


@pytest.mark.parametrize("case", CASES)
def test_broken_input(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The golden message: to change one on purpose is to change its file."""
    monkeypatch.chdir(BROKEN)
    with pytest.raises(InputError) as caught:
        read([case])
    assert str(caught.value) == Path(f"{case}.txt").read_text(encoding="utf-8").rstrip("\n")
    assert caught.value.exit_code == 2
    assert case in str(caught.value)


def test_all_errors_of_all_files_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BROKEN)
    with pytest.raises(InputError) as caught:
        read(["."])
    message = str(caught.value)
    assert [case for case in CASES if case not in message] == []


def test_no_value_of_a_secret_in_any_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BROKEN)
    for case in CASES:
        if case.startswith("secret"):
            with pytest.raises(InputError) as caught:
                read([case])
            assert "hunter2-hunter2" not in str(caught.value)
            assert "42424242" not in str(caught.value)


def test_every_message_names_a_column_and_shows_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for what no line can be told of, and for what may be a Secret."""
    monkeypatch.chdir(BROKEN)
    for case in CASES:
        with pytest.raises(InputError) as caught:
            read([case])
        for problem in problems_of(caught.value):
            assert problem.origin is not None
            if case in WITHOUT_PLACE:
                assert problem.origin.line == 0
                continue
            assert f"{case}:{problem.origin.line}:{problem.origin.column}" in problem.where
            assert problem.origin.column > 0
            if not (case.startswith("secret") or case in WITHOUT_LINE):
                line = problem.excerpt.splitlines()[-2]
                assert line.startswith(f"{problem.origin.line} | ")
                assert problem.excerpt.splitlines()[-1].rstrip("^").isascii()
