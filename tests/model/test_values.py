"""The decorator of frozen values, beside the standard library's on the same class."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from applyprune import values
from applyprune.cluster.credentials import Identity
from applyprune.sources.tree import SourceCredentials


class _Login:
    name: str
    password: str = values.field(repr=False)
    tries: int = values.field(default=0, compare=False)
    settings: Mapping[str, str] = values.field(default_factory=dict, hash=False)
    groups: tuple[str, ...] = ()
    hosts: ClassVar[str] = "all"

    @property
    def title(self) -> str:
        return self.name.title()


class _StandardLogin:
    name: str
    password: str = dataclasses.field(repr=False)
    tries: int = dataclasses.field(default=0, compare=False)
    settings: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    groups: tuple[str, ...] = ()
    hosts: ClassVar[str] = "all"

    @property
    def title(self) -> str:
        return self.name.title()


OURS: Any = values.dataclass(frozen=True, slots=True)(_Login)
STANDARD: Any = dataclasses.dataclass(frozen=True, slots=True)(_StandardLogin)
BOTH = pytest.mark.parametrize("login", [OURS, STANDARD], ids=["ours", "standard"])


@values.dataclass(frozen=True, slots=True, order=True)
class Version:
    """A value that is sorted by its fields."""

    major: int
    minor: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@values.dataclass(slots=True)
class Counter:
    """A value that changes."""

    found: dict[str, int] = values.field(default_factory=dict)
    most: int = values.field(init=False)

    def __post_init__(self) -> None:
        """Set what depends on other fields."""
        self.most = max(self.found.values(), default=0)


@BOTH
def test_field_that_is_not_shown_is_not_in_the_text(login: Any) -> None:
    """A password must not reach a log by way of repr()."""
    shown = repr(login("eve", "s3cret"))
    assert shown.endswith("Login(name='eve', tries=0, settings={}, groups=())")
    assert "s3cret" not in shown


@BOTH
def test_field_that_is_not_compared_makes_no_difference(login: Any) -> None:
    """Neither for equality nor for the hash; one that is only not hashed still differs."""
    assert login("eve", "a", tries=1) == login("eve", "a", tries=2)
    assert hash(login("eve", "a", tries=1)) == hash(login("eve", "a", tries=2))
    assert login("eve", "a") != login("eve", "b")
    assert hash(login("eve", "a", settings={"b": "c"})) == hash(login("eve", "a"))
    assert login("eve", "a", settings={"b": "c"}) != login("eve", "a")
    assert login("eve", "a") != "eve"


@BOTH
def test_value_is_frozen(login: Any) -> None:
    """Both raise a kind of AttributeError."""
    eve = login("eve", "a")
    with pytest.raises(AttributeError):
        eve.name = "mallory"
    assert (eve.name, eve.title, login.hosts) == ("eve", "Eve", "all")


@BOTH
def test_functions_of_dataclasses_take_the_value(login: Any) -> None:
    """To a caller of the package it is a dataclass."""
    eve = login("eve", "a", groups=("admins",))
    assert dataclasses.is_dataclass(type(eve))
    assert [
        (field.name, field.repr, field.compare, field.hash in (None, True))
        for field in dataclasses.fields(login)
    ] == [
        ("name", True, True, True),
        ("password", False, True, True),
        ("tries", True, False, True),
        ("settings", True, True, False),
        ("groups", True, True, True),
    ]
    assert dataclasses.asdict(eve)["groups"] == ("admins",)
    assert dataclasses.replace(eve, name="ann") == login("ann", "a", groups=("admins",))
    assert values.replace(eve, name="ann") == login("ann", "a", groups=("admins",))
    assert eve.name == "eve"


@BOTH
def test_wrong_arguments_are_a_type_error(login: Any) -> None:
    """As with any call."""
    with pytest.raises(TypeError, match=r"[Mm]issing"):
        login()
    with pytest.raises(TypeError, match="nobody"):
        login("eve", "a", nobody=1)
    with pytest.raises(TypeError, match="nobody"):
        values.replace(login("eve", "a"), nobody=1)


def test_order_is_that_of_the_fields() -> None:
    """A method of the class stays as it is."""
    assert sorted([Version(2), Version(1, 3), Version(1, 2)]) == [
        Version(1, 2),
        Version(1, 3),
        Version(2),
    ]
    assert str(Version(1, 2)) == "1.2"
    match Version(4, 5):
        case Version(major, 5):
            assert major == 4


def test_value_that_changes_has_its_own_default() -> None:
    """And it is no key of a mapping."""
    first, second = Counter(), Counter()
    first.found["a"] = 1
    assert second.found == {}
    assert Counter({"a": 3}).most == 3
    assert [field.init for field in dataclasses.fields(Counter)] == [True, False]
    with pytest.raises(TypeError, match="unhashable"):
        hash(first)


def test_field_that_msgspec_cannot_make_is_refused() -> None:
    """The class needs the decorator of the standard library then."""
    with pytest.raises(TypeError, match=r"only the standard library's field\(\) has metadata"):
        values.field(metadata={})


def test_credentials_do_not_show_their_secrets() -> None:
    """Two classes of the package that hold some."""
    for secret in (Identity(token="t0ken"), SourceCredentials(password="t0ken")):
        assert "t0ken" not in repr(secret)
        assert "t0ken" not in str(secret)
