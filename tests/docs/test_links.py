"""Links in the docs lead somewhere, and paths that they name exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import PAGES, README, ROOT, Page, page

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PATH = re.compile(r"`((?:applyprune|tests|fixtures|deploy|docs)/[a-z0-9_./-]*)`")


def _name(one: Page) -> str:
    return one.name


@pytest.mark.parametrize("one", PAGES, ids=_name)
def test_links_lead_to_pages_and_headings(one: Page) -> None:
    """To a file of this repository, and to a heading there; what is elsewhere is not tried."""
    broken = []
    for link in _LINK.findall(one.prose):
        path, _, anchor = link.partition("#")
        if path.startswith("https://"):
            continue
        target = (ROOT / one.name).parent / path if path else ROOT / one.name
        if not target.exists():
            broken.append(link)
        elif anchor:
            name = str(target.resolve().relative_to(ROOT))
            if anchor not in page(name).anchors:
                broken.append(link)
    assert broken == []


@pytest.mark.parametrize("one", PAGES, ids=_name)
def test_headings_of_a_page_differ(one: Page) -> None:
    """So each has an anchor of its own; the changelog's repeat by its form."""
    if one.name != "CHANGELOG.md":
        assert len(set(one.anchors)) == len(one.anchors)


@pytest.mark.parametrize("one", PAGES, ids=_name)
def test_paths_exist(one: Page) -> None:
    """As code, from the root of the repository."""
    assert [path for path in _PATH.findall(one.prose) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "walk",
    [
        "From `applyprune apply` to the PATCH",
        "From an entry that has left to the DELETE",
        "From a commit to the cluster",
    ],
)
def test_walk_names_files_and_functions_that_exist(walk: str) -> None:
    """A module, and a function or class in it."""
    walk = page("CONTRIBUTING.md").section(walk)
    stops = re.findall(r"^\| \d+ \| `(.*?)` \| `(.*?)` \|", walk, re.MULTILINE)
    assert 3 < len(stops) <= 12
    for path, name in stops:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(def|class) {name}\b", source, re.MULTILINE), (path, name)


def test_pages_are_linked_from_the_readme() -> None:
    """By links, from page to page."""
    reached, waiting = set(), [README.name]
    names = {one.name for one in PAGES}
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        for link in _LINK.findall(page(name).prose):
            path = link.partition("#")[0]
            if path and not path.startswith("https://"):
                target = str(((ROOT / name).parent / path).resolve().relative_to(ROOT))
                waiting += [target] if target in names else []
    assert names - reached == set()


_CITES = re.compile(r"(safety rule|design §|failures(?:\.md)? §)\s*(\d+(?:\.\d+)?)", re.IGNORECASE)
_DESIGN = "docs/concepts/design.md"


def test_rules_cited_by_the_code_have_headings() -> None:
    """In docs/concepts/design.md: `design §3`, `safety rule 12`, `failures §1.1`."""
    headings = re.findall(r"^#+ (.*)$", page(_DESIGN).prose, re.MULTILINE)
    forms = {"safety rule": "Safety rule {}: ", "design §": "{}. "}
    cited = {
        forms.get(kind.lower(), "Failures {}: ").format(number)
        for folder in ("applyprune", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for kind, number in _CITES.findall(path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 10
    assert {one for one in cited if not any(head.startswith(one) for head in headings)} == set()
