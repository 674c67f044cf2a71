"""Find out for whom a run works: the user's own text, or the variables of a pipeline.

GitHub Actions and GitLab CI set variables in each job. Their values are bounded, and made safe to
print; an odd one is left out, because no run may fail for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from applyprune.errors import UsageError
from applyprune.model.options import Actor
from applyprune.model.text.display import visible

LONGEST_NAME = 200
_LONGEST_COMMIT = 64
_LONGEST_URL = 500


def actor_of(environ: Mapping[str, str], name: str = "") -> Actor:
    """Return for whom a run works; ``name`` replaces the pipeline's user.

    Raises UsageError for a name that is too long, or has characters that are not printable.
    """
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(
            f"invalid actor {visible(name[:LONGEST_NAME])!r}",
            reason=f"it must have at most {LONGEST_NAME} printable characters",
        )
    user, commit, url = _job(environ)
    return Actor(
        name.strip() or visible(user)[:LONGEST_NAME],
        commit if commit.isalnum() and len(commit) <= _LONGEST_COMMIT else "",
        url if _is_safe(url) else "",
    )


def _job(environ: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the user, the commit and the URL of a pipeline's job; empty texts outside of one."""
    if environ.get("GITHUB_ACTIONS"):
        parts = [environ.get(f"GITHUB_{key}", "") for key in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
        url = "{}/{}/actions/runs/{}".format(*parts) if all(parts) else ""
        return environ.get("GITHUB_ACTOR", ""), environ.get("GITHUB_SHA", ""), url
    if environ.get("GITLAB_CI"):
        keys = ("GITLAB_USER_LOGIN", "CI_COMMIT_SHA", "CI_JOB_URL")
        user, commit, url = (environ.get(key, "") for key in keys)
        return user, commit, url
    return "", "", ""


def _is_safe(url: str) -> bool:
    """Return whether a URL can be recorded: it has no credentials, and no odd characters."""
    if len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable():
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and "@" not in parts.netloc
