"""Words of other tools, each with what to type instead.

A table for each of options, commands, keys of ``applyprune.yaml`` and formats; ``answer`` reads
them. What is in none gets the suggestion of the nearest word. The other functions answer calls that
the shell, or a habit from kubectl, has put together in another way.
"""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import click

from applyprune.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


_BELOW = "Leave it out: a folder is read with everything below it."
_DELETE = "Use applyprune delete NAME."
_APPLY = "Use applyprune apply NAME -f PATH."
_PLAN = "Use applyprune plan NAME -f PATH."
_STATUS = "Use applyprune status NAME."
_RENDER = "Render the chart first: helm template NAME CHART | applyprune apply NAME -f -"
_CHANGE = "Change the manifests, and apply them: applyprune apply NAME -f PATH."
_KUBECTL = "Use kubectl."
_KUBECONFIG = (
    "Use a kubeconfig: --kubeconfig FILE, and --context NAME to choose one of its contexts."
)
_IMPERSONATE = "Write it into the kubeconfig: `as: USER` in the user of the context."
_AT = "Use --at REV: the input as of a commit of its work tree."
_FILES = "Use -f PATH."
_CURRENT = "Leave it out: every run reads the cluster."
_NO_ROLLBACK = (
    "No run goes back by itself. The server checks everything before the first write. To go back: "
    "applyprune rollback NAME."
)
_SET_IS_NAMED = "Leave it out: NAME is the set."
_PART = "Leave it out: NAME is the set. For a part of it: --only KIND/NAME or -l SELECTOR."
_ROLLBACK = "Use applyprune rollback NAME."
_CHANGES_NOTHING = "Leave it out: this command changes nothing in the cluster."
_ALL_KINDS = (
    "Leave it out: the whole set is deleted, of every kind, once that is confirmed. To keep an "
    "object: --orphan KIND/NAME."
)
_LISTED = "Use applyprune list."
_MOVE = (
    "Use applyprune apply TO -f PATH --adopt set/FROM: TO takes what FROM lists and PATH has. For "
    "sets of one repository: applyprune apply --all-in DIR."
)
OPTIONS = {
    # Which manifests.
    **dict.fromkeys(("-R", "--recursive"), _BELOW),
    **dict.fromkeys(
        ("--file", "--files", "--path", "--dir", "--directory", "--manifests", "--local"), _FILES
    ),
    **dict.fromkeys(
        ("--set", "--set-string", "--set-file", "--set-json", "--values", "--chart"), _RENDER
    ),
    **dict.fromkeys(
        ("--var", "--var-file", "--substitute", "--data-value", "--data-values-file"),
        "Fill in the values first, for example with kustomize or envsubst: "
        "… | applyprune apply NAME -f -",
    ),
    **dict.fromkeys(("--branch", "--revision", "--ref", "--commit"), _AT),
    **dict.fromkeys(("--url", "--repo", "--source"), "Use -f with the address."),
    "--post-renderer": "Pipe its output in: … | applyprune apply NAME -f -",
    "--exclude": "To leave out files: ignore-paths in applyprune.yaml. To keep an object: "
    "--orphan KIND/NAME.",
    **{
        f"{verb} {word}": _PART if verb == "delete" else _SET_IS_NAMED
        for verb in ("delete", "status", "history", "show")
        for word in ("-f", "--filename", "-k", "--kustomize")
    },
    # Which set, which objects, which namespace.
    **dict.fromkeys(("--applyset", "-a", "--app", "--release", "--release-name"), _SET_IS_NAMED),
    **dict.fromkeys(("--install", "-i"), "Leave it out: the first apply creates the set."),
    "--all": "Leave it out: a set is always whole, and prune is the default.",
    "delete --all": "Leave it out: the whole set is deleted.",
    "status --all": "Use -A.",
    "list --all": "Use -A.",
    **dict.fromkeys(
        ("-A", "--all-namespaces"),
        "Leave it out: a set may have objects in every namespace. -n NS is that of its inventory.",
    ),
    **dict.fromkeys(("--target", "--resource", "--include"), "Use --only KIND/NAME."),
    "--field-selector": "Use --only KIND/NAME, or -l SELECTOR for labels.",
    "--filter-labels": "Use -l SELECTOR.",
    **dict.fromkeys(
        ("--into-ns", "--map-ns", "--target-namespace"),
        "Write namespace-override: NS into applyprune.yaml.",
    ),
    "--dest-namespace": "Use -n NS.",
    # Which cluster, and as whom.
    **dict.fromkeys(("--as", "--as-group", "--as-uid", "--impersonate"), _IMPERSONATE),
    **dict.fromkeys(
        (
            "-s",
            "--server",
            "--cluster",
            "--user",
            "--token",
            "--auth-token",
            "--insecure",
            "--insecure-skip-tls-verify",
            "--certificate-authority",
            "--client-certificate",
            "--client-key",
            "--kube-apiserver",
            "--kube-token",
            "--dest-server",
        ),
        _KUBECONFIG,
    ),
    "--kube-context": "Use --context NAME.",
    # How to apply.
    "--force-conflicts": "Use --conflicts force.",
    "--server-side": "Leave it out: every apply is a server-side apply.",
    "--client-side": "Leave it out: every apply is a server-side apply.",
    "--field-manager": "Leave it out: each set has a field manager of its own.",
    **dict.fromkeys(
        ("--overwrite", "--save-config"), "Leave it out: the server records who owns each field."
    ),
    "--validate": "Leave it out: the server checks every field.",
    "--replace": "Use --recreate to change immutable fields.",
    "--force": "Use --recreate to change immutable fields, --conflicts force to take fields of "
    "others.",
    "--self-heal": "Use --conflicts: `--conflicts revert` reverts drift.",
    "--take-ownership": "Use --adopt.",
    "--dangerous-override-ownership-of-existing-resources": "Use --adopt.",
    "--no-hooks": "Write helm-hooks: skip into applyprune.yaml.",
    **dict.fromkeys(("--atomic", "--rollback-on-failure", "--cleanup-on-fail"), _NO_ROLLBACK),
    **dict.fromkeys(
        ("--record", "--history-max", "--keep-history", "--description"),
        "Leave it out: applyprune history NAME shows the last runs.",
    ),
    **dict.fromkeys(
        ("--lock", "--state", "--backend-config"),
        "Leave it out: the inventory in the cluster is the state, and every run locks it.",
    ),
    **dict.fromkeys(
        ("--parallelism", "--concurrency", "--apply-concurrency"),
        "Leave it out: requests run side by side, as many as the server takes.",
    ),
    **dict.fromkeys(("--refresh", "--refresh-only", "--hard-refresh"), _CURRENT),
    # What to delete.
    "--prune-allowlist": "Leave it out: the inventory knows what to prune.",
    "--prune-whitelist": "Leave it out: the inventory knows what to prune.",
    "--destroy": _DELETE,
    **dict.fromkeys(
        ("delete --allow-kind", "delete --max-prune", "delete --allow-empty", "delete --approve"),
        _ALL_KINDS,
    ),
    "--cascade": "Write propagation: foreground, or orphan, into applyprune.yaml.",
    **{f"--{word}": "Use --orphan KIND/NAME." for word in ("keep", "retain")},
    **dict.fromkeys(
        ("--grace-period", "--now"),
        "Leave it out: terminationGracePeriodSeconds of a Pod says how long it may take to end.",
    ),
    "--ignore-not-found": "Leave it out: what is already gone is not an error.",
    "--dangerous-allow-empty-list-of-resources": "Use --allow-empty.",
    # What to show, and when to ask.
    **dict.fromkeys(("plan --dry-run", "diff --dry-run"), _CHANGES_NOTHING),
    **dict.fromkeys(("--diff", "--diff-changes", "-c"), "Use applyprune diff NAME -f PATH."),
    "--diff-run": _PLAN,
    "apply --out": "Use applyprune plan NAME --out FILE, and then applyprune apply --plan FILE.",
    "--detailed-exitcode": "Use applyprune plan NAME --exit-code, or applyprune diff NAME.",
    "--auto-approve": "Use --yes.",
    **dict.fromkeys(
        ("--no-input", "--non-interactive", "--assume-yes", "--assumeyes", "--batch"),
        "Use --yes.",
    ),
    "--input": "Use -f PATH. To be asked nothing: --yes.",
    "--interactive": "Write ask: always into applyprune.yaml.",
    **dict.fromkeys(("--json", "--yaml"), "Use -o json."),
    "--format": "Use -o FORMAT.",
    **dict.fromkeys(("--debug", "--log-level", "--verbosity", "--trace"), "Use -v."),
    "--silent": "Use -q.",
    **dict.fromkeys(
        ("--no-color", "--no-colour", "--color", "--colour"), "Set NO_COLOR=1 for no colours."
    ),
    "--for": "Use applyprune status NAME --wait.",
    "version --client": "Use applyprune --version.",
    "diff --exit-code": "Leave it out: diff exits with 1 if anything would change.",
    "--watch": "Use --wait, or afterwards applyprune status NAME --watch.",
    "--async": "Use --no-wait.",
    "--wait-for-jobs": "Use --wait.",
    **dict.fromkeys(
        ("--wait-timeout", "--request-timeout", "--health-check-timeout"), "Use --timeout TIME."
    ),
}
"""Options, some of one verb only: of kubectl, Helm, kapp, Flux, Argo CD and Terraform."""
COMMANDS = {
    "undo": _ROLLBACK,
    "get": "The sets: applyprune list. The objects of one: applyprune status NAME.",
    **dict.fromkeys(("ls", "ps", "apps"), _LISTED),
    "describe": "Use applyprune status NAME, or applyprune explain NAME KIND/NAME.",
    **dict.fromkeys(("create", "deploy", "sync", "upgrade", "update"), _APPLY),
    "adopt": "Apply its manifest: see --adopt of applyprune apply. To get it: applyprune import.",
    **dict.fromkeys(("export", "neat"), "Use applyprune import."),
    **dict.fromkeys(("template", "render"), _RENDER),
    **dict.fromkeys(("build", "kustomize"), "Use applyprune plan NAME -k DIR."),
    **dict.fromkeys(
        ("validate", "lint", "test"),
        "Use applyprune check -f PATH, or with a cluster: applyprune plan NAME -f PATH.",
    ),
    **dict.fromkeys(("preview", "dry-run", "refresh"), _PLAN),
    **dict.fromkeys(("destroy", "remove", "rm", "uninstall"), _DELETE),
    **dict.fromkeys(("rollout", "wait"), "Use applyprune status NAME --wait."),
    **dict.fromkeys(("health", "events", "inspect", "info"), _STATUS),
    "drift": "Use applyprune status NAME --drift.",
    "state": "Use applyprune inventory show NAME.",
    **dict.fromkeys(("patch", "edit", "replace", "scale", "set", "label", "annotate"), _CHANGE),
    **dict.fromkeys(("exec", "port-forward", "top", "cp", "attach", "run", "expose"), _KUBECTL),
    **dict.fromkeys(
        ("config", "login", "context", "use-context"),
        "Use kubectl config use-context NAME, or --context NAME.",
    ),
    "package": "Use applyprune push.",
    "bootstrap": "Use applyprune install.",
    "logs": "Use applyprune status NAME --logs.",
    "tree": "Use applyprune status NAME --tree.",
    **{
        verb: f"Use applyprune inventory {verb} NAME."
        for verb in ("repair", "show", "orphan", "release")
    },
    **{
        verb: f"Use applyprune bundle {verb} NAME."
        for verb in ("approve", "reconcile", "resume", "suspend")
    },
    **{verb: f"Use applyprune local {verb}." for verb in ("up", "down", "kubectl")},
    # Of groups.
    **dict.fromkeys(("bundle get", "bundle list", "bundle ls"), "Use kubectl get bundles."),
    **dict.fromkeys(
        ("bundle describe", "bundle show", "bundle status"), "Use kubectl describe bundle NAME."
    ),
    "bundle tree": "Use applyprune status NAME --tree.",
    "bundle logs": "Use kubectl logs on the controller's Pods.",
    **dict.fromkeys(("bundle sync", "bundle refresh"), "Use applyprune bundle reconcile NAME."),
    "bundle pause": "Use applyprune bundle suspend NAME.",
    **dict.fromkeys(
        ("bundle apply", "bundle create"), "A Bundle is an object: kubectl apply -f FILE."
    ),
    **dict.fromkeys(
        ("bundle delete", "bundle rm"), "A Bundle is an object: kubectl delete bundle NAME."
    ),
    **{f"inventory {word}": _LISTED for word in ("list", "ls")},
    **dict.fromkeys(("inventory get", "inventory describe"), "Use applyprune inventory show NAME."),
    **dict.fromkeys(("inventory delete", "inventory rm"), _DELETE),
    **dict.fromkeys(("move", "inventory move"), _MOVE),
    "inventory fix": "Use applyprune inventory repair NAME.",
    **dict.fromkeys(("local list", "local ls", "local ps"), "Use applyprune local status."),
    **dict.fromkeys(("local start", "local create"), "Use applyprune local up."),
    **dict.fromkeys(
        ("local stop", "local delete", "local rm", "local destroy"), "Use applyprune local down."
    ),
}
"""Commands; those of a group begin with its name."""
KEYS = {
    **dict.fromkeys(
        ("yes", "true"), "Use ask: never. To delete the set, give --yes on the command line."
    ),
    "force-conflicts": "Give --conflicts force on the command line, for the run that needs it.",
    **dict.fromkeys(
        ("sets", "applysets", "apps"),
        "A file is for one set. Give the file of another set with --config FILE.",
    ),
    **dict.fromkeys(("set", "app", "release", "applyset", "metadata"), "Use name: NAME."),
    **dict.fromkeys(
        ("f", "file", "files", "path", "paths", "input", "manifests", "resources"),
        "Use filename: PATH.",
    ),
    **dict.fromkeys(("k", "overlay", "overlays"), "Use kustomize: DIR."),
    **dict.fromkeys(
        ("kubeconfig", "cluster", "server"),
        "Use context: NAME. The kubeconfig is that of --kubeconfig or KUBECONFIG.",
    ),
    **dict.fromkeys(("values", "chart", "charts", "helm"), _RENDER),
    "spec": "Write the options beside name, without spec.",
    **dict.fromkeys(("output", "dry-run"), "Give it on the command line."),
}
"""Keys of ``applyprune.yaml``; YAML reads the key ``yes`` as true."""
_WITH_JQ = "Use -o json, and jq or yq."
OUTPUTS = {
    "yaml": "Use -o json.",
    "table": "Use -o text, or -o wide for all columns.",
    **dict.fromkeys(
        ("jsonpath", "jsonpath-as-json", "go-template", "template", "custom-columns"), _WITH_JQ
    ),
    "md": "Use -o markdown.",
    "ndjson": "Use -o jsonl.",
    **dict.fromkeys(("xml", "junit-xml"), "Use -o junit=FILE."),
}
"""Formats of ``-o``."""


def answer(table: Mapping[str, str], *words: str) -> str:
    """Return what to type instead of the first of ``words`` in that table; empty if none is."""
    return next((table[word] for word in words if word in table), "")


def did_you_mean_option(word: str, options: Iterable[click.Parameter]) -> str:
    """Return which option may be meant, as a question; a guess never disables a guard."""
    from applyprune.planning.names import did_you_mean

    safe = [one for one in options if not getattr(one, "guard", False)]
    words = [word for one in safe for word in (*one.opts, *one.secondary_opts)]
    return did_you_mean(word, [one for one in words if one.startswith("--")])


def refuse_arguments(verb: str, words: Sequence[str], files: Sequence[str]) -> None:
    """Raise UsageError if ``words`` that stand alone name manifests; ``files`` are those of -f.

    ``verb`` is the whole command.
    """
    looks = [word for word in words if "/" in word or word.endswith((".yaml", ".yml", ".json"))]
    # The name of a set may be that of a folder.
    paths = looks or [word for word in words[1:] if os.path.lexists(word)]
    if not paths:
        return
    first = shlex.quote(files[0] if files else paths[0])
    shown = f"{', '.join(paths[:3])}{' …' if len(paths) > 3 else ''}"
    if files:
        folder = os.path.dirname(files[0]) or "."  # noqa: PTH120 -- as it was given
        raise UsageError(
            f"unexpected arguments: {shown}",
            reason="-f takes one path, and the shell expanded a pattern into several",
            hint=f"Give the folder, -f {shlex.quote(folder)}, or quote the pattern.",
        )
    names = [word for word in words if word not in paths]
    name = shlex.quote(names[0]) if names else "NAME"
    raise UsageError(
        f"unexpected argument: {shown}",
        reason="manifests are given with -f",
        hint=f"Use {verb} {name} -f {first}",
    )


def refuse_before_command(
    error: click.NoSuchOption, ctx: click.Context, group: click.Group, args: Sequence[str]
) -> None:
    """Raise UsageError for an option before its command: kubectl and helm take it there, too."""
    words = list(args)
    command: click.Command | None = group
    verbs: list[str] = []
    while isinstance(command, click.Group):
        names = command.list_commands(ctx)
        at = next((at for at, word in enumerate(words) if word in names), None)
        if at is None:
            break
        verbs.append(words.pop(at))
        command = command.get_command(ctx, verbs[-1])
    params = command.params if command is not None and verbs else []
    known = {word for param in params for word in (*param.opts, *param.secondary_opts)}
    if {word.partition("=")[0] for word in words if word.startswith("-")} <= known:
        call = shlex.join([*ctx.command_path.split(), *verbs, *words])
        raise UsageError(
            f"{error.option_name} is before the command", hint=f"Options come after it: {call}"
        ) from None


def refuse_single_dash(verb: str, args: Sequence[str], options: Collection[str]) -> None:
    """Raise UsageError for a long option with one dash; ``args`` all have one."""
    for arg in args:
        word = f"-{arg.partition('=')[0]}"
        hint = answer(OPTIONS, f"{verb} {word}", word)
        if hint or word in options:
            hint = hint or f"Use {word}."
            raise UsageError(f"no such option {word[1:]}", hint=hint)


def refuse_list(path: str) -> None:
    """Raise UsageError for ``-f a.yaml,b.yaml``, which kubectl takes."""
    parts = path.split(",")
    if len(parts) > 1 and "://" not in path and not os.path.lexists(path):
        raise UsageError(
            f"-f {path} is one path, and does not exist",
            hint=f"Use {' '.join(f'-f {shlex.quote(part)}' for part in parts if part)}",
        )
