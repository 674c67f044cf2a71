"""What the engine needs of the outside: an API server, the store of an inventory, a stop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from signal import SIGINT
from threading import Event as Flag
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from applyprune.clock import CLOCK, Clock, Lease
from applyprune.errors import Interrupted
from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory
from applyprune.model.live import (
    Absent,
    LiveObject,
    Registrations,
    Resource,
    ResourceMap,
    WatchEvent,
)
from applyprune.model.plan import Access, AccessRule, ApplyRequest, DeleteRequest, PatchRequest

if TYPE_CHECKING:
    from datetime import datetime

    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.secrets import KnownSecrets


class Cluster(Protocol):
    """An API server; every call raises the errors of ``applyprune.errors`` and is thread-safe."""

    @property
    def server(self) -> str:
        """Return the URL of the API server."""

    @property
    def context(self) -> str:
        """Return the context of the kubeconfig; empty if unknown."""

    @property
    def run(self) -> str:
        """Return the ID of the run whose requests these are."""

    @property
    def server_time(self) -> datetime | None:
        """Return the time of the server's last reply, by its own clock; None if it gave none."""

    def resource_map(self, *, remembered: bool = False) -> ResourceMap:
        """Return the resources that the server serves now.

        With ``remembered``, those of a moment ago will do; the result says whether it is such.
        """

    @property
    def patience(self) -> float:
        """Return for how many seconds a read may be repeated that shows too little."""

    def registrations(self) -> Registrations:
        """Return the CRDs and APIServices, in full; raises Forbidden without the right to it."""

    @property
    def access(self) -> Reviews:
        """Return what asks the server for the rights of this account."""

    def is_ready(self) -> bool:
        """Return whether the server says that it is ready."""

    def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        full: bool = False,
        remembered: bool = False,
    ) -> Sequence[LiveObject]:
        """Return all objects, never an incomplete list; metadata only unless ``full``.

        With ``remembered``, a refusal of some minutes ago will do: it proves nothing.
        """

    def is_read(self, resource: Resource, selector: str, *, full: bool) -> bool:
        """Return whether such a list needs no request, because others have read it for this run."""

    def list_at(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        name: str = "",
        full: bool = False,
        slim: Callable[[LiveObject], LiveObject] | None = None,
    ) -> tuple[Sequence[LiveObject], str]:
        """Return what ``list`` returns, and the resourceVersion to watch from.

        ``slim`` reduces each object to what is needed, before the next ones are read.
        """

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        name: str = "",
        full: bool = True,
        resource_version: str,
        stop: Callable[[], bool],
        seconds: float,
    ) -> Iterator[WatchEvent]:
        """Yield the changes after a resourceVersion until server, ``stop`` or time ends it."""

    def get(self, resource: Resource, ref: Ref, *, full: bool = False) -> LiveObject:
        """Return one object; raises NotFound when it does not exist."""

    def read(self, resource: Resource, ref: Ref, *, full: bool = False) -> LiveObject | Absent:
        """Return one object, or the proof that it does not exist."""

    def apply(self, request: ApplyRequest, *, dry_run: bool = False) -> tuple[LiveObject, bool]:
        """Send a server-side apply; return the object in the reply, and whether it was created."""

    def delete(self, request: DeleteRequest, *, timeout: float | None = None) -> bool:
        """Delete exactly this object in exactly this state; return whether that is confirmed."""

    def patch(self, request: PatchRequest) -> LiveObject:
        """Send a JSON patch; its test operations guard it. Return the whole object."""

    def replace(
        self, resource: Resource, ref: Ref, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> LiveObject:
        """Replace an object; only a dry run of it is ever asked for here."""

    def log(self, pod: Ref, container: str, *, previous: bool, lines: int, size: int) -> str:
        """Return the last lines of a container's log, at most ``size`` bytes; it may say anything.

        With ``previous``, the log is of the instance that ran before the present one.
        """

    def serves(self, resource: Resource) -> bool:
        """Return whether the endpoint of a resource is there, whether or not it may be listed.

        Raises the error of the endpoint if neither it nor the list of kinds tells.
        """

    def defines(self, resource: Resource) -> bool:
        """Return whether a CRD defines a resource, whether or not it is served already."""

    def schemas(self, resource: Resource) -> Mapping[str, Any]:
        """Return the OpenAPI v3 schemas of a resource's group version by name; it may be empty."""

    def create_namespace(self, name: str) -> None:
        """Create a namespace that belongs to no set; it may exist already."""

    def under_lease(self, lease: Lease) -> Cluster:
        """Return the same API server; no write is sent, or sent again, after the lease's end."""

    def warning_to(self, sink: Callable[[Ref, str], None] | None) -> Cluster:
        """Return the same API server; ``sink`` gets its warnings in replies to writes.

        That of a Secret is empty unless it holds no value.
        """

    def hiding(self, secrets: KnownSecrets) -> Cluster:
        """Return the same API server; no text of others shows a value of these Secrets.

        Its errors, warnings and logs are masked as they are read.
        """

    def masked(self, text: str) -> str:
        """Return a text of others, from the body of an object, without these values."""


class Reviews(Protocol):
    """What asks an API server for the rights of the account; thread-safe."""

    def rules(self, namespace: str) -> Sequence[AccessRule]:
        """Return rules that allow something in a namespace; others may exist."""

    def is_allowed(self, access: Access) -> bool:
        """Return whether the server would authorize a request."""


class Readable(Protocol):
    """A source of an inventory."""

    def read(self) -> Inventory:
        """Return the inventory; if none exists, an empty one whose ``exists`` is false."""

    def others(self, ids: Collection[str]) -> Mapping[str, Inventory | None]:
        """Return the inventories of the sets with these ids; None if there is none; thread-safe.

        A set whose inventory cannot be read is left out.
        """

    def of(self, applyset: ApplySetIdentity) -> Inventory:
        """Return the inventory of another set; thread-safe.

        Raises InventoryError if it cannot be read, and what the server answers.
        """


class Store(Readable, Protocol):
    """The store of one set's inventory; every write is compare-and-swap."""

    def write(self, inventory: Inventory, *, within: float | None = None) -> Inventory:
        """Replace the inventory and return it as stored; InventoryLocked if it has changed.

        No request is sent again after ``within`` seconds.
        """

    def remove(self, inventory: Inventory, *, within: float | None = None) -> Sequence[str]:
        """Delete the inventory if no run has changed it since it was read.

        Return the finalizers of other tools that still hold it.
        """


class DamagedStore(Store, Protocol):
    """A store whose inventory may be damaged."""

    def salvage(self) -> tuple[Inventory, Sequence[str]]:
        """Return the readable part of the inventory, and what is unreadable.

        What is wrong with its label and annotations is in the ``root`` of the inventory.
        """

    def strays(self) -> Sequence[str]:
        """Return the names of stored parts that the inventory, as read, does not name."""


# The end of a run. Whatever a run waits for, it waits for this too: so the clock is here.


class Cancellation(Struct):
    """A request to end the run; once it is made, the run starts nothing more."""

    clock: Clock = CLOCK
    """The clock of the run's waits."""
    _flag: Flag = field(default_factory=Flag)
    _signal: int = 0

    def request(self, signal_number: int = SIGINT) -> None:
        """Ask the run to finish the requests in flight, write the inventory and end.

        The exit code will be 128 plus the number, by default that of Ctrl-C.
        """
        self._signal = self._signal or signal_number
        self._flag.set()

    @property
    def requested(self) -> bool:
        """Return whether the run is cancelled."""
        return self._flag.is_set()

    @property
    def exit_code(self) -> int:
        """Return 128 plus the signal's number if the run is cancelled, otherwise 0."""
        return 128 + self._signal if self.requested else 0

    def now(self) -> float:
        """Return the time in seconds on the clock of the run's waits."""
        return self.clock.now()

    def wait(self, seconds: float) -> bool:
        """Wait, but no longer if the run is cancelled; return whether it is."""
        return self.clock.wait(self._flag, seconds)

    def check(self, *, is_unchanged: bool = False) -> None:
        """Raise Interrupted if the run is cancelled; ``is_unchanged``: it has written nothing."""
        if self.requested:
            raise Interrupted(self._signal, is_unchanged=is_unchanged)
