"""``applyprune push`` and ``init``: publish manifests as an artifact; write a configuration."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.complete import FILE_PATH
from applyprune.cli.config import FILE
from applyprune.cli.options import CLUSTER, CONFIG, INPUT, OUTPUT, TIMEOUT, Option, command
from applyprune.errors import ApplypruneError, EmptyInput, InputError, UsageError, raise_all
from applyprune.model.live import SECRETS
from applyprune.model.object_yaml import as_yaml
from applyprune.model.problem import Manifest, Problem, ProblemKind
from applyprune.output.problem_text import problem_text
from applyprune.planning.desired import defined_twice
from applyprune.planning.normalize import canonical
from applyprune.sources import Input
from applyprune.sources.excerpt import document_around, lines_of
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.session import InputPaths
    from applyprune.model.events import Event
    from applyprune.sources.address import OciAddress


@command(
    click.Argument(("artifact",), metavar="oci://HOST/NAME:TAG"),
    CONFIG,
    INPUT,
    OUTPUT,
    Option("--dry-run", is_flag=True, help="Print the digest, and send nothing."),
    TIMEOUT.but(help="How long the push may take."),
)
def push(
    artifact: str,
    paths: InputPaths,
    reporting: Reporting,
    dry_run: bool,
    timeout: float,
) -> int:
    """Publish manifests as an artifact in an OCI registry, and print its digest.

    The input is read as `apply` reads it, also by applyprune.yaml. The artifact can be applied with
    `-f oci://…`, and Flux and Argo CD can read it. The same objects always give the same digest. A
    Secret is refused, unless SOPS has encrypted it. The credentials are those of `docker login`.

    \b
    Examples:
      applyprune push oci://registry.example.com/shop/web:1.4.0 -f manifests/
      applyprune push oci://registry.example.com/shop/web:1.4.0 -k prod --dry-run
    """
    address = _address(artifact)
    if not paths.paths:
        raise UsageError("no input given", hint="Give -f PATH or -k DIR.")
    return reporting.print_events(_events(address, paths, dry_run=dry_run, timeout=timeout))


_FORM = "Write oci://HOST/NAME:TAG."


def _address(text: str) -> OciAddress:
    from applyprune.sources.address import is_address, parse_address, shown_address

    address = parse_address(text) if is_address(text) else None
    if address is None:
        raise UsageError(f"{shown_address(text)!r} is not an address of a registry", hint=_FORM)
    if not address.ref.tag or address.path:
        reason = "it has a path" if address.path else "it names no tag"
        raise UsageError(f"cannot push to {address.shown}", reason=reason, hint=_FORM)
    return address


def _events(
    address: OciAddress,
    paths: InputPaths,
    *,
    dry_run: bool,
    timeout: float,
) -> Iterator[Event]:
    from applyprune.cli.session import input_reader, read_input
    from applyprune.model.reports import ArtifactPushed
    from applyprune.sources.address import NEWEST
    from applyprune.sources.oci_artifact import artifact_source, pack
    from applyprune.sources.oci_artifact import push as send
    from applyprune.sources.tree import VerificationFailed

    given = yield from read_input(input_reader(paths))
    files = artifact_files(given)
    digest = pack(files).digest
    named, expected = f"{address.name}:{address.ref.tag}", address.ref.digest
    if expected not in {"", digest}:
        raise VerificationFailed(
            "the input has another digest", location=named, reason=f"{digest}, not {expected}"
        )
    if not dry_run:
        source = artifact_source(address, os.environ)
        digest = send(replace(source, url=named, ref=NEWEST, timeout=timeout), files)
    yield ArtifactPushed(f"{named}@{digest}", digest, len(given), dry_run)


# The files of an artifact. Everything is sorted, so that the same objects give the same files. A
# document that SOPS has encrypted keeps its text: its MAC is about the order of its values, and in
# a file with others no tool could decrypt it.


MANIFESTS = "manifests.yaml"
ENCRYPTED = "encrypted"
"""The folder of documents that SOPS has encrypted."""


def artifact_files(given: Input) -> Mapping[str, bytes]:
    """Return the files of an artifact with all objects of an input, by their paths.

    Raises EmptyInput for no object, InputError for an object that is in the input twice, and for a
    Secret that is not encrypted.
    """
    if not given:
        raise EmptyInput("the input contains no manifest", hint="An artifact is never empty.")
    manifests = _once(given)
    # guard: pushed-secrets
    raise_all([_readable_secret(one) for one in manifests if _is_readable_secret(one)])
    plain: list[Manifest] = []
    encrypted: dict[tuple[str, str], list[str]] = {}
    for manifest in manifests:
        if (mac := _mac(manifest.body)) is not None:
            # The documents of one file have one MAC, which is about all of them.
            file = encrypted.setdefault((manifest.origin.path, mac), [])
            file.append(_text_of(manifest, given.texts))
        else:
            plain.append(manifest)
    texts = sorted("---\n".join(documents) for documents in encrypted.values())
    files = {f"{ENCRYPTED}/{number}.yaml": text for number, text in enumerate(texts, 1)}
    if plain:
        bodies = ("\n".join(*as_yaml(one.body)) for one in sorted(plain, key=_identity))
        files[MANIFESTS] = "".join(f"---\n{body}\n" for body in bodies)
    return {path: text.encode() for path, text in files.items()}


def _once(given: Input) -> list[Manifest]:
    """Return each object once; raise InputError for each that is there again with other values."""
    first: dict[tuple[object, ...], Manifest] = {}
    errors = []
    for manifest in given:
        key = (manifest.gvk.group_kind, manifest.namespace, manifest.name)
        other = first.setdefault(key, manifest)
        # What SOPS has encrypted has a MAC over all documents of its file.
        is_equal = canonical(other.body) == canonical(manifest.body) and _mac(other.body) is None
        if other is not manifest and not is_equal:
            errors.append(defined_twice(_named(manifest), manifest.origin, other.origin))
    raise_all(errors)
    return list(first.values())


def _readable_secret(manifest: Manifest) -> InputError:
    return InputError(
        f"{_named(manifest)} is not encrypted",
        location=manifest.origin,
        reason="whoever can pull the artifact could read its values",
        hint="Encrypt it with SOPS, or leave it out, and apply it as a set of its own.",
    )


def _named(manifest: Manifest) -> str:
    place = f" in namespace {manifest.namespace}" if manifest.namespace else ""
    return f"{manifest.gvk.kind} {manifest.name}{place}"


def _is_readable_secret(manifest: Manifest) -> bool:
    """Return whether anybody who can pull the artifact could read a value of a Secret."""
    if manifest.gvk.group_kind != SECRETS.group_kind:
        return False
    # The metadata of SOPS alone proves nothing: a value may have been added later.
    fields = (manifest.body.get(name) for name in ("data", "stringData"))
    return _mac(manifest.body) is None or not all(map(_is_ciphertext, fields))


_CIPHERTEXT = pattern(r"ENC\[AES256_GCM,data:[^,\]]*,iv:[^,\]]+,tag:[^,\]]+,type:\w+\]")


def _is_ciphertext(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_ciphertext, value.values()))
    return value is None or (
        isinstance(value, str) and (not value or _CIPHERTEXT.fullmatch(value) is not None)
    )


def _mac(body: Mapping[str, Any]) -> str | None:
    """Return the MAC of an object that SOPS has encrypted; None for another object."""
    sops = body.get("sops")
    mac = sops.get("mac") if isinstance(sops, Mapping) else None
    return mac if isinstance(mac, str) else None


def _text_of(manifest: Manifest, texts: Mapping[str, str]) -> str:
    """Return the text of the document that a manifest is in."""
    origin = manifest.origin
    text = texts[origin.path]
    first, end = document_around(text, origin.line)
    lines = list(lines_of(text)[first:end])
    lines[0] = lines[0].removeprefix("---").lstrip()
    return "\n".join(lines).strip("\n") + "\n"


def _identity(manifest: Manifest) -> tuple[str, ...]:
    gvk = manifest.gvk
    return (manifest.namespace, gvk.group, gvk.kind, manifest.name, gvk.version)


# ``init``.


SCHEMA_FILE = "applyprune.schema.json"
"""One for all configurations of a repository: editors need no network."""
_SCHEMA = Path(__file__).parents[1] / "output/schemas/config.json"


@command(
    click.Argument(("name",), required=False, default=""),
    INPUT[0].but(sets="", help="The manifests of the set. Repeatable."),
    INPUT[1].but(sets="", help="A kustomization of the set. Repeatable."),
    CLUSTER[2].but(sets="", help="Namespace of the inventory, and of manifests without one."),
    CLUSTER[1].but(
        sets="",
        help="The context that must be in use.  [env: APPLYPRUNE_CONTEXT; default: the current "
        "one of the kubeconfig]",
    ),
    CLUSTER[0].but(sets="", help="The kubeconfig whose current context is written."),
    Option(
        "--config",
        heading="Input",
        default=FILE,
        type=FILE_PATH,
        metavar="FILE",
        show_default=True,
        help="The file to write.",
    ),
    Option("--schema", is_flag=True, help=f"Also, or only, write {SCHEMA_FILE} here."),
    OUTPUT,
)
def init(
    name: str,
    paths: tuple[str, ...],
    kustomize: tuple[str, ...],
    namespace: str,
    context: str,
    kubeconfig: str,
    config: str,
    schema: bool,
    reporting: Reporting,
) -> int:
    """Write an applyprune.yaml for the set NAME.

    The file is for the context in which you run this: in another one, applyprune refuses to run.
    Editors with the YAML language server check it by the JSON Schema that its first line names: the
    nearest one at or above the file. Write that once, at the root of the repository, by --schema.
    No existing file is overwritten. No cluster is asked.

    \b
    Examples:
      applyprune init web -f manifests/
      applyprune init web -f manifests/ -n shop --context prod
      applyprune init web -k overlays/prod --config prod/applyprune.yaml
      applyprune init --schema
    """
    from applyprune.planning.applyset import applyset_identity

    schemas = {Path(SCHEMA_FILE): _SCHEMA.read_text(encoding="utf-8")} if schema else {}
    if schemas and not (name or paths or kustomize):
        _write(schemas)
        return reporting.print_text(f"{SCHEMA_FILE} written")
    if not name:
        raise UsageError("missing argument NAME", hint="Usage: applyprune init [OPTIONS] NAME")
    applyset_identity(name, namespace or "default")  # raises UsageError for an invalid name
    if "-" in {*paths, *kustomize}:
        raise UsageError("standard input cannot be the input of a configuration")
    from applyprune.cli.session import CONTEXT

    context = context or os.environ.get(CONTEXT, "") or _current_context(kubeconfig)
    file = Path(config)
    settings = {
        "name": name,
        "namespace": namespace,
        "context": context,
        "filename": [_seen_from(file.parent, path) for path in paths],
        "kustomize": [_seen_from(file.parent, path) for path in kustomize],
    }
    _write({file: _text(settings, _schema_for(file, is_new=schema)), **schemas})
    if not (paths or kustomize) and not reporting.quiet:
        reporting.terminal.err(problem_text("warning", _without_input(file)))
    option = "" if config == FILE else f" --config {shlex.quote(config)}"
    return reporting.print_text(
        f"{' and '.join(map(str, (file, *schemas)))} written\n"
        f"{_for_context(context)}\n"
        f"Next: applyprune plan{option}"
    )


def _schema_for(file: Path, *, is_new: bool) -> str:
    """Return the nearest schema at or above a file, as seen from it; else that of this folder.

    ``is_new`` says that the schema of this folder is being written.
    """
    folder = file.parent.resolve()
    above = () if is_new else (folder, *folder.parents)
    root = next((one for one in above if (one / SCHEMA_FILE).is_file()), Path.cwd())
    return Path(os.path.relpath(root / SCHEMA_FILE, folder)).as_posix()


def _current_context(kubeconfig: str) -> str:
    """Return the current context; empty without a kubeconfig."""
    from applyprune.cluster.credentials import candidate_files, load_kubeconfig

    return load_kubeconfig(candidate_files(kubeconfig, os.environ)).current_context


def _for_context(context: str) -> str:
    if not context:
        return "It is for every context, because none is in use here: add context: NAME."
    return f"It is for the context {context}: in another one, applyprune refuses to run."


def _without_input(file: Path) -> Problem:
    return Problem(
        ProblemKind.USAGE_ERROR,
        "no input given",
        hint=f"Add filename or kustomize to {file}, or give -f or -k in each call.",
    )


def _seen_from(folder: Path, path: str) -> str:
    """Return a path that was given from here as the file in a folder must name it."""
    if "://" in path or Path(path).is_absolute() or folder == Path():
        return path
    end = "/" if path.endswith("/") else ""
    return f"{os.path.relpath(path, folder)}{end}"


def _write(texts: Mapping[Path, str]) -> None:
    """Write all files or none; raise UsageError if one exists and says something else."""
    for path in texts:
        if path.exists() and not path.is_file():
            # To open a pipe may never end.
            raise UsageError(f"{path} is not a regular file", hint="Nothing was written.")
    _refuse([path for path, text in texts.items() if _differs(path, text)])
    for path, text in texts.items():
        if path.exists():
            continue  # it is the same already
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            _refuse([path])
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ApplypruneError(f"{path} cannot be written", reason=reason or "") from error


def _refuse(existing: Sequence[Path]) -> None:
    if existing:
        raise UsageError(
            f"{' and '.join(map(str, existing))} exists already",
            hint="Remove it first. Nothing was written.",
        )


def _differs(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") != text
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True


def _text(settings: Mapping[str, object], schema: str) -> str:
    from applyprune.sources.folders import API_VERSION, KIND

    lines = [
        f"# yaml-language-server: $schema={schema}",
        f"apiVersion: {API_VERSION}",
        f"kind: {KIND}",
        *(line for key, value in settings.items() if value for line in _lines(key, value)),
    ]
    return "\n".join((*lines, ""))


def _lines(key: str, value: object) -> Iterator[str]:
    # A text of JSON is a text of YAML too, whatever is in it.
    if key == "context" and isinstance(value, str):
        yield "# A condition: if another context is in use, applyprune refuses to run. To use this"
        yield "# one wherever you stand: {name: NAME, use: true}"
    if isinstance(value, list):
        yield f"{key}:"
        yield from (f"  - {json.dumps(text, ensure_ascii=False)}" for text in value)
    else:
        yield f"{key}: {json.dumps(value, ensure_ascii=False)}"
