"""An admission webhook answers a write of a Bundle with 404: the Bundle is not gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.objects import config_map
from tests.support.waiting import eventually
from tests.support.webhook import Webhook, missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.controller import Controller, Tenant

    Reply = Callable[[dict[str, Any]], dict[str, Any] | None]

STILL_EXISTS = "it still exists: the server answered 404"


def _for_bundles(refuses: Callable[[dict[str, Any]], bool]) -> Reply:
    def reply(request: dict[str, Any]) -> dict[str, Any] | None:
        is_bundle = request["resource"]["resource"] == "bundles"
        return missing(request) if is_bundle and refuses(request) else None

    return reply


def _finalizers(request: dict[str, Any]) -> bool:
    return bool(request["object"]["metadata"].get("finalizers"))


def test_webhook_answers_the_write_of_the_finalizer_with_404(
    site: Plane, site_api: Api, tenant: Tenant
) -> None:
    """The condition names the webhook; without its finalizer, a Bundle applies nothing."""
    reply = _for_bundles(lambda one: _finalizers(one) and not one.get("subResource"))
    with Webhook(site, site_api, tenant.namespace, ("UPDATE",), reply, resources=("*/*",)):
        tenant.bundle("web", config_map("a"))
        eventually(lambda: STILL_EXISTS in tenant.condition("web")[2], lambda: "the condition")
        assert "missing.example.com" in tenant.condition("web")[2]
        assert tenant.exists("a", "applyprune-web") == [False, False]
    tenant.ready("web")


def test_webhook_answers_the_write_of_a_status_with_404(
    site: Plane, site_api: Api, running: Controller, tenant: Tenant
) -> None:
    """The log names the webhook, and it is tried again with a growing pause."""

    def failures() -> list[str]:
        lines = [line for line in running.lines if line.get("namespace") == tenant.namespace]
        return [str(line["error"]) for line in lines if line["message"] == "reconcile failed"]

    reply = _for_bundles(lambda one: one.get("subResource") == "status")
    resources = ("*/*",)
    with Webhook(
        site, site_api, tenant.namespace, ("UPDATE",), reply, resources=resources
    ) as webhook:
        tenant.bundle("web", config_map("a"))
        eventually(lambda: len(failures()) > 1, lambda: "two failures")
        assert STILL_EXISTS in failures()[0]
        assert "missing.example.com" in failures()[0]
        # Each failure is one refused write; another one may be under way.
        refused = len(webhook.refused)
        assert refused <= len(failures()) + 1
        # It has its finalizer; a status is not needed to apply.
        assert tenant.exists("a") == [True]
    tenant.ready("web")


@pytest.mark.holds("bundle-absence")
def test_webhook_answers_the_end_of_a_bundle_with_404(
    site: Plane, site_api: Api, tenant: Tenant
) -> None:
    """Its objects are deleted; the condition names the webhook until the finalizer can go."""
    tenant.bundle("web", config_map("a"))
    tenant.ready("web")
    reply = _for_bundles(lambda one: not _finalizers(one))
    with Webhook(site, site_api, tenant.namespace, ("UPDATE",), reply):
        tenant.delete("web")
        eventually(lambda: STILL_EXISTS in tenant.condition("web")[2], lambda: "the condition")
        assert "missing.example.com" in tenant.condition("web")[2]
        assert tenant.exists("a") == [False]
    tenant.gone("web")
