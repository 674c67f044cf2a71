"""What names a source on another host, and a version of it: parsed and checked.

A command takes the address of an artifact, ``oci://HOST/REPO[:TAG][@DIGEST][//PATH]``; a Bundle has
the URL of a Git repository or of an artifact, and a reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from msgspec import Struct

from applyprune.addresses import (
    AddressRules,
    Endpoint,
    InvalidHost,
    bracketed,
    endpoint_anywhere,
    endpoint_of,
)
from applyprune.errors import UsageError
from applyprune.sources.tree import ANONYMOUS, SourceCredentials, TreeLimits, clean_path, shown_path
from applyprune.values import hiding, pattern, replace

SCHEME = "oci://"
_GIT_ADDRESS = pattern(
    r"(?:git|ssh|git\+\w+)://|https://[^?#]*\.git(?:$|[?#]|//)|git@[^/:]+:|"
    r"[^/:@]+@[^/:@]+:[^?#]*\.git(?:$|[?#]|//)",
    re.IGNORECASE,
)
"""The forms that Git, kustomize and Terraform have; also ``git@HOST:PATH``."""
_ARCHIVE = pattern(r"https://[^?#]*\.(?:tar\.gz|tgz|tar)(?:$|[?#])", re.IGNORECASE)


def parse_address(text: str) -> OciAddress | None:
    """Return the artifact and the path that ``text`` names; None if it is a path or another URL.

    Raises UsageError for an invalid address, and for one of what no command reads: a Git
    repository, an archive, a range of versions.
    """
    if not is_address(text):
        _refuse_unread(text)
        return None
    if any(char.isspace() or not char.isprintable() for char in text) or "\\" in text:
        raise _invalid(text, "it has a space, a backslash or a control character", _ESCAPE)
    if _PERCENT.search(text):
        raise _invalid(text, "a % is not followed by two hexadecimal digits", _ESCAPE)
    try:
        endpoint_anywhere(text)
    except InvalidHost as error:
        raise _invalid(text, str(error), f"Write {_OCI_FORM}.") from None
    parts = urlsplit(text)
    _refuse_parts(text, parts)
    named, _, inner = parts.path.partition("//")
    path = clean_path(unquote(inner, errors="surrogateescape"))
    if path is None:
        raise _invalid(
            text, "its path is not inside the source", "Write a path without .. and empty parts."
        )
    try:
        found = parse_reference(f"{SCHEME}{parts.netloc}{named}")
    except UsageError as error:
        raise _invalid(text, error.reason, error.hint or f"Write {_OCI_FORM}.") from None
    return OciAddress(found.host, found.repository, OciRef(found.tag, digest=found.digest), path)


def _refuse_parts(text: str, parts: SplitResult) -> None:
    """Raise UsageError for what the address of an artifact has no place for."""
    if "@" in parts.netloc:
        raise _invalid(text, "it has a user", "Leave it out: credentials come from `docker login`.")
    if parts.fragment:
        raise _invalid(text, "it has a fragment", f"Write a path after //: {_OCI_FORM}//PATH")
    if parts.query.startswith("semver="):
        raise _invalid(
            text,
            "a range of versions is not read",
            "Name a tag or a digest, or follow the range with a Bundle.",
        )
    if parts.query:
        # It may be a credential: it is not repeated.
        raise _invalid(text, "it has a query", f"Write {_OCI_FORM}.")


def _refuse_unread(text: str) -> None:
    """Raise UsageError for a Git repository, and for an archive at a URL."""
    if ":" not in text:
        return
    if _GIT_ADDRESS.match(text):
        raise _invalid(text, "a Git repository by URL is not read", _CLONE_IT)
    if _ARCHIVE.match(text):
        raise _invalid(text, "an archive by URL is not read", _PUSH_IT)


def is_address(text: str) -> bool:
    """Return whether ``parse_address`` takes a text for an address, a valid one or not."""
    return text[: len(SCHEME)].lower() == SCHEME


def source_key(address: OciAddress) -> OciAddress:
    """Return the address of the whole source: equal for two addresses that differ in the path."""
    return replace(address, path="")


def shown_address(text: str) -> str:
    """Return an address, also an invalid one, safe to print: without user, password and query."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return shown_path(re.split(r"[?#]", text, maxsplit=1)[0].rpartition("@")[2])
    authority, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    host = authority.rpartition("@")[2]
    if _HOST.fullmatch(host) is None and ("@" in text or not host):
        # It may be a part of a password that has a slash.
        return f"{scheme.lower()}://…"
    return shown_path(f"{scheme.lower()}://{host}{slash}{path}")


# Which version of a source: the same checks hold for an address, for a Bundle and for a fetch.


# What git itself forbids, and a dash at the beginning, which could be an option.
_FORBIDDEN = pattern(r"^[-/.]|[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|[/.]$|^@$|^$")
_COMMIT = pattern(r"[0-9a-f]{40}")
_TAG = pattern(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = pattern(r"sha256:[0-9a-f]{64}")
_TAG_FORM = (
    "A tag has up to 128 letters, digits, dots, dashes and underscores, and does not begin with "
    "a dot or a dash."
)
_UNSET = "Check for an unset variable in the script."


def is_ref_name(text: str) -> bool:
    """Return whether Git may have a reference of this name; never an option of git."""
    return text.isprintable() and _FORBIDDEN.search(text) is None


def is_full_ref_name(text: str) -> bool:
    """Return whether a text is the whole name of a reference."""
    return text.startswith("refs/") and is_ref_name(text)


def is_commit(text: str) -> bool:
    """Return whether a text is a full commit ID."""
    return _COMMIT.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    """Return whether a text can be a tag of an artifact."""
    return _TAG.fullmatch(text) is not None


def is_artifact_digest(text: str) -> bool:
    """Return whether a text is a digest that is checked here: ``sha256:`` and 64 digits."""
    return _DIGEST.fullmatch(text) is not None


def _check_ref_name(what: str, name: str) -> None:
    if name and not is_ref_name(name):
        raise UsageError(
            f"invalid {what} of the source: {shown_path(name[:100])}",
            hint="Write it as in `git ls-remote`.",
        )


class GitRef(Struct, frozen=True):
    """The reference of a source; each field is empty if it is not given, as in Flux.

    The first of commit, name, semver, tag and branch decides; without any it is the remote's HEAD.
    Raises UsageError for a value that git does not allow.
    """

    branch: str = ""
    tag: str = ""
    semver: str = ""
    """A range of versions, matched against the tags."""
    name: str = ""
    """A whole name, such as refs/pull/1/head."""
    commit: str = ""
    """An object ID in full; ``branch`` may name the branch that it is on."""

    def __post_init__(self) -> None:
        _check_ref_name("branch", self.branch)
        _check_ref_name("tag", self.tag)
        _check_ref_name("name", self.name)
        if self.name and not is_full_ref_name(self.name):
            raise UsageError(
                "invalid name of the source's reference: it does not begin with refs/",
                hint="For example: refs/heads/main",
            )
        if self.commit and not is_commit(self.commit):
            raise UsageError(
                "invalid commit of the source: a full commit ID is needed",
                hint="Give all 40 digits: git rev-parse NAME",
            )
        if self.semver:
            check_range(self.semver)


HEAD = GitRef()
"""What the server itself checks out."""


class OciRef(Struct, frozen=True):
    """Which version: a digest wins over a range of versions, and that over a tag; as in Flux.

    Raises UsageError for a value that no artifact can have.
    """

    tag: str = ""
    semver: str = ""
    """A range of versions, matched against the tags."""
    digest: str = ""

    def __post_init__(self) -> None:
        if (self.tag and not is_tag(self.tag)) or (
            self.digest and not is_artifact_digest(self.digest)
        ):
            raise UsageError(f"invalid tag or digest: {shown_path(self.tag or self.digest)}")
        if self.semver:
            check_range(self.semver)


NEWEST = OciRef()
"""The tag ``latest``."""


class OciAddress(Struct, frozen=True):
    """A repository of a registry, which artifact of it, and a path in it."""

    host: str
    """With its port, if it is not 443."""
    repository: str
    ref: OciRef = NEWEST
    path: str = ""

    @property
    def shown(self) -> str:
        """Return the artifact, safe to print."""
        digest = "" if self.ref.tag else self.ref.digest
        return str(ArtifactReference(self.host, self.repository, self.ref.tag, digest))

    @property
    def name(self) -> str:
        """Return the repository without a tag: ``oci://HOST/REPO``."""
        return f"oci://{self.host}/{self.repository}"


_HOST = pattern(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?)(?::\d+)?")
_PERCENT = pattern(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE = "Write such characters as %20 and the like."
_OCI_FORM = "oci://HOST/REPO:TAG"
_CLONE_IT = "Clone it and name the folder, or follow the repository with a Bundle."
_PUSH_IT = (
    "Unpack it and name the folder, or push it to a registry: "
    f"`applyprune push {_OCI_FORM} -f FOLDER`."
)


def _invalid(text: str, reason: str, hint: str) -> UsageError:
    return UsageError(f"invalid address {shown_address(text)}", reason=reason, hint=hint)


# The parts of a URL: the host that credentials are for, and what of it is safe to print.


def url_parts(url: str) -> SplitResult | None:
    """Return the parts of a URL; None when it is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def _compared_endpoint(url: str) -> Endpoint:
    """Return the host and port of a URL whose host is compared with others; raises InvalidHost."""
    end = endpoint_anywhere(url)
    if end.ends_with_dot:
        raise InvalidHost("its host ends with a dot, and a login or a host key is for one without")
    return end


def is_https(url: str) -> bool:
    """Return whether a URL is valid, has a host, and is ``https://``."""
    try:
        return endpoint_anywhere(url).scheme == "https"
    except InvalidHost:
        return False


def joined(url: str, target: str) -> str:
    """Return where a reference in a reply from ``url`` leads; empty if it is invalid."""
    try:
        return urljoin(url, target)
    except ValueError:
        return ""


def host_of(parts: SplitResult) -> str:
    """Return the host and port as in the URL, without user and password."""
    return parts.netloc.rpartition("@")[2]


def origin_of(url: str) -> tuple[str, int]:
    """Return the host and port of a valid HTTPS URL: what credentials are for."""
    end = endpoint_of(url)
    return end.host, end.port


def login_of(parts: SplitResult) -> tuple[str, str]:
    """Return the user and the password in a URL; empty for none."""
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return unquote(user), unquote(password)


def shown_url(url: str) -> str:
    """Return a URL that is safe to print: without user, password, query and fragment."""
    parts = url_parts(url)
    if parts is None:
        return shown_address(url)
    query = "?…" if parts.query else ""
    return shown_path(f"{parts.scheme}://{host_of(parts)}{parts.path}{query}")


# A Git repository as the source of manifests, and what is followed in it.


LIMITS = TreeLimits()
GIT_TIMEOUT = 60.0
"""Seconds for one check of a reference, and for one fetch."""


class GitSource(Struct, frozen=True):
    """A repository, what is followed in it, and how it may be reached.

    Raises UsageError for a URL that is not supported.
    """

    url: str
    ref: GitRef = HEAD
    credentials: SourceCredentials = ANONYMOUS
    timeout: float = GIT_TIMEOUT
    addresses: AddressRules | None = None
    """Which addresses the URL may lead to; None for all: then the caller has chosen the URL."""
    limits: TreeLimits = LIMITS

    __repr__ = hiding("url")

    def __post_init__(self) -> None:
        found = parse_git_url(self.url)
        if found.password or (found.scheme == "https" and found.user):
            raise UsageError(
                "the URL of the repository contains credentials",
                hint="Put username and password into the Secret of the source.",
            )

    @property
    def parts(self) -> GitUrl:
        """The parts of the URL."""
        return parse_git_url(self.url)


class FoundRef(Struct, frozen=True):
    """What a reference meant on the server at one moment."""

    name: str
    """The whole name, such as refs/heads/main; empty for a commit that was given alone."""
    oid: str
    """The object that it names: a commit or an annotated tag."""
    commit: str
    shown: str = ""
    """The name in a revision, such as main; as Flux writes it."""

    @property
    def revision(self) -> str:
        """The revision, as ``status.lastAppliedRevision`` shows it: ``main@sha1:…``."""
        at = f"{self.shown}@" if self.shown else ""
        return f"{at}sha1:{self.commit}"


# The URL of a repository: only https:// and ssh://, and nothing that git could read as an option.
#
# The host is written in one way only, so that the address that was checked is the one that git
# uses.


# git@host:path, as scp writes it; a scheme has // after its colon.
_SCP = pattern(r"(?P<user>[^@/:]+)@(?P<host>[^/:@\[\]]+):(?!//)(?P<path>.+)")
_USER = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
_PORTS = {"https": 443, "ssh": 22}
_NAME = pattern(r"(?!-)[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")


def parse_git_url(url: str) -> GitUrl:
    """Return the parts of a URL; raise UsageError for one that is not supported.

    The error shows no more of it than its scheme, or what it is as ``ssh://``: without a password.
    """
    if not url.isprintable() or " " in url or "\\" in url:
        raise UsageError(
            "the URL of the repository contains a space, a control character or a backslash"
        )
    if (found := _SCP.fullmatch(url)) is not None:
        place = f"{_user(found['user'])}@{_host(found['host'])}"
        path = found["path"].lstrip("/")
        raise UsageError(f"the URL of the repository must be written as ssh://{place}/{path}")
    parts = url_parts(url)
    if parts is None:
        raise UsageError("the URL of the repository is invalid", hint=_HOST_FORM)
    if parts.scheme not in _PORTS:
        raise UsageError(
            f"unsupported URL of a repository: {shown_path(parts.scheme[:20])}:…",
            hint="Use https://HOST/PATH or ssh://USER@HOST/PATH.",
        )
    if "?" in url or "#" in url:
        raise UsageError("the URL of a repository has no query and no fragment")
    if parts.path in {"", "/"}:
        raise UsageError("the URL of the repository has no path")
    try:
        end = _compared_endpoint(url)
    except InvalidHost as error:
        raise UsageError(
            f"the URL of the repository is invalid: {error}", hint=_HOST_FORM
        ) from None
    return GitUrl(
        parts.scheme,
        end.host if end.is_address else _host(end.host),
        end.port,
        parts.path,
        _user(unquote(parts.username)) if parts.username else "",
        unquote(parts.password or ""),
    )


class GitUrl(Struct, frozen=True):
    """The parts of a URL that was checked."""

    scheme: str
    """https or ssh."""
    host: str
    """In lower case; an IPv6 address without brackets."""
    port: int
    path: str
    user: str = ""
    password: str = ""

    __repr__ = hiding("user", "password")

    @property
    def place(self) -> str:
        """The scheme, host and port, as in the settings of git: ``https://host:8443``."""
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{bracketed(self.host)}{port}"

    @property
    def shown(self) -> str:
        """The URL, safe to print: without user and password."""
        return shown_path(f"{self.place}{self.path}")

    def given(self, user: str) -> str:
        """Return the URL as git gets it: for SSH with a user, and never with a password."""
        if self.scheme == "ssh":
            return f"ssh://{user}@{self.place.removeprefix('ssh://')}{self.path}"
        return f"{self.place}{self.path}"


_HOST_FORM = "Write https://HOST/PATH; a host may have a port, and an IPv6 address has brackets."


def _host(host: str) -> str:
    host = host.lower()
    last = host.rpartition(".")[2]
    # To some programs other names that end with a number are addresses: 127.1, 0x7f000001.
    if not _NAME.fullmatch(host) or last.isdigit() or last.startswith("0x") or ".." in host:
        raise UsageError(
            "the URL of the repository has no valid host",
            hint="Write an international name in its ASCII form.",
        )
    return host


def _user(user: str) -> str:
    if not _USER.fullmatch(user):
        raise UsageError("the URL of the repository has an unsupported user")
    return user


# The name of an artifact: ``oci://HOST[:PORT]/NAME[:TAG][@sha256:…]``.


DEFAULT_TAG = "latest"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_REGISTRY = pattern(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]{{2,45}}\])(?::[0-9]{{1,5}})?")
_NAME_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_REPOSITORY = pattern(rf"{_NAME_PART}(?:/{_NAME_PART})*")
_REFERENCE = pattern(r"oci://([^/]*)/?([^:@]*)(?::([^@]*))?(?:@(.*))?")
_LONGEST_HOST = 255
_LONGEST_NAME = 255
_ARTIFACT_FORMS = (
    "Write oci://HOST/NAME, oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:DIGEST; "
    "names are in lower case, and credentials are given elsewhere."
)


class ArtifactReference(Struct, frozen=True):
    """An artifact, or all versions of one if it has neither tag nor digest."""

    host: str
    """The host of the registry, with its port if it is not 443."""
    repository: str
    tag: str = ""
    digest: str = ""
    """``sha256:…`` of the manifest."""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{SCHEME}{self.host}/{self.repository}{tag}{digest}"


def parse_reference(text: str) -> ArtifactReference:
    """Return what a text names; raise UsageError if it is not such a name.

    There is no place in it for a user, a password, a query or a path with dots.
    """
    found = _REFERENCE.fullmatch(text)
    host, name, tag, digest = found.groups() if found is not None else ("", "", None, None)
    if fault := _registry_fault(host):
        raise _not_an_artifact(text, fault)
    if not name:
        raise _not_an_artifact(text, "it names no repository")
    if len(name) > _LONGEST_NAME or _REPOSITORY.fullmatch(name) is None:
        raise _not_an_artifact(text, "its repository is invalid")
    if tag == "":
        raise _not_an_artifact(text, "its tag is empty", _UNSET)
    if tag is not None and not is_tag(tag):
        raise _not_an_artifact(text, "its tag is invalid", _TAG_FORM)
    if digest is not None and not is_artifact_digest(digest):
        raise _not_an_artifact(text, "its digest is invalid")
    return ArtifactReference(host, name, tag or "", digest or "")


def _not_an_artifact(text: str, reason: str, hint: str = _ARTIFACT_FORMS) -> UsageError:
    # What comes before an @ may be a password, and what comes after a ? as well.
    shown = shown_path(text.rpartition("@")[2].partition("?")[0][:200])
    return UsageError(
        f"invalid name of an OCI artifact: {'…' if '@' in text else ''}{shown}",
        reason=reason,
        hint=hint,
    )


def _registry_fault(host: str) -> str:
    """Return why a text is not the host of a registry; empty if it is."""
    try:
        _compared_endpoint(f"{SCHEME}{host}")
    except InvalidHost as error:
        return str(error)
    fits = len(host) <= _LONGEST_HOST and _REGISTRY.fullmatch(host) is not None
    return "" if fits else "its host or port is invalid"


# Ranges of versions, as Flux reads them (the constraints of Masterminds/semver).
#
# No library fits: those for npm's ranges accept a prerelease only beside one of the same version.


_Key: TypeAlias = tuple[tuple[int, int, int], tuple[int, tuple[tuple[int, int, str], ...]]]
"""What orders versions: the numbers, then whether it is a release, and the prerelease."""
_Check: TypeAlias = Callable[[_Key], bool]
_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_NUMBER = r"(?:0|[1-9]\d{0,17})"
_VERSION = pattern(
    rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?",
    re.ASCII,
)
_PLACE = rf"(?:{_NUMBER}|[xX*])"
_ANY = rf"v?({_PLACE})(?:\.({_PLACE}))?(?:\.({_PLACE}))?(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?"
_COMPARATOR = pattern(rf"\s*(=|==|!=|>|<|>=|=>|<=|=<|~|~>|\^|)\s*{_ANY}(?=[\s,]|$)", re.ASCII)
_HYPHEN = pattern(rf"\s*(?P<low>{_ANY})\s+-\s+(?P<high>{_ANY})\s*", re.ASCII)
_LONGEST_VERSION = 256


def best_version(wanted: str, tags: Iterable[str]) -> str | None:
    """Return the tag with the highest version in a range; None if none is in it.

    A tag is a whole version, which may begin with v. A prerelease counts only if the range names
    one. Raises UsageError for an invalid range.
    """
    alternatives = _parse(wanted)
    found = []
    for tag in tags:
        key = _key(tag)
        if key is not None and any(_fits(key, one) for one in alternatives):
            found.append((key, tag))
    return max(found)[1] if found else None


def check_range(wanted: str) -> None:
    """Raise UsageError for an invalid range of versions."""
    _parse(wanted)


def _key(text: str) -> _Key | None:
    if len(text) > _LONGEST_VERSION or (found := _VERSION.fullmatch(text)) is None:
        return None
    major, minor, patch, prerelease = found.groups()
    return (int(major), int(minor), int(patch)), _order(prerelease)


def _order(prerelease: str | None) -> tuple[int, tuple[tuple[int, int, str], ...]]:
    """Return what orders prereleases: before the release, numbers first and by their value."""
    if not prerelease:
        return 1, ()
    parts = prerelease.split(".")
    return 0, tuple((0, int(one), "") if one.isdigit() else (1, 0, one) for one in parts)


def _fits(key: _Key, alternative: tuple[Sequence[_Check], bool]) -> bool:
    checks, names_prerelease = alternative
    is_release = bool(key[1][0])
    return (is_release or names_prerelease) and all(check(key) for check in checks)


def _parse(wanted: str) -> list[tuple[Sequence[_Check], bool]]:
    if len(wanted) > _LONGEST_VERSION:
        raise UsageError("the range of versions is too long")
    return [_alternative(one, wanted) for one in wanted.split("||")]


def _alternative(text: str, wanted: str) -> tuple[Sequence[_Check], bool]:
    """Return the checks that all must hold, and whether one of them names a prerelease."""
    if (found := _HYPHEN.fullmatch(text)) is not None:
        text = f">={found['low']} <={found['high']}"
    checks, at, names_prerelease = [], 0, False
    text = text.strip()
    while at < len(text):
        comparator = _COMPARATOR.match(text, at)
        if comparator is None:
            break
        operator, *numbers, prerelease = comparator.groups()
        checks.append(_check(operator, numbers, prerelease))
        names_prerelease = names_prerelease or bool(prerelease)
        at = comparator.end()
        at += len(text[at:]) - len(text[at:].lstrip().removeprefix(",").lstrip())
    if at < len(text) or not checks or text.endswith(","):
        raise UsageError(
            f"invalid range of versions: {shown_path(wanted)}",
            hint="For example: >=1.0.0 <2.0.0, ~1.2, ^1 or 1.x",
        )
    return checks, names_prerelease


def _check(operator: str, parts: Sequence[str | None], prerelease: str | None) -> _Check:
    numbers = []
    for part in parts:
        if part is None or part in "xX*":
            break
        numbers.append(int(part))
    known = len(numbers)
    low = _three(numbers)
    first: _Key = (low, _order(prerelease))
    # What follows all versions that begin with these numbers.
    after = _after(numbers)
    if operator in {"~", "~>"}:
        after = _after(numbers[:2])
    elif operator == "^":
        # Up to the first number that is not zero.
        zeros = next((at for at, number in enumerate(numbers) if number), known - 1)
        after = _after(numbers[: zeros + 1])
    is_whole = known == 3
    checks: dict[str, _Check] = {
        ">": (lambda key: key > first) if is_whole else (lambda key: _not_before(key, after)),
        ">=": lambda key: key >= first,
        "<": lambda key: key < first,
        "<=": (lambda key: key <= first) if is_whole else (lambda key: _before(key, after)),
        "!=": (lambda key: key != first)
        if is_whole
        else (lambda key: not (key >= first and _before(key, after))),
        "=": (lambda key: key == first)
        if is_whole
        else (lambda key: key >= first and _before(key, after)),
        "^": lambda key: key >= first and _before(key, after),
    }
    same = {"=>": ">=", "=<": "<=", "==": "=", "": "=", "~": "^", "~>": "^"}
    return checks[same.get(operator, operator)]


def _three(numbers: Sequence[int]) -> tuple[int, int, int]:
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return major, minor, patch


def _after(numbers: Sequence[int]) -> tuple[int, int, int] | None:
    """Return the first version behind all that begin with these numbers; None if none is."""
    return _three((*numbers[:-1], numbers[-1] + 1)) if numbers else None


def _before(key: _Key, after: tuple[int, int, int] | None) -> bool:
    # By the numbers alone: a prerelease of the next version is not in the range.
    return after is None or key[0] < after


def _not_before(key: _Key, after: tuple[int, int, int] | None) -> bool:
    return after is not None and key[0] >= after
