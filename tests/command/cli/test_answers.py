"""Words of other tools, and what is said instead of `no such`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import pytest

from applyprune.cli.answers import COMMANDS, KEYS, OPTIONS, OUTPUTS
from applyprune.cli.main import cli, exit_code_of
from applyprune.cli.session import CONTEXT, NAMESPACE
from applyprune.errors import UsageError
from tests.support.source_text import config_map, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLES = (OPTIONS, COMMANDS, KEYS, OUTPUTS)


def call(*arguments: str) -> object:
    """Call in this process, and return the exit code; what is wrong with the call is raised."""
    return cli.main(list(arguments), "applyprune", standalone_mode=False)


def _commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for verb in group.list_commands(context):
        found = group.get_command(context, verb)
        assert found is not None
        yield f"{name} {verb}", found
        if isinstance(found, click.Group):
            yield from _commands(found, f"{name} {verb}")


GROUPS = {"show": ("inventory", "show")}


@pytest.mark.parametrize("words", OPTIONS)
def test_foreign_option_is_answered_with_what_to_type(folder: Path, words: str) -> None:
    """It is none of ours."""
    *verbs, word = words.split()
    verb = verbs[0] if verbs else "apply"
    with pytest.raises(UsageError) as caught:
        call(*GROUPS.get(verb, (verb,)), "web", word)
    assert str(caught.value).startswith(f"no such option {word}")
    assert caught.value.hint == OPTIONS[words]


@pytest.mark.parametrize("words", COMMANDS)
def test_foreign_command_is_answered_with_what_to_type(words: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(*words.split(), "web")
    assert caught.value.hint == COMMANDS[words]


@pytest.mark.parametrize("key", KEYS)
def test_foreign_key_is_answered_with_what_to_write(folder: Path, key: str) -> None:
    head = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\nname: web\n"
    write(folder, {"applyprune.yaml": f"{head}{key}: x\n"})
    with pytest.raises(UsageError) as caught:
        call("apply")
    assert caught.value.hint == KEYS[key]


@pytest.mark.parametrize("form", OUTPUTS)
def test_foreign_format_is_answered_with_what_to_type(form: str) -> None:
    with pytest.raises(UsageError) as caught:
        call("status", "web", "-o", f"{form}={{.status}}")
    assert caught.value.hint == OUTPUTS[form]


@pytest.mark.parametrize(
    ("line", "what", "hint"),
    [
        ("--config x.yaml plan", "--config is before", "applyprune plan --config x.yaml"),
        ("-n shop bundle resume web", "-n is before", "applyprune bundle resume -n shop web"),
        ("bundle -n shop resume -q web", "-n is before", "applyprune bundle resume -n shop -q web"),
        ("apply web --dry-run client", "unexpected argument: client", "Use --dry-run=client"),
        ("delete web --dry-run server", "unexpected argument: server", "Use --dry-run=server"),
        ("status web --wait deleted", "unexpected argument: deleted", "Use --wait=deleted"),
        ("plan web -out=x", "no such option -out", "Use --out."),
        ("apply -auto-approve", "no such option -auto-approve", OPTIONS["--auto-approve"]),
        ("apply web -out=x", "no such option -out", OPTIONS["apply --out"]),
    ],
)
def test_words_in_another_place_are_answered(folder: Path, line: str, what: str, hint: str) -> None:
    """As other tools take them."""
    with pytest.raises(UsageError) as caught:
        call(*line.split())
    assert caught.value.message.startswith(what)
    assert caught.value.hint.endswith(hint)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("apply web --prun", "Did you mean --prune?"),
        ("apply web --helm-hooks skip", "Write helm-hooks into applyprune.yaml."),
        ("apply web --ye", "Usage: applyprune apply"),
        ("apply web --recreat", "Usage: applyprune apply"),
        ("apply --dry-run=true web", "Use --dry-run, or leave it out."),
        ("explain web secrets s", "Write KIND/NAME: secrets/s"),
        ("-x web apply", "Usage: applyprune [OPTIONS]"),
    ],
)
def test_guess_is_never_an_option_that_disables_a_guard(
    folder: Path, line: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(lambda: cli.main(line.split(), "applyprune", standalone_mode=False)) == 2
    assert capsys.readouterr().err.splitlines()[1].strip().startswith(hint)


def test_answers_name_what_exists() -> None:
    """Commands and options."""
    commands = dict(_commands(cli, "applyprune"))
    options = {"--help", "--version"} | {
        word
        for command in commands.values()
        for param in command.params
        for word in (*param.opts, *param.secondary_opts)
    }
    for said in [one for table in TABLES for one in table.values()]:
        assert set(re.findall(r"--[a-z][a-z-]+", said)) <= options, said
        for named in re.findall(r"applyprune [a-z ]*[a-z]", said):
            assert named in commands, said


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("apply shop k8s/", "manifests are given with -f\n  Use applyprune apply shop -f k8s/"),
        ("apply k8s/", "manifests are given with -f\n  Use applyprune apply NAME -f k8s/"),
        ("plan shop k8s", "unexpected argument: k8s: manifests are given with -f"),
        ("diff shop -f k8s/a.yaml k8s/b.yaml", "Give the folder, -f k8s, or quote the pattern."),
        ("apply -f k8s/a.yaml k8s/b.yaml shop", "the shell expanded a pattern into several"),
    ],
)
def test_manifests_without_an_option_are_answered(folder: Path, arguments: str, told: str) -> None:
    """As kapp takes them, or as the shell makes them of a pattern."""
    write(folder, {"k8s/a.yaml": config_map("a"), "k8s/b.yaml": config_map("b")})
    with pytest.raises(UsageError) as caught:
        call(*arguments.split())
    assert told in str(caught.value)


def test_list_of_paths_is_answered(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name with a comma that exists is a name."""
    write(folder, {"a,b/a.yaml": "a: ["})
    assert call("apply", "web", "-f", "a,c") == 2
    assert "Use -f a -f c" in capsys.readouterr().err
    call("apply", "web", "-f", "a,b")
    assert "a,b/a.yaml" in capsys.readouterr().err


def test_name_of_a_set_may_be_that_of_a_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, {"web/a.yaml": "a: ["})
    call("apply", "web", "-f", "web")
    assert "error: web/a.yaml" in capsys.readouterr().err


KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
users: [{name: me, user: {}}]
current-context: here
"""


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        (CONTEXT, "prod", "there is no context 'prod'"),
        (CONTEXT, "prod", "APPLYPRUNE_CONTEXT is prod."),
        (NAMESPACE, "A_B", "APPLYPRUNE_NAMESPACE: 'A_B' is not a valid namespace name"),
    ],
)
def test_value_of_the_environment_is_named_in_errors(
    folder: Path,
    variable: str,
    value: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command line has not shown it."""
    write(folder, {"kubeconfig": KUBECONFIG})
    monkeypatch.setenv(variable, value)
    assert call("list", "--kubeconfig", "kubeconfig") != 0
    assert told in capsys.readouterr().err


def test_environment_does_not_choose_another_context_than_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A context of the file is a condition, which only the command line overrides."""
    head = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\n"
    write(
        folder,
        {"kubeconfig": KUBECONFIG, "applyprune.yaml": f"{head}name: web\ncontext: prod\n"},
    )
    monkeypatch.setenv(CONTEXT, "here")
    assert call("status", "--kubeconfig", "kubeconfig") == 2
    assert "APPLYPRUNE_CONTEXT is here." in capsys.readouterr().err
