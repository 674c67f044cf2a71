"""Which server, as whom: the rules of kubectl, and one clear message where they lead nowhere."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.access import ClusterAccess, cluster_access, pod_access
from applyprune.errors import AccessError

if TYPE_CHECKING:
    from pathlib import Path

SERVER = "https://k8s.example:6443"


def config(name: str = "one", **changes: Any) -> dict[str, Any]:
    """Return a kubeconfig with one cluster, user and context of that name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:6443"}}],
        "users": [{"name": name, "user": {"token": f"{name}-token"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        **changes,
    }


def write(path: Path, content: dict[str, Any] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def access_for(
    folder: Path, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None
) -> ClusterAccess:
    """Connect by a kubeconfig whose user and cluster are these."""
    facts = config(
        users=[{"name": "one", "user": user or {}}],
        clusters=[{"name": "one", "cluster": {"server": SERVER, **(cluster or {})}}],
    )
    return cluster_access(kubeconfig=str(write(folder / "config", facts)), environ={})


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Which file.


def test_kubeconfig_option_has_precedence(tmp_path: Path) -> None:
    option = write(tmp_path / "option", config("option"))
    listed = write(tmp_path / "listed", config("listed"))

    access = cluster_access(kubeconfig=str(option), environ={"KUBECONFIG": str(listed)})

    assert access.server == "https://option.example:6443"


def test_kubeconfig_variable_precedes_the_home_folder(tmp_path: Path) -> None:
    listed = write(tmp_path / "listed", config("listed"))
    write(tmp_path / ".kube" / "config", config("home"))
    environ = {"HOME": str(tmp_path)}

    assert cluster_access(environ={**environ, "KUBECONFIG": str(listed)}).context == "listed"
    assert cluster_access(environ=environ).context == "home"


def test_first_file_with_a_name_wins(tmp_path: Path) -> None:
    first = write(tmp_path / "first", config("a", **{"current-context": ""}))
    second_facts = config("a", **{"current-context": "b"})
    second_facts["clusters"][0]["cluster"]["server"] = "https://not-this.example"
    second_facts["contexts"].append({"name": "b", "context": {"cluster": "a", "user": "a"}})
    second = write(tmp_path / "second", second_facts)
    missing = tmp_path / "missing"
    listed = os.pathsep.join(["", str(missing), str(first), str(second), str(first)])

    access = cluster_access(environ={"KUBECONFIG": listed})

    assert access.context == "b"
    assert access.server == "https://a.example:6443"


def test_kubeconfig_paths_are_relative_to_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "deep" / "pki" / "ca.crt", "the authority")
    write(tmp_path / "deep" / "token", "the-token\n")
    facts = config(
        clusters=[
            {"name": "one", "cluster": {"server": SERVER, "certificate-authority": "pki/ca.crt"}}
        ],
        users=[{"name": "one", "user": {"tokenFile": "token"}}],
    )
    write(tmp_path / "deep" / "config", facts)
    monkeypatch.chdir(tmp_path)

    access = cluster_access(kubeconfig="deep/config", environ={})

    assert access.trust.authorities == "the authority"
    assert access.credentials.current().token == "the-token"


def test_kubeconfig_names_are_read_as_text(tmp_path: Path) -> None:
    path = write(
        tmp_path / "config",
        """
        current-context: 007  # not the number seven
        clusters: [{name: 1e3, cluster: {server: https://x, insecure-skip-tls-verify: true}}]
        users: null
        contexts: [{name: 007, context: {cluster: 1e3, namespace: 0x10, user: ~}}]
        """,
    )

    access = cluster_access(kubeconfig=str(path), environ={})

    assert (access.context, access.namespace) == ("007", "0x10")
    assert access.trust.skip_verify


# Which context.


def test_context_can_be_chosen(tmp_path: Path) -> None:
    facts = config()
    facts["contexts"].append(
        {"name": "two", "context": {"cluster": "one", "user": "one", "namespace": "shop"}}
    )
    path = str(write(tmp_path / "config", facts))

    assert cluster_access(kubeconfig=path, environ={}).namespace == "default"
    assert cluster_access(kubeconfig=path, context="two", environ={}).namespace == "shop"


@pytest.mark.parametrize(
    ("changes", "context", "message"),
    [
        ({}, "nope", r"no context 'nope'\n  The contexts are: one\."),
        ({"current-context": ""}, "", r"no context is selected.*The contexts are: one\."),
        ({"contexts": None}, "", r"no context 'one'\n  The kubeconfig has no contexts"),
        ({"clusters": []}, "", "context 'one' names the cluster 'one', which does not exist"),
        ({"users": []}, "", "context 'one' names the user 'one', which does not exist"),
        ({"contexts": [{"name": "one", "context": {}}]}, "", "context 'one' names no cluster"),
        ({"contexts": "x"}, "", "contexts must be a list"),
        ({"users": [{"user": {}}]}, "", "users must be a list of mappings with a name"),
        ({"clusters": [{"name": "one", "cluster": "x"}]}, "", "cluster must be a mapping"),
        ({"clusters": [{"name": "one"}]}, "", "no usable server: server is empty"),
        ({"current-context": ["one"]}, "", "current-context must be text"),
    ],
)
def test_invalid_kubeconfig_is_explained(
    tmp_path: Path, changes: dict[str, Any], context: str, message: str
) -> None:
    path = write(tmp_path / "config", config(**changes))

    with pytest.raises(AccessError, match=f"(?s){message}") as caught:
        cluster_access(kubeconfig=str(path), context=context, environ={})
    assert caught.value.exit_code == 7


def test_missing_file_is_an_error_only_if_requested(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="kubeconfig file does not exist"):
        cluster_access(kubeconfig=str(tmp_path / "missing"), environ={})


def test_missing_configuration_names_the_places_searched(tmp_path: Path) -> None:
    with pytest.raises(AccessError) as caught:
        cluster_access(environ={"HOME": str(tmp_path)})

    assert f"{tmp_path}/.kube/config" in str(caught.value)
    assert "not in a pod" in str(caught.value)
    assert "applyprune local up" in caught.value.hint


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="cannot read the kubeconfig: Is a directory"):
        cluster_access(kubeconfig=str(tmp_path), environ={})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("users:\n- {token: s3cr3t\n", "line 3"),
        ("token: s3cr3t\ntoken: s3cr3t-2\n", "line 2: duplicate key"),
        ("- s3cr3t\n", "it must be a mapping"),
        ("s3cr3t: \x00", "not valid YAML"),
        ("a: &a {token: s3cr3t}\n---\nb: 1\n", "not valid YAML"),
        ("users: " + "[" * 5000, "not valid YAML"),
    ],
)
def test_broken_file_is_reported_without_its_content(
    tmp_path: Path, text: str, message: str
) -> None:
    path = write(tmp_path / "config", text)

    with pytest.raises(AccessError, match=message) as caught:
        cluster_access(kubeconfig=str(path), environ={})
    assert "s3cr3t" not in str(caught.value)
    assert str(path) in str(caught.value)


# The server and how it is trusted.


@pytest.mark.parametrize(
    ("cluster", "server"),
    [
        ({"server": "https://h:1/"}, "https://h:1"),
        ({"server": "https://h/k8s/clusters/c1/"}, "https://h/k8s/clusters/c1"),
        ({"server": "https://[::1]:6443"}, "https://[::1]:6443"),
        ({"server": "http://127.0.0.1:8001"}, "http://127.0.0.1:8001"),
        ({"server": "h:6443", "insecure-skip-tls-verify": True}, "https://h:6443"),
        ({"server": "h:8080"}, "http://h:8080"),
    ],
)
def test_server_is_read(tmp_path: Path, cluster: dict[str, Any], server: str) -> None:
    assert access_for(tmp_path, cluster=cluster).server == server


@pytest.mark.parametrize(
    "server",
    ["ftp://h", "https://", "https://h:99999", "https://u:p@h", "https://h?a=b", "https://h\n"],
)
def test_invalid_server_is_refused(tmp_path: Path, server: str) -> None:
    with pytest.raises(AccessError, match="no usable server"):
        access_for(tmp_path, cluster={"server": server})


def test_trust_and_proxy_are_read(tmp_path: Path) -> None:
    access = access_for(
        tmp_path,
        cluster={
            "certificate-authority-data": b64("pem"),
            "tls-server-name": "inner",
            "proxy-url": "http://proxy:3128",
        },
    )

    assert access.trust.authorities == "pem"
    assert access.trust.server_name == "inner"
    assert access.proxy == "http://proxy:3128"


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({"certificate-authority-data": "@@"}, "certificate-authority-data is not base64"),
        ({"certificate-authority": "/no/such/ca"}, "/no/such/ca: .*: No such file"),
        (
            {"certificate-authority-data": b64("pem"), "insecure-skip-tls-verify": True},
            "has a certificate authority and also turns verification off",
        ),
    ],
)
def test_unusable_trust_is_refused(tmp_path: Path, cluster: dict[str, Any], message: str) -> None:
    with pytest.raises(AccessError, match=message):
        access_for(tmp_path, cluster=cluster)


# Who we are.


@pytest.mark.parametrize(
    ("user", "token"),
    [
        ({}, ""),
        ({"token": " abc\n"}, "abc"),
        ({"tokenFile": "there"}, "from-file"),
        ({"token": "abc", "tokenFile": "there"}, "from-file"),
        ({"token": "abc", "tokenFile": "missing"}, "abc"),
        ({"token": "abc", "tokenFile": "empty"}, "abc"),
        ({"token": "abc", "exec": {"command": "false"}, "username": "u"}, "abc"),
    ],
)
def test_token_is_read(tmp_path: Path, user: dict[str, Any], token: str) -> None:
    (tmp_path / "there").write_text("from-file\n")
    (tmp_path / "empty").write_text("\n")

    assert access_for(tmp_path, user=user).credentials.current().token == token


def test_client_certificate_is_read_from_data_and_files(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("the key")
    user = {"client-certificate-data": b64("the certificate"), "client-key": "key"}

    identity = access_for(tmp_path, user=user).credentials.current()

    assert (identity.certificate, identity.key) == (b"the certificate", b"the key")


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"token": "a\nb"}, "the token contains invalid characters"),
        ({"tokenFile": "missing"}, "missing: cannot read a file"),
        ({"client-certificate-data": b64("x")}, "a client certificate without its key"),
        ({"username": "u", "password": "p"}, "username and password, which Kubernetes no longer"),
        ({"auth-provider": {"name": "azure"}}, "the unsupported auth-provider 'azure'"),
        ({"as-groups": ["g"]}, "impersonates groups without a user"),
        ({"as": "a\nb"}, "cannot be sent as a header"),
        ({"token": ["x"]}, "token must be text"),
        ({"exec": "aws"}, "exec must be a mapping"),
    ],
)
def test_unusable_credentials_are_refused(
    tmp_path: Path, user: dict[str, Any], message: str
) -> None:
    with pytest.raises(AccessError, match=message):
        access_for(tmp_path, user=user)


def test_impersonation_is_read(tmp_path: Path) -> None:
    user = {
        "token": "t",
        "as": "alice",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"Example.com/Reason": ["x", "y"]},
    }

    assert access_for(tmp_path, user=user).impersonation == (
        ("Impersonate-User", "alice"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.com%2Freason", "x"),
        ("Impersonate-Extra-example.com%2Freason", "y"),
    )


def test_credentials_are_never_sent_over_plain_http(tmp_path: Path) -> None:
    access = access_for(tmp_path, user={"token": "t"}, cluster={"server": "http://127.0.0.1:1"})

    assert access.credentials.current().token == ""


def test_repr_shows_no_credentials(tmp_path: Path) -> None:
    user = {
        "token": "s3cr3t",
        "client-certificate-data": b64("c3rt"),
        "client-key-data": b64("k3y"),
    }
    access = access_for(tmp_path, user=user, cluster={"proxy-url": "http://u:s3cr3t@p"})

    shown = f"{access!r} {access.credentials!r} {access.credentials.current()!r}"
    assert not any(secret in shown for secret in ("s3cr3t", "c3rt", "k3y"))


# In a pod.


def test_in_cluster_configuration_is_used_in_a_pod(tmp_path: Path) -> None:
    for name, content in (("token", "pod-token"), ("ca.crt", "pem"), ("namespace", "shop\n")):
        (tmp_path / name).write_text(content)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    access = pod_access(environ, tmp_path)

    assert access is not None
    assert access.server == "https://[fd00::1]:443"
    assert access.namespace == "shop"
    assert access.trust.authorities == "pem"
    assert access.credentials.current().token == "pod-token"
    assert pod_access({}, tmp_path) is None
    assert pod_access(environ, tmp_path / "elsewhere") is None
