"""Read all that a Bundle is made of: its manifests, wherever they are, and its kubeconfig."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
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
from applyprune.errors import AccessError, Forbidden, InputError, problems_of
from applyprune.model.problem import Problem
from applyprune.sources.tree import FetchFailed
from applyprune.values import dataclass, replace

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
        states: tuple[SourceState | None, SourceState | None],
        asked: str,
        keep: Callable[[SourceObjects], None],
    ) -> tuple[LoadedSource, bytes]:
        """Return the source of a Bundle, and its kubeconfig.

        ``states`` are what is known of its source on another host, and what was last read of it;
        ``asked`` is the value of reconcile-now. ``keep`` gets what the source consists of, so that
        this is watched even if it is unreadable. Raises SourceAwaited and ApplypruneError.
        """
        uses: Uses = {}
        resources = {ref: resource for resource, ref in watched_refs(bundle)}
        read = SourceObjects(bundle.spec.service_account_name, resources, uses)
        try:
            request = self._request(bundle, cluster, uses, asked)
            read = replace(read, remote=request)
            keys = decryption_keys(bundle, cluster, uses)
            if request is None or self.remote is None:
                source = load_source(bundle, cluster, uses, None)
            else:
                cache = SourceCache(self.remote.folder, self.remote.limit)
                source = _Fetched(bundle, cluster, request, keys, cache).usable(*states)
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


@dataclass(frozen=True, slots=True)
class _Fetched:
    """What is read of a Bundle's source on another host."""

    bundle: Bundle
    cluster: Cluster
    request: SourceRequest
    keys: Mapping[str, bytes] | None
    """What decrypts it; None if it is not encrypted."""
    cache: SourceCache

    def usable(self, newest: SourceState | None, last: SourceState | None) -> LoadedSource:
        """Return what is known of the source, or what was last read of it if that is unusable.

        So drift is set back until somebody repairs what is new.
        """
        try:
            return self._loaded(newest)
        except InputError as error:
            if newest is None or last is None or last.content == newest.content:
                raise
            with suppress(InputError, SourceAwaited):
                found = self._loaded(last)
                return replace(found, state=replace(last, unusable=problems_of(error)))
            raise

    def _loaded(self, state: SourceState | None) -> LoadedSource:
        content = content_of(self.request, state)
        texts = remote_texts(self.request, content, self.cache, self.keys, self._warn)
        fetched = FetchedTexts(texts, content.revision, content.content)
        return replace(load_source(self.bundle, self.cluster, {}, fetched), state=state)

    def _warn(self, problem: Problem) -> None:
        told = problem_message(problem, secret=self.bundle.has_secret_source)
        place = {"namespace": self.bundle.namespace, "bundle": self.bundle.name}
        LOG.warning("warning of a source", extra=fields(**place, warning=told))
