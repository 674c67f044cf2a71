"""Leader election among replicas: the leader holds a Lease by renewing it.

A follower takes the Lease over when it has not changed for its duration, by the follower's own
clock; times of two machines are never compared. The leader stops earlier: when it could not renew
the Lease for two thirds of the duration. The lock on each inventory makes a late write harmless
(safety rule 8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from applyprune.clock import Instant, boot_time, read_clock, seconds_held
from applyprune.cluster.client import KubernetesClient
from applyprune.engine.cancellation import Cancellation
from applyprune.errors import AlreadyExists, ApplypruneError, Conflict, LeaseLost, NotFound
from applyprune.model.identity import Ref
from applyprune.model.resources import LEASES

_TRIES_PER_LEASE = 6
_OF_LEASE = 2 / 3


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(slots=True)
class LeaderElection:
    """One replica's election; ``identity`` is unique per process, ``duration`` is in seconds."""

    client: KubernetesClient
    ref: Ref
    identity: str
    duration: float
    _seen: tuple[object, ...] = ()
    _since: float = field(default_factory=boot_time)
    _held_since: Instant = field(default_factory=read_clock)

    @property
    def pause(self) -> float:
        """Return the seconds between two attempts."""
        return self.duration / _TRIES_PER_LEASE

    def acquire(self, stop: Cancellation, on_error: Callable[[ApplypruneError], None]) -> bool:
        """Wait for the Lease; return False when ``stop`` is requested first."""
        while not stop.requested:
            try:
                if self.try_once():
                    return True
            except ApplypruneError as error:
                on_error(error)
            stop.wait(self.pause)
        return False

    def keep(self, stop: Cancellation, on_error: Callable[[ApplypruneError], None]) -> None:
        """Renew the Lease until ``stop``; raises LeaseLost when it is lost."""
        while not stop.wait(self.pause):
            try:
                self.try_once()
            except ApplypruneError as error:
                on_error(error)
            if self._seen and self._seen[0] not in {"", None, self.identity}:
                raise LeaseLost("another replica has taken the Lease")
            if seconds_held(self._held_since, read_clock()) > self.duration * _OF_LEASE:
                raise LeaseLost("the Lease could not be renewed in time")

    def release(self) -> None:
        """Give the Lease up, so that the next replica need not wait; errors are ignored."""
        try:
            body = self._read()
            if body is not None and _spec(body).get("holderIdentity") == self.identity:
                self._write({**body, "spec": {**_spec(body), "holderIdentity": ""}})
        except ApplypruneError:
            return

    def try_once(self) -> bool:
        """Take or renew the Lease; return whether this replica holds it. Raises AccessError."""
        began = read_clock()
        body = self._read()
        if body is None:
            return self._create(began)
        spec = _spec(body)
        mark = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if mark != self._seen:
            self._seen, self._since = mark, boot_time()
        holder = str(spec.get("holderIdentity") or "")
        theirs = float(spec.get("leaseDurationSeconds") or self.duration)
        if holder not in {"", self.identity} and boot_time() - self._since < theirs:
            return False
        fresh = self._spec(spec, taken=holder != self.identity)
        try:
            self._write({**body, "spec": fresh})
        except (Conflict, NotFound):
            return False
        self._held_since = began
        return True

    def _spec(self, old: Mapping[str, Any], *, taken: bool) -> dict[str, Any]:
        now = _now()
        changes = int(old.get("leaseTransitions") or 0) + (1 if taken and old else 0)
        return {
            **old,
            "holderIdentity": self.identity,
            # The server accepts whole seconds only, and at least one.
            "leaseDurationSeconds": max(1, round(self.duration)),
            "renewTime": now,
            "acquireTime": now if taken else old.get("acquireTime", now),
            "leaseTransitions": changes,
        }

    def _create(self, began: Instant) -> bool:
        body = {
            "apiVersion": LEASES.gvk.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self.ref.name, "namespace": self.ref.namespace},
            "spec": self._spec({}, taken=True),
        }
        try:
            self.client.create(LEASES, self.ref, body, timeout=self._timeout)
        except AlreadyExists:
            return False
        self._held_since = began
        return True

    def _read(self) -> Mapping[str, Any] | None:
        try:
            return self.client.get(LEASES, self.ref, full=True, timeout=self._timeout).body
        except NotFound:
            return None

    def _write(self, body: Mapping[str, Any]) -> None:
        self.client.replace(LEASES, self.ref, body, timeout=self._timeout)

    @property
    def _timeout(self) -> float:
        # For all tries together: a late renewal is worth nothing.
        return max(1.0, self.duration / 3)


def _spec(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return body.get("spec") or {}
