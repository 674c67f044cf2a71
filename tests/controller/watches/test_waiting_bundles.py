"""Which Bundles wait for which others."""

from __future__ import annotations

from applyprune.controller.watches import WaitingBundles

A, B, C = ("shop", "a"), ("shop", "b"), ("shop", "c")


def test_bundle_waits_for_what_it_named_last() -> None:
    """And says so once for each."""
    waiting = WaitingBundles()
    assert waiting.wait(C, frozenset({A, B}))
    assert waiting.wait(B, frozenset({A}))
    assert waiting.waiting_for(A) == {B, C}
    assert not waiting.wait(C, frozenset({B}))
    assert waiting.waiting_for(A) == {B}
    assert waiting.waiting_for(B) == {C}
    assert waiting.wait(C, frozenset({A, B}))
    assert not waiting.wait(C, frozenset())
    assert not waiting.wait(B, frozenset())
    assert waiting == WaitingBundles()
