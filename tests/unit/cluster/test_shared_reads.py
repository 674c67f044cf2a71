"""What several runs read together, and what each of them reads alone."""

from __future__ import annotations

from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from applyprune.cluster.shared_reads import MOST, SharedReads
from applyprune.errors import Forbidden
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS
from applyprune.planning.applyset import PART_OF, SET_ID, applyset_identity
from tests.support.clocks import ManualClock
from tests.support.planning import SECRETS, live

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from applyprune.model.live import LiveObject, Resource

A, B = applyset_identity("a", "shop"), applyset_identity("b", "pay")
OF_A, OF_B = f"{PART_OF}={A.id}", f"{PART_OF}={B.id}"


class Server:
    """Answers lists, and remembers them."""

    def __init__(self) -> None:
        self.asked: list[tuple[Resource, str, frozenset[str], bool]] = []
        self.refused: set[str] = set()
        self.inventories = [A, B]
        self.arrived, self.may_answer = Flag(), Flag()
        self.may_answer.set()

    def list_among(
        self, resource: Resource, key: str, values: Collection[str], *, full: bool = False
    ) -> Sequence[LiveObject]:
        self.asked.append((resource, key, frozenset(values), full))
        self.arrived.set()
        self.may_answer.wait()
        if resource.plural in self.refused:
            raise Forbidden("no", code=403)
        if key == SET_ID:
            return [live(one.inventory) for one in self.inventories]
        kind = resource.kind
        return [
            live(Ref("", kind, "shop", f"{label[-6:]}-{number}"), labels={PART_OF: label})
            for label in (A.id, B.id)
            for number in range(2)
        ]


def names(found: Sequence[LiveObject] | None) -> list[str] | None:
    return None if found is None else [one.ref.name for one in found]


def parts(one: str) -> list[str]:
    label = one.partition("=")[2]
    return [f"{label[-6:]}-0", f"{label[-6:]}-1"]


def test_one_request_lists_what_all_sets_have() -> None:
    server = Server()
    reads = SharedReads(server, [A, B])
    assert server.asked == []
    for one in (A, B):
        found = reads.inventory(one.inventory)
        assert found is not None
        assert found.ref == one.inventory
    assert names(reads.objects(SECRETS, OF_B, full=True)) == parts(OF_B)
    assert names(reads.objects(SECRETS, OF_A, full=True)) == parts(OF_A)
    assert names(reads.objects(SECRETS, OF_A, full=False)) == parts(OF_A)
    both = frozenset({A.id, B.id})
    assert server.asked == [
        (CONFIG_MAPS, SET_ID, both, True),
        (SECRETS, PART_OF, both, True),
        (SECRETS, PART_OF, both, False),
    ]


def test_each_set_gets_its_part_once() -> None:
    """Whatever it reads again must be as it is then."""
    reads = SharedReads(Server(), [A, B])
    for one in (A, B):
        assert reads.inventory(one.inventory) is not None
    assert reads.objects(SECRETS, OF_A, full=False) is not None
    assert reads.objects(SECRETS, OF_A, full=False) is None
    assert reads.objects(SECRETS, OF_B, full=False) is not None


@pytest.mark.holds("inventory-first")
def test_set_that_reads_its_inventory_alone_reads_its_objects_alone() -> None:
    """Its inventory may show a run that the objects, which were read before it, do not show."""
    server = Server()
    server.inventories = [B]
    reads = SharedReads(server, [A, B])
    assert reads.inventory(A.inventory) is None
    assert reads.inventory(B.inventory) is not None
    assert reads.objects(SECRETS, OF_A, full=False) is None
    assert names(reads.objects(SECRETS, OF_B, full=False)) == parts(OF_B)
    # Another run was first: the set reads its inventory again, and plans again.
    assert reads.inventory(B.inventory) is None
    assert reads.objects(CONFIG_MAPS, OF_B, full=False) is None


@pytest.mark.holds("fresh-shares")
def test_shared_reads_count_for_a_moment_only() -> None:
    server, clock = Server(), ManualClock()
    reads = SharedReads(server, [A, B], clock)
    clock.passed += 100
    fresh = [reads.is_fresh]
    assert reads.inventory(A.inventory) is not None
    clock.passed += 4.9
    assert reads.objects(SECRETS, OF_A, full=False) is not None
    clock.passed += 0.1
    assert [*fresh, reads.is_fresh] == [True, False]
    assert reads.objects(SECRETS, OF_B, full=False) is None
    assert reads.inventory(B.inventory) is None


def test_other_selections_are_not_shared() -> None:
    server = Server()
    reads = SharedReads(server, [A])
    for selector in (f"{PART_OF}=other", "app=web", "", PART_OF, f"{SET_ID}={A.id}", f"{OF_A},x"):
        assert reads.objects(SECRETS, selector, full=False) is None
    assert server.asked == []


@pytest.mark.parametrize("refused", ["configmaps", "secrets"])
def test_list_that_is_refused_is_left_to_each_run(refused: str) -> None:
    """It is asked once; each run says what is wrong, or lists its own namespace."""
    server = Server()
    server.refused = {refused}
    reads = SharedReads(server, [A, B])
    for one in (A, B):
        assert (reads.inventory(one.inventory) is None) == (refused == "configmaps")
        assert reads.objects(SECRETS, f"{PART_OF}={one.id}", full=False) is None
    asked = [resource.plural for resource, *_ in server.asked]
    assert asked == (["configmaps"] if refused == "configmaps" else ["configmaps", "secrets"])


def test_set_beyond_the_most_reads_alone() -> None:
    sets = [applyset_identity(f"s{number}", "shop") for number in range(MOST + 1)]
    reads = SharedReads(Server(), sets)
    assert reads.objects(SECRETS, f"{PART_OF}={sets[-1].id}", full=False) is None


def test_runs_that_ask_at_once_wait_for_one_answer() -> None:
    server = Server()
    reads = SharedReads(server, [A, B])
    for one in (A, B):
        reads.inventory(one.inventory)
    server.arrived.clear()
    server.may_answer.clear()
    found: dict[str, Sequence[LiveObject] | None] = {}

    def ask(selector: str) -> None:
        found[selector] = reads.objects(SECRETS, selector, full=False)

    threads = [Thread(target=ask, args=(one,)) for one in (OF_A, OF_B)]
    for thread in threads:
        thread.start()
    server.arrived.wait()
    server.may_answer.set()
    for thread in threads:
        thread.join()
    assert {one: names(lives) for one, lives in found.items()} == {
        OF_A: parts(OF_A),
        OF_B: parts(OF_B),
    }
    assert len(server.asked) == 2
