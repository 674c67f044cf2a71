"""How an object is called in text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from applyprune.model.refs import Ref


def called(ref: Ref, home: str) -> str:
    """Return ``deployment.apps/web``, and its namespace where that is not ``home``: ``-n shop``.

    In kubectl's words, so that it can be handed to kubectl. Unlike kubectl it never leaves open
    which of two objects of one name is meant.
    """
    return f"{ref.short} -n {ref.namespace}" if ref.namespace not in {"", home} else ref.short
