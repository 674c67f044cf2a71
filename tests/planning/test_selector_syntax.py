"""Label selectors; the cases are those of ``k8s.io/apimachinery/pkg/labels/selector_test.go``.

``tests/engine/test_part_of_a_set`` holds the same texts against a real API server.
"""

from __future__ import annotations

import pytest

from applyprune.errors import UsageError
from applyprune.planning.selector_syntax import parse_selector

GOOD = (
    "x=a,y=b,z=c",
    "x!=a,y=b",
    "x=",
    "x= ",
    "x=,z= ",
    "x= ,z= ",
    "!x",
    "! x",
    "x>1",
    "x>1,z<5",
    "x == a",
    "x in (a)",
    "x in(a)",
    "x in ( a , b )",
    "x in ()",
    "x notin ()",
    "x in (,a)",
    "x in (a,)",
    "x in (a,,b)",
    "x in (in,notin)",
    "x notin (a),y in (b,c),!z",
    "in in (a)",
    "notin=in",
    "in",
    "x\tin\t(a)",
    "example.com/app=web",
    "x=1.2_3-4",
    f"{'k' * 63}={'v' * 63}",
    "x>09",
)
BAD = (
    "x=a||y=b",
    "x==a==b",
    "!x=a",
    "x<a",
    "x>1.5",
    "x>-1",
    "x>9223372036854775808",
    "x>",
    "x=a,",
    ",x=a",
    "x,,y",
    "x in",
    "x in a",
    "x in (a",
    "x in a)",
    "x in (a b)",
    "x in ((a))",
    "x in (a),(b)",
    "x=(a)",
    "x=a b",
    "x y",
    "x===a",
    "x=!a",
    "x<=5",
    "!!x",
    "!",
    "=a",
    "()",
    "x=a;y=b",
    "x='a'",
    "x=ä",
    "-x=a",
    "x=-a",
    "x=a-",
    "Example.com/app=web",
    "a/b/c=d",
    "/x=a",
    "x/=a",
    "x=../a",
    f"{'k' * 64}=v",
    f"k={'v' * 64}",
    "x exists",
    "x in (a) y",
    "X in (a)!",
)
LABELS = {"x": "a", "y": "", "z": "5", "in": "notin", "example.com/app": "web"}
MATCHES = {
    "x=a": True,
    "x==a": True,
    "x=b": False,
    "x!=a": False,
    "x!=b": True,
    "w!=a": True,
    "w=": False,
    "y=": True,
    "y": True,
    "!y": False,
    "!w": True,
    "w": False,
    "x in (b,a)": True,
    "x in (b,c)": False,
    "w in (a)": False,
    "w in ()": False,
    "y in ()": True,
    "y in (a,)": True,
    "x notin (b,c)": True,
    "x notin (a)": False,
    "w notin (a)": True,
    "z>4": True,
    "z>5": False,
    "z<6": True,
    "x>1": False,
    "w<1": False,
    "in=notin": True,
    "in in (notin)": True,
    "x=a,z>4,!w": True,
    "x=a,z>5,!w": False,
    "example.com/app=web": True,
    "app=web": False,
}


@pytest.mark.parametrize("text", GOOD)
def test_taken(text: str) -> None:
    """What Kubernetes' parser takes."""
    assert parse_selector(text).text == text.strip()


@pytest.mark.parametrize("text", BAD)
def test_refused(text: str) -> None:
    """What it refuses, with the text and the reason."""
    with pytest.raises(UsageError) as caught:
        parse_selector(text)
    assert repr(text) in str(caught.value)
    assert caught.value.why


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_nothing_is_not_everything(text: str) -> None:
    """Kubernetes takes an empty selector for all; here it is a variable that is not set."""
    with pytest.raises(UsageError, match="empty selector"):
        parse_selector(text)


@pytest.mark.parametrize(("text", "expected"), MATCHES.items())
def test_matches(text: str, expected: bool) -> None:
    """By one set of labels."""
    assert parse_selector(text).matches(LABELS) is expected
