"""Which files an artifact has: the objects of an input in one file, and what SOPS has encrypted.

Everything is sorted, so that the same objects give the same files, wherever they were read. A
document that SOPS has encrypted keeps its text: its MAC is about the order of its values, and in a
file with others no tool could decrypt it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from applyprune.errors import EmptyInput, InputError, raise_all
from applyprune.model.manifest import Manifest
from applyprune.model.resources import SECRETS
from applyprune.output.diff_text import as_yaml
from applyprune.sources import Input
from applyprune.sources.excerpt import document_around, lines_of
from applyprune.values import pattern

MANIFESTS = "manifests.yaml"
ENCRYPTED = "encrypted"
"""The folder of documents that SOPS has encrypted."""

_CIPHERTEXT = pattern(r"ENC\[AES256_GCM,data:[^,\]]*,iv:[^,\]]+,tag:[^,\]]+,type:\w+\]")


def artifact_files(given: Input, *, with_secrets: bool) -> Mapping[str, bytes]:
    """Return the files of an artifact with all objects of an input, by their paths.

    Raises EmptyInput for no object, InputError for an object that is in the input twice, and for a
    Secret that is not encrypted, unless ``with_secrets``.
    """
    if not given:
        raise EmptyInput("the input contains no manifest", hint="An artifact is never empty.")
    _refuse_repeated(given)
    if not with_secrets:  # guard: pushed-secrets
        raise_all([_readable_secret(one) for one in given if _is_readable_secret(one)])
    plain: list[Manifest] = []
    encrypted: dict[tuple[str, str], list[str]] = {}
    for manifest in given:
        if (mac := _mac(manifest.body)) is not None:
            # The documents of one file have one MAC, which is about all of them.
            file = encrypted.setdefault((manifest.origin.path, mac), [])
            file.append(_text_of(manifest, given.texts))
        else:
            plain.append(manifest)
    texts = sorted("---\n".join(documents) for documents in encrypted.values())
    files = {f"{ENCRYPTED}/{number}.yaml": text for number, text in enumerate(texts, 1)}
    if plain:
        files[MANIFESTS] = _documents(sorted(plain, key=_identity))
    return {path: text.encode() for path, text in files.items()}


def _documents(manifests: Iterable[Manifest]) -> str:
    texts = ("\n".join(*as_yaml(manifest.body)) for manifest in manifests)
    return "".join(f"---\n{text}\n" for text in texts)


def _identity(manifest: Manifest) -> tuple[str, ...]:
    gvk = manifest.gvk
    return (manifest.namespace, gvk.group, gvk.kind, manifest.name, gvk.version)


def _refuse_repeated(given: Input) -> None:
    """Raise InputError for each object that is there more than once."""
    first: dict[tuple[object, ...], Manifest] = {}
    errors = []
    for manifest in given:
        key = (manifest.gvk.group_kind, manifest.namespace, manifest.name)
        if (other := first.setdefault(key, manifest)) is not manifest:
            errors.append(
                InputError(
                    f"{_named(manifest)} is in the input twice",
                    location=manifest.origin,
                    hint=f"The other one: {other.origin}.",
                )
            )
    raise_all(errors)


def _is_readable_secret(manifest: Manifest) -> bool:
    """Return whether anybody who can pull the artifact could read a value of a Secret."""
    if manifest.gvk.group_kind != SECRETS.group_kind:
        return False
    # The metadata of SOPS alone proves nothing: a value may have been added later.
    fields = (manifest.body.get(name) for name in ("data", "stringData"))
    return _mac(manifest.body) is None or not all(map(_is_ciphertext, fields))


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


def _readable_secret(manifest: Manifest) -> InputError:
    return InputError(
        f"{_named(manifest)} is not encrypted",
        location=manifest.origin,
        reason="whoever can pull the artifact could read its values",
        hint="Encrypt it with SOPS, or push it with --with-secrets.",
    )


def _named(manifest: Manifest) -> str:
    place = f" in namespace {manifest.namespace}" if manifest.namespace else ""
    return f"{manifest.gvk.kind} {manifest.name}{place}"


def _text_of(manifest: Manifest, texts: Mapping[str, str]) -> str:
    """Return the text of the document that a manifest is in."""
    origin = manifest.origin
    text = texts[origin.path]
    first, end = document_around(text, origin.line)
    lines = list(lines_of(text)[first:end])
    lines[0] = lines[0].removeprefix("---").lstrip()
    return "\n".join(lines).strip("\n") + "\n"
