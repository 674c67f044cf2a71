"""Who runs an object by now: what counts as evidence, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.planning.marks import IGNORE_FIELDS
from applyprune.planning.ownership import marks_to_record, other_owner, owned_by_tool
from applyprune.values import replace
from tests.support.objects import config_map
from tests.support.planning import CONFIG_MAPS, TARGET, TIME, desired, live, managed, recorded

REF = Ref("", "ConfigMap", "home", "a")
MINE = desired(config_map("a"), CONFIG_MAPS)
RELEASE = "meta.helm.sh/release-name"
LATER = TIME.replace("2026-11-21", "2026-11-22")
DATA: dict[str, Any] = {"f:data": {"f:key": {}}}
NOTED: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{RELEASE}": {}}}}
OURS = managed(fieldsV1=DATA)


def _helm(time: str = LATER) -> dict[str, Any]:
    return managed("helm", operation="Update", time=time, fieldsV1=NOTED)


def _marks_of(one: LiveObject) -> tuple[str, ...]:
    """Return what is recorded of an object that the set takes in."""
    return marks_to_record(recorded(MINE, one, uid=""), one, TARGET)


def _applied(manager: str, fields: object, **parts: Any) -> dict[str, Any]:
    return managed(manager, fieldsV1=fields, **parts)


ITEMS: dict[str, Any] = {
    "f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:name": {}, "f:image": {}}}}
}
DECORATED: dict[str, Any] = {
    "f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:name": {}, "f:tty": {}}}}
}

BUNDLE: dict[str, Any] = {"f:webhooks": {'k:{"name":"a"}': {"f:clientConfig": {"f:caBundle": {}}}}}
IGNORING: dict[str, Any] = {"f:metadata": {"f:annotations": {f"f:{IGNORE_FIELDS}": {}}}}

CASES: dict[str, tuple[list[dict[str, Any]], dict[str, str], tuple[str, ...], str]] = {
    "nobody": ([OURS], {}, (), ""),
    "a new mark": (
        [OURS],
        {RELEASE: "x"},
        (),
        f"it now carries Helm's mark ({RELEASE}: x), which this set did not write",
    ),
    "another value": (
        [OURS],
        {RELEASE: "x"},
        (f"{RELEASE}=y",),
        f"it now carries Helm's mark ({RELEASE}: x), which this set did not write",
    ),
    "a mark from before": ([OURS, _helm(TIME)], {RELEASE: "x"}, (f"{RELEASE}=x",), ""),
    "a mark of the manifest": ([managed(fieldsV1=NOTED)], {RELEASE: "x"}, (f"{RELEASE}=x",), ""),
    "a mark whose manager has written since": (
        [OURS, _helm()],
        {RELEASE: "x"},
        (f"{RELEASE}=x",),
        f"Helm has written it since the last apply ({RELEASE}: x)",
    ),
    "another applier": ([OURS, _applied("flux", DATA)], {}, (), "flux applies it too (.data.key)"),
    "an applier of other fields": (
        [OURS, _applied("flux", {"f:data": {"f:b": {}}})],
        {},
        (),
        "flux applies a part of it (.data.b)",
    ),
    "an applier of our fields after one of others": (
        [OURS, _applied("a", {"f:data": {"f:b": {}}}), _applied("flux", DATA)],
        {},
        (),
        "flux applies it too (.data.key)",
    ),
    "an applier of a caBundle": ([OURS, _applied("injector", BUNDLE)], {}, (), ""),
    "an applier of a caBundle and more": (
        [OURS, _applied("injector", {**BUNDLE, "f:data": {"f:b": {}}})],
        {},
        (),
        "injector applies a part of it (.data.b)",
    ),
    "an applier of a status": ([OURS, _applied("x", {"f:status": {"f:a": {}}})], {}, (), ""),
    "the rules that a controller collects": (
        [managed(fieldsV1={"f:aggregationRule": {}}), _applied("x", {"f:rules": {}})],
        {},
        (),
        "",
    ),
    "rules that nobody collects": (
        [OURS, _applied("x", {"f:rules": {}})],
        {},
        (),
        "x applies a part of it (.rules)",
    ),
    "a field that our manifest ignores": (
        [managed(fieldsV1=IGNORING), _applied("x", {"f:data": {"f:b": {}}})],
        {IGNORE_FIELDS: "/data/b"},
        (),
        "",
    ),
    "a field that another's annotation ignores": (
        [OURS, _applied("x", {"f:data": {"f:b": {}}})],
        {IGNORE_FIELDS: "/data/b"},
        (),
        "x applies a part of it (.data.b)",
    ),
    "an applier of labels": ([managed(fieldsV1=NOTED), _applied("flux", NOTED)], {}, (), ""),
    "an applier of a subresource": ([OURS, _applied("x", DATA, subresource="scale")], {}, (), ""),
    "an Update": ([OURS, _applied("kubectl-edit", DATA, operation="Update")], {}, (), ""),
    "what we have yielded": ([OURS, _applied(TARGET.yielded, DATA)], {}, (), ""),
    "another field of the same container": (
        [managed(fieldsV1=ITEMS), _applied("decorator", DECORATED)],
        {},
        (),
        'decorator applies a part of it (.spec.containers[name="web"].tty)',
    ),
    "the same field of the same container": (
        [managed(fieldsV1=ITEMS), _applied("z", ITEMS)],
        {},
        (),
        'z applies it too (.spec.containers[name="web"].image)',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_other_owner_is_named_with_the_evidence(name: str) -> None:
    """Marks outlive tools, so a mark alone proves nothing; who labels an object runs it not."""
    entries, annotations, marks, expected = CASES[name]
    now = live(REF, entries=entries, annotations=annotations)
    entry = recorded(MINE, live(REF, entries=[OURS]), marks=marks)
    assert other_owner(entry, now, TARGET) == expected


INSTANCE = "app.kubernetes.io/instance"
LABELLED: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:{INSTANCE}": {}}}}


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        ([_applied("argocd-controller", LABELLED)], True),
        ([_applied("argocd-application-controller", LABELLED, operation="Update")], True),
        pytest.param(
            [_applied("helm", LABELLED)], False, marks=pytest.mark.holds("label-of-anybody")
        ),
        ([_applied("argocd-controller", DATA), _applied("helm", LABELLED)], False),
        ([managed(fieldsV1=LABELLED), _applied("argocd-controller", DATA)], False),
        ([], False),
    ],
)
def test_label_of_anybody_counts_if_its_tool_has_written_it(
    entries: list[dict[str, Any]], found: bool
) -> None:
    """Argo CD tracks by a label that charts have too."""
    one = live(REF, labels={INSTANCE: "shop"}, entries=entries)
    assert owned_by_tool(one, TARGET) == ("the Argo CD application shop" if found else "")
    assert _marks_of(one) == ((f"{INSTANCE}=shop",) if found else ())


def test_marks_are_recorded_with_their_values() -> None:
    """Of labels and annotations; whatever else an object has is nobody's mark."""
    one = live(REF, labels={"olm.owner": "csv", "app": "x"}, annotations={RELEASE: "r", "b": "c"})
    assert set(_marks_of(one)) == {f"{RELEASE}=r", "olm.owner=csv"}


@pytest.mark.holds("mark-of-a-secret")
def test_mark_of_a_secret_is_recorded_without_its_value() -> None:
    """Anybody may have copied a value of the Secret into it."""
    ref = Ref("", "Secret", "home", "s")
    there = live(ref, entries=[OURS], annotations={RELEASE: "hunter2"})
    assert _marks_of(there) == (f"{RELEASE}=",)
    before = replace(recorded(MINE, there), marks=_marks_of(there))
    assert other_owner(before, there, TARGET) == ""
