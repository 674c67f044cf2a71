"""cosign itself signs what is in real registries; each of its signatures must be found.

Building cosign takes minutes, so ``make test`` verifies signatures that were recorded.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from applyprune.localplane import progress_on
from applyprune.sources.tree import VerificationFailed
from tests.components import ensure_cosign
from tests.support import registries
from tests.support.cosign import FORMS, Cosign, push_artifact
from tests.support.registry_client import Client
from tests.support.signed_artifacts import attach, check_signatures
from tests.support.signing import signer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.components import Components

pytestmark = pytest.mark.sweep


@pytest.fixture(scope="module")
def program() -> Path:
    return ensure_cosign(progress_on(sys.stderr))


# cosign 3.1 signs with Ed25519ph, which neither its own `verify` nor this project verifies. It
# signs with P-384 and SHA-384, and its `verify` expects SHA-256: here both are accepted.
@pytest.mark.parametrize(
    ("kind", "is_verified"), [("p256", True), ("rsa", True), ("p384", True), ("ed25519", False)]
)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("start", ["password_registry", "referrers_registry"])
def test_signatures_of_cosign_are_verified(
    components: Components,
    program: Path,
    tmp_path: Path,
    start: str,
    form: str,
    kind: str,
    is_verified: bool,
) -> None:
    with getattr(registries, start)(components, tmp_path / "registry") as registry:
        digest = push_artifact(Client(registry))
        cosign = Cosign(program, tmp_path, registry)
        mine = cosign.new_key(kind)
        with pytest.raises(VerificationFailed, match="has no signature"):
            check_signatures(registry, digest, mine)
        cosign.sign(digest, form)
        assert is_verified or not cosign.verify(digest, form)
        if is_verified:
            check_signatures(registry, digest, mine)
        else:
            with pytest.raises(VerificationFailed):
                check_signatures(registry, digest, mine)
        with pytest.raises(VerificationFailed, match="no key of the Secret"):
            check_signatures(registry, digest, signer())


@pytest.mark.parametrize("form", FORMS)
def test_cosign_verifies_what_the_tests_sign(
    components: Components, program: Path, tmp_path: Path, form: str
) -> None:
    """So the signatures of tests/support/signing.py are what cosign would make."""
    with registries.password_registry(components, tmp_path / "registry") as registry:
        client = Client(registry)
        digest = push_artifact(client)
        cosign = Cosign(program, tmp_path, registry)
        mine = cosign.new_key("p256")
        attach(client, digest, form, mine)
        assert cosign.verify(digest, form)
