"""Who is recorded as the author of a run: the user's text, or the variables of a pipeline."""

from __future__ import annotations

import pytest

from applyprune.api.sets import LONGEST_NAME, actor_of
from applyprune.errors import UsageError
from applyprune.model.options import Actor

GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_ACTOR": "mona",
    "GITHUB_SHA": "abc123",
    "GITHUB_SERVER_URL": "https://github.example",
    "GITHUB_REPOSITORY": "shop/web",
    "GITHUB_RUN_ID": "42",
}
GITLAB = {
    "GITLAB_CI": "true",
    "GITLAB_USER_LOGIN": "lab",
    "CI_COMMIT_SHA": "def456",
    "CI_JOB_URL": "https://gitlab.example/shop/web/-/jobs/7",
}
RUN = "https://github.example/shop/web/actions/runs/42"


@pytest.mark.parametrize(
    ("environ", "name", "actor"),
    [
        ({}, "", Actor()),
        ({}, " me ", Actor("me")),
        (GITHUB, "", Actor("mona", "abc123", RUN)),
        (GITHUB, "me", Actor("me", "abc123", RUN)),
        (GITLAB, "", Actor("lab", "def456", "https://gitlab.example/shop/web/-/jobs/7")),
        ({**GITHUB, "GITHUB_ACTIONS": ""}, "", Actor()),
        ({**GITHUB, "GITHUB_RUN_ID": ""}, "", Actor("mona", "abc123")),
        ({**GITHUB, "GITHUB_SHA": "a b"}, "", Actor("mona", "", RUN)),
        ({**GITHUB, "GITHUB_SHA": "a" * 65}, "", Actor("mona", "", RUN)),
        ({**GITHUB, "GITHUB_ACTOR": "m" * 999}, "", Actor("m" * LONGEST_NAME, "abc123", RUN)),
        ({**GITHUB, "GITHUB_ACTOR": "a\nb"}, "", Actor("a\\nb", "abc123", RUN)),
        (
            {**GITLAB, "CI_JOB_URL": "https://user:token@gitlab.example/1"},
            "",
            Actor("lab", "def456"),
        ),
        ({**GITLAB, "CI_JOB_URL": "javascript:alert(1)"}, "", Actor("lab", "def456")),
        ({**GITLAB, "CI_JOB_URL": "https://[/1"}, "", Actor("lab", "def456")),
        ({**GITLAB, "CI_JOB_URL": "https://x/\x1b"}, "", Actor("lab", "def456")),
        ({**GITLAB, "CI_JOB_URL": f"https://x/{'y' * 500}"}, "", Actor("lab", "def456")),
    ],
)
def test_actor_is_bounded_and_printable(environ: dict[str, str], name: str, actor: Actor) -> None:
    """A job's variables never fail a run, and no credential in a URL is recorded."""
    assert actor_of(environ, name) == actor


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "\u202e", "x" * 201])
def test_actor_of_the_user_is_refused_if_it_cannot_be_shown(name: str) -> None:
    """The user can correct it."""
    with pytest.raises(UsageError, match="at most 200 printable characters"):
        actor_of({}, name)
