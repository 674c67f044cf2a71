"""``--approve DIGEST``: exactly these deletions pass the guards, and no others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.api import writes
from tests.support.command import applyprune
from tests.support.desk import NAMES
from tests.support.input_files import write_input
from tests.support.objects import config_map

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.api import Api, AuditTrail
    from tests.support.command import Ended
    from tests.support.desk import Desk

NEVER_MADE = f"sha256:{'0' * 64}"


def test_approved_digest_allows_exactly_these_deletions(desk: Desk, audit: AuditTrail) -> None:
    """Also if a manifest has changed since; one object more is another prune."""
    shown = desk.call("diff", a0="1", a1="1")
    assert shown.code == 6
    digest = shown.digests["deletions"]
    audit.restart()
    other = desk.call("apply", "--approve", digest, a0="1")
    assert other.code == 6
    assert (
        f"the approval is for {digest}, and the digest of these deletions is sha256:" in other.err
    )
    assert writes(audit) == []
    assert desk.there() == dict.fromkeys(NAMES, "1")
    done = desk.call("apply", "--approve", digest, a0="2", a1="1")
    assert done.code == 0, done.err
    assert desk.there() == {"a0": "2", "a1": "1"}


def test_approval_binds_a_small_prune_too(desk: Desk, audit: AuditTrail) -> None:
    """No guard refuses one deletion of four; but this one is not the approved one."""
    kept = dict.fromkeys(NAMES, "1")
    first, second, *_ = NAMES
    digest = desk.call("plan", **{name: "1" for name in kept if name != first}).digests["deletions"]
    fewer = {name: "1" for name in kept if name != second}
    audit.restart()
    refused = desk.call("apply", "--approve", digest, **fewer)
    assert refused.code == 6
    assert "what it would delete is not approved" in refused.err
    assert writes(audit) == []
    assert desk.there() == kept
    # Nothing to delete needs no approval.
    assert desk.call("apply", "--approve", digest, **{**kept, first: "2"}).code == 0
    assert desk.call("apply", **fewer).code == 0


def test_approval_covers_what_is_recreated(desk: Desk, api: Api, audit: AuditTrail) -> None:
    """Only a check finds it, so an approved apply checks; the prunes alone are not the plan."""
    path = f"/api/v1/namespaces/{desk.namespace}/configmaps/fixed"

    def call(verb: str, value: str, *others: str, options: tuple[str, ...] = ()) -> Ended:
        fixed = {**config_map("fixed", value), "immutable": True}
        bodies = [fixed, *(config_map(name, "1") for name in others)]
        file = write_input(desk.folder / "fixed.json", bodies)
        target = ("web", "-n", desk.namespace, "-f", file, "--recreate")
        return applyprune(verb, *target, *options, kubeconfig=desk.plane.kubeconfig)

    def changed(*options: str, verb: str = "apply") -> Ended:
        return call(verb, "new", "a0", options=options)

    assert call("apply", "old", *NAMES).code == 0
    uid = api.get(path)["metadata"]["uid"]
    shown = changed(verb="plan")
    assert shown.code == 6
    digest = shown.digests["deletions"]
    assert changed(verb="diff").digests["deletions"] == digest
    prunes = changed("--no-check", verb="plan").digests["deletions"]
    assert prunes != digest
    audit.restart()
    alone = changed("--approve", prunes)
    assert alone.code == 6
    assert (
        f"the approval is for {prunes}, and the digest of these deletions is {digest}" in alone.err
    )
    unchecked = changed("--no-check", "--approve", digest)
    assert unchecked.code == 6
    assert (
        f"the approval is for {digest}, and the digest of these deletions is {prunes}"
        in unchecked.err
    )
    assert writes(audit) == []
    assert api.get(path)["metadata"]["uid"] == uid
    allowed = changed("--approve", digest, verb="plan")
    assert (allowed.code, allowed.digests) == (0, shown.digests)
    done = changed("--approve", digest)
    assert done.code == 0, done.err
    assert api.get(path)["metadata"]["uid"] != uid
    assert desk.there() == {"fixed": "new", "a0": "1"}


@pytest.mark.parametrize("verb", ["apply", "prune"])
def test_approval_comes_from_the_environment(
    desk: Desk, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a pipeline's protected step gives it; an empty variable is none."""
    monkeypatch.setenv("APPLYPRUNE_APPROVE", "")
    digest = desk.call("diff", a0="1").digests["deletions"]
    assert desk.call(verb, a0="1").code == 6
    monkeypatch.setenv("APPLYPRUNE_APPROVE", f" {digest}\n")
    assert desk.call(verb, a0="1").code == 0
    assert desk.there() == {"a0": "1"}


def test_digest_that_was_never_made_is_refused(desk: Desk, audit: AuditTrail) -> None:
    """With the digest that this prune has; JSON has both too."""
    audit.restart()
    refused = desk.call("apply", "--approve", NEVER_MADE, "-o", "json", a0="1")
    assert refused.code == 6
    plan = json.loads(refused.out)["plan"]
    assert NEVER_MADE in plan["pruneBlocked"]["reason"]
    assert plan["deletions"] in plan["pruneBlocked"]["reason"]
    assert writes(audit) == []


@pytest.mark.parametrize("text", ["yes", "sha256:", f"sha256:{'g' * 64}", "0" * 64])
def test_text_that_is_no_digest_is_a_wrong_call(desk: Desk, audit: AuditTrail, text: str) -> None:
    """It is most probably not what somebody approved."""
    audit.restart()
    wrong = desk.call("apply", "--approve", text, a0="1")
    assert (wrong.code, "is not a digest" in wrong.err) == (2, True)
    assert writes(audit) == []


def test_approval_that_nothing_needs_is_accepted(desk: Desk) -> None:
    """A pipeline may always give one; it allows nothing else."""
    values = dict.fromkeys(NAMES, "2")
    assert desk.call("apply", "--approve", NEVER_MADE, **values).code == 0


def test_approval_is_not_a_setting(desk: Desk, tmp_path: Path) -> None:
    """It would approve the same prune again and again, unreviewed."""
    config = tmp_path / "applyprune.yaml"
    head = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\nname: web\n"
    config.write_text(f"{head}approve: {NEVER_MADE}\n")
    refused = desk.call("apply", "--config", str(config), a0="1")
    assert (refused.code, "approve is not allowed" in refused.err) == (2, True)


def test_digest_is_the_same_for_the_same_plan(desk: Desk) -> None:
    """Every time, and in any order; another value gives another plan, and the same deletions."""
    first = desk.call("diff", a0="2", a1="1").digests
    assert first.keys() == {"plan", "deletions"}
    assert desk.call("diff", a1="1", a0="2").digests == first
    other = desk.call("diff", a0="3", a1="1").digests
    assert other["plan"] != first["plan"]
    assert other["deletions"] == first["deletions"]
