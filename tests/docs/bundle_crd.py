"""The CRD of Bundles, written from the model of the spec (``applyprune/controller/spec.py``).

The model has everything that the CRD says of the spec: types, defaults, bounds, rules in CEL, and
the descriptions, which are the docstrings of its fields. The status has no model: the controller
writes plain JSON, and its main process must not load pydantic. Its fields are a table here.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema

from applyprune.controller.drift import DRIFT_SHOWN, FIELDS_SHOWN, MOST_COUNTS
from applyprune.controller.pending_plan import OBJECTS_SHOWN, Scope, count_key
from applyprune.controller.reasons import ConditionType
from applyprune.controller.spec import RULES_OF_BUNDLE, SPEC
from applyprune.controller.status import FAILING_SHOWN, UNOBSERVED, ConditionStatus
from applyprune.model.fate import Fate
from applyprune.model.live import BUNDLES
from applyprune.planning.marks import PRUNE
from tests.docs.pages import ROOT
from tests.support.package import tree

if TYPE_CHECKING:
    from collections.abc import Mapping

Schema = dict[str, Any]
FILE = ROOT / "deploy/crd.yaml"
_HEADER = """\
# The API of a Bundle. make docs writes this file: the spec from its model
# (applyprune/controller/spec.py), all else from tests/docs/bundle_crd.py.
"""
_WIDTH = 100


def crd_text() -> str:
    """Return the text of the CRD."""
    text = yaml.dump(crd(), Dumper=_Dumper, sort_keys=False, width=_WIDTH, allow_unicode=True)
    return f"{_HEADER}{text}"


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    def ignore_aliases(self, data: object) -> bool:
        """Write the same part in full wherever it stands."""
        return True


def crd() -> Schema:
    """Return the CRD."""
    name = BUNDLES.full_plural
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Pruning the CRD would delete every Bundle and everything that they have applied.
        "metadata": {"name": name, "annotations": {PRUNE: "disabled"}},
        "spec": {
            "group": BUNDLES.group,
            "scope": "Namespaced",
            "names": {
                "kind": BUNDLES.kind,
                "listKind": f"{BUNDLES.kind}List",
                "plural": BUNDLES.plural,
                "singular": BUNDLES.kind.lower(),
                "shortNames": ["bdl"],
                "categories": ["applyprune"],  # kubectl get applyprune -A
            },
            "versions": [
                {
                    "name": BUNDLES.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": COLUMNS,
                    "schema": {"openAPIV3Schema": _bundle()},
                }
            ],
        },
    }


def _bundle() -> Schema:
    spec = structural(SPEC.json_schema(schema_generator=AsDeclared), docstrings())
    return {
        "type": "object",
        "description": "A set of manifests that the controller keeps applied in the cluster.",
        "x-kubernetes-validations": list(RULES_OF_BUNDLE),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _in_order(
                spec, description="What the controller applies, from where, how, and as whom."
            ),
            # Without a controller, nobody else would say that nothing has been applied.
            "status": _in_order(STATUS, default={"observedGeneration": UNOBSERVED}),
        },
    }


# The spec: the schema of pydantic, as the API server wants it.


def docstrings() -> Mapping[tuple[str, str], str]:
    """Return the docstring of each field of the spec, by its class and its name in the CRD."""
    found: dict[tuple[str, str], str] = {}
    for part in tree("applyprune.controller.spec").body:
        if not isinstance(part, ast.ClassDef):
            continue
        for field, after in zip(part.body, part.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                meaning = ""
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    meaning = str(after.value.value)
                found[part.name, to_camel(field.target.id)] = " ".join(meaning.split())
    return found


class AsDeclared(GenerateJsonSchema):
    """pydantic's schema, with the keys in the order in which the model has them."""

    def sort(self, value: Schema, parent_key: str | None = None) -> Schema:
        """Sort nothing."""
        return value


def structural(model: Schema, described: Mapping[tuple[str, str], str]) -> Schema:
    """Return a schema of pydantic without references, and without the null of absent fields."""
    parts = model.get("$defs", {})

    def resolved(said: Schema) -> Schema:
        """Return one part, as the API server wants it."""
        said = {key: part for key, part in said.items() if key not in {"title", "description"}}
        owner = model["title"]
        if "anyOf" in said:  # only with null, which stands for no value
            (only,) = (one for one in said.pop("anyOf") if one != {"type": "null"})
            said = {**only, **said}
        if "$ref" in said:
            owner = said.pop("$ref").rpartition("/")[2]
            said = {**parts[owner], **said}
        if "items" in said:
            said["items"] = resolved(said["items"])
        for key in ("title", "description"):  # of the class
            said.pop(key, None)
        if "properties" in said:
            said["properties"] = {
                name: _in_order(resolved(part), description=described[owner, name])
                for name, part in said["properties"].items()
            }
        if "default" in said:
            said["default"] = _default(said)
            if said["default"] in (None, "", []):  # that is what a field without a value means
                del said["default"]
        return _in_order(said)

    return resolved({key: part for key, part in model.items() if key != "$defs"})


_UNITS = {"h": 3600, "m": 60, "s": 1}


def _default(said: Schema) -> object:
    """Return the default as it is written; that of an object comes from its fields."""
    default = said["default"]
    if isinstance(default, dict):
        return {}
    if isinstance(default, float) and said["type"] == "string":
        unit = next(one for one, seconds in _UNITS.items() if default % seconds == 0)
        return f"{default / _UNITS[unit]:.0f}{unit}"
    return default


_KEYS = ("type", "description", "format", "enum", "default")


def _in_order(said: Schema, **more: object) -> Schema:
    """Return a schema with the keys that a reader wants first, and its fields last."""
    said = {**said, **more}
    last = ("required", "items", "properties")
    middle = (key for key in said if key not in {*_KEYS, *last})
    return {key: said[key] for key in (*_KEYS, *middle, *last) if key in said}


# The columns of ``kubectl get``; those with a priority only with ``-o wide``.


def _condition(kind: ConditionType, field: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{field}'


def _column(name: str, path: str, meaning: str, kind: str = "string", **said: object) -> Schema:
    described = {"description": meaning} if meaning else {}
    return {"name": name, "type": kind, **described, "jsonPath": path, **said}


COLUMNS = [
    _column(
        "Ready",
        _condition(ConditionType.READY, "status"),
        "Whether the last revision was applied, and is ready if the Bundle waits for that.",
    ),
    _column("Status", _condition(ConditionType.READY, "reason"), "Why it is ready or not."),
    _column(
        "Drift",
        _condition(ConditionType.DRIFTED, "status"),
        "Whether fields or objects differ from the last apply.",
    ),
    _column(
        "Objects",
        ".status.objects.total",
        "How many objects the set has.",
        "integer",
        priority=1,
    ),
    _column(
        "Suspended",
        ".spec.suspend",
        "Whether the controller does nothing about it.",
        "boolean",
    ),
    _column(
        "Approve",
        ".status.pendingPlan.digest",
        "The digest of the plan that waits for an approval.",
        priority=1,
    ),
    _column(
        "Message",
        _condition(ConditionType.READY, "message"),
        "Why it is ready or not, in words.",
        priority=1,
    ),
    _column("Age", ".metadata.creationTimestamp", "", "date"),
    # The last one: it is 71 characters wide.
    _column(
        "Revision",
        ".status.lastAppliedRevision",
        "The revision of the source at the last complete apply.",
    ),
]


# The status: what ``controller/status.py`` and the modules that it asks write into it.


def _text(meaning: str, **said: object) -> Schema:
    return {"type": "string", "description": meaning, **said}


def _time(meaning: str) -> Schema:
    return _text(meaning, format="date-time")


def _whole(meaning: str, **said: object) -> Schema:
    return {"type": "integer", "description": meaning, **said}


def _group(meaning: str, required: str = "", /, **fields: Schema) -> Schema:
    described = {"description": meaning} if meaning else {}
    needed = {"required": required.split()} if required else {}
    return {"type": "object", **described, **needed, "properties": fields}


def _list(meaning: str, items: Schema, **said: object) -> Schema:
    return {"type": "array", "description": meaning, **said, "items": items}


_GENERATION = {"format": "int64"}
_OBJECT = {"object": _text("Its kind and name."), "namespace": _text("Its namespace.")}
_NAMED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
_COUNTS = {
    count_key(Fate.PRUNE): "Objects to delete.",
    "cascaded": "Objects that are deleted with them.",
    count_key(Fate.RECREATE): "Objects to delete and create again.",
    count_key(Fate.ADOPT): "Existing objects to take into the set.",
    count_key(Fate.CHANGE): "Objects to change.",
    count_key(Fate.CREATE): "Objects to create.",
    count_key(Fate.ORPHAN): "Objects to keep without the set.",
    count_key(Fate.REMOVE_FROM_INVENTORY): "Entries without an object of the set.",
    count_key(Fate.REFUSE): "Objects that would fail.",
}
STATUS = _group(
    "What the controller has done, and what it waits for.",
    observedGeneration=_whole(
        "The last generation that was tried; -1 before the first. A change while the Bundle is "
        "suspended is not tried.",
        **_GENERATION,
    ),
    conditions=_list(
        "Ready, Reconciling, Stalled, PruneBlocked and Drifted.",
        _group(
            "",
            "type status reason message lastTransitionTime",
            type=_text("Which condition it is."),
            status=_text("Whether it is so.", enum=[str(one) for one in ConditionStatus if one]),
            reason=_text("Why, in one word."),
            message=_text("Why, in words."),
            lastTransitionTime=_time("When its status has changed last."),
            observedGeneration=_whole(
                "The generation of the Bundle that it is about.", **_GENERATION
            ),
        ),
        **_NAMED,
    ),
    lastAppliedRevision=_text(
        "The revision of the source at the last complete apply: a digest, BRANCH@sha1:COMMIT or "
        "TAG@sha256:DIGEST. It contains no values of Secrets: for a Secret it uses the "
        "resourceVersion."
    ),
    lastAttemptedRevision=_text("The digest of the source at the last attempt."),
    replica=_text(
        "The replica of the controller that has written this status. The name begins with that of "
        "its Pod, and the Lease names it while it leads."
    ),
    source=_group(
        "What was found in the source on another host, and applied or tried; it changes only with "
        "the content or the generation.",
        path=_text("The path in the source."),
        content=_text("A digest that changes with the content of the path, and with nothing else."),
        revision=_text("The version of the source in which the content was first seen."),
        checkedAt=_text("When the check began that found it, by the API server's clock."),
        generation=_whole("The generation of the Bundle for which it was found.", **_GENERATION),
    ),
    lastHandledReconcileAt=_text(
        "The last value of the annotation reconcile-now that was handled; of one with more than "
        "256 characters, its digest."
    ),
    inventory=_group(
        "The ConfigMap that lists the objects, in the Bundle's namespace of their cluster.",
        "name",
        name=_text("The name of the ConfigMap."),
        set=_text("The ApplySet id, the label value of every object."),
    ),
    cluster=_group(
        "The other cluster that has the objects, if there is kubeConfig. If another one answers, "
        "nothing is applied or deleted until the annotation applyprune.dev/accept-cluster has its "
        "UID.",
        "uid",
        uid=_text("The UID of a Namespace, by which it is known."),
        namespace=_text(
            "That Namespace: kube-system, or the inventory's if kube-system may not be read."
        ),
    ),
    objects=_group(
        "How many objects the set has.",
        total=_whole("All objects of the set."),
        failing=_whole("Objects that failed."),
        elsewhere=_whole(
            "Objects that the deletion of the Bundle's namespace would not delete. If there are "
            "none, the Bundle goes with its namespace at once."
        ),
    ),
    lastChange=_group(
        "The last run that changed anything.",
        time=_time("When it ended."),
        seconds={"type": "number", "description": "How long it took."},
        created=_whole("Objects that were created."),
        updated=_whole("Objects that were changed."),
        removed=_whole("Objects that left the inventory."),
    ),
    failing=_list(
        "The first ten objects that failed, and why.",
        _group("", "object message", **_OBJECT, message=_text("Why it failed.")),
        maxItems=FAILING_SHOWN,
    ),
    contention=_list(
        "How often objects were reverted that the same manager had changed. One that was reverted "
        "as often as spec.drift.reverts says is left alone.",
        _group(
            "",
            "object",
            **_OBJECT,
            manager=_text("Who has changed it. None if the server does not show it."),
            reverts=_whole("How often, without ten quiet minutes between."),
            last=_time("When it was reverted last, or changed while it is left alone."),
        ),
        maxItems=MOST_COUNTS,
    ),
    rewritten=_list(
        "The first ten objects that the server has stored otherwise than they were sent, because "
        "of a webhook or an admission policy.",
        _group(
            "",
            "object fields",
            **_OBJECT,
            fields=_list("The first five fields.", {"type": "string"}, maxItems=FIELDS_SHOWN),
        ),
        maxItems=DRIFT_SHOWN,
    ),
    pendingPlan=_group(
        "What waits for an approval. The annotation applyprune.dev/approve with this digest "
        "approves exactly this.",
        "digest scope since",
        digest=_text("The value for the annotation."),
        scope=_text(
            "What the digest covers: only the deletions, or the whole plan.",
            enum=[str(one) for one in Scope],
        ),
        revision=_text("The digest of the source."),
        since=_time("When this digest was computed first."),
        counts=_group(
            "How many objects it concerns, by what happens to them.",
            **{name: _whole(meaning) for name, meaning in _COUNTS.items()},
        ),
        objects=_list(
            "The first twenty of these objects, deletions first.",
            _group(
                "",
                "object fate",
                **_OBJECT,
                fate=_text("What happens to it."),
                cascade=_text("What its deletion deletes with it."),
            ),
            maxItems=OBJECTS_SHOWN,
        ),
    ),
)
