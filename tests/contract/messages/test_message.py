"""Requests: what goes over the wire is what the caller meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applyprune.cluster.messages import ApiRequest


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/apis/apps/v1/namespaces/shop/deployments/web",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        "/api/v1/namespaces/a/configmaps/..a",
    ],
)
def test_request_takes_a_quoted_path(path: str) -> None:
    assert ApiRequest("GET", path).target == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "api",
        "/",
        "//api",
        "/api/v1/namespaces//configmaps",
        "/api/v1/namespaces/a/configmaps/x?dryRun=All",
        "/api/v1/namespaces/a/configmaps/x#y",
        "/api/v1/namespaces/../secrets",
        "/api/v1/namespaces/./secrets",
        "/api/v1/namespaces/a/configmaps/..",
        "/api/v1/a b",
        "/api/v1/a\r\nX-Evil: 1",
        "/api/v1/ü",
        "/api/v1/a\\b",
        "/api\n",
    ],
)
def test_request_refuses_an_ambiguous_path(path: str) -> None:
    with pytest.raises(ValueError, match="not a quoted path"):
        ApiRequest("DELETE", path)


@pytest.mark.parametrize(
    "header", [("X-A", "1\r\nX-B: 2"), ("X-A\n", "1"), ("X-A", "\x00"), ("X-A", "ü")]
)
def test_request_refuses_a_split_header(header: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="not a header"):
        ApiRequest("GET", "/api", headers=(header,))


def test_request_quotes_the_query() -> None:
    request = ApiRequest("GET", "/api", query=(("labelSelector", "a=b,c in (d&e)"), ("limit", "5")))

    assert request.target == "/api?labelSelector=a%3Db%2Cc%20in%20%28d%26e%29&limit=5"


@given(st.text(), st.text())
def test_query_cannot_escape_its_place(key: str, value: str) -> None:
    target = ApiRequest(
        "GET",
        "/api",
        query=(
            (key.encode("utf-8", "replace").decode(), value.encode("utf-8", "replace").decode()),
        ),
    ).target

    path, mark, query = target.partition("?")
    assert (path, mark) == ("/api", "?")
    assert query.isascii()
    assert not set(query) & set("?#/ \r\n")
    assert query.count("=") == 1


def test_repr_shows_neither_body_nor_reply() -> None:
    assert "hunter2" not in repr(ApiRequest("POST", "/api", body=b"hunter2"))
