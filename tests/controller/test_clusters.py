"""Another cluster: a kubeconfig uses nothing of the controller, and objects stay where they are."""

from __future__ import annotations

import ipaddress
import json
import time
from typing import Any

import pytest

from applyprune.addresses import AddressRules
from applyprune.controller.clusters import previous_cluster, self_contained
from applyprune.controller.result import ClusterChanged
from applyprune.errors import InvalidKubeConfig, problems_of
from applyprune.model.identity import Ref
from applyprune.model.live import BUNDLES, LiveObject
from applyprune.planning.marks import ACCEPT_CLUSTER, FINALIZER
from tests.support.canaries import TOKEN, TRACES
from tests.support.kubeconfigs import (
    COSTLY,
    FOREIGN,
    MALFORMED,
    SERVER,
    SERVERS,
    kubeconfig,
    with_foreign,
)

WHERE = "secret/prod-eu"


def refusal(content: dict[str, Any] | bytes) -> str:
    """Return why a kubeconfig is refused; the message quotes nothing of it."""
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(InvalidKubeConfig) as caught:
        self_contained(raw, WHERE, AddressRules())
    assert caught.value.__cause__ is None
    told = repr([caught.value, problems_of(caught.value)])
    assert [trace for trace in TRACES if trace in told] == []
    message: str = caught.value.message
    beginning = f"the kubeconfig of {WHERE} cannot be used: "
    assert message.startswith(beginning)
    return message.removeprefix(beginning)


@pytest.mark.holds("foreign-kubeconfig", row="exec")
@pytest.mark.parametrize("key", FOREIGN)
def test_field_that_uses_the_machine_is_refused(key: str) -> None:
    """By its name, beside good credentials too, and in each form in which YAML may have it."""
    kind, value = FOREIGN[key]
    where = f"the {kind} of the current context has {key}, which is not allowed: "
    for one in (value, [value], {"a": value}):
        assert refusal(with_foreign(key, one)).startswith(where)


@pytest.mark.parametrize("value", [False, "", None, "false", "~"])
def test_field_that_is_switched_off_is_accepted(value: object) -> None:
    """Tools write it so."""
    off = {"insecure-skip-tls-verify": value, "proxy-url": None}
    raw = json.dumps(kubeconfig(off)).encode()
    assert self_contained(raw, WHERE, AddressRules()).server == SERVER


@pytest.mark.holds("https-only", row="2")
@pytest.mark.parametrize("server", SERVERS, ids=map(str, range(len(SERVERS))))
def test_server_that_is_not_another_cluster_is_refused(server: str) -> None:
    """Only https, only one way to write it, and no address that is refused."""
    assert refusal(kubeconfig({"server": server})).startswith(SERVERS[server])


@pytest.mark.parametrize(
    "server", [SERVER, "https://10.0.0.1", "https://[fd12::1]:443/k8s/clusters/c-1", "https://k8s."]
)
def test_server_of_a_cluster_is_accepted(server: str) -> None:
    """With a path too; its URL is not shown."""
    access = self_contained(
        json.dumps(kubeconfig({"server": server})).encode(), WHERE, AddressRules()
    )
    assert (access.server, access.shown) == (server, f"the cluster of {WHERE}")
    assert (access.proxy, access.impersonation, access.trust.skip_verify) == ("", (), False)
    assert access.credentials.current().token == TOKEN
    assert TOKEN not in repr(access)


def test_network_that_is_allowed_may_have_the_server() -> None:
    """The controller's option decides."""
    rules = AddressRules((ipaddress.ip_network("127.0.0.0/8"),))
    raw = json.dumps(kubeconfig({"server": "https://127.0.0.1:6443"})).encode()
    assert self_contained(raw, WHERE, rules).addresses == rules


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_kubeconfig_is_refused(name: str) -> None:
    """The message names what is wrong."""
    content, message = MALFORMED[name]
    assert refusal(content).startswith(message)


@pytest.mark.holds("kubeconfig-size", row="long")
@pytest.mark.holds("kubeconfig-cost", row="many keys")
@pytest.mark.parametrize("name", COSTLY)
def test_kubeconfig_that_is_costly_to_read_is_refused_soon(name: str) -> None:
    """Whatever it would become."""
    raw, message = COSTLY[name]
    began = time.process_time()
    assert refusal(raw) == message
    assert time.process_time() - began < 1.0


HOME, OLD, NEW = "uid-of-home", "uid-of-old", "uid-of-new"


def bundle(recorded: str, *, applied: bool, accepted: str) -> LiveObject:
    """Return a Bundle with that cluster in its status."""
    metadata: dict[str, Any] = {
        "name": "web",
        "namespace": "shop",
        "finalizers": [FINALIZER] if applied else [],
        "annotations": {ACCEPT_CLUSTER: accepted} if accepted else {},
    }
    status = {"cluster": {"uid": recorded, "namespace": "kube-system"}} if recorded else {}
    body = {"metadata": metadata, "status": status}
    return LiveObject.of(
        Ref(BUNDLES.group, BUNDLES.kind, "shop", "web"), "uid", "1", metadata, body
    )


# What is recorded, whether anything was applied, what is accepted, what answers; what it leaves,
# None if it may not.
CASES: tuple[tuple[str, bool, str, str, str | None], ...] = (
    ("", False, "", NEW, ""),
    ("", False, "", HOME, ""),
    (OLD, True, "", OLD, ""),
    (OLD, False, "", OLD, ""),
    (OLD, True, "", NEW, None),
    (OLD, False, "", NEW, None),
    (OLD, True, OLD, NEW, None),
    (OLD, True, "true", NEW, None),
    (OLD, True, NEW, NEW, OLD),
    # Its objects are in its own cluster, and now it names another one; and the other way round.
    ("", True, "", HOME, ""),
    ("", True, "", NEW, None),
    ("", True, NEW, NEW, HOME),
    (OLD, True, "", HOME, None),
    (OLD, True, HOME, HOME, OLD),
)


@pytest.mark.holds("other-cluster", row="uid-of-old-True--uid-of-new-None")
@pytest.mark.parametrize(("recorded", "applied", "accepted", "now", "left"), CASES)
def test_bundle_stays_in_its_cluster(
    recorded: str, applied: bool, accepted: str, now: str, left: str | None
) -> None:
    """Unless somebody has named the new one."""
    live = bundle(recorded, applied=applied, accepted=accepted)
    if left is not None:
        assert previous_cluster(live, now, HOME) == left
        return
    with pytest.raises(ClusterChanged) as caught:
        previous_cluster(live, now, HOME)
    assert caught.value.message == (
        f"another cluster answers ({now}) than has its objects ({recorded or HOME}): nothing is "
        "applied or deleted"
    )
    assert caught.value.reason.endswith(
        f"kubectl annotate bundle web -n shop --overwrite applyprune.dev/accept-cluster={now}"
    )
