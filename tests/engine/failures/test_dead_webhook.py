"""A webhook or server that does not answer: reported during the retries, and paid for once."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag

import pytest

from applyprune.model.events import ObjectDone, RetryReported
from applyprune.model.fate import Outcome
from tests.support.api import Api
from tests.support.command import start
from tests.support.fault_proxy import FaultProxy, first
from tests.support.fault_proxy.exchange import Wire
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage, Story, on
from tests.support.waiting import HANG, eventually

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NAME = 'the webhook "dead.example.com"'


def service(number: int) -> dict[str, object]:
    """Return a Service without Pods."""
    return of_kind(
        "Service", f"s{number}", spec={"type": "ExternalName", "externalName": "example.com"}
    )


@contextmanager
def dead_webhook(api: Api, namespace: str, resource: str = "services") -> Iterator[str]:
    """Register a webhook whose port nobody listens on; yield the path of its configuration."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{free.getsockname()[1]}/"
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": [resource],
            "operations": ["CREATE", "UPDATE"],
        }
        webhook = {
            "name": "dead.example.com",
            "clientConfig": {"url": url},
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        body = {"metadata": {"name": f"dead-{namespace}"}, "webhooks": [webhook]}
        api.create(CONFIGURATIONS, body)
        probe = {"metadata": {"name": "probe"}, "spec": {"type": "ExternalName"}}
        probe["spec"]["externalName"] = "example.com"
        path = f"/api/v1/namespaces/{namespace}/{resource}?dryRun=All"
        eventually(lambda: api("POST", path, probe)[0] == 500, lambda: "the webhook")
        try:
            yield f"{CONFIGURATIONS}/dead-{namespace}"
        finally:
            api("DELETE", f"{CONFIGURATIONS}/dead-{namespace}")


def retries(story: Story) -> list[RetryReported]:
    """Return the reports of what did not answer."""
    return story.of(RetryReported)


def test_dead_webhook_costs_the_budget_once(stage: Stage, api: Api) -> None:
    """Of many objects, sixteen at a time; each new try is reported once, with its reason."""
    many = 160
    with dead_webhook(api, stage.namespace):
        story = stage.run(*(service(number) for number in range(many)))
    assert set(story.outcomes.values()) == {Outcome.FAILED}
    assert len(story.outcomes) == many
    reports = retries(story)
    assert {one.message for one in reports} == {f"{NAME} does not answer"}
    tries = [one.tries for one in reports]
    assert tries == sorted({*tries})
    assert tries[0] >= 4
    assert "connection refused" in reports[-1].reason
    done = story.of(ObjectDone)[0]
    assert story.events.index(reports[0]) < story.events.index(done)
    problems = [story.problem(f"service/s{number}") for number in range(many)]
    tried = [one for one in problems if "tried " in one]
    refused = [one for one in problems if "the run has used up its time for retries" in one]
    assert len(tried) + len(refused) == many
    # Once, and not once for each sixteen: those that come later are not tried again.
    assert tried
    assert len(refused) > many / 4


@pytest.mark.parametrize("resource", ["services", "configmaps"])
def test_run_succeeds_when_the_webhook_answers_in_time(
    stage: Stage, api: Api, resource: str
) -> None:
    """Also while the run writes its own inventory, which is a ConfigMap."""
    stage.budget = HANG
    stage.run(service(0))
    with dead_webhook(api, stage.namespace, resource) as path:
        stage.seen = on(RetryReported, lambda: api("DELETE", path))
        story = stage.run(service(0), service(1))
    assert story.outcomes == {"service/s0": Outcome.UNCHANGED, "service/s1": Outcome.CREATED}
    assert story.exit_code == 0
    assert {one.what for one in retries(story)} == {NAME}


def test_silent_server_is_reported_before_the_first_try_has_failed(
    spoiled: Stage, proxy: FaultProxy
) -> None:
    """A try may take 30 seconds."""
    spoiled.run(config_map("a"))
    reported = Flag()

    def held(wire: Wire) -> None:
        assert reported.wait(HANG)
        wire.reply(wire.forward())

    proxy.rule = first(1, held, where=lambda seen: seen.method == "PATCH")

    spoiled.seen = on(RetryReported, reported.set)
    story = spoiled.run(config_map("a", value="w"))
    (report, *_) = retries(story)
    assert (report.message, report.tries) == ("the API server does not answer", 1)
    assert story.outcomes == {"configmap/a": Outcome.UPDATED}


def test_command_reports_a_dead_webhook(stage: Stage, api: Api, tmp_path: Path) -> None:
    """On standard error, while it goes on; it ends well if the webhook comes back."""
    manifest = tmp_path / "s.yaml"
    manifest.write_text(
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
        "spec: {type: ExternalName, externalName: example.com}\n"
    )
    arguments = ("apply", "web", "-n", stage.namespace, "-f", manifest)
    with dead_webhook(api, stage.namespace) as path:
        process = start(*arguments, kubeconfig=stage.kubeconfig)
        assert process.stderr is not None
        told = next(line for line in process.stderr if line.startswith("waiting: "))
        api("DELETE", path)
        out, _ = process.communicate(timeout=HANG)
    assert re.match(rf"waiting: {re.escape(NAME)} does not answer, try \d+ \(", told), told
    assert "connection refused" in told
    assert process.returncode == 0
    assert "service/s created" in out
