"""How to reach one API server: its address, how to trust it, and our credentials."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from applyprune.cluster.credentials import Credentials


@dataclass(frozen=True, slots=True)
class TLSTrust:
    """How the server's certificate is checked.

    ``authorities`` is PEM text, empty for the system's authorities. ``server_name`` replaces the
    host in SNI and in the check of the certificate's name. ``skip_verify`` turns every check off.
    """

    authorities: str = ""
    server_name: str = ""
    skip_verify: bool = False


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """One API server, as a kubeconfig context or the pod that we run in describes it.

    ``server`` is a URL without a trailing slash, possibly with a path. ``namespace`` is the
    context's, or ``default``. ``context`` and ``user`` are names for messages only. ``proxy`` is a
    URL, empty for none. ``impersonation`` holds headers that go with every request.
    """

    server: str
    namespace: str
    context: str
    user: str
    credentials: Credentials = field(repr=False)
    trust: TLSTrust = field(default=TLSTrust(), repr=False)
    proxy: str = field(default="", repr=False)
    impersonation: tuple[tuple[str, str], ...] = ()
