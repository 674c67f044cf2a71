"""What is reported of requests without an answer, and the time that a run has for retries."""

from __future__ import annotations

import pytest

from applyprune.cluster.messages import OpenRequest, OpenRequests, RetryBudget
from applyprune.errors import AccessError, ApiError, Unavailable, Unreachable

WEBHOOK = 'Internal error occurred: failed calling webhook "w.example.com": connection refused'


@pytest.mark.parametrize(
    ("tries", "elapsed", "error", "what", "message"),
    [
        pytest.param(3, 4.9, Unreachable("refused"), "", "", id="a blip"),
        pytest.param(
            1,
            5.0,
            None,
            "the API server",
            "the API server does not answer",
            id="a try that hangs",
        ),
        pytest.param(
            4,
            0.7,
            Unreachable("refused"),
            "the API server",
            "the API server does not answer",
            id="refused connections",
        ),
        pytest.param(
            4,
            0.7,
            Unavailable(WEBHOOK, code=500),
            'the webhook "w.example.com"',
            'the webhook "w.example.com" does not answer',
            id="a dead webhook",
        ),
        pytest.param(
            2,
            11.0,
            Unavailable(WEBHOOK, code=500),
            'the webhook "w.example.com"',
            'the webhook "w.example.com" does not answer',
            id="a webhook that hangs",
        ),
        pytest.param(
            4,
            9.0,
            Unavailable("slow down", code=429),
            "the API server",
            "the API server has too many requests",
            id="a busy server",
        ),
        pytest.param(
            4,
            0.7,
            Unavailable("no leader", code=503),
            "the API server",
            "the API server answers with an error (503)",
            id="an error",
        ),
    ],
)
def test_report_names_what_does_not_answer(
    tries: int, elapsed: float, error: AccessError | None, what: str, message: str
) -> None:
    """From the fourth try on, or after five seconds."""
    report = OpenRequest(100.0, tries, error).report(100.0 + elapsed)
    if not what:
        assert report is None
        return
    assert report is not None
    assert (report.what, report.message, report.tries) == (what, message, tries)
    assert report.reason == ("" if error is None else error.message)


def test_one_report_for_all_requests_to_a_webhook() -> None:
    """Sixteen threads fail together: the latest try counts, and an answer ends the report."""
    requests = OpenRequests()
    error = ApiError(WEBHOOK, code=500)
    with requests.request() as first, requests.request() as second:
        for _ in range(4):
            first.failed(error, None, 0.0)
        for _ in range(5):
            second.failed(error, None, 0.0)
        (report,) = requests.reports()
        assert report.tries == 6
    assert requests.reports() == []


def test_budget_is_spent_once_by_requests_at_the_same_time() -> None:
    """Time in which at least one request is retried counts, and no other."""
    budget = RetryBudget(30.0)
    budget.begin(100.0)
    budget.begin(105.0)
    assert budget.left(110.0) == 20.0
    budget.end(110.0)
    budget.end(112.0)
    assert budget.left(500.0) == 18.0
    budget.begin(500.0)
    assert budget.left(520.0) == -2.0
