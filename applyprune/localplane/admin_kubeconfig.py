"""Write kubeconfig files that contain all credentials, so that they can be copied and merged."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.localplane.layout import Layout


def kubeconfig(
    name: str, server: str, layout: Layout, users: Mapping[str, Mapping[str, str]]
) -> str:
    """Return a kubeconfig, as JSON, with a context for each user; the first context is current."""
    authority = _data(layout.certificate("ca").read_bytes())
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": server, "certificate-authority-data": authority},
            }
        ],
        "users": [{"name": user, "user": facts} for user, facts in users.items()],
        "contexts": [{"name": user, "context": {"cluster": name, "user": user}} for user in users],
        "current-context": next(iter(users)),
    }
    return json.dumps(config, indent=2) + "\n"


def certificate_user(layout: Layout, identity: str) -> dict[str, str]:
    """Return a user entry with the client certificate of the identity."""
    return {
        "client-certificate-data": _data(layout.certificate(identity).read_bytes()),
        "client-key-data": _data(layout.key(identity).read_bytes()),
    }


def _data(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
