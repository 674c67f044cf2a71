"""``applyprune.yaml``: what a call takes from it, and what it refuses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click
import pytest

from applyprune.cli.main import cli
from applyprune.cli.options import DEPENDS_ON, KEYS, Row
from applyprune.errors import InputError, UsageError
from tests.support.command import applyprune
from tests.support.source_text import config_map, write

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

HEAD = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\n"


def call(*arguments: str) -> None:
    """Call in this process; what is wrong with the call is raised."""
    cli.main(list(arguments), standalone_mode=False)


def options_of(*arguments: str) -> dict[str, Any]:
    """Return what a verb's options are, without carrying it out."""
    verb, *rest = arguments
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    return command.make_context(verb, rest).params


def test_configuration_keys_are_those_of_a_verb(folder: Path) -> None:
    """Letter for letter, of a verb that has a set; the guards are options too, and no keys."""
    commands = [cli.get_command(click.Context(cli), verb) for verb in ("apply", "prune", "plan")]
    there_are = {"name", DEPENDS_ON.key} | {
        parameter.key
        for command in commands
        if command is not None
        for parameter in command.params
        if isinstance(parameter, Row)
    }
    assert KEYS.forms.keys() <= there_are
    assert there_are >= KEYS.guards
    assert KEYS.forms.keys() & KEYS.guards == set()


def test_configuration_applies_where_the_command_line_is_silent(folder: Path) -> None:
    write(
        folder,
        {
            "applyprune.yaml": f"{HEAD}name: web\nnamespace: shop\nfilename: m/\nwait: true\n"
            "prune: false\norphan: [pvc/a, pvc/b]\ntimeout: 90s\nadopt: none\n"
            "fail-fast: true\n"
        },
    )
    found = options_of("apply")
    assert found["namespace"] == "shop"
    assert found["paths"] == ("m/",)
    assert (found["wait"], found["prune"], found["adopt"]) == (True, False, "none")
    assert found["fail_fast"] is True
    assert (found["orphan"], found["timeout"]) == (("pvc/a", "pvc/b"), 90.0)
    found = options_of("apply", "web", "-n", "test", "-f", "x", "--no-wait", "--orphan", "pvc/c")
    assert (found["namespace"], found["paths"], found["orphan"]) == ("test", ("x",), ("pvc/c",))
    assert (found["wait"], found["timeout"]) == (False, 90.0)


def test_list_takes_its_place_from_the_file(folder: Path) -> None:
    """It names no set: a file for any set says where the folder's objects are."""
    file = f"{HEAD}name: web\nnamespace: shop\n"
    write(folder, {"applyprune.yaml": file, "other.yaml": f"{HEAD}name: api\nnamespace: api\n"})
    assert options_of("list")["namespace"] == "shop"
    assert options_of("list", "-n", "test")["namespace"] == "test"
    assert options_of("list", "--config", "other.yaml")["namespace"] == "api"
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\nnamespace: [shop]\n"})
    with pytest.raises(InputError, match="namespace must be a text"):
        call("list")


def test_verb_reads_only_the_keys_it_has(folder: Path) -> None:
    """``delete`` has no input and does not wait for readiness."""
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\nfilename: m/\nwait: true\nnamespace: s\n"})
    found = options_of("delete")
    assert found["namespace"] == "s"
    assert found.keys() & {"wait", "ask"} == set()


def test_key_is_not_an_option_of_its_word_that_means_another_thing(folder: Path) -> None:
    """`wait` is that of a run; the `--wait` of status takes a word."""
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\nwait: true\n"})
    assert options_of("status")["wait"] is None


def test_configuration_paths_are_relative_to_its_file(folder: Path) -> None:
    write(
        folder,
        {
            "deploy/prod.yaml": f"{HEAD}name: web\nfilename: [m/, /abs, 'https://x/y', ../a.yaml]\n"
            "kustomize: over\n"
        },
    )
    found = options_of("apply", "--config", "deploy/prod.yaml")
    assert found["paths"] == ("deploy/m/", "/abs", "https://x/y", "deploy/../a.yaml")
    assert found["kustomize"] == ("deploy/over",)


def test_configuration_is_ignored_for_another_set(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The input of one set must not become that of another, which would prune all else."""
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\nnamespace: shop\nfilename: m/\n"})
    found = options_of("apply", "other", "-f", "x")
    assert (found["namespace"], found["paths"]) == ("", ("x",))
    call("apply", "other")
    assert "error: no input given" in capsys.readouterr().err
    with pytest.raises(UsageError, match="is for the set web, and not for other"):
        call("apply", "other", "--config", "applyprune.yaml")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [("apply wep", "Did you mean web?"), ("plan other", "Give -f PATH"), ("prune wep", "Did you")],
)
def test_configuration_of_another_set_is_named_where_input_is_missing(
    folder: Path, arguments: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped name looks like another set."""
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\nfilename: m/\n"})
    call(*arguments.split())
    told = capsys.readouterr().err
    name = arguments.split()[1]
    why = f"applyprune.yaml is for the set web, so its options are not used for {name}"
    assert told.startswith(f"error: no input given: {why}\n  {hint}")


def test_configuration_of_another_set_is_named_by_a_run_without_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its namespace or context may have been meant."""
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\n", "x.yaml": "a: ["})
    why = "applyprune.yaml is for the set web, so its options are not used for other\n"
    call("apply", "other", "-f", "x.yaml")
    assert capsys.readouterr().err.startswith(why)
    call("status", "other")
    assert capsys.readouterr().err.startswith(why)
    call("apply", "other", "-f", "x.yaml", "-q")
    assert why not in capsys.readouterr().err


def test_configuration_with_another_suffix_is_refused(folder: Path) -> None:
    """Nothing would read its namespace; a file of another tool may have the name."""
    (folder / ".git").mkdir()
    write(folder, {"applyprune.yml": f"{HEAD}name: web\n", "a/b.yaml": "", "other.yaml": ""})
    with pytest.raises(UsageError, match=r"found applyprune\.yml, which is not read") as caught:
        call("apply", "web", "-f", "x")
    assert caught.value.hint.startswith("Rename it to applyprune.yaml")
    assert options_of("apply", "--config", "applyprune.yml")["name"] is None
    os.chdir("a")
    with pytest.raises(UsageError, match=r"found \.\./applyprune\.yml, which is not read"):
        call("apply", "web", "-f", "x")
    write(folder, {"applyprune.yml": "on: push\n"})
    assert options_of("apply", "web", "-f", "x")["paths"] == ("x",)
    write(folder, {"applyprune.yml": f"{HEAD}name: web\n", "applyprune.yaml": f"{HEAD}name: web\n"})
    assert options_of("apply")["paths"] == ()


def test_key_is_named_as_it_is_written(folder: Path) -> None:
    """YAML reads some as true or false."""
    for key in ("yes", "on", "No"):
        write(folder, {"applyprune.yaml": f"{HEAD}name: web\n{key}: true\n"})
        with pytest.raises(InputError, match=f":4:1: unknown key '{key}'"):
            call("apply")


def test_configuration_counts_for_several_sets_if_it_is_for_one(folder: Path) -> None:
    """Its set must not be looked for in another namespace, or in the cluster of another context."""
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\nnamespace: shop\ncontext: prod\n"})
    assert options_of("status", "other", "web")["namespace"] == "shop"
    assert options_of("status", "other", "third")["namespace"] == ""
    with pytest.raises(UsageError, match="is for the set web, and not for other, third"):
        call("status", "other", "third", "--config", "applyprune.yaml")


@pytest.mark.parametrize("given", [("-f", "x.yaml"), ("-k", "x")])
def test_command_line_input_replaces_all_configured_input(
    folder: Path, given: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What a file adds to it unseen would be applied, or keep things from the prune."""
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\nfilename: lost-f\nkustomize: lost-k\n"})
    call("apply", *given)
    err = capsys.readouterr().err
    assert err.startswith("error: x")
    assert "lost" not in err


@pytest.fixture
def below(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, two folders below a file."""
    text = f"{HEAD}name: web\nnamespace: shop\nfilename: m/\n"
    write(folder, {"applyprune.yaml": text, "a/b/c.yaml": config_map("a")})
    monkeypatch.chdir(folder / "a/b")
    return folder / "a/b"


def test_configuration_is_found_above_in_the_same_work_tree(
    folder: Path, below: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its paths are still relative to it, and a run names it, unless -q is given."""
    (folder / ".git").mkdir()
    found = options_of("apply")
    assert (found["paths"], found["namespace"]) == (("../../m/",), "shop")
    call("apply")
    assert "options from ../../applyprune.yaml\n" in capsys.readouterr().err
    call("apply", "-q")
    assert "options from" not in capsys.readouterr().err


def test_object_alone_is_one_of_the_configured_set(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A set has no slash in its name."""
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\n"})
    call("explain", "configmap/a")
    assert "error: no cluster is configured" in capsys.readouterr().err
    call("explain", "configmap/a", "configmap/b")
    assert "error: invalid set name 'configmap/a'" in capsys.readouterr().err
    with pytest.raises(click.MissingParameter):
        call("explain", "web")


def test_nearer_key_wins(folder: Path, below: Path) -> None:
    """What it does not say is inherited; what is broken above is an error at its line."""
    (folder / ".git").mkdir()
    top = f"{HEAD}name: web\nnamespace: shop\nfilename: m/\ntimeout: 9s\n"
    write(folder, {"applyprune.yaml": top, "a/applyprune.yaml": f"{HEAD}namespace: near\n"})
    found = options_of("apply")
    assert (found["namespace"], found["timeout"], found["paths"]) == ("near", 9.0, ("../../m/",))
    write(folder, {"a/applyprune.yaml": f"{HEAD}name: web\nnamespace: near\n"})
    found = options_of("apply")
    assert (found["namespace"], found["timeout"], found["paths"]) == ("near", 9.0, ())
    write(folder, {"applyprune.yaml": f"{top}max-prune: 3\n"})
    with pytest.raises(
        InputError, match=r"^\.\./\.\./applyprune\.yaml:7:1: max-prune is not allowed"
    ):
        options_of("apply")


@pytest.mark.parametrize("top", [None, "a", "a/b"])
def test_configuration_outside_of_the_work_tree_is_ignored(
    folder: Path, below: Path, top: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does a folder that is in no work tree say where to stop."""
    if top is not None:
        (folder / top / ".git").mkdir()
    call("apply", "-f", "c.yaml")
    assert "error: no set given" in capsys.readouterr().err


@pytest.mark.holds("foreign-configuration")
def test_configuration_of_another_user_is_ignored(
    folder: Path, below: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever may write above must not decide what a prune deletes."""
    (folder / ".git").mkdir()
    monkeypatch.setattr("applyprune.cli.config._owner", lambda above: (0, above.count("..") > 1))
    call("apply", "-f", "c.yaml")
    assert "error: no set given" in capsys.readouterr().err


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: dev
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: dev, context: {cluster: c}}, {name: prod, context: {cluster: c}}]
"""
SHOP = f"{HEAD}name: shop\nnamespace: shop-prod\ncontext: prod\nfilename: web.yaml\n"


@pytest.fixture
def repository(folder: Path) -> Path:
    """The working directory: a work tree with the set shop in deploy/prod, for another context."""
    (folder / ".git").mkdir()
    files = {
        "none": KUBECONFIG,
        "applyprune.yaml": f"{HEAD}conflicts: revert\ntimeout: 9s\n",
        "deploy/prod/applyprune.yaml": SHOP,
        "deploy/prod/web.yaml": config_map("web"),
        "deploy/prod/sub/x.yaml": config_map("x"),
        "deploy/dev/applyprune.yaml": f"{HEAD}name: shop\nnamespace: shop-dev\n",
        "deploy/dev/web.yaml": config_map("web"),
        "base/web.yaml": config_map("web"),
    }
    write(folder, files)
    return folder


def told_by(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the error of a call, whoever prints it."""
    try:
        call(*arguments.split())
    except UsageError as error:
        return str(error)
    return capsys.readouterr().err


NAMED = {
    "a folder": "-f deploy/prod",
    "a folder with a slash": "-f deploy/prod/",
    "a folder with ways up": "-f base/../deploy/prod",
    "a folder below": "-f deploy/prod/sub",
    "a file": "-f deploy/prod/web.yaml",
    "a pattern": "-f deploy/p*/*.yaml",
    "a kustomization": "-k deploy/prod",
    "a link": "-f link",
    "a folder beside one without a file": "-f base -f deploy/prod",
    "two files": "-f deploy/prod/web.yaml -f deploy/prod/sub/x.yaml",
}


@pytest.mark.parametrize("way", NAMED)
def test_file_of_a_folder_counts_however_it_is_named(
    repository: Path, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it inherits; its input does not count, because the command line gives that."""
    (repository / "link").symlink_to("deploy/prod")
    given = NAMED[way].split()
    found = options_of("apply", *given)
    assert (found["namespace"], found["timeout"]) == ("shop-prod", 9.0)
    assert found["conflicts"] == "revert"
    assert [*found["paths"], *found["kustomize"]] == given[1::2]
    if given[0] == "-f":
        call("plan", *given)
        told = capsys.readouterr().err
        assert told.startswith("options from ")
        assert "/applyprune.yaml:5:1 is for prod\n  Give --context prod" in told


@pytest.mark.holds("other-context", row="context: prod-apply -f deploy/prod")
@pytest.mark.parametrize(
    "arguments",
    [
        *(f"{verb} -f deploy/prod" for verb in ("apply", "plan", "diff", "prune", "rbac")),
        "explain configmap/web -f deploy/prod",
        "apply other -f deploy/prod",
        "apply other -f deploy/prod/web.yaml",
        "apply shop -f deploy/prod -n shop-dev",
        "apply shop -f deploy/dev -f deploy/prod -n shop-dev",
        "apply --config deploy/dev/applyprune.yaml -f deploy/prod",
        "apply --config umbrella.yaml",
        "delete --config umbrella.yaml --yes",
        "inventory orphan all --all --config umbrella.yaml",
        "inventory release all --config umbrella.yaml",
    ],
)
@pytest.mark.parametrize("context", ["context: prod", "context: {name: prod, use: true}"])
def test_context_of_a_named_folder_refuses(
    repository: Path, arguments: str, context: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every verb, also for another set; -f never moves a run to another cluster."""
    write(
        repository,
        {
            "deploy/prod/applyprune.yaml": SHOP.replace("context: prod", context),
            "umbrella.yaml": f"{HEAD}name: all\nfilename: [base, deploy/prod]\n",
        },
    )
    assert "the context in use is dev, and deploy/prod/applyprune.yaml:5:1 is for prod" in (
        told_by(arguments, capsys)
    )


def test_context_of_the_current_folder_is_selected(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where it is named as input; in a folder that is only named it refuses."""
    write(repository, {"none": KUBECONFIG.replace("prod", "test")})
    selecting = SHOP.replace("context: prod", "context: {name: prod, use: true}")
    write(repository, {"deploy/prod/applyprune.yaml": selecting})
    monkeypatch.chdir("deploy/prod")
    for arguments in ("plan", "plan -f web.yaml", "plan -f sub", "status"):
        assert "there is no context 'prod'" in told_by(arguments, capsys)
    write(repository, {"none": KUBECONFIG, "deploy/dev/applyprune.yaml": f"{HEAD}context: dev\n"})
    assert "../dev/applyprune.yaml:3:1 is for dev" in told_by("plan -f ../dev", capsys)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            "plan -f deploy/dev -f deploy/prod",
            (
                "dev/applyprune.yaml is for the set shop in namespace shop-dev, and "
                "deploy/prod/applyprune.yaml is for the set shop in namespace shop-prod in context"
            ),
        ),
        ("plan -f deploy/*/web.yaml", "deploy/dev/applyprune.yaml is for the set shop in "),
        ("check -f deploy/dev -k deploy/prod", "and deploy/prod/applyprune.yaml is for the set "),
    ],
)
def test_two_folders_of_different_sets_are_an_error(
    repository: Path, arguments: str, told: str
) -> None:
    """That names both."""
    with pytest.raises(UsageError) as caught:
        call(*arguments.split())
    assert told in str(caught.value)


def test_current_folder_of_another_set_than_the_input_is_an_error(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifests of one would become the other."""
    monkeypatch.chdir("deploy/dev")
    for arguments in ("plan -f ../prod", "plan shop -f ../prod"):
        with pytest.raises(UsageError, match=r"^applyprune\.yaml is for the set shop in namespace"):
            call(*arguments.split())
    assert options_of("plan", "-f", "../../base")["namespace"] == "shop-dev"
    found = options_of("plan", "--config", "../prod/applyprune.yaml", "-f", "../prod")
    assert (found["namespace"], found["conflicts"]) == ("shop-prod", "revert")


def test_error_of_a_file_is_in_every_format(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As that of the input beside it."""
    write(repository, {"deploy/prod/applyprune.yaml": f"{SHOP}yes: true\n"})
    call("plan", "-f", "deploy/prod", "-o", "json=report", "-o", "jsonl")
    assert "deploy/prod/applyprune.yaml" in (repository / "report").read_text()
    shown = capsys.readouterr()
    assert "deploy/prod/applyprune.yaml" in shown.out
    assert shown.err.startswith("error: deploy/prod/applyprune.yaml:7:1: unknown key")


def test_input_without_a_folder_has_no_file(repository: Path) -> None:
    """Standard input and other hosts; what is not there is the error of whoever reads it."""
    paths = ("-", "https://x.example/deploy/prod/web.yaml", "gone/x.yaml", "deploy/*/gone.yaml", "")
    for path in paths:
        assert options_of("plan", "shop", "-f", path)["namespace"] == ""
        assert options_of("plan", "shop", "-f", path)["conflicts"] == "revert"


def test_file_of_a_named_folder_may_be_a_manifest(repository: Path) -> None:
    """As for a folder that is read; but what is broken is nothing of the kind."""
    name = "deploy/dev/applyprune.yaml"
    for manifest in (config_map("a"), f"{config_map('a')}---\n{config_map('b')}"):
        write(repository, {name: manifest})
        assert options_of("plan", "web", "-f", "deploy/dev")["namespace"] == ""
    for broken in ("a: [", f"{HEAD}nam: web\n", "", f"{HEAD}---\n{config_map('a')}"):
        write(repository, {name: broken})
        with pytest.raises(InputError, match=rf"^{name}"):
            options_of("plan", "web", "-f", "deploy/dev")
    write(repository, {name: HEAD.replace("v1alpha1", "v2") + "name: web\n"})
    with pytest.raises(InputError, match="not an applyprune configuration"):
        options_of("plan", "web", "-f", "deploy/dev")


def test_named_folder_without_a_work_tree_has_its_own_file_only(folder: Path) -> None:
    """Nothing says where to stop above it."""
    write(folder, {"applyprune.yaml": f"{HEAD}conflicts: revert\n", "prod/applyprune.yaml": SHOP})
    os.makedirs("elsewhere")  # noqa: PTH103
    os.chdir("elsewhere")
    for path in ("../prod", str(folder / "prod")):
        found = options_of("plan", "-f", path)
        assert (found["namespace"], found["conflicts"]) == ("shop-prod", "fail")


@pytest.mark.parametrize(
    ("mode", "owners", "is_planted"),
    [
        pytest.param(
            0o777, (0, 1000, 2000), True, marks=pytest.mark.holds("planted-configuration")
        ),
        (0o1777, (0, 1000, 2000), True),
        (0o777, (0, 2000, 2000), False),
        (0o777, (1000, 1000, 2000), False),
        (0o777, (1000, 0, 2000), False),
        (0o775, (0, 1000, 2000), False),
    ],
)
def test_file_that_anybody_may_have_put_there_is_refused(
    folder: Path,
    mode: int,
    owners: tuple[int, int, int],
    is_planted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside a file of /tmp that somebody names; ``owners`` are of folder, file and process."""
    write(folder, {"open/applyprune.yaml": SHOP, "open/web.yaml": config_map("web")})
    (folder / "open").chmod(mode)
    real, (of_folder, of_file, user) = os.lstat, owners

    def owned(path: str) -> os.stat_result:
        found = list(real(path))
        found[4] = of_file if str(path).endswith("applyprune.yaml") else of_folder
        return os.stat_result(found)

    monkeypatch.setattr("applyprune.cli.config._stat", owned)
    monkeypatch.setattr("os.geteuid", lambda: user)
    if not is_planted:
        assert options_of("plan", "-f", "open/web.yaml")["namespace"] == "shop-prod"
        return
    with pytest.raises(UsageError, match=r"^open/applyprune\.yaml is another user's"):
        options_of("plan", "-f", "open/web.yaml")


REFUSED = {
    "an unknown key": ("wait-for: true", ":4:1: unknown key 'wait-for'"),
    "a mistyped key": ("namspace: a", "Did you mean namespace?"),
    "another spelling": ("createNamespace: true", "Did you mean create-namespace?"),
    "consent": (
        "yes: true",
        "\n  Use ask: never. To delete the set, give --yes on the command line.",
    ),
    "an option of kubectl": (
        "force-conflicts: true",
        ":4:1: unknown key 'force-conflicts'\n  Give --conflicts force on the command line",
    ),
    "fields of others": ("conflicts: force", ":4:1: conflicts: force is not allowed in a config"),
    "a text for a flag": ("wait: 'true'", ":4:1: wait must be true or false"),
    "a number for a text": ("namespace: 1", "namespace must be a text"),
    "an empty text": ("namespace: ''", "namespace must be a text"),
    "an empty path": ("filename: ['']", "a list of texts, none of them empty"),
    "a list of numbers": ("orphan: [1]", "a list of texts"),
    "a mapping": ("orphan: {a: b}", "a list of texts"),
    "no value": ("namespace:", "namespace must be a text"),
    **{
        f"a context that is none: {wrong}": (
            f"context: {wrong}",
            ":4:1: context must be a text, or name: a text and use:",
        )
        for wrong in ("{}", "{name: ''}", "{name: a, use: 'yes'}", "{name: a, x: 1}", "[a]", "true")
    },
    "a time that is none": (
        "timeout: soon",
        ":4:1: invalid value for timeout: 'soon' must be a duration",
    ),
    "a choice that is none": ("adopt: some", "invalid value for adopt: 'some' is not one of"),
    "a namespace that is none": ("namespace-override: A", "'A' is not a valid namespace name"),
    "standard input": ("filename: ['-']", "filename cannot be standard input"),
    "a key twice": ("wait: true\nwait: false", ":5: duplicate key 'wait'"),
    "adoption of everything": ("adopt: all", "adopt: all is not allowed in a configuration"),
    "adoption from a set": (
        "adopt: set/web",
        ":4:1: adopt: set/web is not allowed in a configuration",
    ),
    **{
        f"a rule that waits for nothing: {rule}": (
            f"ready-when: ['deployment=self.status.ready', '{rule}']",
            ":4:1: such a rule is not allowed in a configuration: it holds for an object without",
        )
        for rule in (
            "deployment=true",
            "deployment.apps=1 == 1",
            "example.test.io=has(self.status) || true",
            "job.batch=!has(self.status.failed)",
            "pod=size(self.metadata.name) > 0",
            "pod=has(self.spec)",
        )
    },
    "a prune without a wait": ("wait: false", ":4:1: wait: false is not allowed in a config"),
    "a second document": ("---\n" + HEAD, "expected a single YAML document"),
    "an object beside it": ("---\n" + config_map("a"), "expected a single YAML document"),
    "no YAML": ("a: [", "applyprune.yaml:"),
    **{
        guard: (f"'{guard}': true", f":4:1: {guard} is not allowed in a configuration")
        for guard in sorted(KEYS.guards)
    },
}


@pytest.mark.holds("empty-rule-of-a-file", row="a rule that waits for nothing: deployment=true")
@pytest.mark.parametrize("name", REFUSED)
def test_invalid_configuration_is_refused(folder: Path, name: str) -> None:
    """With its place, before anything is read or asked."""
    text, expected = REFUSED[name]
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\n{text}\n"})
    with pytest.raises(InputError) as caught:
        call("apply", "-f", "x")
    assert str(caught.value).startswith("applyprune.yaml")
    assert expected in str(caught.value)


def test_rule_that_waits_for_the_cluster_is_allowed(folder: Path) -> None:
    """Also one that is wrong: the run says so."""
    rules = [
        'x.example.com=self.status.phase == "Ready"',
        "x.example.com=self.?status.?ready.orValue(false)",
        "x.example.com=has(self.status.observedGeneration)",
        "x.example.com=self.",
        "nonsense",
    ]
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\nready-when: {rules}\n"})
    assert options_of("apply")["ready_when"] == tuple(rules)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a single YAML document"),
        (config_map("a"), "not an applyprune configuration"),
        (
            f"{HEAD}filename: m/\n",
            ":3:1: filename is the input of a set, and no file names the set",
        ),
        (HEAD.replace("Config", "Bundle") + "name: web\n", "not an applyprune configuration"),
    ],
)
def test_other_file_name_is_an_error(folder: Path, text: str, expected: str) -> None:
    """It is not passed over: somebody has meant something by it."""
    write(folder, {"applyprune.yaml": text})
    with pytest.raises(InputError) as caught:
        call("apply", "web", "-f", "x")
    assert expected in str(caught.value)


def test_missing_configuration_file_is_an_error(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        call("apply", "web", "--config", "gone.yaml", "-f", "x")
    assert str(caught.value) == "gone.yaml: cannot be read: No such file or directory"
    with pytest.raises(UsageError, match="empty path for --config"):
        call("apply", "web", "--config", "", "-f", "x")


@pytest.mark.parametrize("verb", ["apply", "status", "delete"])
def test_pipe_for_a_configuration_is_not_waited_for(folder: Path, verb: str) -> None:
    """Each command in the folder would hang."""
    os.mkfifo(folder / "applyprune.yaml")
    with pytest.raises(InputError, match=r"^applyprune\.yaml: not a regular file"):
        call(verb)


def test_init_does_not_wait_for_a_pipe(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(folder / "applyprune.yaml")
    call("init", "web", "-f", "m")
    assert "applyprune.yaml is not a regular file" in capsys.readouterr().err
    assert [one.name for one in folder.iterdir()] == ["applyprune.yaml"]


def test_help_needs_no_configuration(folder: Path) -> None:
    write(folder, {"applyprune.yaml": "a: ["})
    with pytest.raises(click.exceptions.Exit):
        options_of("apply", "--help")


def test_configuration_alone_is_enough(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """``applyprune apply`` in a folder of manifests with a configuration among them."""
    settings = f"name: web\nnamespace: {namespace}\nfilename: .\n"
    write(tmp_path, {"applyprune.yaml": HEAD + settings, "a.yaml": config_map("a")})
    ended = applyprune("apply", kubeconfig=plane.kubeconfig, cwd=tmp_path)
    assert (ended.code, list(ended.lines)) == (0, ["configmap/a"]), ended
    ended = applyprune("inventory", "show", kubeconfig=plane.kubeconfig, cwd=tmp_path)
    assert ended.code == 0
    assert "configmap/a" in ended.out
    write(tmp_path, {"applyprune.yaml": f"{HEAD}{settings}context: production\n"})
    ended = applyprune("delete", "--yes", kubeconfig=plane.kubeconfig, cwd=tmp_path)
    assert ended.code == 2
    assert "and applyprune.yaml:6:1 is for production" in ended.err
    assert api.exists(f"/api/v1/namespaces/{namespace}/configmaps/a")


def test_folder_input_includes_everything_but_the_configuration(folder: Path) -> None:
    """What only looks like one, or holds more, is no configuration: it is not passed over."""
    from applyprune.sources import read  # noqa: PLC0415

    manifest = config_map("real")
    write(
        folder,
        {
            "m/applyprune.yaml": f"{HEAD}name: web\n",
            "m/other-name.yaml": f"{HEAD}name: web\nunknown: key\n",
            "m/sub/applyprune.yaml": manifest,
            "m/talk.yaml": config_map("talks").replace("v1\n", "v1 # applyprune.dev/v1alpha1\n", 1),
        },
    )
    assert [one.name for one in read(["m"])] == ["real", "talks"]
    assert [one.name for one in read(["m/**/*.yaml"])] == ["real", "talks"]
    write(folder, {"m/both.yaml": f"{HEAD}name: web\n---\n{manifest}"})
    with pytest.raises(InputError, match="both"):
        read(["m"])
    with pytest.raises(InputError, match="an applyprune configuration is not a manifest"):
        read(["m/applyprune.yaml"])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ignore: [nonsense]", "invalid rule 'nonsense' in ignore"),
        ("ignore: '*:/metadata/name'", r"invalid rule '\*:/metadata/name' in ignore"),
        ("no-default-ignore: [all]", "invalid value for no-default-ignore"),
    ],
)
def test_malformed_rule_is_an_error_at_its_line(folder: Path, line: str, told: str) -> None:
    """Only for a verb that uses it: a set can be deleted with it."""
    write(folder, {"applyprune.yaml": f"{HEAD}name: web\nfilename: m/\n{line}\n"})
    with pytest.raises(InputError, match=told) as caught:
        options_of("apply")
    assert str(caught.value.location).startswith("applyprune.yaml:5")
    assert "ignore" not in options_of("delete")
