"""What the package adds to msgspec's Structs: a field that is not shown, and copies."""

from __future__ import annotations

import pytest
from msgspec import Struct

from applyprune.cluster.access import ClusterAccess
from applyprune.cluster.credentials import FixedCredentials, Identity
from applyprune.http import Trust
from applyprune.sources.oci_registry import Login
from applyprune.sources.sops import SopsKeys
from applyprune.sources.tree import SourceCredentials
from applyprune.values import hiding, replace


class _Login(Struct, frozen=True):
    name: str
    password: str
    tries: int = 0

    __repr__ = hiding("password")


def test_hidden_field_is_not_in_the_text() -> None:
    """A password must not reach a log by way of repr()."""
    eve = _Login("eve", "s3cret")
    assert repr(eve) == str(eve) == "_Login(name='eve', tries=0)"


def test_hidden_field_makes_a_difference() -> None:
    """It is hidden from readers only."""
    assert _Login("eve", "a") != _Login("eve", "b")
    assert hash(_Login("eve", "a")) == hash(_Login("eve", "a"))


def test_copy_has_other_values() -> None:
    """And the value stays as it is."""
    eve = _Login("eve", "a", tries=3)
    assert replace(eve, name="ann") == _Login("ann", "a", tries=3)
    assert eve.name == "eve"
    with pytest.raises(TypeError, match="nobody"):
        replace(eve, nobody=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "secret",
    [
        Identity(token="t0ken"),
        Identity(key=b"t0ken"),
        Login(password="t0ken"),
        SopsKeys(age="t0ken"),
        SourceCredentials(password="t0ken"),
        Trust(key=b"t0ken"),
        ClusterAccess("https://host", "", "", "", FixedCredentials(), proxy="http://me:t0ken@p"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_credentials_do_not_show_their_secrets(secret: object) -> None:
    """Classes of the package that hold some."""
    assert "t0ken" not in repr(secret)
    assert "t0ken" not in str(secret)
