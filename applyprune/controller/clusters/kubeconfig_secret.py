"""Read the kubeconfig of a Bundle from its Secret, as the Bundle's ServiceAccount."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from applyprune.controller.clusters.cluster_errors import KubeConfigMissing
from applyprune.errors import InvalidKubeConfig, NotFound
from applyprune.model.identity import Ref
from applyprune.model.resources import SECRETS

if TYPE_CHECKING:
    from applyprune.controller.bundle import Bundle
    from applyprune.engine.ports import Cluster

_KEYS = ("value", "value.yaml")
"""The keys that are tried if the spec names none, as in Flux."""


def kubeconfig_ref(bundle: Bundle) -> Ref | None:
    """Return the Secret with a Bundle's kubeconfig; None if it is applied in this cluster."""
    if bundle.spec.kube_config is None:
        return None
    name = bundle.spec.kube_config.secret_ref.name
    return Ref(SECRETS.group, SECRETS.kind, bundle.namespace, name)


def read_kubeconfig(bundle: Bundle, cluster: Cluster, uses: dict[Ref, str]) -> bytes:
    """Return the kubeconfig of a Bundle; empty if it is applied in this cluster.

    The Secret's resourceVersion goes into ``uses``; it is empty if the Secret does not exist.
    Raises KubeConfigMissing, InvalidKubeConfig and AccessError.
    """
    ref = kubeconfig_ref(bundle)
    if ref is None or bundle.spec.kube_config is None:
        return b""
    try:
        live = cluster.get(SECRETS, ref, full=True)
    except NotFound:
        uses[ref] = ""
        raise KubeConfigMissing(
            "the kubeconfig is missing", reason=f"{ref.short} does not exist"
        ) from None
    uses[ref] = live.resource_version
    key = bundle.spec.kube_config.secret_ref.key
    keys = (key,) if key else _KEYS
    values = (live.body or {}).get("data") or {}
    value = next((values[one] for one in keys if one in values), None)
    if value is None:
        told = " nor ".join(map(repr, keys))
        raise KubeConfigMissing(
            "the kubeconfig is missing", reason=f"{ref.short} has no key {told}"
        )
    try:
        return base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidKubeConfig(f"the kubeconfig of {ref.short} is not base64") from None
