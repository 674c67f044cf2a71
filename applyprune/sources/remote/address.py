"""Parse the address of a source on another host, as ``-f`` gets it; no request is sent.

``git+https://HOST/REPO[//PATH][?ref=…]``, ``git+ssh://…``, ``oci://HOST/REPO[:TAG][@DIGEST][//PATH]``
and ``https://…/NAME.tar.gz[#path=PATH&digest=…]``. Everything else is a path, or another URL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from applyprune.errors import UsageError
from applyprune.planning.suggest import did_you_mean
from applyprune.sources.remote.file_tree import clean_path
from applyprune.sources.remote.url import host_of, login_of
from applyprune.sources.source import shown_path
from applyprune.values import dataclass, field, pattern, replace

ARCHIVE_SUFFIXES = (".tar.gz", ".tgz", ".tar")
"""How the path of an HTTPS URL ends if it is an archive and not a document."""

_REF_KEYS = ("ref", "branch", "tag", "semver", "commit")
_COMMIT = pattern(r"[0-9a-f]{40}")
_SCHEME = pattern(r"(git\+https|git\+ssh|oci|https)://", re.IGNORECASE)
_HOST = pattern(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?)(?::\d+)?")
_USER = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_REPOSITORY = pattern(f"{_PART}(?:/{_PART})*")
_TAG = pattern(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = pattern(r"sha256:[0-9a-f]{64}")
_PERCENT = pattern(r"%(?![0-9A-Fa-f]{2})")
_GIT_FORM = "git+https://HOST/REPO.git//PATH?ref=BRANCH"
_OCI_FORM = "oci://HOST/REPO:TAG"


@dataclass(frozen=True, slots=True)
class GitAddress:
    """A repository, which commit of it, and a path in it."""

    url: str = field(repr=False)
    """``https://…``, which may have a user and a password, or ``ssh://…``."""
    path: str = ""
    """The folder or file, as a FileTree has it; empty for the root."""
    ref: str = ""
    """A branch, a tag or a full commit ID; at most one of the following is not empty then."""
    branch: str = ""
    tag: str = ""
    semver: str = ""
    commit: str = ""
    """Without any of them, the default branch of the repository."""

    @property
    def shown(self) -> str:
        """Return the repository, safe to print: without user, password and query."""
        return shown_address(f"git+{self.url}")


@dataclass(frozen=True, slots=True)
class OciAddress:
    """A repository of a registry, which artifact of it, and a path in it."""

    host: str
    """With its port, if it is not 443."""
    repository: str
    tag: str = ""
    digest: str = ""
    semver: str = ""
    """A range of versions; only without a tag and a digest."""
    path: str = ""

    @property
    def shown(self) -> str:
        """Return the artifact, safe to print."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.name}{tag}" if self.tag or not self.digest else f"{self.name}@{self.digest}"

    @property
    def name(self) -> str:
        """Return the repository without a tag: ``oci://HOST/REPO``."""
        return f"oci://{self.host}/{self.repository}"


@dataclass(frozen=True, slots=True)
class ArchiveAddress:
    """An archive on a web server, and a path in it."""

    url: str = field(repr=False)
    """``https://…`` without a fragment; its user, password and query may be credentials."""
    path: str = ""
    digest: str = ""
    """``sha256:…`` of the archive, if it is given: nothing else is accepted."""

    @property
    def shown(self) -> str:
        """Return the archive, safe to print: without user, password, query and fragment."""
        return shown_address(self.url)


Address: TypeAlias = GitAddress | OciAddress | ArchiveAddress


def parse_address(text: str) -> Address | None:
    """Return the source and the path that ``text`` names; None if it names none.

    Raises UsageError for an address that is one of these, and is invalid.
    """
    found = _SCHEME.match(text)
    if found is None:
        return None
    scheme = found[1].lower()
    if scheme == "https" and not is_address(text):
        _refuse_document(text)
        return None
    parts = _split(text, scheme)
    match scheme:
        case "oci":
            return _oci(parts)
        case "https":
            return _archive(parts)
    return _git(parts, scheme.removeprefix("git+"))


def source_key(address: Address) -> Address:
    """Return the address of the whole source: equal for two addresses that differ in the path."""
    return replace(address, path="")


def is_address(text: str) -> bool:
    """Return whether ``parse_address`` takes a text for an address, a valid one or not."""
    found = _SCHEME.match(text)
    if found is None or found[1].lower() != "https":
        return found is not None
    path = re.split(r"[?#]", text, maxsplit=1)[0].lower()
    return path.endswith(ARCHIVE_SUFFIXES)


def shown_address(text: str) -> str:
    """Return an address, also an invalid one, safe to print: without user, password and query."""
    scheme, _, rest = text.partition("://")
    authority, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    host = authority.rpartition("@")[2]
    if _HOST.fullmatch(host) is None:
        # It may be a part of a password that has a slash.
        return f"{scheme.lower()}://…"
    return shown_path(f"{scheme.lower()}://{host}{slash}{path}")


def _split(text: str, scheme: str) -> SplitResult:
    form = {"oci": _OCI_FORM, "https": "https://HOST/NAME.tar.gz"}.get(scheme, _GIT_FORM)
    if any(char.isspace() or not char.isprintable() for char in text) or "\\" in text:
        raise _invalid(text, "it has a space, a backslash or a control character", _ESCAPE)
    if _PERCENT.search(text):
        raise _invalid(text, "a % is not followed by two hexadecimal digits", _ESCAPE)
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise _invalid(text, "its host or port is invalid", f"Write {form}.") from None
    if not parts.hostname:
        raise _invalid(text, "it has no host", f"Write {form}.")
    if _HOST.fullmatch(host_of(parts)) is None:
        raise _invalid(text, "its host or port is invalid", f"Write {form}.")
    return parts


_ESCAPE = "Write such characters as %20 and the like."


def _git(parts: SplitResult, transport: str) -> GitAddress:
    text = urlunsplit(parts)
    if parts.fragment:
        raise _invalid(text, "it has a fragment", f"Write a path after //: {_GIT_FORM}")
    repository, path = _repository_and_path(text, parts.path)
    if not repository.strip("/"):
        raise _invalid(text, "it names no repository", f"Write {_GIT_FORM}.")
    user, password = login_of(parts)
    if transport == "ssh" and password:
        raise _invalid(
            text, "a password in it would be shown to every process", "Use a key, or ssh-agent."
        )
    if user and _USER.fullmatch(user) is None:
        raise _invalid(text, "its user is invalid", f"Write {_GIT_FORM}.")
    found = GitAddress(f"{transport}://{parts.netloc}{repository}", path)
    values = _pairs(text, parts.query, _REF_KEYS, "query")
    if len(values) > 1 and values.keys() != {"branch", "commit"}:
        raise _invalid(
            text,
            f"{' and '.join(values)} exclude each other",
            "Give one of them; only a commit may have a branch beside it.",
        )
    if (commit := values.get("commit", "")) and _COMMIT.fullmatch(commit.lower()) is None:
        raise _invalid(
            text, "commit is not a full commit ID", "Give all 40 digits: git rev-parse NAME"
        )
    for key, value in values.items():
        if key != "semver" and not _is_ref_name(value):
            raise _invalid(text, f"{key} is not a name of Git", "Write it as in `git ls-remote`.")
    return replace(found, **{**values, **({"commit": commit.lower()} if commit else {})})


def _is_ref_name(name: str) -> bool:
    """Return whether Git may have a reference of this name; never an option of git."""
    if any(char.isspace() or not char.isprintable() or char in "~^:?*[\\" for char in name):
        return False
    if name.startswith("-") or name == "@" or ".." in name or "@{" in name:
        return False
    return not any(
        part in {"", "."} or part.startswith(".") or part.endswith((".", ".lock"))
        for part in name.split("/")
    )


def _oci(parts: SplitResult) -> OciAddress:
    text = urlunsplit(parts)
    if "@" in parts.netloc:
        raise _invalid(
            text, "it has a user", "Credentials are those of `docker login`: leave them out."
        )
    if parts.fragment:
        raise _invalid(text, "it has a fragment", f"Write a path after //: {_OCI_FORM}//PATH")
    named, path = _repository_and_path(text, parts.path)
    named, at, digest = named.lstrip("/").partition("@")
    repository, colon, tag = named.partition(":")
    if _REPOSITORY.fullmatch(repository) is None:
        raise _invalid(
            text,
            "its repository is invalid" if repository else "it names no repository",
            f"Write {_OCI_FORM}, in lower case.",
        )
    if colon and _TAG.fullmatch(tag) is None:
        raise _invalid(text, "its tag is invalid" if tag else "its tag is empty", _TAG_HINT)
    if at and _DIGEST.fullmatch(digest) is None:
        raise _invalid(
            text, "its digest is invalid", "Write @sha256: and 64 digits, or leave it out."
        )
    semver = _pairs(text, parts.query, ("semver",), "query").get("semver", "")
    if semver and (tag or digest):
        raise _invalid(
            text, "semver and a tag or digest exclude each other", "Give only one of them."
        )
    return OciAddress(parts.netloc, repository, tag, digest, semver, path)


_TAG_HINT = "Check for an unset variable in the script."


def _refuse_document(text: str) -> None:
    """Raise UsageError for the URL of a document if something else is meant."""
    fragment = text.partition("#")[2]
    if {pair.partition("=")[0] for pair in fragment.split("&")} & {"digest", "path"}:
        # Otherwise the digest would not be checked, and nobody would know.
        raise _invalid(
            text,
            "only an archive has a path and a digest",
            f"The path of its URL must end in {', '.join(ARCHIVE_SUFFIXES)}.",
        )
    path = re.split(r"[?#]", text, maxsplit=1)[0].lower()
    if path.endswith(".git") or ".git//" in path:
        raise _invalid(text, "a repository is not a document", f"Write {_GIT_FORM}.")


def _archive(parts: SplitResult) -> ArchiveAddress:
    text = urlunsplit(parts)
    values = _pairs(text, parts.fragment, ("path", "digest"), "fragment")
    digest = values.get("digest", "")
    if digest and _DIGEST.fullmatch(digest) is None:
        raise _invalid(text, "its digest is invalid", "Write digest=sha256: and 64 digits.")
    url = urlunsplit(("https", parts.netloc, parts.path, parts.query, ""))
    return ArchiveAddress(url, _clean(text, values.get("path", "")), digest)


def _repository_and_path(text: str, path: str) -> tuple[str, str]:
    """Return what is before and after the first ``//`` of a URL's path, the latter decoded."""
    repository, _, inner = path.partition("//")
    return repository, _clean(text, unquote(inner, errors="surrogateescape"))


def _clean(text: str, path: str) -> str:
    found = clean_path(path)
    if found is None:
        raise _invalid(
            text, "its path is not inside the source", "Write a path without .. and empty parts."
        )
    return found


def _pairs(text: str, query: str, keys: Sequence[str], place: str) -> Mapping[str, str]:
    """Return the values of a query or a fragment; raise UsageError for what is not in ``keys``."""
    values: dict[str, str] = {}
    for pair in query.split("&") if query else ():
        key, _, value = pair.partition("=")
        if key not in keys:
            hint = did_you_mean(key, keys) or f"Its {place} may have {', '.join(keys)}."
            # The key may be a credential too: it is not repeated.
            raise _invalid(text, f"its {place} has an unknown key", hint)
        if key in values:
            raise _invalid(text, f"its {place} has {key} twice", "Give it once.")
        if not value:
            raise _invalid(text, f"its {key} is empty", _TAG_HINT)
        values[key] = unquote(value, errors="surrogateescape")
    return values


def _invalid(text: str, reason: str, hint: str) -> UsageError:
    return UsageError(f"invalid address {shown_address(text)}", reason=reason, hint=hint)
