"""The question before a run on a terminal, and what it shows first: nothing is written before."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.planning.applyset import SET_ID
from tests.support.api import writes
from tests.support.command import applyprune
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.input_files import write_input
from tests.support.objects import config_map
from tests.support.pseudo_terminal import on_terminal
from tests.support.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail
    from tests.support.plane import Kubectl
    from tests.support.pseudo_terminal import PseudoTerminal

QUESTION = "Apply these changes? [y/N/d] "
DELETION = "Delete these objects? [y/N/d] "
INTERRUPT, END_OF_FILE = "\x03", "\x04"
PRUNE_OF_C = "OBJECT        PLAN\nconfigmap/c   would be pruned\n"


@dataclass(frozen=True, slots=True)
class Desk:
    """A set ``web`` of the ConfigMaps a, b and c, and inputs for it."""

    plane: Plane
    api: Api
    namespace: str
    folder: Path

    def input(self, *names: str) -> Path:
        """Return an input with these ConfigMaps."""
        return write_input(self.folder / f"{'-'.join(names)}.json", [*map(config_map, names)])

    def on_terminal(self, verb: str, *arguments: str | Path, **how: Any) -> PseudoTerminal:
        """Return a call for the set on a terminal."""
        where = (verb, "web", "-n", self.namespace, *arguments)
        return on_terminal(*where, kubeconfig=self.plane.kubeconfig, **how)

    def names(self) -> set[str]:
        """Return the ConfigMaps that exist, without those of the server and of applyprune."""
        items = self.api.get(f"/api/v1/namespaces/{self.namespace}/configmaps")["items"]
        names = {item["metadata"]["name"] for item in items}
        return names - {"kube-root-ca.crt", "applyprune-web"}

    @property
    def target(self) -> str:
        """Return the first line of each call."""
        return (
            f"web in namespace {self.namespace}, context {self.plane.name} ({self.plane.server})\n"
        )


@pytest.fixture
def desk(plane: Plane, api: Api, namespace: str, tmp_path: Path) -> Desk:
    """Apply the set, as a pipeline does it: without a terminal."""
    made = Desk(plane, api, namespace, tmp_path)
    Stage(plane.kubeconfig, namespace).run(*map(config_map, "abc"))
    return made


def test_yes_carries_out_what_was_shown(desk: Desk) -> None:
    """The target comes first, then the table, then the question; then the run as ever."""
    with desk.on_terminal("apply", "-f", desk.input("a", "b")) as terminal:
        assert terminal.read_until(QUESTION) == f"{desk.target}{PRUNE_OF_C}{QUESTION}"
        assert desk.names() == {"a", "b", "c"}
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert re.search(r"y\nconfigmap/c pruned\nweb: 2 unchanged, 1 pruned in", terminal.shown)
    assert desk.names() == {"a", "b"}


def test_terminal_says_once_what_the_server_could_not_check(desk: Desk) -> None:
    """In the table; without a terminal, one line names the objects."""
    shown, piped = f"{desk.namespace}-shown", f"{desk.namespace}-piped"
    rest = ("-f", desk.input("a", "b"), "--create-namespace", "--check")
    kubeconfig = desk.plane.kubeconfig
    with on_terminal("apply", "web", "-n", shown, *rest, kubeconfig=kubeconfig) as terminal:
        terminal.read_until(QUESTION)
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert terminal.shown.count("its quotas and policies were not checked") == 1
    assert "not fully checked" not in terminal.shown
    reply = applyprune("apply", "web", "-n", piped, *rest, kubeconfig=kubeconfig)
    assert reply.code == 0, reply.err
    assert reply.err.count("2 objects were not fully checked: configmap/a, configmap/b") == 1
    for name in (shown, piped):
        desk.api("DELETE", f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize(
    ("keys", "code", "end"),
    [
        ("n\n", 1, "n\nnothing was changed\n"),
        ("\n", 1, "\nnothing was changed\n"),
        ("NO\n", 1, "NO\nnothing was changed\n"),
        (END_OF_FILE, 1, "\nnothing was changed\n"),
        (INTERRUPT, 130, "^C\nerror: interrupted: nothing was changed\n"),
    ],
    ids=["n", "Enter", "NO", "Ctrl-D", "Ctrl-C"],
)
def test_any_other_answer_writes_nothing(
    desk: Desk, audit: AuditTrail, keys: str, code: int, end: str
) -> None:
    """``apply && notify`` stops."""
    with desk.on_terminal("apply", "-f", desk.input("a", "b", "new")) as terminal:
        terminal.read_until(QUESTION)
        terminal.type(keys)
        assert terminal.ended() == code
    assert terminal.shown.endswith(f"{QUESTION}{end}")
    assert writes(audit) == []
    assert desk.names() == {"a", "b", "c"}


@pytest.mark.parametrize("ignored", [False, True], ids=["hangup", "nohup"])
def test_closed_terminal_writes_nothing(desk: Desk, audit: AuditTrail, ignored: bool) -> None:
    """The hangup ends the process; a process that ignores it reads the end of the terminal."""
    with desk.on_terminal("delete", ignores_hangup=ignored) as terminal:
        terminal.read_until(DELETION)
        terminal.hang_up()
        assert terminal.ended() == (1 if ignored else -signal.SIGHUP)
    assert writes(audit) == []


def test_termination_at_the_question_writes_nothing(desk: Desk, audit: AuditTrail) -> None:
    """It needs no second signal."""
    with desk.on_terminal("delete") as terminal:
        terminal.read_until(DELETION)
        terminal.signal(signal.SIGTERM)
        assert terminal.ended() == 128 + signal.SIGTERM
    assert writes(audit) == []


def test_answer_is_read_only_after_the_question(desk: Desk, audit: AuditTrail) -> None:
    """Keys typed before are dropped; an unclear answer is asked for again."""
    with desk.on_terminal("apply", "-f", desk.input("a", "b")) as terminal:
        terminal.type("y\n")
        terminal.read_until(QUESTION)
        terminal.type("perhaps\n")
        terminal.read_until(f"Answer y, n, or d for the diff.\n{QUESTION}")
        assert writes(audit) == []
        terminal.type(" Yes \n")
        assert terminal.ended() == 0
    assert desk.names() == {"a", "b"}


def test_run_is_paused_at_the_question(desk: Desk) -> None:
    """No live line is drawn over it."""
    how = {"environment": {"TERM": "xterm"}}
    with desk.on_terminal("apply", "-f", desk.input("a", "b"), **how) as terminal:
        terminal.read_until(QUESTION)
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert f"{QUESTION}y\n" in terminal.shown


@pytest.mark.parametrize(
    ("verb", "options"),
    [("apply", ("--yes",)), ("apply", ("-y", "-q")), ("prune", ("--yes",)), ("delete", ("-y",))],
)
def test_yes_option_skips_the_question(desk: Desk, verb: str, options: tuple[str, ...]) -> None:
    """The target and the table are still shown, unless only errors are wanted."""
    source = () if verb == "delete" else ("-f", desk.input("a", "b"))
    with desk.on_terminal(verb, *source, *options) as terminal:
        assert terminal.ended() == 0
    assert "[y/N" not in terminal.shown
    quiet = "-q" in options
    assert terminal.shown.startswith(desk.target) is not quiet
    assert ("configmap/c   would be " in terminal.shown) is not quiet
    assert "c" not in desk.names()


def test_answer_d_shows_the_diff_and_asks_again(desk: Desk, audit: AuditTrail) -> None:
    """As often as it is wanted; nothing is written before the yes."""
    bodies = [*map(config_map, "b"), config_map("a", "new")]
    source = write_input(desk.folder / "set.json", bodies)
    with desk.on_terminal("apply", "-f", source) as terminal:
        terminal.read_until(QUESTION)
        for count, answer in enumerate(("d\n", "diff\n"), 2):
            terminal.type(answer)
            shown = terminal.read_until_count(QUESTION, count).split(QUESTION)[count - 1]
            assert re.search(r"^\+ .*new$", shown, re.MULTILINE), shown
            assert "configmap/c would be pruned\n" in shown
        assert writes(audit) == []
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert desk.names() == {"a", "b"}


def test_ask_says_when_a_terminal_is_asked(desk: Desk, audit: AuditTrail) -> None:
    """Before any change, or before none; before nothing that changes nothing."""
    more, fewer = desk.input("a", "b", "c", "d"), desk.input("a", "b", "c")
    with desk.on_terminal("apply", "-f", more, "--ask", "always") as terminal:
        terminal.read_until(QUESTION)
        assert writes(audit) == []
        terminal.type("y\n")
        assert terminal.ended() == 0
    with desk.on_terminal("apply", "-f", more, "--ask=always") as terminal:
        assert terminal.ended() == 0
    assert QUESTION not in terminal.shown
    with desk.on_terminal("apply", "-f", fewer, "--ask=never") as terminal:
        assert terminal.ended() == 0
    assert QUESTION not in terminal.shown
    assert desk.names() == {"a", "b", "c"}


@pytest.mark.holds("deletion-confirmed-by-a-file")
def test_file_does_not_confirm_that_a_set_is_deleted(desk: Desk, audit: AuditTrail) -> None:
    """It may say that a terminal is asked as little as a pipeline: that needs --yes."""
    config = desk.folder / "config.yaml"
    config.write_text("apiVersion: applyprune.dev/v1alpha1\nkind: Config\nname: web\nask: never\n")
    with desk.on_terminal("prune", "-f", desk.input("a", "b"), "--config", config) as terminal:
        assert terminal.ended() == 0
    assert desk.names() == {"a", "b"}
    with desk.on_terminal("delete", "--config", config) as terminal:
        terminal.read_until(DELETION)
        terminal.type("n\n")
        assert terminal.ended() == 1
    where = ("delete", "web", "-n", desk.namespace)
    refused = applyprune(*where, "--config", config, kubeconfig=desk.plane.kubeconfig)
    assert refused.code == 2
    assert "needs confirmation" in refused.err
    assert desk.names() == {"a", "b"}
    assert applyprune(*where, "--ask=never", kubeconfig=desk.plane.kubeconfig).code == 0


def test_quiet_run_shows_what_it_asks_about(desk: Desk) -> None:
    """A question without its object cannot be answered."""
    with desk.on_terminal("apply", "-q", "-f", desk.input("a", "b")) as terminal:
        assert terminal.read_until(QUESTION) == f"{desk.target}{PRUNE_OF_C}{QUESTION}"
        terminal.type("n\n")
        assert terminal.ended() == 1


def test_creations_and_changes_are_shown_without_a_question(desk: Desk) -> None:
    """Another apply can undo them."""
    source = write_input(
        desk.folder / "set.json", [*map(config_map, "bcd"), config_map("a", "new")]
    )
    with desk.on_terminal("apply", "-f", source) as terminal:
        assert terminal.ended() == 0
    assert terminal.shown.startswith(
        f"{desk.target}OBJECT        PLAN\nconfigmap/d   would be created\n"
    )
    with desk.on_terminal("apply", "-f", source) as terminal:
        assert terminal.ended() == 0
    assert terminal.shown.startswith(f"{desk.target}web: 4 unchanged in ")


@pytest.mark.parametrize("how", ["pipe", "CI"])
def test_run_without_a_terminal_asks_nothing(desk: Desk, how: str) -> None:
    """In a pipe, and on the terminal that the runner of a pipeline gives."""
    arguments = ("-f", desk.input("a", "b"))
    if how == "pipe":
        where = ("apply", "web", "-n", desk.namespace, *arguments)
        ended = applyprune(*where, kubeconfig=desk.plane.kubeconfig)
        assert (ended.code, ended.err) == (0, "")
    else:
        with desk.on_terminal("apply", *arguments, environment={"CI": "true"}) as terminal:
            assert terminal.ended() == 0
        assert terminal.shown.startswith("configmap/c pruned\n")
    assert desk.names() == {"a", "b"}


def test_deletion_without_a_terminal_needs_yes(desk: Desk, audit: AuditTrail) -> None:
    """Nothing is read or written before it."""
    where = ("delete", "web", "-n", desk.namespace)
    ended = applyprune(*where, kubeconfig=desk.plane.kubeconfig)
    assert ended.code == 2
    assert ended.err == (
        "error: deleting the set web needs confirmation: there is no terminal to ask on\n"
        "  Add --yes, or try --dry-run first.\n"
    )
    assert writes(audit) == []
    assert applyprune(*where, "--yes", kubeconfig=desk.plane.kubeconfig).code == 0
    assert desk.names() == set()


def test_answer_is_not_read_from_the_input(desk: Desk, audit: AuditTrail) -> None:
    """With ``-f -`` it comes from the terminal of the process; if there is none, --yes must."""
    smaller = desk.input("a", "b").read_text()
    with desk.on_terminal("apply", "-f", "-", stdin=smaller) as terminal:
        terminal.read_until(QUESTION)
        terminal.type("n\n")
        assert terminal.ended() == 1
    with desk.on_terminal("apply", "-f", "-", stdin=smaller, in_terminal=False) as terminal:
        assert terminal.ended() == 2
    assert "error: the apply of the set web needs confirmation" in terminal.shown
    assert writes(audit) == []
    with desk.on_terminal("apply", "-f", "-", stdin=smaller) as terminal:
        terminal.read_until(QUESTION)
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert desk.names() == {"a", "b"}


@pytest.mark.parametrize("form", ["json", "jsonl", "name", "github"])
def test_data_on_standard_output_is_free_of_the_question(desk: Desk, form: str) -> None:
    """The question and the table are on the terminal, whatever the format."""
    path = desk.folder / "data"
    with path.open("w") as data:
        arguments = ("-f", desk.input("a", "b"), "-o", form)
        with desk.on_terminal("apply", *arguments, stdout=data) as terminal:
            terminal.read_until(f"{desk.target}{PRUNE_OF_C}{QUESTION}")
            terminal.type("n\n")
            assert terminal.ended() == 1
    text = path.read_text()
    assert "Apply these" not in text
    if form == "json":
        document = json.loads(text)
        assert (document["exitCode"], document["context"]) == (1, desk.plane.name)
        assert document["server"] == desk.plane.server
        (problem,) = document["errors"]
        assert (problem["kind"], problem["message"]) == ("Declined", "nothing was changed")
    # The annotations of GitHub contain the errors.
    assert form == "github" or terminal.shown.endswith("nothing was changed\n")


def test_object_of_another_tool_is_taken_only_after_a_yes(desk: Desk, audit: AuditTrail) -> None:
    """An adoption says from whom."""
    maps = f"/api/v1/namespaces/{desk.namespace}/configmaps"
    assert desk.api("POST", f"{maps}?fieldManager=helm-operator", config_map("found"))[0] == 201
    source = desk.input("a", "b", "c", "found")
    with desk.on_terminal("apply", "-f", source) as terminal:
        shown = terminal.read_until(QUESTION)
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert "configmap/found   would be adopted   from helm-operator\n" in shown
    assert writes(audit) == []


def test_object_is_recreated_only_after_a_yes(desk: Desk, audit: AuditTrail) -> None:
    """The default check finds that it cannot be changed in place."""
    path = f"/api/v1/namespaces/{desk.namespace}/configmaps/fixed"
    given, stays = {**config_map("fixed"), "immutable": True}, [*map(config_map, "abc")]
    Stage(desk.plane.kubeconfig, desk.namespace).run(given, *stays)
    before = desk.api.get(path)
    wanted = [{**given, "data": {"key": "new"}}, *stays]
    arguments = ("-f", write_input(desk.folder / "set.json", wanted), "--recreate")
    audit.restart()
    with desk.on_terminal("apply", *arguments) as terminal:
        shown = terminal.read_until(QUESTION)
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert shown.startswith(f"{desk.target}OBJECT            PLAN")
    assert "configmap/fixed   would be recreated" in shown
    assert terminal.shown.endswith(f"{QUESTION}n\nnothing was changed\n")
    assert writes(audit) == []
    assert desk.api.get(path) == before


def test_forced_field_is_asked_about_only_if_another_manager_loses_it(
    desk: Desk, kubectl: Kubectl, audit: AuditTrail
) -> None:
    """An equal value takes nothing: then both managers own the field."""

    def applied_by_hpa(value: str) -> None:
        path = write_input(desk.folder / "theirs.json", [config_map("a", value)])
        where = ("-n", desk.namespace, "--field-manager=hpa", "--force-conflicts")
        kubectl("apply", "-f", path, "--server-side", *where)

    def forced(**metadata: Any) -> PseudoTerminal:
        bodies = [config_map("a", **metadata), *map(config_map, "bc")]
        source = write_input(desk.folder / "set.json", bodies)
        return desk.on_terminal("apply", "-f", source, "--conflicts=force", columns=120)

    applied_by_hpa("v")
    for change in ({}, {"labels": {"tier": "front"}}):
        with forced(**change) as terminal:
            assert terminal.ended() == 0
        assert QUESTION not in terminal.shown
        assert "hpa" not in terminal.shown
    applied_by_hpa("theirs")
    audit.restart()
    with forced() as terminal:
        shown = terminal.read_until(QUESTION)
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert "configmap/a   would be updated   takes fields from hpa\n" in shown
    assert writes(audit) == []


def test_second_plan_is_asked_about_only_if_it_needs_more(desk: Desk) -> None:
    """Another run may be first while the question is open."""
    kubeconfig, where = desk.plane.kubeconfig, ("web", "-n", desk.namespace)
    smaller, larger = desk.input("a", "b"), desk.input("a", "b", "c", "d")
    with desk.on_terminal("apply", "-f", smaller) as terminal:
        terminal.read_until(QUESTION)
        # It changes the inventory, but c is still all that would be pruned.
        changed = write_input(
            desk.folder / "changed.json", [*map(config_map, "bc"), config_map("a", "new")]
        )
        assert applyprune("apply", *where, "-f", changed, kubeconfig=kubeconfig).code == 0
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert terminal.shown.count(QUESTION) == 1
    assert desk.names() == {"a", "b"}
    again = applyprune("apply", *where, "-f", desk.input("a", "b", "c"), kubeconfig=kubeconfig)
    assert again.code == 0
    with desk.on_terminal("apply", "-f", smaller) as terminal:
        terminal.read_until(QUESTION)
        assert applyprune("apply", *where, "-f", larger, kubeconfig=kubeconfig).code == 0
        terminal.type("y\n")
        terminal.read_until(
            "y\nAnother run finished first. The plan is now:\nOBJECT        PLAN\n"
            f"configmap/c   would be pruned\nconfigmap/d   would be pruned\n{QUESTION}"
        )
        assert desk.names() == {"a", "b", "c", "d"}
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert desk.names() == {"a", "b", "c", "d"}


def test_deletion_lists_the_fate_of_each_object(desk: Desk, audit: AuditTrail) -> None:
    """Adopted objects stay; the line below the table says how to delete them."""
    maps = f"/api/v1/namespaces/{desk.namespace}/configmaps"
    assert desk.api("POST", f"{maps}?fieldManager=kubectl", config_map("found"))[0] == 201
    Stage(desk.plane.kubeconfig, desk.namespace).run(*map(config_map, [*"abc", "found"]))
    audit.restart()
    summary = (
        "4 objects: 3 would be deleted, 1 was adopted and stays\n"
        "To delete what was adopted: --prune-also adopted, or make it owned first:\n"
        f"  applyprune inventory repair web -n {desk.namespace} --record-as owned configmap/found\n"
    )
    with desk.on_terminal("delete", columns=120) as terminal:
        shown = terminal.read_until(DELETION)
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert shown == (
        f"{desk.target}OBJECT            PLAN                DETAILS\n"
        "configmap/a       would be deleted\nconfigmap/b       would be deleted\n"
        "configmap/c       would be deleted\nconfigmap/found   would be orphaned   "
        f"it was adopted, not created, by this set\n{summary}{DELETION}"
    )
    with desk.on_terminal("delete", "--dry-run", columns=120) as terminal:
        assert terminal.ended() == 0
    assert terminal.shown.startswith(f"{desk.target}{summary}configmap/")
    assert writes(audit) == []
    with desk.on_terminal("delete") as terminal:
        terminal.read_until(DELETION)
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert terminal.shown.endswith(
        "1 object stays in the cluster, and the set no longer lists it. To delete it:\n"
        f"  kubectl delete -n {desk.namespace} configmap/found\n"
    )
    assert desk.names() == {"found"}


def test_missing_set_is_not_asked_about(desk: Desk) -> None:
    """There is nothing to delete, but perhaps another name was meant."""
    arguments = ("delete", "wep", "-n", desk.namespace)
    with on_terminal(*arguments, kubeconfig=desk.plane.kubeconfig) as terminal:
        assert terminal.ended() == 0
    assert "warning: there is no set wep" in terminal.shown
    assert "did you mean web" in terminal.shown
    assert QUESTION not in terminal.shown
    assert desk.names() == {"a", "b", "c"}


@pytest.mark.parametrize("listed", ["all", "namespace", "none"])
def test_new_set_is_called_new(desk: Desk, listed: str) -> None:
    """With the set whose name is nearly the same, as far as sets may be listed: then it asks."""
    maps = {
        "all": (),
        "namespace": ("/api/v1/configmaps",),
        "none": ("/api/v1/configmaps", f"/api/v1/namespaces/{desk.namespace}/configmaps"),
    }[listed]
    source = desk.input("d")
    with FaultProxy(desk.plane) as proxy:
        refused = faults.status(403, reason="Forbidden")
        proxy.rule = always(
            refused,
            where=lambda seen: (
                seen.method == "GET"
                and seen.path in maps
                and seen.query.get("labelSelector") == SET_ID
            ),
        )
        arguments = ("apply", "wep", "-n", desk.namespace, "-f", source)
        with on_terminal(*arguments, kubeconfig=proxy.kubeconfig(desk.folder)) as terminal:
            if listed != "none":
                terminal.read_until(QUESTION)
                terminal.type("y\n")
            assert terminal.ended() == 0
    (line,) = [line for line in terminal.shown.splitlines() if "is a new set" in line]
    if listed == "all":
        # Other tests may have sets with such names in their namespaces.
        assert line.startswith("wep is a new set; there is also the set web")
    else:
        hint = "; there is also the set web" if listed == "namespace" else ""
        assert line == f"wep is a new set{hint}"


DOUBTS = {
    "its name elsewhere": ("{free}", "there is also the set {name} in {home}"),
    "nearly the namespace": ("{home}-a", "there is also the set {name} in {home}; its namespace"),
    "a namespace of its own": ("{free}", "its namespace {free} is created for it"),
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_doubtful_new_set_is_made_only_after_a_yes(
    desk: Desk, api: Api, audit: AuditTrail, doubt: str
) -> None:
    """A pipeline gets a warning, and no question; the next run has neither."""
    names = {
        "home": desk.namespace,
        "name": f"only-{desk.namespace}",
        "free": f"own-{desk.namespace}",
    }
    place, said = (text.format(**names) for text in DOUBTS[doubt])
    kubeconfig, source = desk.plane.kubeconfig, desk.input("new")
    name = names["name"]
    call = ("apply", name, "-n", place, "-f", source, "--create-namespace")
    if "also the set" in said:
        there = applyprune("apply", name, "-n", desk.namespace, "-f", source, kubeconfig=kubeconfig)
        assert (there.code, "is a new set" in there.err) == (0, False), there
    audit.restart()
    with on_terminal(*call, "-q", kubeconfig=kubeconfig, columns=200) as terminal:
        shown = terminal.read_until(QUESTION)
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert (f"{name} is a new set; " in shown, said in shown) == (True, True), shown
    assert writes(audit) == []
    with on_terminal(*call, "--dry-run", kubeconfig=kubeconfig, columns=200) as terminal:
        assert terminal.ended() == 0
    assert (said in terminal.shown, QUESTION in terminal.shown) == (True, False)
    planned = applyprune("plan", *call[1:], kubeconfig=kubeconfig)
    applied = applyprune(*call, kubeconfig=kubeconfig)
    for ended in (planned, applied):
        assert ended.code == 0, ended
        assert f"warning: {name} is a new set in namespace {place}: " in ended.err
        assert said in ended.err
    audit.restart()
    again = applyprune(*call, kubeconfig=kubeconfig)
    assert (again.code, "is a new set" in again.err) == (0, False), again
    listed = [one for one in audit.events() if SET_ID in one["requestURI"]]
    assert listed == []
    with on_terminal(*call, kubeconfig=kubeconfig) as terminal:
        assert terminal.ended() == 0
    api("DELETE", f"/api/v1/namespaces/{place}")


@pytest.mark.holds("new-set-asks")
def test_namespace_of_the_input_makes_a_new_set_doubtful(desk: Desk, api: Api) -> None:
    """It is created for the set, too; --yes and --ask never skip the question."""
    for at, option in enumerate((("--yes",), ("--ask", "never"))):
        place = f"x{at}{desk.namespace}"
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}
        given = write_input(desk.folder / "home.json", [home])
        call = ("apply", f"x{at}-only", "-n", place, "-f", given)
        with on_terminal(*call, kubeconfig=desk.plane.kubeconfig, columns=200) as terminal:
            terminal.read_until(QUESTION)
            terminal.type("n\n")
            assert terminal.ended() == 1
        with on_terminal(*call, *option, kubeconfig=desk.plane.kubeconfig) as terminal:
            assert terminal.ended() == 0
        assert QUESTION not in terminal.shown
        api("DELETE", f"/api/v1/namespaces/{place}")


def test_refused_prune_is_not_asked_about(desk: Desk, audit: AuditTrail) -> None:
    """Nothing would be done after a yes."""
    with desk.on_terminal("apply", "-f", desk.input("a", "b"), "--max-prune", "0") as terminal:
        assert terminal.ended() == 6
    assert QUESTION not in terminal.shown
    assert "would be pruned" not in terminal.shown
    assert writes(audit) == []


def test_narrow_terminal_cuts_no_name(desk: Desk) -> None:
    """40 columns, and a name that needs most of them."""
    name = "a-name-that-is-long-enough-to-fill-it"
    Stage(desk.plane.kubeconfig, desk.namespace).run(*map(config_map, [*"abc", name]))
    arguments = ("-f", desk.input("a", "b", "c"))
    with desk.on_terminal("apply", *arguments, columns=40) as terminal:
        shown = terminal.read_until(QUESTION)
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert f"PLAN\nconfigmap/{name}\n         would be pruned\n" in shown


def test_repair_asks_on_the_terminal_too(desk: Desk, audit: AuditTrail) -> None:
    """A no ends it with 1, as everywhere."""
    arguments = ("inventory", "repair", "web", "-n", desk.namespace)
    with on_terminal(*arguments, kubeconfig=desk.plane.kubeconfig) as terminal:
        terminal.read_until("Reconcile the inventory of the set web with the cluster? [y/N] ")
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert terminal.shown.endswith("n\nnothing was changed\n")
    assert writes(audit) == []


def test_adopted_objects_become_owned_after_a_yes(desk: Desk, audit: AuditTrail) -> None:
    """The objects are listed first; a no writes nothing, and nobody is asked about owned ones."""
    maps = f"/api/v1/namespaces/{desk.namespace}/configmaps"
    assert desk.api("POST", maps, config_map("found"))[0] == 201
    found = desk.input("a", "b", "c", "found")
    call = ("apply", "web", "-n", desk.namespace, "-f", found, "--yes")
    assert applyprune(*call, kubeconfig=desk.plane.kubeconfig).code == 0
    audit.restart()
    named = ("configmap/a", "configmap/found")
    own = ("inventory", "repair", "web", "--record-as", "owned", *named, "-n", desk.namespace)
    question = "A later prune or delete of the set deletes this object. Make this object owned?"
    with on_terminal(*own, kubeconfig=desk.plane.kubeconfig) as terminal:
        shown = terminal.read_until(f"{question} [y/N] ")
        assert "configmap/found\n" in shown
        assert "configmap/a\n" not in shown
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert writes(audit) == []
    refused = applyprune(*own, kubeconfig=desk.plane.kubeconfig)
    assert (refused.code, "making objects of the set web owned needs" in refused.err) == (2, True)
    with on_terminal(*own, kubeconfig=desk.plane.kubeconfig) as terminal:
        terminal.read_until(question)
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert "configmap/found updated (as owned: a later prune or delete deletes it)" in (
        terminal.shown
    )
    ended = applyprune(*own, "--yes", kubeconfig=desk.plane.kubeconfig)
    assert (ended.code, "2 unchanged" in ended.out) == (0, True)
    smaller = ("apply", "web", "-n", desk.namespace, "-f", desk.input("a", "b", "c"), "--yes")
    ended = applyprune(*smaller, kubeconfig=desk.plane.kubeconfig)
    assert (ended.code, desk.names()) == (0, {"a", "b", "c"}), ended


def test_adoption_as_owned_is_asked_about(desk: Desk) -> None:
    """The table says what it means."""
    maps = f"/api/v1/namespaces/{desk.namespace}/configmaps"
    assert desk.api("POST", f"{maps}?fieldManager=kubectl", config_map("found"))[0] == 201
    found = desk.input("a", "b", "c", "found")
    with desk.on_terminal("apply", "-f", found, "--adopt-as", "owned", columns=120) as terminal:
        shown = terminal.read_until(QUESTION)
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert "configmap/found   would be adopted   from kubectl\n" in shown
    assert "as owned: a later prune deletes it\n" in shown
    assert "configmap/found updated (adopted, as owned: a later prune deletes it)" in (
        terminal.shown
    )
