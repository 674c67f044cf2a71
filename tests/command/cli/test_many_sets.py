"""Many sets in one command: which they are, what each gets, and what is wrong with them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
import pytest

from applyprune.cli.main import cli
from applyprune.cli.many_sets import SetCalls, sets_of_call
from applyprune.cli.options import DEPENDS_ON, KEYS, command
from applyprune.errors import AccessError, InputErrors, UsageError
from applyprune.model.options import WaitMode
from applyprune.values import replace
from tests.support.source_text import config_map, write

HEAD = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\n"


def _file(**keys: object) -> str:
    said = {key.replace("_", "-"): value for key, value in keys.items()}
    return HEAD + "".join(f"{key}: {json.dumps(value)}\n" for key, value in said.items())


def _verb(name: str, got: dict[str, Any]) -> click.Command:
    """Return a verb with the same parameters, which only keeps what it gets."""
    real = cli.get_command(click.Context(cli), name)
    assert real is not None
    return command(*real.params, name=name)(got.update)


def alone(verb: str, folder: str, *arguments: str) -> dict[str, Any]:
    """Return what a verb gets that is called in a folder."""
    got: dict[str, Any] = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        _verb(verb, got).main([*arguments], standalone_mode=False)
        return _comparable(got)
    finally:
        os.chdir(before)


def together(
    *arguments: str, verb: str = "apply", top: str = "deploy", namespace: str = ""
) -> SetCalls:
    ctx = _verb(verb, {}).make_context(verb, [*arguments])
    return sets_of_call(ctx, top, lambda _: namespace)


def among(calls: SetCalls, folder: str) -> dict[str, Any]:
    """Return what the verb gets for the set of a folder."""
    (one,) = [call for call in calls.sets if call.found.folder == folder]
    return _comparable(dict(one.values))


def _comparable(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values with absolute paths, and without who reports."""
    found = {key: value for key, value in values.items() if key != "reporting"}
    if "paths" in found:
        paths = found["paths"]
        found["paths"] = replace(paths, paths=tuple(map(_absolute, paths.paths)))
    target = found.get("cluster_target")
    if target is not None:
        places = [replace(one, place=os.path.realpath(one.place)) for one in target.conditions]
        found["cluster_target"] = replace(target, listener=None, conditions=tuple(places))
    return found


def _absolute(path: Any) -> Any:
    if isinstance(path, str):
        return path if "://" in path else os.path.realpath(path)
    return replace(path, folder=os.path.realpath(path.folder))


def told_by(*arguments: str, **how: Any) -> list[str]:
    """Return what is wrong with all sets, in its order."""
    with pytest.raises(UsageError) as caught:
        together(*arguments, **how)
    error = caught.value
    return [str(one) for one in (error.errors if isinstance(error, InputErrors) else (error,))]


@pytest.fixture
def repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a work tree with two sets in deploy. Nobody else is writing there."""
    monkeypatch.setattr("applyprune.sources.moment.REST", 0.0)
    (folder / ".git").mkdir()
    files = {
        "applyprune.yaml": _file(timeout="7s", orphan=["pvc/top"]),
        "deploy/applyprune.yaml": _file(namespace="shop", wait=True),
        "deploy/api/applyprune.yaml": _file(name="api", filename="m", timeout="8s"),
        "deploy/web/applyprune.yaml": _file(name="web", filename=["m", "../base"]),
        "deploy/web/m/web.yaml": config_map("web"),
        "deploy/base/base.yaml": config_map("base"),
    }
    write(folder, files)
    return folder


def test_each_file_with_a_name_is_a_set(repository: Path) -> None:
    """It inherits what the files above it say, up to the root of the work tree."""
    found = [call.found for call in together().sets]
    assert [(str(one.key), one.folder) for one in found] == [
        ("shop/api", "deploy/api"),
        ("shop/web", "deploy/web"),
    ]
    assert found[1].input == {"filename": ["deploy/web/m", "deploy/web/../base"]}
    assert {key: file.path for key, file in found[0].settings.said.items()} == {
        "timeout": "deploy/api/applyprune.yaml",
        "orphan": "applyprune.yaml",
        "namespace": "deploy/applyprune.yaml",
        "wait": "deploy/applyprune.yaml",
        "name": "deploy/api/applyprune.yaml",
        "filename": "deploy/api/applyprune.yaml",
    }


def test_places_are_as_seen_from_the_current_folder(repository: Path) -> None:
    os.chdir("deploy/web")
    folders = {
        ".": ["."],
        "..": ["../api", "../web"],
        "../../deploy/": ["../../deploy/api", "../../deploy/web"],
        str(repository / "deploy"): [f"{repository}/deploy/api", f"{repository}/deploy/web"],
    }
    for top, expected in folders.items():
        found = together(top=top)
        assert [call.found.folder for call in found.sets] == expected
        assert among(found, expected[-1]) == alone("apply", str(repository / "deploy/web"))


SAID: dict[str, Any] = {
    "name": "shop",
    "filename": ["m", "/abs", "https://x.example/y.yaml", "../base"],
    "kustomize": ["over"],
    "ignore-paths": ["*.txt"],
    "context": "prod",
    "namespace": "other",
    "lock-timeout": "9s",
    "orphan": ["pvc/a", "pvc/b"],
    "propagation": "foreground",
    "namespace-override": "elsewhere",
    "helm-hooks": "skip",
    "prune": False,
    "adopt": "none",
    "conflicts": "revert",
    "create-namespace": True,
    "ignore": ["deployment:/spec/replicas"],
    "no-default-ignore": "ca-bundle",
    "timeout": "1m",
    "actor": "somebody",
    "ask": "always",
    "check": False,
    "wait": True,
    "fail-fast": True,
    "ready-when": ["x.example.com=self.status.ready"],
    "expires-in": "1h",
}


def test_table_has_each_key() -> None:
    assert SAID.keys() | {DEPENDS_ON.key} == KEYS.forms.keys()


WAYS = [
    *((key, False) for key in SAID),
    # A set does not inherit its name and its input.
    *((key, True) for key in SAID if key not in {"name", "filename", "kustomize"}),
]


@pytest.mark.parametrize(("key", "above"), WAYS)
def test_set_gets_what_a_call_in_its_folder_gets(repository: Path, key: str, above: bool) -> None:
    """By each key, from its own file and from one above it; and the key makes a difference."""
    verb = "plan" if key == "expires-in" else "apply"
    own = {"name": "web", "filename": "m"}
    write(repository, {"deploy/web/applyprune.yaml": _file(**own)})
    write(repository, {"deploy/applyprune.yaml": HEAD})
    before = among(together(verb=verb), "deploy/web")
    if above:
        write(repository, {"deploy/applyprune.yaml": _file(**{key: SAID[key]})})
    else:
        write(repository, {"deploy/web/applyprune.yaml": _file(**{**own, key: SAID[key]})})
    found = among(together(verb=verb), "deploy/web")
    assert found == alone(verb, "deploy/web")
    assert found == alone(verb, "deploy/web", "shop" if key == "name" else "web")
    assert found != before


@pytest.mark.parametrize("verb", ["apply", "plan", "diff", "check", "status", "prune", "explain"])
@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("-n", "test"),
        ("--context", "dev", "--timeout", "3s", "--no-prune", "--orphan", "svc/a"),
    ],
)
def test_command_line_counts_for_each_set(
    repository: Path, verb: str, arguments: tuple[str, ...]
) -> None:
    """Over what its files say, for every verb, as in a call in its folder."""
    # For status, --wait is something else than for an apply.
    others = {"name", "filename", "kustomize", *(["wait"] if verb == "status" else [])}
    said = {key: value for key, value in SAID.items() if key not in others}
    files = {
        "deploy/applyprune.yaml": _file(**said, name="all", filename="web"),
        "deploy/api/applyprune.yaml": _file(name="api", kustomize="k", context="prod"),
    }
    write(repository, files)
    given = [*(["configmap/a"] if verb == "explain" else []), *_taken_by(verb, arguments)]
    calls = together(*given, verb=verb)
    assert [call.found.key.name for call in calls.sets] == ["all", "api", "web"]
    for call in calls.sets:
        name, folder = call.found.key.name, call.found.folder
        assert among(calls, folder) == alone(verb, folder, *given)
        assert call.values["name" if "name" in call.values else "names"] in (name, (name,))


def _taken_by(verb: str, arguments: tuple[str, ...]) -> list[str]:
    """Return the options that a verb has, each with its value."""
    words = {
        word for param in _verb(verb, {}).params for word in (*param.opts, *param.secondary_opts)
    }
    taken: list[str] = []
    has = True
    for word in arguments:
        has = word in words if word.startswith("-") else has
        taken += [word] if has else []
    return taken


def test_context_is_selected_in_its_folder_only(repository: Path) -> None:
    """As for a folder that -f names; from elsewhere the same file refuses."""
    write(
        repository,
        {
            "deploy/applyprune.yaml": _file(context={"name": "prod", "use": True}),
            "deploy/api/applyprune.yaml": _file(name="api", filename="m", namespace="x"),
        },
    )
    for current, top, selected in (
        (".", "deploy", ""),
        ("deploy", ".", "prod"),
        ("api", "..", "prod"),
    ):
        os.chdir(current)
        found = together(top=top)
        assert found.context == selected
        for call in found.sets:
            target = call.values["cluster_target"]
            assert target.context == selected
            assert [one.context for one in target.conditions] == ["prod"]
            assert target.conditions[0].place.endswith("applyprune.yaml:3:1")
    found = together("--context", "dev", top="..")
    assert found.context == "dev"
    for call in found.sets:
        assert call.values["cluster_target"].context == "dev"
        assert call.values["cluster_target"].conditions == ()


def test_namespace_is_asked_of_the_context_in_use(repository: Path) -> None:
    """Once, and not where the command line gives one; what is wrong there is one error of all."""
    asked: list[str] = []

    def namespace_of(context: str) -> str:
        asked.append(context)
        raise AccessError(f"no context {context}")

    write(repository, {"deploy/applyprune.yaml": _file(context={"name": "prod", "use": True})})
    os.chdir("deploy")
    verb = _verb("apply", {})
    for arguments, context in (([], "prod"), (["--context", "dev"], "dev")):
        ctx = verb.make_context("apply", [*arguments])
        with pytest.raises(AccessError, match=f"^no context {context}$"):
            sets_of_call(ctx, ".", namespace_of)
    sets_of_call(verb.make_context("apply", ["-n", "x"]), ".", namespace_of)
    assert asked == ["prod", "dev"]
    write(repository, {"deploy/web/applyprune.yaml": _file(name="web")})
    with pytest.raises(InputErrors) as caught:
        sets_of_call(verb.make_context("apply", []), ".", namespace_of)
    assert [error.message for error in caught.value.errors] == [
        "no context prod",
        "the set web has no input",
    ]


def test_context_of_an_input_counts_for_its_set(repository: Path) -> None:
    write(repository, {"deploy/base/applyprune.yaml": _file(context="prod")})
    found = among(together(), "deploy/web")
    assert [one.context for one in found["cluster_target"].conditions] == ["prod"]
    assert among(together(), "deploy/api")["cluster_target"].conditions == ()


WRONG = {
    "deploy/a/applyprune.yaml": _file(name="web", filename="m"),
    "deploy/b/applyprune.yaml": _file(name="b", timeout="soon", filename="m"),
    "deploy/c/applyprune.yaml": _file(name="c"),
    "deploy/d/applyprune.yaml": _file(nam="d"),
    "deploy/e/applyprune.yaml": "a: [",
    "deploy/f/applyprune.yaml": _file(filename="m"),
    "deploy/g/applyprune.yaml": _file(name="g", filename="m", context="prod"),
    "deploy/h/applyprune.yaml": _file(
        name="h", filename="m", context="dev", dependsOn=["i", "gone"]
    ),
    "deploy/i/applyprune.yaml": _file(name="i", filename="m", dependsOn="h"),
    "deploy/j/applyprune.yml": _file(name="j"),
    "deploy/k/applyprune.yaml": _file(name="K", filename="m"),
    "deploy/l/applyprune.yaml": _file(name="l", filename="m", **{"max-prune": "9"}),
}


def test_all_errors_come_together(repository: Path) -> None:
    """Of files, between sets, of options and of the order; each once, with its place."""
    write(repository, WRONG)
    (repository / "deploy/z").symlink_to("../..")
    told = [line.partition("\n")[0] for line in told_by()]
    assert [line.split(": ")[0].removeprefix("deploy/") for line in told] == [
        "z",
        "d/applyprune.yaml:3:1",
        "e/applyprune.yaml:1",
        "f/applyprune.yaml:3:1",
        "found deploy/j/applyprune.yml, which is not read",
        "k/applyprune.yaml:3:1",
        "l/applyprune.yaml:5:1",
        "c/applyprune.yaml:3:1",
        "web/applyprune.yaml:3:1",
        "h/applyprune.yaml:5:1",
        "h/applyprune.yaml:6:1",
        "b/applyprune.yaml:4:1",
    ]


def test_error_of_a_file_above_comes_once(repository: Path) -> None:
    write(repository, {"deploy/applyprune.yaml": _file(timeout="soon")})
    write(repository, {"deploy/api/applyprune.yaml": _file(name="api", filename="m")})
    (told,) = told_by()
    assert told.startswith("deploy/applyprune.yaml:3:1: invalid value for timeout: 'soon' must be")
    write(repository, {"deploy/applyprune.yaml": _file(tmeout="5m")})
    (told,) = told_by()
    assert told.startswith("deploy/applyprune.yaml:3:1: unknown key 'tmeout'")


def test_namespace_of_the_call_is_that_of_each_set(repository: Path) -> None:
    """That of the command line before all others, and that of the context after all."""
    files = {
        "deploy/applyprune.yaml": HEAD,
        "deploy/web/applyprune.yaml": _file(name="web", filename="m"),
        "deploy/api/applyprune.yaml": _file(name="web", filename="m", namespace="pay"),
    }
    write(repository, files)
    assert [str(call.found.key) for call in together().sets] == ["pay/web", "web"]
    assert [str(c.found.key) for c in together(namespace="x").sets] == ["pay/web", "x/web"]
    for how in ({"namespace": "pay"}, {"arguments": ("-n", "x")}):
        (told,) = told_by(*how.get("arguments", ()), namespace=str(how.get("namespace", "")))
        assert "deploy/web/applyprune.yaml:3:1: deploy/api/applyprune.yaml:3:1 names the" in told


def test_verb_without_a_cluster_takes_the_sets_of_all_contexts(repository: Path) -> None:
    """They may have the same names there; within one, two files of one set are an error."""
    web = {"name": "web", "filename": "m", "namespace": "shop"}
    files = {
        "deploy/api/applyprune.yaml": _file(**web, context="dev"),
        "deploy/web/applyprune.yaml": _file(**web, context="prod", dependsOn="crds"),
        "deploy/crds/applyprune.yaml": _file(name="crds", filename="m", namespace="shop"),
    }
    write(repository, files)
    found = together(verb="check")
    assert [call.found.folder for call in found.sets] == ["deploy/api", "deploy/crds", "deploy/web"]
    assert found.order.needs == {}
    assert len(told_by(verb="apply")) == 2
    assert len(told_by(verb="apply", *("--context", "dev"))) == 1  # noqa: B026
    write(repository, {"deploy/api/applyprune.yaml": _file(**web, context="prod")})
    (told,) = told_by(verb="check")
    assert "deploy/api/applyprune.yaml:3:1 names the set shop/web, too" in told


def test_order_follows_what_files_depend_on(repository: Path) -> None:
    write(
        repository, {"deploy/api/applyprune.yaml": _file(name="api", filename="m", dependsOn="web")}
    )
    order = together().order
    assert [str(key) for key in order.needs] == ["shop/web", "shop/api"]
    assert [str(key) for key in order.startable(())] == ["shop/web"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("wep", "and no file below deploy names it\n  Did you mean shop/web?"),
        ("platform/operator", "which is not below deploy: operator/applyprune.yaml:3:1 names it"),
        ("other/web", "Did you mean shop/web?"),
    ],
)
def test_set_that_is_not_below_the_folder_cannot_be_waited_for(
    repository: Path, text: str, told: str
) -> None:
    files = {
        "operator/applyprune.yaml": _file(name="operator", filename="m", namespace="platform"),
        "broken/applyprune.yaml": "a: [",
        "deploy/api/applyprune.yaml": _file(name="api", filename="m", dependsOn=[text]),
    }
    write(repository, files)
    (found,) = told_by()
    assert found.startswith("deploy/api/applyprune.yaml:5:1: shop/api depends on the set ")
    assert told in found


def test_call_for_one_set_ignores_what_it_depends_on(repository: Path) -> None:
    """Also where two folders say different things."""
    before = (
        alone("apply", "deploy/web"),
        alone("apply", "deploy", "web", "-f", "web", "-f", "base"),
    )
    files = {
        "deploy/web/applyprune.yaml": _file(
            name="web", filename=["m", "../base"], dependsOn=["api", "gone"]
        ),
        "deploy/base/applyprune.yaml": _file(dependsOn="x"),
    }
    write(repository, files)
    assert alone("apply", "deploy/web") == before[0]
    assert alone("apply", "deploy", "web", "-f", "web", "-f", "base") == before[1]


@pytest.mark.parametrize(
    ("files", "top", "told"),
    [
        ({}, "deploy/base", "no set below deploy/base: none of 1 folder has an applyprune.yaml"),
        ({}, "gone", "gone: cannot be read: No such file or directory"),
        (
            {".sourceignore": "web/\n/deploy/api\n"},
            "deploy",
            "no set below deploy: none of 5 folders has an applyprune.yaml with a name; the rule",
        ),
        (
            {"deploy/base/applyprune.yaml": config_map("a"), "deploy/base/x/applyprune.yaml": HEAD},
            "deploy/base",
            "no set below deploy/base: none of 2 folders has",
        ),
    ],
)
def test_folder_without_a_set_is_an_error(
    repository: Path, files: dict[str, str], top: str, told: str
) -> None:
    """It says what was looked for; a manifest of that name is not a set."""
    write(repository, files)
    (found,) = told_by(top=top)
    assert found.startswith(told)
    for path in ("deploy/api", "deploy/web") if ".sourceignore" in files else ():
        assert f" in .sourceignore leaves out {path}/applyprune.yaml" in found


def test_file_that_rules_leave_out_is_reported(repository: Path) -> None:
    write(repository, {".sourceignore": "web/\n"})
    found = together()
    assert [call.found.folder for call in found.sets] == ["deploy/api"]
    assert found.ignored == (("deploy/web/applyprune.yaml", "the rule web/ in .sourceignore"),)


def test_set_without_a_work_tree_has_the_files_below_the_named_folder(repository: Path) -> None:
    """Whoever names the folder trusts it; a call in the set's folder reads no file above that."""
    (repository / ".git").rmdir()
    for top in ("deploy", "deploy/", str(repository / "deploy")):
        found = together(top=top)
        assert [str(call.found.key) for call in found.sets] == ["shop/api", "shop/web"]
        assert [found.sets[1].values["options"].wait.mode] == [WaitMode.ALL]
        assert "timeout" not in found.sets[1].found.settings.said
    found = together(top="deploy/web")
    assert [str(call.found.key) for call in found.sets] == ["web"]
    assert among(found, "deploy/web") == alone("apply", "deploy/web")
