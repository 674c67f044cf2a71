"""What several ``applyprune.yaml`` say together: which file says each key, and when none may."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import InputError, UsageError
from applyprune.planning.configuration import (
    context_name,
    for_sets,
    inherited,
    settings_of_call,
)
from applyprune.sources.folders import Configuration

USED = {"name": "prod", "use": True}


def _file(path: str, /, **settings: Any) -> Configuration:
    said = {key.replace("_", "-"): value for key, value in settings.items()}
    return Configuration(path, said, "".join(f"{key}: x\n" for key in said))


NAMELESS = _file("top", timeout="5m", ignore=["a"])
PLATFORM = _file("top", name="platform", namespace="shared", filename=["all"], conflicts="revert")
ROWS = [
    ("no file", [], {}),
    ("one file", [PLATFORM], dict.fromkeys(PLATFORM.settings, "top")),
    (
        "a nearer key wins, and the others are inherited",
        [NAMELESS, _file("prod", name="shop", timeout="1m")],
        {"ignore": "top", "name": "prod", "timeout": "prod"},
    ),
    (
        "a list replaces a list",
        [NAMELESS, _file("prod", name="shop", ignore=["b"])],
        {"ignore": "prod", "name": "prod", "timeout": "top"},
    ),
    (
        "the input of a set is not that of a set below",
        [PLATFORM, _file("prod", name="shop")],
        {"name": "prod", "namespace": "top", "conflicts": "top"},
    ),
    (
        "nor if that set has the same name",
        [PLATFORM, _file("prod", name="platform", namespace="prod")],
        {"name": "prod", "namespace": "prod", "conflicts": "top"},
    ),
    (
        "a file without a name is of the set above",
        [PLATFORM, _file("prod", context="prod")],
        {**dict.fromkeys(PLATFORM.settings, "top"), "context": "prod"},
    ),
    (
        "one file gives all input",
        [PLATFORM, _file("prod", kustomize=["over"])],
        {"name": "top", "namespace": "top", "conflicts": "top", "kustomize": "prod"},
    ),
    (
        "through three files",
        [NAMELESS, _file("deploy", context="dev"), _file("prod", name="shop", context=USED)],
        {"timeout": "top", "ignore": "top", "name": "prod", "context": "prod"},
    ),
]


@pytest.mark.holds("input-of-another-set", row="the input of a set is not that of a set below")
@pytest.mark.parametrize(("files", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_nearer_file_says_a_key(files: list[Configuration], said: dict[str, str]) -> None:
    assert {key: file.path for key, file in inherited(files).items()} == said


def test_input_needs_a_set() -> None:
    """It would be that of whichever set is named next."""
    with pytest.raises(InputError, match=r"^top:2:1: filename is the input of a set") as caught:
        inherited([_file("top", timeout="5m", filename=["m"])])
    assert "Add name: NAME" in caught.value.hint


DEEP = [
    _file("top", timeout="5m"),
    _file("a", name="platform"),
    _file("b", wait=True),
    _file("c", name="shop"),
]


@pytest.mark.parametrize(
    ("names", "last"),
    [((), "c"), (("shop",), "c"), (("platform",), "b"), (("other",), "top"), (("x", "shop"), "c")],
)
def test_files_down_to_that_of_the_set_count(names: tuple[str, ...], last: str) -> None:
    """What stands above every set is for each of them."""
    assert for_sets(DEEP, names)[-1].path == last
    assert list(for_sets(DEEP[1:], ("other",))) == []


TOP = _file("top", name="platform", context="dev")
PROD = _file("prod", name="shop", namespace="prod", context="prod", ignore=["a"])
DEV = _file("dev", name="shop", namespace="dev", context="dev")
OF_PROD, OF_DEV = [NAMELESS, PROD], [NAMELESS, DEV]
PLAIN = _file("top", context="prod")
SELECTS = _file("top", context=USED)


@pytest.mark.parametrize(
    ("here", "named", "names", "said"),
    [
        ([], [OF_PROD], (), {"name": "prod", "timeout": "top", "ignore": "prod"}),
        ([NAMELESS], [OF_PROD], (), {"name": "prod", "ignore": "prod"}),
        ([TOP], [[TOP, PROD]], (), {"name": "prod", "namespace": "prod"}),
        ([TOP], [[TOP]], (), {"name": "top"}),
        ([TOP], [[]], (), {"name": "top"}),
        ([TOP], [[TOP, PROD]], ("platform",), {"name": "top", "namespace": None}),
        ([TOP], [[TOP, PROD]], ("shop",), {"name": "prod", "namespace": "prod"}),
        ([TOP], [[TOP, PROD]], ("other",), {"name": None, "ignore": None}),
        ([], [OF_PROD], ("other",), {"name": None, "timeout": "top", "namespace": None}),
        ([PROD], [[_file("base", ignore=["a"])]], (), {"name": "prod", "ignore": "prod"}),
        ([PROD], [[_file("base", adopt="none")]], (), {"name": "prod", "adopt": "base"}),
        ([], [OF_PROD, [NAMELESS]], (), {"name": "prod", "ignore": "prod"}),
        ([], [[NAMELESS], OF_PROD], (), {"name": "prod", "ignore": "prod"}),
    ],
)
def test_folder_that_is_named_says_the_options(
    here: list[Configuration],
    named: list[list[Configuration]],
    names: tuple[str, ...],
    said: dict[str, str | None],
) -> None:
    """With what stands above it; what another set says does not count."""
    found = settings_of_call(here, named, names).said
    assert {key: found[key].path if key in found else None for key in said} == said


@pytest.mark.parametrize(
    ("here", "named", "names", "conditions", "selected"),
    [
        ([PLAIN], [], (), ["prod"], ""),
        ([SELECTS], [], (), ["prod"], "prod"),
        ([SELECTS], [[SELECTS, _file("m", name="m")]], (), ["prod"], "prod"),
        ([], [[SELECTS]], (), ["prod"], ""),
        pytest.param(
            [], [OF_PROD], ("other",), ["prod"], "", marks=pytest.mark.holds("named-context")
        ),
        ([TOP], [[TOP, PROD]], (), ["prod"], ""),
        ([TOP], [[TOP, PROD]], ("platform",), ["prod", "dev"], ""),
        ([TOP], [], ("other",), [], ""),
        ([SELECTS], [[PROD]], (), ["prod"], "prod"),
        ([SELECTS], [OF_DEV], ("shop",), ["dev", "prod"], "prod"),
        ([_file("x", name="x", context=USED)], [OF_PROD], ("shop",), ["prod"], ""),
    ],
)
def test_context_of_a_folder_that_is_named_only_refuses(
    here: list[Configuration],
    named: list[list[Configuration]],
    names: tuple[str, ...],
    conditions: list[str],
    selected: str,
) -> None:
    """Also for another set; only who stands in the folder has its context selected."""
    found = settings_of_call(here, named, names)
    assert list(dict.fromkeys(map(context_name, found.conditions))) == conditions
    assert (context_name(found.selects) if found.selects else "") == selected


def test_only_the_context_counts_where_a_file_names_the_folder() -> None:
    found = settings_of_call([TOP], [OF_PROD], only_context=True)
    assert found.said == {"name": TOP, "context": TOP}
    assert found.conditions == (PROD, TOP)


TWO_SETS = [
    (
        [],
        [OF_DEV, OF_PROD],
        (),
        "dev is for the set shop in namespace dev in context dev, and prod",
    ),
    ([DEV], [[PROD]], (), "dev is for the set shop"),
    ([DEV], [[PROD]], ("shop",), "prod is for the set shop in namespace prod in context prod"),
    (
        [],
        [[TOP, PROD], [TOP]],
        (),
        "prod is for the set shop in namespace prod in context prod, and top",
    ),
    (
        [],
        [[_file("a", name="a")], [_file("b", name="b")]],
        (),
        "a is for the set a, and b is for the set b",
    ),
    (
        [],
        [[_file("a", name="a")], [_file("b", name="a", namespace="b")]],
        (),
        "b is for the set a in namespace b",
    ),
]


@pytest.mark.holds(
    "two-sets",
    row="here0-named0-names0-dev is for the set shop in namespace dev in context dev, and prod",
)
@pytest.mark.parametrize(("here", "named", "names", "told"), TWO_SETS)
def test_folders_of_two_sets_are_an_error_that_names_both(
    here: list[Configuration], named: list[list[Configuration]], names: tuple[str, ...], told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        settings_of_call(here, named, names)
    assert told in str(caught.value)


def test_command_line_settles_what_files_dispute() -> None:
    """Else nobody knows which of two folders side by side is meant."""
    here, there = _file("a", name="web", timeout="1m"), _file("b", timeout="5m")
    with pytest.raises(UsageError, match=r"^a:2:1 and b:1:1 say different things") as caught:
        settings_of_call([here], [[there]])
    assert "--config FILE" in caught.value.hint
    assert settings_of_call([here], [[there]], settled={"timeout"}).said["name"] == here
    same = [[PROD], [_file("other", name="shop", namespace="other")]]
    assert settings_of_call([], same, settled={"namespace"}).said["name"] == PROD


@pytest.mark.parametrize(
    ("here", "named", "names", "unused"),
    [
        ([TOP], [], ("shop",), [TOP]),
        ([TOP], [[TOP, PROD]], ("shop",), []),
        ([TOP], [[TOP, PROD]], ("platform",), [PROD]),
        ([TOP], [[TOP, PROD]], (), []),
        ([], [OF_PROD], ("other",), [PROD]),
    ],
)
def test_file_of_another_set_is_named_as_unused(
    here: list[Configuration],
    named: list[list[Configuration]],
    names: tuple[str, ...],
    unused: list[Configuration],
) -> None:
    assert list(settings_of_call(here, named, names).unused) == unused
