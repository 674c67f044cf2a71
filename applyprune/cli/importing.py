"""``applyprune import``: clean manifests of what lives in the cluster, in files."""

from __future__ import annotations

import os
import shlex
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.cli.complete import FILE_PATH
from applyprune.cli.options import (
    ALL_NAMESPACES,
    CLUSTER,
    CONFIG,
    LIST_OUTPUT,
    OBJECTS,
    SELECTION,
    Option,
    command,
)
from applyprune.errors import ApplypruneError, RunFailed, UsageError
from applyprune.model.events import ErrorRaised
from applyprune.model.object_yaml import as_manifest
from applyprune.model.options import ImportOptions
from applyprune.model.reports import ImportEnded, ManifestMade
from applyprune.model.text import and_more, counted, is_dns_label
from applyprune.planning.normalize import may_be_secret
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.identity import Ref
    from applyprune.model.text import Selector

_STANDARD_OUTPUT = "-"
_ONE_FILE = "manifests.yaml"
_KUSTOMIZATION = "kustomization.yaml"
_SHOWN = 3


@command(
    OBJECTS,
    CONFIG,
    SELECTION[0].but(
        rare=False, sets="", help="Only the objects that have these labels in the cluster."
    ),
    Option(
        "--from",
        "source",
        heading="Input",
        default="",
        metavar="TOOL:NAME",
        help="Only what another tool has recorded: helm, kapp, flux, argo, applyset or cli-utils, "
        "and the name of its release, app or inventory in the namespace.",
    ),
    Option(
        "--out",
        heading="Output",
        type=FILE_PATH,
        metavar="DIR",
        help="The folder to write to; - prints the manifests.",
    ),
    Option("--one-file", heading="Output", is_flag=True, help=f"Write one file, {_ONE_FILE}."),
    Option(
        "--kustomization",
        heading="Output",
        is_flag=True,
        help=f"Write a {_KUSTOMIZATION} that names the files.",
    ),
    Option(
        "--secrets",
        is_flag=True,
        help="Write Secrets too, with their values, in files that only you can read.",
    ),
    Option(
        "--list",
        "lists",
        is_flag=True,
        help="Write nothing, and list what lives there, and under whom.",
    ),
    CLUSTER[:2],
    CLUSTER[2].but(help="Namespace of the objects, or of the record.  [env: APPLYPRUNE_NAMESPACE]"),
    ALL_NAMESPACES.but(help="The objects of all namespaces, and those without one."),
    LIST_OUTPUT,
    name="import",
)
def import_(
    objects: tuple[str, ...],
    selector: Selector | None,
    source: str,
    out: str | None,
    one_file: bool,
    kustomization: bool,
    secrets: bool,
    lists: bool,
    cluster_target: ClusterTarget,
    all_namespaces: bool,
    reporting: Reporting,
) -> int:
    """Write clean manifests of what lives in the cluster, as a person would have written them.

    They are without what the server, controllers and other tools have added. Dry runs prove each:
    the server would create the same object, and an apply changes nothing. Without KIND/NAME and
    --from, it is every object of the namespace. What owners and controllers make is left out, and
    what another set has. No file is overwritten, and the cluster does not change.

    \b
    Examples:
      applyprune import --list -A
      applyprune import -n legacy --out deploy/legacy
      applyprune import --from helm:ingress -n ingress --out deploy/ingress
      applyprune import deployment/web -n shop --out -
    """
    if bool(out) == lists:
        raise UsageError(
            "--list writes nothing" if lists else "nothing says where to write",
            hint="Give either --list or --out DIR; --out - prints the manifests.",
        )
    if objects and (source or selector or all_namespaces):
        raise UsageError("KIND/NAME excludes -l, --from and -A")
    if source and all_namespaces:
        raise UsageError(
            "--from excludes -A", hint="A record is in one namespace: give it with -n."
        )
    options = ImportOptions(objects, selector, source, all_namespaces, secrets)
    if lists:
        return reporting.print_events(_listed(cluster_target, options))
    place = _Place(str(out), one_file=one_file, kustomization=kustomization)
    return reporting.print_events(_written(cluster_target, options, place))


def _listed(cluster_target: ClusterTarget, options: ImportOptions) -> Iterator[Event]:
    from applyprune.cli.session import open_session
    from applyprune.engine.import_objects import owners
    from applyprune.sources.documents import stored_documents

    with open_session(cluster_target) as session:
        client, namespace = session.cluster.client, session.cluster.namespace
        yield from owners(client, namespace, options, session.stop, stored_documents)


class _Place(Struct, frozen=True):
    """Where the manifests go."""

    folder: str
    one_file: bool
    kustomization: bool

    @property
    def prints(self) -> bool:
        return self.folder == _STANDARD_OUTPUT


def _written(
    cluster_target: ClusterTarget, options: ImportOptions, place: _Place
) -> Iterator[Event]:
    """Yield the events of an import; the files are written once all manifests are there."""
    from applyprune.cli.session import open_session
    from applyprune.engine.import_objects import import_objects
    from applyprune.sources.documents import stored_documents

    made: list[ManifestMade] = []
    failed = 0
    ended = ImportEnded({})
    with open_session(cluster_target) as session:
        client, namespace = session.cluster.client, session.cluster.namespace
        for event in import_objects(client, namespace, options, session.stop, stored_documents):
            match event:
                case ManifestMade():
                    made.append(event)
                case ImportEnded():
                    ended = event
                case _:
                    failed += isinstance(event, ErrorRaised)
                    yield event
    paths = {} if place.prints else _paths([one.ref for one in made], place)
    if paths:
        _write(made, paths, place)
    yield from (replace(one, path=paths[one.ref], manifest=None) if paths else one for one in made)
    kinds = dict(sorted(Counter(one.ref.kind for one in made).items()))
    where = "" if place.prints else place.folder
    step = _next(namespace, options, made, place) if made and where else ""
    yield replace(ended, kinds=kinds, path=where, next=step)
    if failed:
        raise RunFailed(f"{counted(failed, 'object', 'was', 'were')} not written")


# The files: one an object, in a folder for each namespace if there are several.


_UNUSUAL = pattern(r"[^A-Za-z0-9._-]")


def _paths(refs: Sequence[Ref], place: _Place) -> Mapping[Ref, str]:
    """Return the file of each object; no two have the same, also where case does not count."""
    folder = Path(place.folder)
    if place.one_file:
        return dict.fromkeys(refs, str(folder / _ONE_FILE))
    many = len({ref.namespace for ref in refs} - {""}) > 1
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for ref in refs:
        groups[ref.kind].add(ref.group)
    found: dict[Ref, str] = {}
    taken: set[str] = set()
    for ref in refs:
        kind = ref.kind if len(groups[ref.kind]) == 1 else f"{ref.kind}.{ref.group}"
        stem = _UNUSUAL.sub("_", f"{kind.lower()}-{ref.name}")
        base = folder / ref.namespace / stem if many else folder / stem
        number, path = 1, f"{base}.yaml"
        while path.lower() in taken:
            number += 1
            path = f"{base}-{number}.yaml"
        taken.add(path.lower())
        found[ref] = path
    return found


def _write(made: Sequence[ManifestMade], paths: Mapping[Ref, str], place: _Place) -> None:
    """Write all files; raise UsageError if one of them exists, before any is written."""
    texts: dict[str, list[str]] = {}
    private: set[str] = set()
    for one in made:
        path = paths[one.ref]
        body = one.manifest or {}
        texts.setdefault(path, []).append(as_manifest(body))
        if may_be_secret(body):
            private.add(path)
    whole = {path: "---\n".join(documents) for path, documents in texts.items()}
    if place.kustomization:
        whole[str(Path(place.folder) / _KUSTOMIZATION)] = _kustomization(texts, place.folder)
    if existing := sorted(path for path in whole if os.path.lexists(path)):
        raise UsageError(
            f"{and_more(existing, _SHOWN)} exists already"
            if len(existing) == 1
            else f"{and_more(existing, _SHOWN)} exist already",
            hint="Nothing was written. Give another folder, or remove them first.",
        )
    for path, text in whole.items():
        # guard: private-secrets -> 0o644
        mode = 0o600 if path in private else 0o644
        _create(path, text, mode)


def _create(path: str, text: str, mode: int) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        # Whatever has come to be there meanwhile, a link too, is not written to.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(file, "w", encoding="utf-8", errors="surrogatepass", newline="") as out:
            out.write(text)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already", hint="It was not overwritten.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ApplypruneError(f"{path} cannot be written", reason=reason or "") from error


def _kustomization(paths: Iterable[str], folder: str) -> str:
    named = sorted(Path(os.path.relpath(path, folder)).as_posix() for path in paths)
    return as_manifest(
        {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": named,
        }
    )


def _next(
    namespace: str, options: ImportOptions, made: Sequence[ManifestMade], place: _Place
) -> str:
    """Return the command that shows what an adoption would do."""
    named = options.source.partition(":")[2] or Path(place.folder).name
    name = named if is_dns_label(named) else namespace
    option = "-k" if place.kustomization else "-f"
    words = ["applyprune", "plan", name, "-n", namespace, option, place.folder]
    # Of another tool, nothing is adopted unless somebody says so.
    words += ["--adopt=all"] if any(one.tool for one in made) else []
    return shlex.join(words)
