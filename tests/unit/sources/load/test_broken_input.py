"""Each file in ``fixtures/broken`` is refused with the message beside it: path, line, advice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError, problems_of
from applyprune.sources import read
from tests.support.source_text import write

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

BROKEN = Path(__file__).parents[4] / "fixtures" / "broken"
FOLDERS = ("manifest", "secrets", "syntax")
"""What is wrong without asking a server; for ``server`` see tests/command/e2e."""
CASES = sorted(
    (folder, str(path.relative_to(BROKEN / folder)))
    for folder in FOLDERS
    for path in (BROKEN / folder).rglob("*")
    if path.is_file() and path.suffix != ".txt"
)
IDS = ["/".join(case) for case in CASES]

WITHOUT_PLACE = {"unbuilt/kustomization.yaml", "utf-32.yaml"}
# Nothing in these documents shows that they are not Secrets.
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


def test_every_broken_file_is_in_one_of_the_four_folders() -> None:
    """A file elsewhere would be tested nowhere."""
    assert {path.name for path in BROKEN.iterdir()} == {*FOLDERS, "server"}


@pytest.mark.parametrize(("folder", "name"), CASES, ids=IDS)
def test_broken_file_is_refused_with_its_golden_message(
    folder: str, name: str, golden: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To change a message on purpose is to change its file: see tests/support/golden.py."""
    monkeypatch.chdir(BROKEN / folder)
    with pytest.raises(InputError) as caught:
        read([name])
    assert f"{caught.value}\n" == golden(name=f"broken/{folder}/{name}.txt")
    assert caught.value.exit_code == 2
    assert name in str(caught.value)


def test_broken_files_are_all_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No error hides another one."""
    monkeypatch.chdir(BROKEN)
    with pytest.raises(InputError) as caught:
        read([*FOLDERS])
    message = str(caught.value)
    assert [case for case in IDS if case not in message] == []


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n",
    "values.yaml": "image: x\n",
    "templates/a.yaml": "kind: {{ .Values.kind }}\n",
    "charts/y/Chart.yaml": "apiVersion: v2\nname: y\nversion: 1.0.0\n",
}


@pytest.mark.parametrize(
    ("given", "place", "command"),
    [
        (".", "deploy/shop", "helm template NAME deploy/shop |"),
        ("deploy", "deploy/shop", "helm template NAME deploy/shop |"),
        ("deploy/shop/Chart.yaml", "deploy/shop", "helm template NAME deploy/shop |"),
    ],
)
def test_chart_is_one_error(
    tmp_path: Path, given: str, place: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its files would be another one, and none says what to do. Others are told beside."""
    write(tmp_path, {f"deploy/shop/{path}": text for path, text in CHART.items()})
    write(tmp_path, {"deploy/other.yaml": "a: 1\n"})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        read([given])
    *others, problem = sorted(problems_of(caught.value), key=lambda one: "chart" in one.message)
    assert (problem.location, problem.message) == (place, "a Helm chart, not manifests")
    assert problem.hint.startswith(f"Render it first: {command}")
    assert ["deploy/other.yaml" in one.location for one in others] == [True] * len(others)
    assert len(others) == (not given.endswith("Chart.yaml"))


def test_secret_values_are_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with the Secret, and wherever."""
    monkeypatch.chdir(BROKEN / "secrets")
    for folder, name in CASES:
        if folder == "secrets":
            with pytest.raises(InputError) as caught:
                read([name])
            assert "hunter2-hunter2" not in str(caught.value)
            assert "42424242" not in str(caught.value)


@pytest.mark.parametrize(("folder", "name"), CASES, ids=IDS)
def test_broken_file_message_has_a_column_and_shows_the_line(
    folder: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except where there is no line, and where the line may be part of a Secret."""
    monkeypatch.chdir(BROKEN / folder)
    with pytest.raises(InputError) as caught:
        read([name])
    for problem in problems_of(caught.value):
        assert problem.origin is not None
        if name in WITHOUT_PLACE:
            assert problem.origin.line == 0
            continue
        assert f"{name}:{problem.origin.line}:{problem.origin.column}" in problem.location
        assert problem.origin.column > 0
        if folder != "secrets" and name not in WITHOUT_LINE:
            lines = problem.excerpt.splitlines()
            assert any(line.startswith(f"{problem.origin.line} | ") for line in lines)
            assert problem.excerpt.splitlines()[-1].rstrip("^").isascii()
