"""What several ``applyprune.yaml`` say together: which file says each key, and when none may."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import InputError, UsageError
from applyprune.model.identity import SetKey
from applyprune.planning.configuration import (
    SetSettings,
    context_name,
    faults_of_sets,
    for_sets,
    inherited,
    settings_of_call,
    settings_of_set,
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


BASE = _file("base", context="prod")
AT_TOP = _file("top", context=USED)


@pytest.mark.parametrize(
    ("files", "named", "here", "conditions", "selected"),
    [
        ([PLATFORM], [], (), [], ""),
        ([TOP], [[BASE]], (), ["prod", "dev"], ""),
        ([TOP, PROD], [[TOP, PROD]], (TOP,), ["prod"], ""),
        pytest.param(
            *([AT_TOP, PLATFORM], [], (), ["prod"], ""),
            marks=pytest.mark.holds("selected-for-sets"),
        ),
        ([AT_TOP, PLATFORM], [[AT_TOP]], (AT_TOP,), ["prod"], "prod"),
        ([AT_TOP, _file("a", name="a", context=USED)], [], (AT_TOP,), ["prod"], ""),
    ],
)
def test_set_selects_the_context_of_the_current_folder_only(
    files: list[Configuration],
    named: list[list[Configuration]],
    here: tuple[Configuration, ...],
    conditions: list[str],
    selected: str,
) -> None:
    """As a folder that is named: no command moves to another cluster by the folder it names."""
    found = settings_of_set(files, named, here)
    assert list(map(context_name, found.conditions)) == conditions
    assert (context_name(found.selects) if found.selects else "") == selected
    assert found.said == inherited(files)


def _set(path: str, namespace: str = "shop", /, **settings: Any) -> SetSettings[Configuration]:
    """Return a set that its file names web, with what a file above it says."""
    file = _file(path, **{"name": "web", "filename": ["m"], **settings})
    found = settings_of_set([NAMELESS, file], [], [file] if "selects" in settings else ())
    return SetSettings(SetKey(namespace, found.said["name"].settings["name"]), path, found)


TWICE = "Give each set its own name, or its own namespace."
FAULTS = [
    ([_set("a"), _set("b", name="api"), _set("c", "pay")], (), []),
    pytest.param(
        *([_set("a"), _set("b", name="api"), _set("c"), _set("d")], ()),
        [("c:1:1", "a:1:1 names the set shop/web, too", TWICE), ("d:1:1", "a:1:1 names", TWICE)],
        marks=pytest.mark.holds("set-twice"),
        id="two files of one set",
    ),
    (
        [_set("a", "x", namespace="shop"), _set("b", "x", namespace="pay")],
        {"namespace"},
        [("b:1:1", "a:1:1 names the set x/web, too", "Leave out -n: it gives all sets one")],
    ),
    ([_set("a", "x"), _set("b", "x")], {"namespace"}, [("b:1:1", "a:1:1 names", TWICE)]),
    ([_set("a", kustomize=["k"], filename=[])], (), []),
    pytest.param(
        *([_set("a", context="dev"), _set("b", "pay", context="prod"), _set("c", "x")], ()),
        [("b:3:1", "this is for the context prod, and a:3:1 for dev", "Run it for a folder")],
        marks=pytest.mark.holds("contexts-of-sets"),
        id="two contexts",
    ),
    (
        [
            _set(name, name, context=context)
            for name, context in (
                ("a", "dev"),
                ("b", USED),
                ("c", "dev"),
                ("d", "prod"),
                ("e", "x"),
            )
        ],
        (),
        [("b:3:1", "the context prod, and a:3:1 for dev", ""), ("e:3:1", "context x, and a", "")],
    ),
    ([_set("a", context="dev"), _set("b", "pay", context="prod")], {"context"}, []),
    pytest.param(
        *([_set("a", "x"), _set("b", selects=True, context=USED), _set("c", "y")], ()),
        [("b:4:1", "this selects the context prod, and not for the set x/web", "Give --context")],
        marks=pytest.mark.holds("context-for-some-sets"),
        id="a context for some sets",
    ),
    ([_set("a", "x", context="prod"), _set("b", selects=True, context=USED)], (), []),
    ([_set("a", "x"), _set("b", selects=True, context=USED)], {"context"}, []),
]


@pytest.mark.parametrize(("sets", "settled", "told"), FAULTS)
def test_sets_that_exclude_each_other_are_errors(
    sets: list[SetSettings[Configuration]],
    settled: set[str],
    told: list[tuple[str, str, str]],
) -> None:
    """All of them, with both places; of many sets with one context, the first says so."""
    faults = faults_of_sets(sets, settled)
    assert [fault.location for fault in faults] == [place for place, _, _ in told]
    for fault, (_, message, hint) in zip(faults, told, strict=True):
        assert message in fault.message
        assert fault.hint.startswith(hint)


@pytest.mark.parametrize("own", [{}, {"filename": []}, {"filename": [], "kustomize": []}])
def test_set_without_input_is_an_error(own: dict[str, Any]) -> None:
    """It does not inherit that of a set above it."""
    found = settings_of_set([PLATFORM, _file("prod", name="web", **own)], [], ())
    faults = faults_of_sets([_set("a"), SetSettings(SetKey("", "web"), "prod", found)])
    assert len(faults) == 1
    assert str(faults[0]).startswith("prod:1:1: the set web has no input\n  Add filename or kusto")


def test_set_says_its_input_and_what_it_depends_on() -> None:
    """A nearer list replaces that of a file above, and an empty one takes it back."""
    above = _file("top", dependsOn=["crds"])
    for own, place, texts in (
        ({}, "top:1:1", ("crds",)),
        ({"dependsOn": []}, "a:3:1", ()),
        ({"dependsOn": ["db", "pay/api"]}, "a:3:1", ("db", "pay/api")),
    ):
        file = _file("a", name="a", kustomize=["k"], **own)
        one = SetSettings(SetKey("", "a"), "a", settings_of_set([above, file], [], ()))
        assert one.input == {"kustomize": ["k"]}
        assert (str(one.depends_on.origin), one.depends_on.depends_on) == (place, texts)
    assert _set("a").depends_on.depends_on == ()
