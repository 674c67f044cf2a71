"""A Bundle whose input has errors: its status has all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.objects import config_map

if TYPE_CHECKING:
    from tests.support.controller import Tenant


def test_bundle_with_errors_in_its_input_has_all_of_them_in_its_status(
    tenant: Tenant,
) -> None:
    """And nothing changes."""
    tenant.bundle("web", config_map("a"), config_map("gone"))
    tenant.ready("web")
    unknown = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}
    hook = config_map("hook", annotations={"helm.sh/hook": "pre-install"})
    tenant.bundle("web", unknown, hook, config_map("a", "ours"), config_map("new"))
    message = tenant.failed("web", "InvalidSource")
    assert "no matches for kind Foo" in message
    assert "configmap/hook is an install or upgrade hook" in message
    assert (tenant.value("a"), tenant.exists("gone", "new")) == ("v", [True, False])
