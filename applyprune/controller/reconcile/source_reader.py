"""Read all that a Bundle is made of: its manifests, wherever they are, and its kubeconfig."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from applyprune.controller.clusters.kubeconfig_secret import read_kubeconfig
from applyprune.controller.fetching.remote_manifests import (
    SourceAwaited,
    content_of,
    remote_texts,
)
from applyprune.controller.fetching.source_cache import SourceCache
from applyprune.controller.fetching.source_request import decryption_keys, source_request
from applyprune.controller.reconcile.bundle_source import (
    FetchedTexts,
    LoadedSource,
    Uses,
    load_source,
    watched_refs,
)
from applyprune.controller.result import problem_message
from applyprune.controller.runtime.logging import LOG, fields
from applyprune.controller.task import SourceObjects
from applyprune.errors import AccessError, Forbidden
from applyprune.model.problem import Problem
from applyprune.sources.remote.fetch_errors import FetchFailed

if TYPE_CHECKING:
    from applyprune.controller.bundle import Bundle
    from applyprune.controller.fetching.fetch_task import SourceRequest, SourceState
    from applyprune.controller.fetching.source_settings import SourceSettings
    from applyprune.engine.ports import Cluster


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Reads the sources of Bundles, as their ServiceAccounts."""

    remote: SourceSettings | None = None
    """How sources on other hosts are read; None if none are."""

    def read(
        self,
        bundle: Bundle,
        cluster: Cluster,
        state: SourceState | None,
        asked: str,
        keep: Callable[[SourceObjects], None],
    ) -> tuple[LoadedSource, bytes]:
        """Return the source of a Bundle, and its kubeconfig.

        ``state`` is what is known of its source on another host, and ``asked`` the value of
        reconcile-now. ``keep`` gets what it consists of, so that this is watched even if it is
        unreadable. Raises SourceAwaited and ApplypruneError.
        """
        uses: Uses = {}
        resources = {ref: resource for resource, ref in watched_refs(bundle)}
        read = SourceObjects(bundle.spec.service_account_name, resources, uses)
        try:
            request = self._request(bundle, cluster, uses, asked)
            read = replace(read, remote=request)
            fetched = self._fetched(bundle, cluster, uses, request, state)
            source = load_source(bundle, cluster, uses, fetched)
            kubeconfig = read_kubeconfig(bundle, cluster, uses)
        except SourceAwaited as awaited:
            if read.remote is not None:
                read = replace(read, remote=replace(read.remote, lost=awaited.lost))
            raise
        except AccessError as error:
            # Who may no longer read its Secret may no longer use what it says, either.
            read = replace(read, is_known=isinstance(error, Forbidden) or read.remote is not None)
            raise
        finally:
            keep(read)
        return source, kubeconfig

    def _request(
        self, bundle: Bundle, cluster: Cluster, uses: Uses, asked: str
    ) -> SourceRequest | None:
        if bundle.spec.source.remote is None:
            return None
        if self.remote is None:
            raise FetchFailed(
                "sources on other hosts cannot be kept",
                reason="there was no space for temporary files when the controller was started",
                hint="Free some space, and restart the controller.",
            )
        return source_request(
            bundle,
            cluster,
            uses,
            secret=self.remote.secret,
            addresses=self.remote.addresses,
            asked=asked,
        )

    def _fetched(
        self,
        bundle: Bundle,
        cluster: Cluster,
        uses: Uses,
        request: SourceRequest | None,
        state: SourceState | None,
    ) -> FetchedTexts | None:
        keys = decryption_keys(bundle, cluster, uses)
        if request is None or self.remote is None:
            return None
        content = content_of(request, state)

        def warn(problem: Problem) -> None:
            told = problem_message(problem, secret=bundle.has_secret_source)
            place = {"namespace": bundle.namespace, "bundle": bundle.name}
            LOG.warning("warning of a source", extra=fields(**place, warning=told))

        cache = SourceCache(self.remote.folder, self.remote.limit)
        texts = remote_texts(request, content, cache, keys, warn)
        return FetchedTexts(texts, content.revision, content.content)
