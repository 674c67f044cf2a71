"""Credentials of an ``auth-provider`` (OIDC, gcp): the official client gets and renews them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from applyprune.cluster.credentials import FILE_MAX_AGE, Identity, Issued, checked_token
from applyprune.errors import AccessError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from applyprune.cluster.kubeconfig_files import Entry

SUPPORTED = frozenset({"oidc", "gcp"})


class AuthProvider:
    """Lets the official client load a provider's token from the kubeconfig files.

    The client renews an OIDC token only while loading, within five minutes of its expiry, and
    writes it back into the kubeconfig as kubectl does. So the token is loaded again every minute.
    """

    def __init__(self, provider: Entry, files: Sequence[Path], context: str) -> None:
        """Keep the ``auth-provider`` mapping; raises AccessError for an unsupported provider."""
        name = provider.text("name")
        if name not in SUPPORTED:
            raise AccessError(
                f"user {provider.name!r} has the unsupported auth-provider {name!r}",
                hint="Kubernetes replaced such providers with exec plugins; log in with one.",
            )
        self._user = provider.name
        self._name = name
        self._files = os.pathsep.join(str(path) for path in files)
        self._context = context

    def issue(self) -> Issued:
        """Load the token; raises AccessError when the provider returns none."""
        # Imported here: the import takes 0.25 s, and few users have such a provider.
        from kubernetes.client import Configuration  # noqa: PLC0415
        from kubernetes.config import load_kube_config  # noqa: PLC0415

        configuration = Configuration()
        try:
            load_kube_config(
                config_file=self._files,
                context=self._context,
                client_configuration=configuration,
                persist_config=True,
            )
        except Exception as error:  # noqa: BLE001 -- five libraries deep, and all mean the same
            # The text may hold a token or a client secret: show only the type of the error.
            raise self._failure(type(error).__name__) from None
        token = str(configuration.api_key.get("BearerToken", "")).removeprefix("Bearer ")
        if not token:
            raise self._failure("it returned no token")
        identity = Identity(token=checked_token(token, f"auth-provider {self._name!r}"))
        return Issued(identity, FILE_MAX_AGE)

    def _failure(self, why: str) -> AccessError:
        return AccessError(
            f"the auth-provider {self._name!r} of user {self._user!r} failed",
            why=why,
            hint="Log in again; the kubeconfig's refresh token may have expired.",
        )
