"""What holds for every write: who gets the warnings about it, and in which words."""

from __future__ import annotations

import pytest

from applyprune.cluster.messages import ApiRequest
from applyprune.cluster.requests import WriteTerms
from applyprune.model.identity import Ref

REF = Ref("", "Secret", "home", "s")
# Turned round: nothing that knows the Secret's values finds this one.
TEXT = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': the value is 2retnuh"


@pytest.mark.parametrize(
    "is_secret", [pytest.param(True, marks=pytest.mark.holds("secret-in-warning")), False]
)
def test_warning_about_a_secret_has_no_text_that_may_be_made_of_a_value(is_secret: bool) -> None:
    """Of any other object, the text is as the server gives it."""
    got: list[tuple[Ref, str]] = []
    terms = WriteTerms(sink=lambda ref, text: got.append((ref, text)))
    write = terms.on(
        ApiRequest("PATCH", "/api/v1/namespaces/home/secrets/s", secret=is_secret), REF
    )
    assert write.on_warnings is not None
    write.on_warnings([TEXT])
    assert got == [(REF, TEXT.partition(": ")[0] if is_secret else TEXT)]
