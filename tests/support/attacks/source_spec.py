"""Attacks by how a Bundle names its source on another host, and by what servers answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.archives import packed
from tests.support.artifacts import digest_of, served_artifact
from tests.support.attacks.attack import VICTIM, WEAK
from tests.support.attacks.servers import DENIED, FORBIDDEN
from tests.support.attacks.source_attack import LOGIN, OPEN, SourceAttack, git, oci
from tests.support.canaries import TOKEN
from tests.support.objects import config_map, text
from tests.support.tls_site import Answer, Call

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.attacks.servers import Servers

_BANK = {"secretRef": {"name": f"{VICTIM}/bank"}}
_WEAK = {"serviceAccountName": WEAK}
_TRAP = f"https://{FORBIDDEN}:{{trap}}"
_METADATA = "https://169.254.169.254/latest/meta-data"
_REFUSED = "FetchFailed"
_INVALID = "InvalidSpec"
_CHALLENGE = 'Bearer realm="https://{host}:{port}/token",service="x"'


def _ref(**ref: str) -> Callable[[Servers], Any]:
    return git(ref=ref)


def _answer(path: str, answer: Callable[[Servers, Call], Answer]) -> Callable[[Servers], None]:
    def prepare(servers: Servers) -> None:
        servers.web.answers[path] = lambda call: answer(servers, call)

    return prepare


def _redirect(path: str, target: str) -> Callable[[Servers], None]:
    def answer(servers: Servers, _call: Call) -> Answer:
        where = target.replace("{trap}", str(servers.trap))
        return Answer(302, headers={"Location": where.replace("{own}", servers.web.other_url)})

    return _answer(path, answer)


def _git_redirect(name: str, target: str) -> Callable[[Servers], None]:
    def prepare(servers: Servers) -> None:
        where = target.replace("{trap}", str(servers.trap))
        servers.git.redirects[f"/{name}.git"] = f"{where}/x.git"

    return prepare


def _git_elsewhere(servers: Servers) -> None:
    """Redirect a request with a password to the same server by another name."""
    other = servers.git.base.replace("localhost", "127.0.0.1")
    servers.git.redirects["/elsewhere.git"] = f"{other}/evil.git"


MOVED = packed({"web/a.yaml": text(config_map("by-redirect")).encode()})
"""The layer of an artifact whose registry sends everybody elsewhere for it."""


def _moved_blob(servers: Servers) -> None:
    """Ask for a login, and then redirect to the same server by another name."""
    servers.web.answers |= served_artifact("evil/moved", MOVED)
    servers.web.answers["/target"] = lambda _: Answer(200, MOVED)

    def answer(servers: Servers, call: Call) -> Answer:
        if "Authorization" not in call.headers:
            return Answer(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        return Answer(302, headers={"Location": f"{servers.web.other_url}/target"})

    _answer(f"/v2/evil/moved/blobs/{digest_of(MOVED)}", answer)(servers)


def _blob(name: str, says: str, target: str) -> SourceAttack:
    """Return an artifact whose layer is said to be elsewhere."""

    def prepare(servers: Servers) -> None:
        servers.web.answers |= served_artifact(f"evil/{name}", MOVED)
        _redirect(f"/v2/evil/{name}/blobs/{digest_of(MOVED)}", target)(servers)

    return SourceAttack(says, oci(f"evil/{name}"), prepare=prepare)


def _asks(host: str) -> Callable[[Servers, Call], Answer]:
    def answer(servers: Servers, _call: Call) -> Answer:
        challenge = _CHALLENGE.format(host=host, port=servers.trap)
        return Answer(401, headers={"WWW-Authenticate": challenge})

    return answer


def _vault(**more: Any) -> Callable[[Servers], Any]:
    def source(servers: Servers) -> Any:
        url = servers.vault.url("bank")
        return {"git": {"url": url, "ref": {"branch": "main"}, "path": "web", **more}}

    return source


SPECS: dict[str, SourceAttack] = {
    "secret: credentials of another namespace": SourceAttack(_INVALID, git(**_BANK)),
    "secret: credentials by a path": SourceAttack(
        _INVALID, git(secretRef={"name": f"../../{VICTIM}/secrets/bank"})
    ),
    "secret: a namespace beside the name": SourceAttack(
        "SourceNotFound", git(secretRef={"name": "bank", "namespace": VICTIM})
    ),
    "secret: keys of another namespace": SourceAttack(_INVALID, git(verify=_BANK)),
    "secret: certificates of another namespace": SourceAttack(
        _INVALID, oci("evil/x", certSecretRef=_BANK["secretRef"])
    ),
    "secret: a login for an artifact of another namespace": SourceAttack(
        _INVALID, oci("evil/x", **_BANK)
    ),
    "secret: keys to decrypt of another namespace": SourceAttack(
        _INVALID, git(), spec={"decryption": {"provider": "sops", **_BANK}}
    ),
    "secret: keys that the account may not read": SourceAttack(
        "Forbidden", git(secretRef={"name": "own"}), spec=_WEAK
    ),
    "secret: keys to decrypt that the account may not read": SourceAttack(
        "Forbidden",
        lambda servers: {"git": {"url": servers.git.url("evil"), "ref": {"branch": "honest"}}},
        spec={**_WEAK, "decryption": {"provider": "sops", "secretRef": {"name": "own"}}},
    ),
    "path: above the source": SourceAttack(_INVALID, git(path="../../etc")),
    "path: absolute": SourceAttack(_INVALID, git(path="/etc")),
    "path: above it in the middle": SourceAttack(_INVALID, git(path="web/../../etc")),
    "path: with control characters": SourceAttack(_INVALID, git(path="web\n--output=x")),
    "path: an option": SourceAttack("PathNotFound", git(path="--output=/tmp/mallory")),
    "path: magic of git": SourceAttack("PathNotFound", git(path=":(top,glob)**")),
    "path: above an artifact": SourceAttack(_INVALID, oci("evil/x", path="../x")),
    "host: loopback": SourceAttack(_REFUSED, git(f"{_TRAP}/x.git")),
    "host: loopback of IPv6": SourceAttack(_REFUSED, git("https://[::1]:{trap}/x.git")),
    "host: IPv4 in IPv6": SourceAttack(
        _REFUSED, git(f"https://[::ffff:{FORBIDDEN}]:{{trap}}/x.git")
    ),
    "host: a denied network": SourceAttack(
        "an address of a denied network", git(f"https://{DENIED}:{{trap}}/x.git")
    ),
    "host: by SSH": SourceAttack("link-local", git("ssh://git@169.254.169.254/x.git", **OPEN)),
    "host: a decimal number": SourceAttack(_INVALID, git("https://2130706434:{trap}/x.git")),
    "host: an octal number": SourceAttack(_INVALID, git("https://0177.0.0.2:{trap}/x.git")),
    "host: a short number": SourceAttack(_INVALID, git("https://127.2:{trap}/x.git")),
    "host: the metadata, for a registry": SourceAttack(_REFUSED, oci("oci://169.254.169.254/x/y")),
    "host: an octal number, for a registry": SourceAttack(
        _REFUSED, oci("oci://0177.0.0.2:{trap}/x/y")
    ),
    "host: IPv4 in IPv6, for a registry": SourceAttack(
        _REFUSED, oci(f"oci://[::ffff:{FORBIDDEN}]:{{trap}}/x/y")
    ),
    "host: a registry at loopback": SourceAttack(_REFUSED, oci(f"oci://{FORBIDDEN}:{{trap}}/x/y")),
    "host: a registry by a decimal number": SourceAttack(
        _REFUSED, oci("oci://2130706434:{trap}/x/y")
    ),
    "redirect: a repository to loopback": SourceAttack(
        _REFUSED,
        lambda servers: git(servers.git.url("trap"))(servers),
        prepare=_git_redirect("trap", _TRAP),
    ),
    "redirect: a repository to the metadata of a cloud": SourceAttack(
        "link-local",
        lambda servers: git(servers.git.url("metadata"))(servers),
        prepare=_git_redirect("metadata", _METADATA),
    ),
    "redirect: a blob to the metadata of a cloud": _blob("metadata", "link-local", _METADATA),
    "redirect: a blob to loopback": _blob("trap", _REFUSED, f"{_TRAP}/blob"),
    "redirect: a blob to plain HTTP": _blob("plain", "https://", f"http://{FORBIDDEN}:{{trap}}/x"),
    "redirect: a blob to a file": _blob("file", "https://", "file:///etc/passwd"),
    "redirect: the token server of a registry": SourceAttack(
        "the credentials for localhost are not sent to it",
        oci("evil/token", **LOGIN),
        prepare=_answer("/v2/evil/token/manifests/latest", _asks(FORBIDDEN)),
    ),
    "redirect: the token server of an open registry": SourceAttack(
        _REFUSED,
        oci("evil/open"),
        prepare=_answer("/v2/evil/open/manifests/latest", _asks(FORBIDDEN)),
    ),
    "ignore: costly patterns in the spec": SourceAttack(
        "Applied: ", git(ignore="\n".join(["**/a*a*a*/" * 80 + "b"] * 15))
    ),
    "ignore: a long rule in the spec": SourceAttack(_INVALID, git(ignore="a" * 1001)),
    "leak: a blob that moved to another host": SourceAttack(
        "Applied: ", oci("evil/moved", path="web", **LOGIN), prepare=_moved_blob
    ),
    "leak: a repository that moved to another host": SourceAttack(
        "Applied: ",
        lambda servers: git(servers.git.url("elsewhere"), path="moved", **LOGIN)(servers),
        prepare=_git_elsewhere,
    ),
    "leak: a password in a URL": SourceAttack(_INVALID, git(f"https://me:{TOKEN}@localhost/x.git")),
    "leak: a password in the name of an artifact": SourceAttack(
        _INVALID, oci(f"oci://me:{TOKEN}@localhost/x")
    ),
    "leak: a query in the name of an artifact": SourceAttack(
        _INVALID, oci(f"evil/x?signature={TOKEN}")
    ),
    "option: as the host": SourceAttack(
        _INVALID, git("ssh://-oProxyCommand=touch%20mallory/x.git")
    ),
    "option: as the user": SourceAttack(
        _INVALID, git("ssh://-oProxyCommand=touch@127.0.0.1/x.git")
    ),
    "option: as the path": SourceAttack("Failed", git("ssh://git@127.0.0.1:1/--upload-pack=x")),
    "option: a helper of git": SourceAttack(_INVALID, git("ext::sh -c touch% /tmp/mallory")),
    "option: a file": SourceAttack(_INVALID, git("file:///etc")),
    "option: plain HTTP": SourceAttack(_INVALID, git(f"http://{FORBIDDEN}:{{trap}}/x.git")),
    "option: the protocol of git": SourceAttack(_INVALID, git(f"git://{FORBIDDEN}/x.git")),
    "option: as a branch": SourceAttack(_INVALID, _ref(branch="--upload-pack=touch /tmp/mallory")),
    "option: as a tag": SourceAttack(_INVALID, _ref(tag="-x")),
    "option: in a reference": SourceAttack("PathNotFound", _ref(name="refs/heads/--exec=x")),
    "option: as a range": SourceAttack(_INVALID, _ref(semver="--exec=touch")),
    "option: as a commit": SourceAttack(_INVALID, _ref(commit="--all")),
    "option: a second refspec": SourceAttack(_INVALID, _ref(branch="main:refs/full/x")),
    "option: as the name of an artifact": SourceAttack(_INVALID, oci("oci://127.0.0.1/../../x")),
    "option: as the tag of an artifact": SourceAttack(
        _INVALID, oci("evil/x", ref={"tag": "../../../token"})
    ),
    "shared: the victim's repository without credentials": SourceAttack(
        "AuthenticationFailed", _vault(**OPEN)
    ),
    "shared: the victim's repository with others": SourceAttack(
        "AuthenticationFailed", _vault(**LOGIN)
    ),
    "shared: the victim's repository by its commit": SourceAttack(
        "AuthenticationFailed",
        lambda servers: _vault(
            **OPEN, ref={"commit": servers.vault.repository_of("bank").oid("main")}
        )(servers),
    ),
}
"""``bank`` is a Secret of the victim; ``own`` one of the attacker that WEAK may not read."""
