"""Each file in ``fixtures/broken`` is refused with the message beside it: path, line, advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from applyprune.errors import InputError
from applyprune.sources import read

BROKEN = Path(__file__).parents[2] / "fixtures" / "broken"
CASES = sorted(
    str(path.relative_to(BROKEN))
    for path in BROKEN.rglob("*")
    if path.is_file() and path.suffix != ".txt"
)


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
