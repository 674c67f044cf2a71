"""Whatever goes wrong with a Secret, in whatever format it is told: its values are not in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.actors import ALICE
from tests.support.canaries import (
    BROKEN_OBJECTS,
    BROKEN_TEXTS,
    OTHER,
    REFUSED,
    TOKEN,
    TRACES,
    annotated,
    encoded,
    forged_refusal,
    secret,
    untold,
)
from tests.support.command import applyprune
from tests.support.pseudo_terminal import on_terminal
from tests.support.settings import settings
from tests.support.stage import Stage
from tests.support.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

FORMATS = ("json", "jsonl", "junit", "github", "gitlab", "markdown", "name")


@dataclass(frozen=True)
class Teller:
    """Runs a command in every format at once, as loudly as it can, and collects all of it."""

    plane: Plane
    namespace: str
    folder: Path

    def tell(
        self,
        verb: str,
        *arguments: str | Path,
        code: set[int],
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Return everything that one command has written, to files that nobody asked for, too."""
        files = [self.folder / form for form in FORMATS]
        line = (*verb.split(), *arguments, "-v", "-n", self.namespace)
        outputs = (f"-o{path.name}={path}" for path in files)
        ended = applyprune(*line, *outputs, kubeconfig=self.plane.kubeconfig, more=more)
        assert ended.code in code, ended
        written = [path.read_text() for path in files]
        assert all(written[:3]), "each of the complete formats has something to say"
        found = [path for path in (self.folder / "own").rglob("*") if path.is_file()]
        assert found, "the cache is in there at least"
        return "\n".join([ended.out, ended.err, *written, *(path.read_text() for path in found)])


@pytest.fixture
def teller(plane: Plane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Teller:
    """A teller in a new namespace; caches, temporary files and summaries go into its folder."""
    folder = tmp_path / "told"
    (folder / "own/tmp").mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "own/cache"))
    monkeypatch.setenv("TMPDIR", str(folder / "own/tmp"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "own/summary.md"))
    monkeypatch.delenv("APPLYPRUNE_TRACEBACK", raising=False)
    return Teller(plane, namespace, folder)


def test_traces_of_a_secret_would_be_found() -> None:
    """Else the tests below would prove nothing."""
    for shift in range(6):
        around = "s" * shift
        assert any(one in encoded(f"{around}{TOKEN}{around}") for one in TRACES)
    with pytest.raises(AssertionError):
        untold(f"error: {TOKEN}")


def test_unreadable_input_shows_no_secret(teller: Teller, tmp_path: Path) -> None:
    """Broken in every way at once: the place of each is told, its line is not."""
    for number, text in enumerate(BROKEN_TEXTS.values()):
        (tmp_path / f"text-{number:02}.yaml").write_text(text)
    for number, body in enumerate(BROKEN_OBJECTS.values()):
        (tmp_path / f"body-{number:02}.json").write_text(json.dumps(body, indent=2))
    told = teller.tell("apply web", "-f", tmp_path, code={2})
    assert all(f"text-{number:02}.yaml" in told for number in range(len(BROKEN_TEXTS)))
    untold(told)


def test_rejected_objects_show_no_secret(teller: Teller, tmp_path: Path) -> None:
    """Each as an object of its own; those that differ by their name only go in one run."""
    for number, body in enumerate(REFUSED.values()):
        body["metadata"] = {**body["metadata"], "name": f"key-{number}"}
    told = teller.tell("apply web", "-f", _with(tmp_path, *REFUSED.values()), code={3})
    for number, name in enumerate(REFUSED):
        assert f"secret/key-{number} in namespace" in told, name
    untold(told)


def _with(folder: Path, *bodies: dict[str, Any]) -> Path:
    path = folder / "set.json"
    path.write_text("\n---\n".join(json.dumps(body, indent=2) for body in bodies))
    return path


def _made(teller: Teller) -> None:
    """Make a set in silence."""
    Stage(teller.plane.kubeconfig, teller.namespace).run(secret(), annotated("other"))


def _compared(teller: Teller, source: Path, *options: str, codes: tuple[int, int]) -> str:
    """Return what a diff and an apply of the same say."""
    verbs = (f"{verb} web{''.join(f' {one}' for one in options)}" for verb in ("diff", "apply"))
    return "".join(
        teller.tell(verb, "-f", source, code={code})
        for verb, code in zip(verbs, codes, strict=True)
    )


def _changed(teller: Teller, api: Api, folder: Path) -> str:
    """From the first apply to the last delete."""
    told = _compared(teller, _with(folder, secret(), annotated("other")), codes=(1, 0))
    changed = secret(stringData={"plain": OTHER, "new": OTHER})
    told += _compared(teller, _with(folder, changed), codes=(1, 0))
    fixed = _with(folder, {**changed, "immutable": True})
    file = teller.folder / "own" / "web.plan"
    told += teller.tell("plan web", "-f", fixed, "--out", file, code={0})
    assert file.is_file()  # what ``tell`` returns has it
    told += teller.tell("apply web", "-f", fixed, code={0})
    told += teller.tell("apply web", "-f", _with(folder, {**secret(), "immutable": True}), code={3})
    return told + teller.tell("delete web --yes", code={0})


def _by_others(teller: Teller, api: Api, folder: Path) -> str:
    """Drift, in every verb that looks; then a conflict."""
    _made(teller)
    path = f"/api/v1/namespaces/{teller.namespace}/secrets/key"
    api.patch(path, {"data": {"encoded": encoded(OTHER), "foreign": encoded(OTHER)}})
    source = _with(folder, secret(), annotated("other"))
    told = teller.tell("status web --drift", code={0, 1})
    told += teller.tell("explain web secret/key", "-f", source, code={0})
    told += teller.tell("inventory check web", code={0, 1})
    body = secret(data={"encoded": encoded(OTHER), "plain": encoded(OTHER)})
    api.apply(path, body, by=ALICE, force=True)
    return told + _compared(teller, source, codes=(4, 4))


def _of_two_sets(teller: Teller, api: Api, folder: Path) -> str:
    """Of another set, taken from it, and without a record of its own."""
    _made(teller)
    source = _with(folder, secret(stringData={"plain": OTHER}))
    told = teller.tell("apply shop", "-f", source, code={3})
    told += teller.tell("apply shop --adopt set/web", "-f", source, code={0})
    path = f"/api/v1/namespaces/{teller.namespace}/configmaps/applyprune-web"
    kept = json.dumps(api.get(path))
    assert api("DELETE", path)[0] == 200
    told += teller.tell("inventory check web", code={0, 1})
    told += teller.tell("inventory repair web --yes", code={0})
    return told + teller.tell("inventory show web", code={0}) + kept


def _adopted(teller: Teller, api: Api, folder: Path) -> str:
    """What kubectl has put into its annotation is a copy of all values."""
    body = annotated()
    body["metadata"]["annotations"]["note"] = f"it was {TOKEN} once"
    path = f"/api/v1/namespaces/{teller.namespace}/secrets"
    api.create(path, body, by="kubectl-client-side-apply")
    other = secret(stringData={"plain": OTHER})
    other["metadata"]["annotations"] = {"note": f"it is {OTHER} now"}
    source = _with(folder, other)
    ignoring = settings(folder, ignore="secret:/data")
    told = teller.tell("diff web", "-f", source, *ignoring, code={1, 4})
    return told + teller.tell("apply web --conflicts force", "-f", source, code={0})


def _ruled(teller: Teller, api: Api, folder: Path) -> str:
    """Rules that fail over the values of the object that they are for."""
    bodies = []
    for number, rule in enumerate(
        ("int(self.data.plain) > 0", "self.data[self.data.plain] == 'a'", "self.data.plain")
    ):
        body = secret(f"key-{number}")
        body["metadata"]["annotations"] = {"applyprune.dev/ready-when": rule}
        bodies.append(body)
    told = teller.tell("apply web --wait --timeout 1s", "-f", _with(folder, *bodies), code={5})
    return told + teller.tell("status web", code={5})


def _against_a_webhook(teller: Teller, api: Api, folder: Path) -> str:
    """It puts the values wherever a refusal has a place for them, also as conflicts."""
    _made(teller)
    codes = [409, 422]

    def forged(request: dict[str, Any]) -> dict[str, Any] | None:
        return forged_refusal(codes[0]) if request["name"] == "key" else None

    told = ""
    source = _with(folder, secret(stringData={"plain": OTHER}), annotated("other"))
    with Webhook(teller.plane, api, teller.namespace, ("UPDATE", "DELETE"), forged) as webhook:
        while codes:
            told += teller.tell("diff web", "-f", source, code={3, 7})
            told += teller.tell("apply web --no-check", "-f", source, code={3})
            told += teller.tell("delete web --yes --orphan secret/other", code={3})
            assert {"UPDATE key", "DELETE key"} <= set(webhook.refused)
            webhook.refused.clear()
            del codes[0]
    return told


def _configured(teller: Teller, api: Api, folder: Path) -> str:
    """A Secret where the configuration of a set belongs."""
    head = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\nname: web\n"
    told = ""
    for text in (
        json.dumps(secret()),
        f"{head}data: {{a: {TOKEN}}}\n",
        f"{head}stringData: {TOKEN}\n",
        f"{head}---\n{json.dumps(secret())}\n",
        f'{head}filename: "{TOKEN}\n',
    ):
        (folder / "applyprune.yaml").write_text(text)
        ended = applyprune(*("apply", "-v"), kubeconfig=teller.plane.kubeconfig, cwd=folder)
        assert ended.code == 2, ended
        told += ended.out + ended.err
    (folder / "applyprune.yaml").write_text(f"{head}---\n{json.dumps(secret())}\n")
    return told + teller.tell("apply web", "-f", folder, code={2})


def _on_a_terminal(teller: Teller, api: Api, folder: Path) -> str:
    """With the live display, from which everything may be read back."""
    _made(teller)
    source = _with(folder, secret(stringData={"plain": OTHER}), annotated("other"))
    told = ""
    for verb, code in (("diff", 1), ("apply", 0)):
        line = (verb, "web", "-v", "-f", source, "-n", teller.namespace)
        how = {"environment": {"TERM": "xterm"}, "keeps_escapes": True}
        with on_terminal(*line, kubeconfig=teller.plane.kubeconfig, **how) as terminal:
            assert terminal.ended() == code
        told += terminal.shown
    assert "\x1b[" in told
    return told


STORIES: dict[str, Callable[[Teller, Api, Path], str]] = {
    "changed": _changed,
    "changed by others": _by_others,
    "of two sets": _of_two_sets,
    "adopted": _adopted,
    "ruled": _ruled,
    "against a webhook": _against_a_webhook,
    "configured": _configured,
    "on a terminal": _on_a_terminal,
}


@pytest.mark.parametrize("story", STORIES)
def test_whole_story_shows_no_secret(teller: Teller, api: Api, tmp_path: Path, story: str) -> None:
    """What happens is told, and the keys; no value, whichever side it is on.

    Slow: each command of a story is a process that writes every format.
    """
    untold(STORIES[story](teller, api, tmp_path))
