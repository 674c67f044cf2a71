"""Word a problem of a run whose source is a Secret: whatever came from there may be confidential.

The rule is that of a Secret among the manifests, for every object of such a set. Kinds, names and
fields of the schema are shown, and texts that are known to hold no value. All others may quote one:
those of the API server, of webhooks and of other controllers, in whole or in part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.cluster.failures import without_values
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text.display import and_more
from applyprune.planning.schema.server_errors import dotted
from applyprune.values import pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOT_SHOWN = "details are not shown, because the source is a Secret"
_SHOWN = 3
# The keys of these maps are content, as the keys of associative lists are.
_FREE = ("annotations", "binaryData", "data", "labels", "matchLabels", "nodeSelector", "stringData")
_FIELDS = pattern(r"(?:\.?[a-z][A-Za-z]*(?=[.\[]|$)|\[\d+\])+")
# Problems of ours that are not about the content of an object.
_WHOLE = frozenset(
    {
        ProblemKind.ACCOUNT_MISSING,
        ProblemKind.AUTHENTICATION_FAILED,
        ProblemKind.DECRYPTION_FAILED,
        ProblemKind.FETCH_FAILED,
        ProblemKind.PATH_NOT_FOUND,
        ProblemKind.SOURCE_TOO_LARGE,
        ProblemKind.VERIFICATION_FAILED,
        ProblemKind.EMPTY_INPUT,
        ProblemKind.INTERRUPTED,
        ProblemKind.INVALID_SPEC,
        ProblemKind.INVENTORY_LOCKED,
        ProblemKind.OWNED_BY_BUNDLE,
        ProblemKind.SOURCE_MISSING,
        ProblemKind.UNREACHABLE,
    }
)
# Our message names the object, but the reason may come from its status, or from the server.
_MESSAGE = frozenset(
    {
        ProblemKind.ACCESS_ERROR,
        ProblemKind.INVENTORY_ERROR,
        ProblemKind.INVENTORY_INCOMPLETE,
        ProblemKind.INVENTORY_TOO_NEW,
        ProblemKind.NOT_APPROVED,
        ProblemKind.NOT_READY,
        ProblemKind.PRUNE_REFUSED,
    }
)
# The message is that of the API server, or of a webhook that it called.
_SERVER = frozenset(
    {
        ProblemKind.ALREADY_EXISTS,
        ProblemKind.API_ERROR,
        ProblemKind.CONFLICT,
        ProblemKind.EXPIRED,
        ProblemKind.FORBIDDEN,
        ProblemKind.INVALID,
        ProblemKind.NOT_FOUND,
        ProblemKind.NOT_SERVED,
        ProblemKind.SERVER_WARNING,
        ProblemKind.UNAUTHORIZED,
        ProblemKind.UNAVAILABLE,
    }
)


_WORDS = {
    **{kind: f"it failed ({kind})" for kind in ProblemKind if kind not in _SERVER},
    ProblemKind.INPUT_ERROR: "the manifest is invalid",
    ProblemKind.SERVER_WARNING: "the API server warns about it",
}


def shown_parts(problem: Problem) -> tuple[str, ...]:
    """Return the parts of a problem that hold no value of the source; one says so if some do."""
    # guard: secret-source
    if problem.kind in _WHOLE:
        return problem.location, problem.message, problem.lasting_reason or problem.reason
    where = str(problem.origin) if problem.origin is not None else ""
    if problem.conflicts:
        return where, _conflict(problem)
    if problem.kind in _MESSAGE:
        return where, f"{problem.message}; {_NOT_SHOWN}" if problem.reason else problem.message
    if problem.kind in _SERVER:
        # We put the object before a message that does not name it.
        ours = problem.message.partition(": ")[2]
        if text := without_values(problem.message) or without_values(ours):
            return where, text
    what = _WORDS.get(problem.kind, f"the API server refuses it ({problem.kind})")
    return where, f"{what}{_at(problem)}; {_NOT_SHOWN}"


def shown_field(path: str) -> str:
    """Return a field, ``.a.b`` or ``/a/b``, as far as its path has names of fields of the schema.

    The keys of maps and of list items are content. Nothing is left of a path without such a name
    but its first sign.
    """
    sign = path[:1]
    shown = _shown([path.partition("[")[0].replace(sign, ".")]) if path else ()
    return shown[0].replace(".", sign) if shown else sign


def _conflict(problem: Problem) -> str:
    """Return the fields in conflict by their managers, without any value."""
    owners = []
    for conflict in problem.conflicts:
        how = conflict.operation
        if conflict.subresource:
            how += f" of {conflict.subresource}"
        fields = and_more(_shown([field.field for field in conflict.fields]), _SHOWN) or "a field"
        owners.append(f"{conflict.manager}{f' ({how})' if how else ''} owns {fields}")
    return f"another field manager owns some of its fields: {and_more(owners, _SHOWN, '; ')}"


def _at(problem: Problem) -> str:
    paths = [mark.field for mark in problem.marks] or [problem.field]
    shown = _shown([dotted(path) for path in paths])
    return f" at {and_more(shown, _SHOWN)}" if shown else ""


def _shown(paths: Sequence[str]) -> Sequence[str]:
    """Return each path as far as it has names of fields: ``.spec.template.spec.containers``."""
    found: dict[str, None] = {}
    for path in paths:
        fields = _FIELDS.match(path)
        steps = fields.group().split(".") if fields else []
        ends = next((at + 1 for at, step in enumerate(steps) if step in _FREE), None)
        found[".".join(steps[:ends])] = None
    return [path for path in found if path]
