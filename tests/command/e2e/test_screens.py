"""What a user sees, on a narrow terminal, on a wide one and in a file: fixtures/screens.

``pytest --snapshot-update`` writes them; look at the difference before you commit it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.tmux import PROGRAM, Terminal, is_idle
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from syrupy.assertion import SnapshotAssertion

    from applyprune.localplane import Binaries, Plane
    from tests.support.api import Api
    from tests.support.plane import Kubectl

SCREENS = Path(__file__).parents[3] / "fixtures" / "screens"
WIDTHS = (80, 200)
# Of one length, so that lines break at the same places, and numbered: none is a slip of another.
HOMES = ("shop-1", "shop-2", "shop-3")
PASSING = (
    (r"shop-[123]\b", "shop-a"),
    (r"\b\d+\.\d s\b", "N.N s"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "YYYY-MM-DD HH:MM UTC"),
    (r"\d+:\d\d\b(?!:)", "M:SS"),
    (r"\b\d+s\s+ago", "Ns ago"),
    (r"\bID:(\s+)[0-9a-f]{12}\b", r"ID:\g<1>0123456789ab"),
    (r"\bana@\S+", "ana@host"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "YYYY-MM-DDTHH:MM:SSZ"),
    (r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:NNNNN"),
    # The sets of the other desks, and of other tests, have such names.
    (r"(?<= is a new set); there is also .*", ""),
    (r"(?m)^warning: \S+ is a new set in namespace .*\n(?:  .*\n)+", ""),
    (r"(?<=pod/shop-)[0-9a-f]{8,10}-[a-z0-9]{5}\b", "0123456789-xxxxx"),
)

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no tmux here to look through")


@dataclass(frozen=True, slots=True)
class Scene:
    """What is typed; ``while_it_runs`` is to be seen before the keys of ``press`` are pressed.

    ``setup`` is what somebody has done with kubectl before. Before the last line, kubectl must show
    the text ``shown_by_pods`` of the Pods in each namespace.
    """

    name: str
    lines: tuple[str, ...]
    while_it_runs: str = ""
    press: str = ""
    setup: str = ""
    shown_by_pods: str = ""


SCENES = (
    Scene(
        "question",
        ("applyprune apply book -f book-1/", "applyprune apply book -f book-2/"),
        while_it_runs=r"\[y/N/d\]$",
        press="n Enter",
        setup="apply --server-side --field-manager=alice -f written/",
    ),
    # README and docs/concepts/safety.md show some of it.
    Scene(
        "tour",
        (
            "applyprune apply store -f store-1/ --wait -q",
            "applyprune diff store -f store-2/",
            "applyprune plan store -f store-3/",
            "applyprune apply store -f store-3/settings.yaml",
        ),
    ),
    Scene(
        "timeout",
        ("applyprune apply shop -f stuck/", "applyprune apply shop -f stuck/ --wait --timeout=4s"),
        while_it_runs=r"deployment.apps/shop: .*Unsch",
        shown_by_pods="Unschedulable",
    ),
    # docs/first-day.md tells it.
    Scene(
        "day-after",
        (
            "applyprune apply news -f day-1/ -q",
            "applyprune apply news -f day-2/ -q",
            "applyprune history news",
            "applyprune history news 2",
            "applyprune explain deployment/news",
            "applyprune rollback news --dry-run",
        ),
    ),
    # docs/guides/migration.md tells it.
    Scene(
        "import",
        (
            "applyprune import --list -l app=letter",
            "applyprune import --from helm:letter --out letter",
            "applyprune plan letter -f letter --adopt=all",
        ),
        setup="apply --server-side --field-manager=helm -f lives/",
    ),
    Scene(
        "interrupted",
        ("applyprune apply cart -f slow/ --wait",),
        while_it_runs=r"available: 0 of 1",
        press="C-c",
    ),
)


_UNASKED = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\nask: never\n"
"""For a new set: the other desks have one of its name."""


def passing(text: str) -> str:
    """Return a text with what differs from run to run replaced."""
    for pattern, stands_for in PASSING:
        text = re.sub(pattern, stands_for, text)
    # A terminal breaks a long line, so the end of a digest may be on the next one.
    text = re.sub(
        r"(?<=sha256:)([0-9a-f]\n?){63}[0-9a-f]", lambda one: re.sub(r"\w", "0", one[0]), text
    )
    # What is applied side by side is told as it comes.
    outcome = r"(?:created|updated|deleted|orphaned).*"
    side_by_side = rf"(?m)((?:^configmap/\S+ {outcome}\n)+|(?:^\S+ ready \(N\.N s\)\n)+)"
    return re.sub(side_by_side, lambda one: _sorted(one[0]), text)


def _sorted(lines: str) -> str:
    return "".join(sorted(lines.splitlines(keepends=True)))


@pytest.fixture(scope="module")
def desks(
    plane: Plane, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[tuple[Path, dict[str, str]]]]:
    """A folder with the inputs and an environment for each way of looking, a namespace each."""
    made = []
    for home in HOMES:
        status, reply = api(
            "POST",
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}},
        )
        assert status == 201, reply
        folder = tmp_path_factory.mktemp(home)
        shutil.copytree(SCREENS / "inputs", folder, dirs_exist_ok=True)
        _commit(folder)
        for file in (folder / "lives").iterdir():  # another text at each desk
            file.write_text(file.read_text().replace("NAMESPACE", home))
        kubeconfig = folder / "kubeconfig"
        shutil.copy(plane.kubeconfig, kubeconfig)
        in_namespace = ("config", "set-context", "--current", f"--namespace={home}")
        subprocess.run([plane.kubectl, "--kubeconfig", kubeconfig, *in_namespace], check=True)
        made.append((folder, {"KUBECONFIG": str(kubeconfig), "LOGNAME": "ana"}))
    yield made
    for home in HOMES:
        api("DELETE", f"/api/v1/namespaces/{home}")


def _commit(folder: Path) -> None:
    """Make the inputs a commit, which has the same ID at each desk."""
    identity = ("-c", "user.name=ana", "-c", "user.email=ana@example.com")
    day = {f"GIT_{who}_DATE": "2026-11-30T12:00:00Z" for who in ("AUTHOR", "COMMITTER")}
    for words in (("init", "-q"), ("add", ".", ":!lives"), ("commit", "-q", "-m", "inputs")):
        command = ["git", *identity, "-c", "commit.gpgsign=false", *words]
        subprocess.run(command, cwd=folder, env={**os.environ, **day}, check=True)


def _let_ask(desks: list[tuple[Path, dict[str, str]]], *, asks: bool) -> None:
    """Let the commands ask, or not: two new sets of almost the same names are doubtful."""
    for folder, _ in desks:
        file = folder / "applyprune.yaml"
        file.unlink() if asks else file.write_text(_UNASKED)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_screen_matches_its_golden_file(
    plane: Plane,
    desks: list[tuple[Path, dict[str, str]]],
    scene: Scene,
    kubectl: Kubectl,
    golden: SnapshotAssertion,
) -> None:
    """At both widths, while it runs and at its end, and in a file.

    Slow: the scenes last as long as a user would see them.
    """
    with ExitStack() as stack:
        _by_others(plane, desks, scene.setup)
        _let_ask(desks, asks=False)
        terminals = [
            stack.enter_context(Terminal(width, *desk))
            for width, desk in zip(WIDTHS, desks, strict=False)
        ]
        seen: dict[str, str] = {}
        for at, line in enumerate(scene.lines):
            for terminal in terminals:
                terminal.wait(is_idle)
            if at == len(scene.lines) - 1:
                _await_pods(kubectl, scene.shown_by_pods)
                _let_ask(desks, asks="y/N" in scene.while_it_runs)
            piped = None if scene.press else _start(line, *desks[-1])
            for terminal in terminals:
                terminal.type(line)
            if scene.while_it_runs and at == len(scene.lines) - 1:
                for terminal in terminals:
                    during = terminal.wait(lambda one: re.search(scene.while_it_runs, passing(one)))
                    seen[f"{scene.name}-while-it-runs.{terminal.columns}"] = during
                    for key in scene.press.split():
                        terminal.press(key)
            if piped is not None:
                out, _ = piped.communicate(timeout=HANG)
                told = f"$ {line} 2>&1 | cat\n{out}exit code {piped.returncode}\n"
                seen[f"{scene.name}.pipe"] = seen.get(f"{scene.name}.pipe", "") + told
        for terminal in terminals:
            terminal.wait(is_idle)
            terminal.type("echo $?")
            seen[f"{scene.name}.{terminal.columns}"] = terminal.wait(
                lambda one: re.search(r"\n\d+\n\$$", one)
            )
            assert terminal.cursor_is_shown
    for name, screen in seen.items():
        assert f"{passing(screen).rstrip()}\n" == golden(name=f"screens/{name}.txt")


def test_demo_matches_its_golden_file(
    binaries: Binaries, tmp_path: Path, golden: SnapshotAssertion
) -> None:
    """From its first command to its end, which fit a screen of 65 lines with those before.

    Slow: the demo starts a control plane.
    """
    assert binaries.program.exists()
    with Terminal(80, tmp_path, {}, rows=70) as terminal:
        terminal.type("applyprune demo; echo $?")
        screen = terminal.wait(lambda one: re.search(r"\n\d+\n\$$", one))
    shown = screen[screen.index("$ applyprune apply") :].removesuffix("\n$")
    assert f"{passing(shown)}\n" == golden(name="screens/demo.80.txt")


def _by_others(plane: Plane, desks: list[tuple[Path, dict[str, str]]], arguments: str) -> None:
    """Run kubectl at each desk; nothing without arguments."""
    for folder, more in desks if arguments else ():
        command: list[str | Path] = [plane.kubectl, *arguments.split()]
        subprocess.run(command, cwd=folder, env={**os.environ, **more}, check=True)


def _await_pods(kubectl: Kubectl, text: str) -> None:
    """Wait until kubectl shows a text in the Pods of each namespace; not for an empty one."""
    pods = [
        partial(kubectl, "get", "pods", "--namespace", home, "--output=yaml")
        for home in (HOMES if text else ())
    ]
    eventually(lambda: all(text in shown() for shown in pods), lambda: "the text of the Pods")


def _start(line: str, folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    arguments = line.split()[1:]
    return subprocess.Popen(
        [sys.executable, "-m", "applyprune", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
