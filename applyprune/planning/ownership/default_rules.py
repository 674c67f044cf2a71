"""The default rules: fields that controllers set in everybody's objects, so no set claims them.

Each rule can be switched off by its name. A rule that leaves out what is empty does so at the
creation too: nothing is lost, and nobody has to take the field from the set later.
"""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import left_out
from applyprune.model.live import AUTOSCALERS, CRD, field, mapping, text
from applyprune.model.plan import ApplyRule
from applyprune.planning.fields.normalize import ruled_digest
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from applyprune.model.fieldset import Path
    from applyprune.model.identity import GroupKind, Ref
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Desired


class DefaultRule(StrEnum):
    """A default rule, by the name that switches it off."""

    AGGREGATED_RULES = "aggregated-rules"
    """The rules of a ClusterRole with an aggregationRule: a controller collects them."""
    CA_BUNDLE = "ca-bundle"
    """An empty caBundle of a webhook, a CRD's conversion or an APIService: an injector sets it."""
    AUTOSCALED_REPLICAS = "autoscaled-replicas"
    """The replicas of an object that a HorizontalPodAutoscaler targets."""


REPLICAS = "/spec/replicas"
_WEBHOOKS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
_BUNDLE = "caBundle"


def without_defaults(
    body: Mapping[str, Any], kind: GroupKind, off: Collection[str]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return a body without what two of the default rules leave out, and which fields by which.

    ``off`` are the rules that are switched off.
    """
    left: list[str] = []
    if DefaultRule.AGGREGATED_RULES not in off and _is_aggregated(body, kind) and "rules" in body:
        body = {key: value for key, value in body.items() if key != "rules"}
        left.append(_told("/rules", "the aggregation controller", DefaultRule.AGGREGATED_RULES))
    if DefaultRule.CA_BUNDLE not in off:
        filled = _without_bundles(body, kind)
        if filled is not body:
            body = filled
            left.append(_told("an empty caBundle", "its injector", DefaultRule.CA_BUNDLE))
    return body, tuple(left)


def may_be_autoscaled(desired: Desired, off: Collection[str]) -> bool:
    """Return whether an object has replicas that an autoscaler may set."""
    if DefaultRule.AUTOSCALED_REPLICAS in off or REPLICAS in desired.ignored:
        return False
    if REPLICAS in desired.removed:  # guard: null-replicas
        return True
    # Parsed only where it may be so: there may be 100,000 objects.
    is_mentioned = desired.packed.mentions("replicas")
    return is_mentioned and field(desired.body, "spec", "replicas") is not None


def is_scaled(live: LiveObject) -> bool:
    """Return whether anybody has written to the scale of an object."""
    return any(entry.get("subresource") == "scale" for entry in live.managed_fields)


def with_autoscaler(
    desired: Desired, autoscalers: Iterable[Mapping[str, Any]], off: Collection[str]
) -> Desired:
    """Return an object whose replicas are left to the autoscaler that targets it, if one does."""
    for scaler in autoscalers:
        name = text(scaler, "metadata", "name")
        place = text(scaler, "metadata", "namespace")
        is_target = place == desired.ref.namespace and targets(scaler, desired.ref)
        if is_target and may_be_autoscaled(desired, off):
            who = f"HorizontalPodAutoscaler {name}"
            told = _told(REPLICAS, who, DefaultRule.AUTOSCALED_REPLICAS)
            return replace(
                desired,
                ignored=(*desired.ignored, REPLICAS),
                left=(*desired.left, told),
                digest=ruled_digest(desired.digest, (REPLICAS,)),
            )
    return desired


def autoscalers_in(desired: Iterable[Desired]) -> tuple[Mapping[str, Any], ...]:
    """Return the bodies of the HorizontalPodAutoscalers among desired objects."""
    scalers = (one for one in desired if one.ref.group_kind == AUTOSCALERS.group_kind)
    # guard: disabled-autoscaler
    return tuple(one.body for one in scalers if one.apply is not ApplyRule.DISABLED)


def targets(scaler: Mapping[str, Any], ref: Ref) -> bool:
    """Return whether a HorizontalPodAutoscaler of the same namespace targets an object."""
    scaled = mapping(field(scaler, "spec", "scaleTargetRef"))
    group = str(scaled.get("apiVersion", "")).rpartition("/")[0]
    return (group, scaled.get("kind"), scaled.get("name")) == (ref.group, ref.kind, ref.name)


def _told(what: str, whom: str, rule: DefaultRule) -> str:
    return f"{what} is left to {whom} (default rule {rule})"


def _is_aggregated(body: Mapping[str, Any], kind: GroupKind) -> bool:
    name = (kind.group, kind.kind)
    return name == ("rbac.authorization.k8s.io", "ClusterRole") and bool(
        mapping(body.get("aggregationRule"))
    )


def _without_bundles(body: Mapping[str, Any], kind: GroupKind) -> Mapping[str, Any]:
    if kind.group == "admissionregistration.k8s.io" and kind.kind in _WEBHOOKS:
        hooks = body.get("webhooks")
        if isinstance(hooks, list) and any(_is_empty(hook, ("clientConfig",)) for hook in hooks):
            kept = [
                _cut(hook, ("clientConfig",)) if _is_empty(hook, ("clientConfig",)) else hook
                for hook in hooks
            ]
            return {**body, "webhooks": kept}
    for place in _places(kind):
        if _is_empty(body, place):
            return _cut(body, place)
    return body


def _places(kind: GroupKind) -> Iterator[tuple[str, ...]]:
    if kind == CRD:
        yield ("spec", "conversion", "webhook", "clientConfig")
    if (kind.group, kind.kind) == ("apiregistration.k8s.io", "APIService"):
        yield ("spec",)


def _is_empty(body: object, place: tuple[str, ...]) -> bool:
    """Return whether a caBundle is there and holds no certificate."""
    config = mapping(field(mapping(body), *place))
    if _BUNDLE not in config:
        return False
    bundle = config[_BUNDLE]
    try:
        return not (bundle and base64.b64decode(str(bundle), validate=True).strip())
    except ValueError:
        return False


def _cut(body: Mapping[str, Any], place: tuple[str, ...]) -> Mapping[str, Any]:
    path: Path = (*place, _BUNDLE)
    return left_out(body, [path])
