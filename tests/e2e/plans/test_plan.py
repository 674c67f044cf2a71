"""``applyprune plan``: what an apply would do, and its digest; the server sees no write."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.support.accounts import kubeconfig_as, rule
from tests.support.api import REVIEWS, WRITES, writes
from tests.support.desk import NAMES

if TYPE_CHECKING:
    from tests.support.api import Api, AuditTrail
    from tests.support.desk import Desk

ALL = dict.fromkeys(NAMES, "1")
LESS = dict.fromkeys(NAMES[:6], "1")


def _planned(desk: Desk, *arguments: str, **values: str) -> dict[str, dict[str, Any]]:
    """Return the steps of a plan in JSON, by the names of their objects."""
    ended = desk.call("plan", "-o", "json", *arguments, **values)
    return {step["ref"]["name"]: step for step in json.loads(ended.out)["plan"]["objects"]}


def test_plan_lists_what_would_change_and_ends_with_its_digest(
    desk: Desk, audit: AuditTrail
) -> None:
    """Deletions first; objects that stay as they are are only counted."""
    audit.restart()
    shown = desk.call("plan", **{**LESS, "a0": "2", "new": "1"})
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "OBJECT          PLAN"
    assert lines[1:4] == [f"configmap/a{number}    would be pruned" for number in (6, 7, 8)]
    assert lines[4:6] == ["configmap/new   would be created", "configmap/a0    would be updated"]
    assert lines[6] == "web: 1 to create, 1 to update, 3 to prune, 5 unchanged"
    assert lines[7:] == [f"{name}: {digest}" for name, digest in shown.digests.items()]
    assert lines[7].startswith("deletions: ")
    assert lines[8].startswith("plan: ")
    assert writes(audit) == []


def test_plan_shows_the_same_digests_as_diff(desk: Desk) -> None:
    """Checked by the server or not; only in JSON they have keys."""
    values = {**LESS, "a0": "2"}
    digests = desk.call("plan", **values).digests
    assert desk.call("diff", **values).digests == digests
    assert desk.call("plan", "--no-check", **values).digests == digests
    document = json.loads(desk.call("plan", "-o", "json", **values).out)
    assert {key: document["plan"][key] for key in ("digest", "deletions")} == {
        "digest": digests["plan"],
        "deletions": digests["deletions"],
    }


def test_page_of_a_plan_shows_the_changed_fields_and_text_does_not(
    desk: Desk, audit: AuditTrail
) -> None:
    """The comment on a request is what people review; values of Secrets are masked."""
    values = {**LESS, "a0": "2"}
    page, wrote = desk.folder / "plan.md", desk.folder / "web.plan"
    audit.restart()
    shown = desk.call("plan", "-o", f"markdown={page}", "--out", wrote, **values)
    assert writes(audit) == []
    assert (shown.code, shown.out) == (0, desk.call("plan", "--out", wrote, **values).out)
    text = page.read_text()
    assert "\n-  key: '1'\n+  key: '2'\n" in text
    assert text.count("</code> would be pruned</summary>") == len(NAMES) - len(LESS)
    assert "Nothing was changed in the cluster." in text
    assert "| object | namespace | plan | reason |" in text

    manifest = desk.folder / "secret.yaml"
    for value in ("canary-of-old", "canary-of-new"):
        manifest.write_text(
            "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {key: " + value + "}}"
        )
        page.write_text("")
        planned = desk.call_with("plan", "-f", manifest, "--max-prune", "9", "-o", f"github={page}")
        assert "secret/s" in page.read_text()
        planned = desk.call_with("plan", "-f", manifest, "-o", "markdown", "--max-prune", "9")
        assert planned.code == 0, planned
        assert "+stringData:" in planned.out or "+  key: " in planned.out
        assert "canary" not in planned.out + page.read_text()
        assert desk.call_with("apply", "-f", manifest, "--max-prune", "9", "--yes").code == 0


def test_plan_exits_with_1_only_if_asked(desk: Desk) -> None:
    """And only if anything would change; a refused prune and wrong input keep their codes."""
    changed = {**ALL, "a0": "2"}
    assert [desk.call("plan", **values).code for values in (ALL, changed)] == [0, 0]
    codes = [desk.call("plan", "--exit-code", **values).code for values in (ALL, changed)]
    assert codes == [0, 1]
    assert desk.call("plan", "--exit-code", "--max-prune", "0", **LESS).code == 6
    assert desk.call("plan", **{"not a name": "1"}).code != 0


def test_refused_prune_is_planned_with_the_digest_that_allows_it(desk: Desk) -> None:
    """What would be pruned is listed as not pruned; the approval changes only that."""
    refused = desk.call("plan", a0="1")
    assert refused.code == 6
    assert "8 objects would not be pruned (prune refused): configmap/a1, " in refused.out
    approved = desk.call("plan", "--approve", refused.digests["deletions"], a0="1")
    assert approved.code == 0
    assert "configmap/a1   would be pruned\n" in approved.out
    assert approved.digests == refused.digests


def test_unchanged_objects_are_listed_on_demand(desk: Desk) -> None:
    """As in every other verb."""
    assert "configmap/a0" not in desk.call("plan", **ALL).out
    shown = desk.call("plan", "--show-unchanged", **ALL)
    assert all(shown.lines[f"configmap/{name}"] == "would not change" for name in NAMES)


def test_plan_without_check_only_reads(desk: Desk, audit: AuditTrail) -> None:
    """Not even a dry run: a job without any right to write can make it; it says so."""
    audit.restart()
    values = {**LESS, "a0": "2", "new": "1"}
    for verb, code in (("plan", 0), ("diff", 1)):
        shown = desk.call(verb, "--no-check", **values)
        assert (shown.code, shown.err) == (code, "")
        assert len(re.findall("^configmap/(?:a0|new) ", shown.out, re.MULTILINE)) == 2
        # The removals of the diff are not tried either; the note stands once.
        assert shown.out.count("not checked by the server") == 1
    assert {event["verb"] for event in audit.events() if _is_ours(event)} <= {"get", "list"}
    steps = _planned(desk, "--no-check", **values)
    unchecked = {name for name, step in steps.items() if step["notChecked"]}
    assert unchecked == {"a0", "new", *NAMES[6:]}
    checked = _planned(desk, **values)
    assert not any(step["notChecked"] for step in checked.values())


def test_account_that_may_only_read_gets_no_plan_to_apply(desk: Desk, audit: AuditTrail) -> None:
    """A missing right is a finding of the check; a diff notes it, and ``--no-check`` finds none."""
    look = [
        rule("", ["configmaps"], ["get", "list", "watch"]),
        # What may name a deleted object as its owner.
        rule("", ["persistentvolumeclaims"], ["list"]),
        rule("apps", ["statefulsets"], ["list"]),
    ]
    reader = kubeconfig_as("reader", desk.plane, desk.api, desk.namespace, desk.folder, *look)
    values = {**LESS, "a0": "2", "new": "1"}
    audit.restart()
    out = desk.folder / "reader.plan"
    page = f"--output=markdown={desk.folder / 'plan.md'}"
    for verb, option in (
        ("plan", "--check"),
        ("plan", f"--out={out}"),
        ("plan", page),
        ("apply", "--dry-run"),
    ):
        planned = desk.call_on(reader, verb, option, **values)
        assert planned.code == 3, planned
        for need in ("delete", "create or patch", "patch", "update"):
            assert f"this account may not {need} configmaps" in planned.out + planned.err
    assert not out.exists()
    planned = desk.call_on(reader, "plan", "--no-check", "--out", out, **values)
    assert (planned.code, out.exists()) == (0, True), planned
    audit.restart()
    shown = desk.call_on(reader, "diff", **values)
    assert (shown.code, shown.err) == (1, "")
    unchecked = re.findall(
        r"^configmap/(\w+) .*\n    not checked: this account may not ([\w ]+) it$",
        shown.out,
        re.MULTILINE,
    )
    assert unchecked == [("a0", "patch"), ("new", "create or patch")]
    # A refused request does not show in the audit log whether it was a dry run.
    sent = [one for one in audit.events() if _is_ours(one) and one["verb"] in WRITES]
    sent = [one for one in sent if not one["requestURI"].startswith(REVIEWS)]
    assert [(one["verb"], one["responseStatus"]["code"]) for one in sent] == [("patch", 403)] * 2
    assert shown.digests == desk.call("diff", **values).digests


def _is_ours(event: dict[str, Any]) -> bool:
    return str(event["userAgent"]).startswith("applyprune/")


def test_plan_takes_the_propagation_of_the_apply(desk: Desk) -> None:
    """It is another plan, because other objects would be deleted."""
    digests = [
        desk.call("plan", "--propagation", how, **LESS).digests["plan"]
        for how in ("background", "orphan")
    ]
    assert digests[0] != digests[1]


def test_object_that_is_unchanged_after_all_is_planned_as_such(desk: Desk, api: Api) -> None:
    """The server finds out; without it the plan can only say that it would be sent."""
    path = f"/api/v1/namespaces/{desk.namespace}/configmaps/a0"
    body = api.get(path)
    body["metadata"].setdefault("annotations", {})["seen"] = "yes"
    assert api("PUT", path, body)[0] == 200
    assert _planned(desk, "--reapply-all", **ALL)["a0"]["fate"] == "leave"
    assert _planned(desk, "--reapply-all", "--no-check", **ALL)["a0"]["fate"] == "change"
