"""A Bundle is ready only in a generation that was applied, also where it is suspended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.controller import served
from tests.support.objects import config_map, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.controller import Controller, Tenant


def test_change_of_a_suspended_bundle_is_not_ready(
    tenant: Tenant, running: Controller, new_tenant: Callable[[], Tenant]
) -> None:
    """Changed and suspended in one edit: no dependent goes on. What tools read of it is a table."""
    tenant.bundle("db", config_map("db"))
    tenant.bundle("app", config_map("app"), dependsOn=[{"name": "db"}])
    rule = {"name": "db", "readyWhen": "self.status.objects.total == 1"}
    tenant.bundle("late", config_map("late"), dependsOn=[rule])
    for name in ("db", "app", "late"):
        tenant.ready(name)
    tenant.suspended("db", source={"inline": text(config_map("db", "new"))})
    for name in ("app", "late"):
        tenant.patch(name, source={"inline": text(config_map(name, "new"))})
        message = tenant.failed(name, "DependencyNotReady")
        assert message == "the Bundle db is suspended, and its last change has not been applied"
        assert tenant.value(name) == "v"
    served(new_tenant(), running, "beside")
    status = tenant.get("db")["status"]
    assert (status["observedGeneration"], tenant.value("db")) == (1, "v")
    # One that was never applied is not ready either.
    tenant.bundle("never", config_map("never"), suspend=True)
    tenant.suspended("never")
    assert tenant.get("never")["status"]["observedGeneration"] == -1
    assert tenant.condition("never")[0] == "Unknown"
    tenant.patch("db", suspend=False)
    for name in ("app", "late"):
        tenant.ready(name)
        assert tenant.value(name) == "new"
