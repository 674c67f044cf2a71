"""The names in the options of a run: each becomes exact, or ends the run."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import UsageError
from applyprune.model.identity import GroupKind
from applyprune.model.options import Options
from applyprune.planning.names import has_names, kind_names, with_names_resolved
from tests.support.kinds import MAP
from tests.support.options import options_of


def resolved(known: Any = (), **options: Any) -> tuple[Options, list[str]]:
    found, warnings = with_names_resolved(options_of(**options), kind_names(MAP), known)
    return found, [str(warning) for warning in warnings]


@pytest.mark.holds("core-kind-only")
def test_each_option_that_names_something_is_resolved() -> None:
    """Whatever its form."""
    options, warnings = resolved(
        select=frozenset({"svc/a", "shop/deploy/b"}),
        orphan=frozenset({"deploy.apps/web"}),
        allow_cascade=frozenset({"configmaps/a"}),
        ready_when=(("w.b.example", "true"),),
        ignore=("deploy:/spec/replicas", "*:/metadata/labels", "svc/web-*:/spec", "broken"),
    )
    assert options.select == {"service/a", "shop/deployment.apps/b"}
    assert options.prune.orphan == {"deployment.apps/web"}
    assert options.prune.allow_cascade == {"configmap/a"}
    assert options.wait.ready_when == (("widget.b.example", "true"),)
    assert options.apply.ignore == (
        "deployment.apps:/spec/replicas",
        "*:/metadata/labels",
        "service./web-*:/spec",
        "broken",
    )
    assert warnings == []


@pytest.mark.parametrize(
    "options",
    [
        {"orphan": frozenset({"x/a"})},
        {"allow_cascade": frozenset({"x/a"})},
        {"select": frozenset({"x/a"})},
        {"allow_kinds": frozenset({"x"})},
        {"ready_when": (("x", "true"),)},
        {"ignore": ("x:/spec",)},
    ],
    ids=str,
)
def test_unknown_name_ends_the_run(options: dict[str, Any]) -> None:
    """It must not allow or protect nothing in silence."""
    assert has_names(options_of(**options))
    with pytest.raises(UsageError, match="no matches for kind x"):
        resolved(**options)


def test_kind_that_needs_no_permission_is_refused() -> None:
    """The user expects a guard where there is none."""
    with pytest.raises(UsageError, match=r"a deployment\.apps needs no permission"):
        resolved(allow_kinds=frozenset({"deploy"}))


def test_warning_only_where_the_other_kind_is_known() -> None:
    """On a cluster with Knative, every service would be ambiguous otherwise."""
    names = frozenset({"service/web"})
    assert resolved(orphan=names)[1] == []
    known = {(GroupKind("serving.knative.dev", "Service"), "web")}
    options, (warning,) = resolved(known, orphan=names)
    assert options.prune.orphan == {"service/web"}
    assert "it could also match service.serving.knative.dev/web" in warning
    assert resolved(known, ready_when=(("service", "true"),))[1]
