"""What the steps of action.yml do: prepare a run of applyprune, run it, show its plan in a comment.

It runs in the environment in which the action has installed applyprune. A step reads what another
one has left in a folder, so that each input is passed once, by the environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from applyprune import load
from applyprune.cluster.access import cluster_access
from applyprune.errors import AccessError, ApplypruneError
from applyprune.output.markdown import code as as_code

MODES = {"pull_request": "plan", "workflow_dispatch": "plan", "push": "apply", "schedule": "drift"}
"""What is done for an event, unless the input ``mode`` says it."""
INPUTS = (
    "set", "namespace", "files", "all-in", "changed-since", "context", "bound", "approve",
    "fail-on-refusal", "timeout", "arguments",
)  # fmt: skip
"""What the later steps need; not the kubeconfig, which is a file of its own."""
REFUSED = 6
OUTDATED = 8
BY_EVENT = "auto"
"""The value of ``changed-since`` for the commit that the event names."""
NO_COMMIT = "0" * 40
"""What GitHub names before the first push of a branch."""
COMMENTER = "github-actions[bot]"
"""The author of what is written with the token of a job."""
PAGE = 100
"""The largest page of a list that GitHub returns."""
REQUEST_TIMEOUT = 60.0


def main() -> None:
    """Run the step that the command line names."""
    {"prepare": prepare, "run": run, "comment": comment}[sys.argv[1]]()


# Prepare: the mode, the input, and where the plan of the pull request is.


def prepare() -> None:
    """Write what the later steps need into a folder of this call."""
    given = {name: os.environ[f"INPUT_{name.upper().replace('-', '_')}"] for name in INPUTS}
    for name in ("bound", "fail-on-refusal"):
        if given[name] not in {"true", "false"}:
            fail(f"{name} must be true or false, not {given[name]!r}.", 2)
    given["mode"] = chosen_mode(os.environ["INPUT_MODE"], event())
    refuse_unclear(given)
    if given["changed-since"] == BY_EVENT:
        is_about_all = given["mode"] == "drift" or not given["all-in"]
        given["changed-since"] = "" if is_about_all else commit_before(given["all-in"], event())
    folder = Path(tempfile.mkdtemp(prefix="applyprune-", dir=os.environ["RUNNER_TEMP"]))
    if content := os.environ["INPUT_KUBECONFIG"]:
        # The folder is its owner's alone.
        (folder / "kubeconfig").write_text(content, encoding="utf-8")
    # Two clusters may have the same set.
    about = [given["set"], given["namespace"]]
    if given["all-in"]:
        about = ["", os.path.normpath(given["all-in"])]  # no set has an empty name
    given["identity"] = identity(*about, server(folder, given["context"]))
    is_bound = given["mode"] == "apply" and given["bound"] == "true"
    is_kept = given["mode"] != "drift" and given["bound"] == "true"
    name = artifact_name(given, folder, is_needed=is_bound) if is_kept else ""
    (folder / "inputs.json").write_text(json.dumps(given), encoding="utf-8")
    output("folder", str(folder))
    output("mode", given["mode"])
    output("name", name)
    if is_bound:
        output("run", newest_plan(name))


def chosen_mode(mode: str, told: Mapping[str, Any]) -> str:
    """Return the mode of this call."""
    name = os.environ["GITHUB_EVENT_NAME"]
    if mode:
        if mode not in MODES.values():
            fail(f"mode must be plan, apply or drift, not {mode!r}.", 2)
        return mode
    if name not in MODES:
        fail(f"Set the input mode: the event {name} does not say whether to plan or to apply.", 2)
    main_branch = told.get("repository", {}).get("default_branch")
    if name == "push" and os.environ["GITHUB_REF"] != f"refs/heads/{main_branch}":
        fail(
            f"This is a push to {os.environ['GITHUB_REF']}, not to {main_branch}, so nothing is "
            f"applied. Limit the workflow to pushes to {main_branch}, or set the input mode.",
            2,
        )
    return MODES[name]


def refuse_unclear(given: Mapping[str, str]) -> None:
    """Refuse a call that is about no set, or about one and about many."""
    of_one = ("set", "namespace", "files")
    if not given["all-in"]:
        if missing := [name for name in of_one if not given[name]]:
            fail(f"Give set, namespace and files, or all-in: {', '.join(missing)} is empty.", 2)
        if given["changed-since"] not in {"", BY_EVENT}:
            fail("changed-since needs all-in.", 2)
    elif more := [name for name in of_one if given[name]]:
        fail(
            f"all-in excludes {', '.join(more)}: each applyprune.yaml below {given['all-in']} that "
            "names a set says it.",
            2,
        )


def commit_before(folder: str, told: Mapping[str, Any]) -> str:
    """Return the commit that a change is compared with; empty if it may concern any set.

    For a pull request, it is the branch that it is merged into, as its merge commit has it: what
    others have merged since the pull request began is no part of the change.
    """
    request = told.get("pull_request")
    commit = told.get("before", "")
    if request is not None:
        content = git(folder, "cat-file", "commit", "HEAD").partition("\n\n")[0]
        parents = re.findall("^parent (.+)$", content, re.MULTILINE)
        commit = request["base"]["sha"]
        if parents[1:] == [request["head"]["sha"]]:
            commit = parents[0]
        elif has_commit(folder, commit):
            # Not the merge commit was checked out, but the head, say.
            commit = git(folder, "merge-base", commit, "HEAD") or commit
    if not commit or has_commit(folder, commit):
        return str(commit)
    if git(folder, "rev-parse", "--is-shallow-repository") == "true" and commit != NO_COMMIT:
        fail(
            f"The checkout does not have the commit {commit}, with which this change is compared. "
            "Give the step actions/checkout fetch-depth: 0. Or give this one an empty "
            "changed-since: then it is about all sets.",
            2,
        )
    tell(
        "notice",
        "This run is about all sets, because it is not known what the change concerns: "
        + ("the branch is new." if commit == NO_COMMIT else f"there is no commit {commit}."),
    )
    return ""


def has_commit(folder: str, commit: str) -> bool:
    """Return whether the checkout has a commit."""
    return bool(git(folder, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"))


def git(folder: str, *arguments: str) -> str:
    """Return what git says about the checkout with a folder; empty if it fails."""
    # In a container, the checkout may be another user's. A repository among its files, which a fork
    # may have put there, is not asked.
    settings = ["-c", "safe.directory=*", "-c", "safe.bareRepository=explicit"]
    command = ["git", "-C", folder, *settings, *arguments]
    try:
        reply = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return "" if reply.returncode else reply.stdout.strip()


def identity(*parts: str) -> str:
    """Return a digest of the set, its namespace and its cluster; of many, of their folder."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def server(folder: Path, context: str) -> str:
    """Return the URL of the API server; empty if none is configured, which the run reports."""
    try:
        return cluster_access(context=context, environ=environment(folder)).server
    except AccessError:
        return ""


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of applyprune, with the kubeconfig that was given."""
    path = folder / "kubeconfig"
    return {**os.environ, **({"KUBECONFIG": str(path)} if path.exists() else {})}


def artifact_name(given: Mapping[str, str], folder: Path, *, is_needed: bool) -> str:
    """Return the name under which a plan is kept: by its sets, its cluster and its manifests.

    So a merge finds it however it was merged: a merge, a squash and a rebase have the same
    manifests, unless the branch has others than the pull request had. Of many sets, only those
    count that the change concerns. The name is empty if the input cannot be read: then no plan is
    made either, and the run says why. If it ``is_needed``, that ends the step.
    """
    if given["all-in"]:
        checksum = checksum_of_many(given, folder, is_told=is_needed)
    else:
        checksum = checksum_of_one(given, is_told=is_needed)
    about = re.sub("[^a-z0-9.-]", "-", given["all-in"] or given["set"])
    return f"applyprune-{about}-{checksum}" if checksum else ""


def checksum_of_one(given: Mapping[str, str], *, is_told: bool) -> str:
    """Return the checksum of a set and its manifests; empty if they cannot be read."""
    try:
        manifests = load(*lines(given["files"])).manifests
    except ApplypruneError as error:
        if is_told:
            fail(str(error), 2)
        return ""
    # As a plan counts them: in any order, from any file, and a kustomization as it is built.
    texts = sorted(json.dumps(manifest.body, sort_keys=True) for manifest in manifests)
    return identity(given["identity"], *texts)


def checksum_of_many(given: Mapping[str, str], folder: Path, *, is_told: bool) -> str:
    """Return the checksum of the sets that the change concerns; empty if anything is wrong."""
    command = [program(), *arguments("check", given, Path())]
    path = folder / "checked.json"
    quiet = [*command, "-o", f"json={path}"]
    subprocess.run(quiet, env=environment(folder), capture_output=True, check=False)
    if checked := read_report(path).get("inputChecked"):
        return identity(given["identity"], checked["checksum"])
    if is_told:
        reply = subprocess.run([*command, "-o", "github"], env=environment(folder), check=False)
        sys.exit(reply.returncode or 2)
    return ""


def program() -> str:
    """Return the path of the program that the action has installed."""
    return str(Path(sys.executable).with_name("applyprune"))


def newest_plan(name: str) -> str:
    """Return the run that has made the plan: this one, or else the newest of this repository.

    A fork could upload any file, so its artifacts do not count.
    """
    address = f"{repository()}/actions/artifacts?name={quote(name)}"
    made = []
    try:
        for artifact in pages(address, "artifacts"):
            by = artifact["workflow_run"]
            if not artifact["expired"] and by["head_repository_id"] == by["repository_id"]:
                is_own = str(by["id"]) == os.environ["GITHUB_RUN_ID"]
                made.append((is_own, artifact["created_at"], str(by["id"])))
    except GitHubError as error:
        fail(f"The plan was not found: {error} The job needs the permission actions: read.")
    if not made:
        fail(f"No plan was made for these manifests, and nothing was written. {AGAIN}", OUTDATED)
    return max(made)[-1]


AGAIN = (
    "Run this workflow manually on the default branch: it makes a plan, and applies it after an "
    "approval. Or open a pull request that changes the manifests: its plan has this change too."
)


# Run: applyprune, for the mode.


def run() -> None:
    """Run applyprune, and say what a job needs to know of it."""
    folder, given = left()
    planned = folder / "planned/applyprune.plan"
    mode = given["mode"]
    if mode == "plan" and untrusted() and not credentials(folder):
        mode = "check"
        tell(
            "notice",
            f"No plan was made, because {untrusted()} gets no credentials of the cluster. "
            "applyprune check has only checked what can be known without a cluster.",
        )
    if mode == "plan":
        planned.parent.mkdir()
    command = [*arguments(mode, given, planned), "-o", "github"]
    command += ["-o", f"json={folder / 'report.json'}", "-o", f"markdown={folder / 'page.md'}"]
    own = environment(folder)
    if given["approve"]:
        own["APPLYPRUNE_APPROVE"] = given["approve"]
    code = subprocess.run([program(), *command], env=own, check=False).returncode
    report = read_report(folder / "report.json")
    if not report:
        (folder / "page.md").write_text(f"**Exit code {code}. See the log of this run.**\n")
    counts = report.get("counts") or {}
    has_changes = any(count for what, count in counts.items() if what not in UNCHANGED)
    output("code", str(code))
    output("changed", "true" if has_changes else "false")
    output("digest", digest(report))
    output("deletions", deletions(report, is_bound=given["bound"] == "true"))
    output("plan", str(planned) if planned.exists() else "")
    is_kept = mode == "plan" and given["bound"] == "true" and planned.exists()
    output("keep", "true" if is_kept else "false")
    is_allowed = code == REFUSED and given["fail-on-refusal"] == "false"
    output("failed", "true" if code and not is_allowed else "false")
    found = (problem for one in (report, *report.get("sets", ())) for problem in problems(one))
    if any(problem["kind"] == "PlanOutdated" for problem in found):
        written = "" if has_changes else ", and nothing was written"
        tell("error", f"The plan no longer fits{written}. {AGAIN}")
    elif is_allowed:
        tell("notice", "A guard refuses the prune. It waits for an approval.")


TIMEOUT = "10m"
UNCHANGED = {"unchanged", "not-pruned", "skipped", "failed"}
"""The outcomes of objects that were not changed."""


def arguments(mode: str, given: Mapping[str, str], planned: Path) -> Sequence[str]:
    """Return the arguments of applyprune for a mode."""
    if given["all-in"]:
        named = ["--all-in", given["all-in"]]
        named += ["--changed-since", given["changed-since"]] if given["changed-since"] else []
    else:
        named = [given["set"], "-n", given["namespace"]]
        named += [part for path in lines(given["files"]) for part in ("-f", path)]
    if mode == "check":
        return ["check", *named]
    named += ["--context", given["context"]] if given["context"] else []
    named += lines(given["arguments"])
    if mode == "plan":
        return ["plan", *named, "--out", str(planned)]
    if mode == "drift":
        return ["diff", *named, "--drift"]
    bound = ["--plan", str(planned)] if given["bound"] == "true" else []
    # What the command line says would count for each of many sets, instead of its own file.
    timeout = given["timeout"] or ("" if given["all-in"] else TIMEOUT)
    return ["apply", *named, *bound, "--wait", *(["--timeout", timeout] if timeout else [])]


def digest(report: Mapping[str, Any]) -> str:
    """Return the digest of the plan, or of those of many sets; empty without any."""
    planned = [one for one in report.get("sets") or [report] if one.get("plan")]
    if not report.get("sets"):
        return str(planned[0]["plan"]["digest"]) if planned else ""
    named = [f"{one['set']['namespace']}/{one['set']['name']}" for one in planned]
    digests = [one["plan"]["digest"] for one in planned]
    return f"sha256:{identity(*sorted(map(' '.join, zip(named, digests, strict=True))))}"


def deletions(report: Mapping[str, Any], *, is_bound: bool) -> str:
    """Return what approves the deletions: the digest of each plan that has any.

    Without a plan file, applyprune takes one digest, which is then of the only set that is refused.
    """
    every = report.get("sets") or [report]
    if not is_bound and len(every) > 1:
        refused = [one for one in every if one["exitCode"] == REFUSED]
        every = refused if len(refused) == 1 else []
    found = {one["plan"]["deletions"] for one in every if one.get("plan")}
    return " ".join(sorted(found - {""}))


def read_report(path: Path) -> dict[str, Any]:
    """Return the report of applyprune; empty if it could not write one."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found: dict[str, Any] = json.loads(text or "{}")
    return found


def problems(report: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what has ended the run."""
    yield from report.get("errors") or ()
    if report.get("problem"):
        yield report["problem"]


def untrusted() -> str:
    """Return what GitHub gives no secrets and no token that may write; else an empty text."""
    request = event().get("pull_request")
    if request is None:
        return ""
    # The repository is null when the fork was deleted.
    if (request["head"]["repo"] or {}).get("full_name") != os.environ["GITHUB_REPOSITORY"]:
        return "a pull request from a fork"
    if os.environ.get("GITHUB_ACTOR") == "dependabot[bot]":
        return "a pull request of Dependabot"
    return ""


def credentials(folder: Path) -> bool:
    """Return whether this job was given any; those of the runner itself are not for a fork."""
    return (folder / "kubeconfig").exists() or bool(os.environ.get("KUBECONFIG"))


# Comment: one for each set and cluster, or for many sets, which the next plan replaces.


def comment() -> None:
    """Write the page into the comment, or say why there is none."""
    folder, given = left()
    request = event()["pull_request"]
    mark = f"<!-- applyprune {given['identity']} -->"
    body = f"{mark}\n{(folder / 'page.md').read_text(encoding='utf-8')}\n{footer(given, request)}"
    comments = f"{repository()}/issues/{request['number']}/comments"
    try:
        for one in pages(comments):
            # Anybody may write a comment that begins with the mark.
            is_own = (one["user"] or {}).get("login") == COMMENTER
            if is_own and (one["body"] or "").startswith(mark):
                ask("PATCH", f"{repository()}/issues/comments/{one['id']}", {"body": body})
                return
        ask("POST", comments, {"body": body})
    except GitHubError as error:
        if error.is_forbidden and (whose := untrusted()):
            tell(
                "notice",
                f"There is no comment, because {whose} gets no token that may write. "
                "The summary of this run shows the same.",
            )
            return
        fail(
            f"The comment could not be written: {error} The summary of this run shows the same. "
            "The job needs the permission pull-requests: write."
        )


def footer(given: Mapping[str, str], request: Mapping[str, Any]) -> str:
    """Return the set, its commit, and where the whole page is, if this one was too long."""
    environ = os.environ
    address = f"{environ['GITHUB_SERVER_URL']}/{environ['GITHUB_REPOSITORY']}/actions/runs"
    about = f"{as_code(given['set'])} in namespace {as_code(given['namespace'])}"
    if given["all-in"]:
        about = f"The sets in {as_code(given['all-in'])}"
    return (
        f"{about}, commit {as_code(request['head']['sha'][:7])}. "
        f"[The summary of this run]({address}/{environ['GITHUB_RUN_ID']}) has the whole page.\n"
    )


# GitHub: its REST API, and the files of a step.


class GitHubError(Exception):
    """GitHub did not do what it was asked."""

    def __init__(self, message: str, status: int = 0) -> None:
        """Take what it answered, and the status; 0 without an answer."""
        super().__init__(message)
        # A token without the permission gets 404 for what it may not see.
        self.is_forbidden = status in {403, 404}


def ask(method: str, address: str, content: object = None) -> Any:
    """Send one request; return the answer. Raises GitHubError."""
    request = Request(  # noqa: S310 - the runner names the host
        address,
        method=method,
        data=None if content is None else json.dumps(content).encode(),
        headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
    )
    # A redirect to another host does not get the token.
    request.add_unredirected_header("Authorization", f"Bearer {os.environ['GITHUB_TOKEN']}")
    try:
        with urlopen(request, timeout=REQUEST_TIMEOUT) as reply:  # noqa: S310
            return json.load(reply)
    except HTTPError as error:
        raise GitHubError(f"{error.code}: {message_of(error)}.", error.code) from None
    except (URLError, TimeoutError, ValueError) as error:
        raise GitHubError(f"{method} {address}: {error}.") from None


def message_of(error: HTTPError) -> str:
    """Return what GitHub says about a failure."""
    try:
        return str(json.load(error)["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.reason)


def pages(address: str, key: str = "") -> Iterator[Any]:
    """Yield the items of a list, from all its pages. Raises GitHubError."""
    sign = "&" if "?" in address else "?"
    number = 1
    while True:
        answer = ask("GET", f"{address}{sign}per_page={PAGE}&page={number}")
        items = answer[key] if key else answer
        yield from items
        if len(items) < PAGE:
            return
        number += 1


def repository() -> str:
    """Return the address of the repository in the REST API."""
    return f"{os.environ['GITHUB_API_URL']}/repos/{os.environ['GITHUB_REPOSITORY']}"


def event() -> Mapping[str, Any]:
    """Return the event that has started the workflow."""
    path = Path(os.environ["GITHUB_EVENT_PATH"])
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def left() -> tuple[Path, Mapping[str, str]]:
    """Return the folder of this call and its inputs."""
    folder = Path(os.environ["FOLDER"])
    given: Mapping[str, str] = json.loads((folder / "inputs.json").read_text(encoding="utf-8"))
    return folder, given


def lines(text: str) -> list[str]:
    """Return the lines that are not blank."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def output(name: str, text: str) -> None:
    """Set an output of the step."""
    if "\n" in text or "\r" in text:
        fail(f"the output {name} would have several lines", 70)
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as file:
        file.write(f"{name}={text}\n")


def tell(level: str, text: str) -> None:
    """Write an annotation; the text cannot end it."""
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    print(f"::{level} title=applyprune::{escaped}", flush=True)


def fail(text: str, code: int = 1) -> NoReturn:
    """Write the error and end the step."""
    tell("error", text)
    sys.exit(code)


if __name__ == "__main__":
    main()
