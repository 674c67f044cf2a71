"""What it takes to talk to one API server: where it is, how to trust it, who we are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from applyprune.cluster.credentials import Credentials


@dataclass(frozen=True, slots=True)
class TLSTrust:
    """How the server's certificate is checked.

    ``authorities`` is PEM text and empty for the system's own; ``server_name`` replaces the host in
    SNI and in the check of the certificate's name; ``skip_verify`` turns every check off.
    """

    authorities: str = ""
    server_name: str = ""
    skip_verify: bool = False


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """One API server as a kubeconfig context, or the pod that we run in, describes it.

    ``server`` is a URL without a trailing slash, perhaps with a path; ``namespace`` the context's,
    ``default`` when it names none; ``context`` and ``user`` are names for messages only; ``proxy``
    is a URL, empty for none; ``impersonation`` are headers that go with every request.
    """

    server: str
    namespace: str
    context: str
    user: str
    credentials: Credentials = field(repr=False)
    trust: TLSTrust = field(default=TLSTrust(), repr=False)
    proxy: str = field(default="", repr=False)
    impersonation: tuple[tuple[str, str], ...] = ()
