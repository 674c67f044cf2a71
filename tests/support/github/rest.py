"""A server that keeps comments and artifacts as the REST API of GitHub documents it; not GitHub.

By https://docs.github.com/en/rest/issues/comments and .../rest/actions/artifacts: lists have pages
of 30 items, at most 100, and comments come by ascending id; a token has the permissions of its job,
and without one of them gets 403; a body of more than 65,536 characters gets 422. That GitHub itself
does the same is not tested here.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "example/shop"
REPOSITORY_ID = 1
FORK_ID = 2
BOT = "github-actions[bot]"
LONGEST_BODY = 65_536
FORBIDDEN = "Resource not accessible by integration"

Reply = tuple[int, object]


@dataclass
class GitHubServer:
    """What the repository has, by the REST API."""

    folder: Path
    """Where the artifacts are."""
    address: str = ""
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """The comments of each pull request."""
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    _tokens: dict[str, Mapping[str, str]] = field(default_factory=dict)
    _last: int = 0

    def token(self, permissions: Mapping[str, str]) -> str:
        """Return a token for a job."""
        token = secrets.token_hex(8)
        self._tokens[token] = permissions
        return token

    def comment(self, number: int, user: str, body: str) -> dict[str, Any]:
        """Add a comment."""
        made = {"id": self._next(), "user": {"login": user}, "body": body}
        self.comments.setdefault(number, []).append(made)
        return made

    def upload(self, name: str, path: Path, *, run: int, head: int = REPOSITORY_ID) -> None:
        """Keep a file as the artifact of a run."""
        made = self._next()
        self.artifacts.append(
            {
                "id": made,
                "name": name,
                "expired": False,
                "created_at": f"2026-01-01T00:00:{made % 60:02}Z",
                "workflow_run": {
                    "id": run,
                    "repository_id": REPOSITORY_ID,
                    "head_repository_id": head,
                },
            }
        )
        (self.folder / str(made)).mkdir()
        shutil.copy(path, self.folder / str(made))

    def plan(self, at: int) -> Path:
        """Return the plan file in one of the artifacts."""
        return self.folder / str(self.artifacts[at]["id"]) / "applyprune.plan"

    def download(self, name: str, run: int, to: Path, token: str) -> None:
        """Copy the newest artifact of a run into a folder."""
        assert self._tokens[token].get("actions"), "another run's artifacts need actions: read"
        found = [
            one
            for one in self.artifacts
            if one["name"] == name and one["workflow_run"]["id"] == run
        ]
        shutil.copytree(self.folder / str(found[-1]["id"]), to, dirs_exist_ok=True)

    def reply(self, method: str, address: str, token: str, content: Any) -> Reply:
        """Return the status and the content of an answer."""
        url = urlsplit(address)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        permissions = self._tokens.get(token)
        if permissions is None:
            return 401, {"message": "Bad credentials"}
        root = f"/repos/{REPOSITORY}"
        if method == "GET" and url.path == f"{root}/actions/artifacts":
            if not permissions.get("actions"):
                return 403, {"message": FORBIDDEN}
            named = [one for one in self.artifacts if one["name"] == query["name"]]
            return 200, {"total_count": len(named), "artifacts": _page(named, query)}
        issue = re.fullmatch(rf"{root}/issues/(\d+)/comments", url.path)
        if method == "GET" and issue:
            return 200, _page(self.comments.get(int(issue[1]), []), query)
        if permissions.get("pull-requests") != "write":
            return 403, {"message": FORBIDDEN}
        return self._written(method, url.path.removeprefix(f"{root}/issues/"), content["body"])

    def _written(self, method: str, path: str, body: str) -> Reply:
        """Return the answer to a new comment, or to a change of one."""
        if len(body) > LONGEST_BODY:
            return 422, {"message": "Validation Failed"}
        issue = re.fullmatch(r"(\d+)/comments", path)
        if method == "POST" and issue:
            return 201, self.comment(int(issue[1]), BOT, body)
        known = re.fullmatch(r"comments/(\d+)", path)
        every = (one for some in self.comments.values() for one in some)
        found = [one for one in every if known and one["id"] == int(known[1])]
        if method == "PATCH" and found:
            found[0]["body"] = body
            return 200, found[0]
        return 404, {"message": "Not Found"}

    def _next(self) -> int:
        self._last += 1
        return self._last


def _page(items: list[dict[str, Any]], query: Mapping[str, str]) -> list[dict[str, Any]]:
    size = min(int(query.get("per_page", "30")), 100)
    first = (int(query.get("page", "1")) - 1) * size
    return items[first : first + size]


@contextmanager
def served(folder: Path) -> Iterator[GitHubServer]:
    """Serve a repository without comments or artifacts."""
    folder.mkdir()
    site = GitHubServer(folder)

    class Handler(BaseHTTPRequestHandler):
        """Answers one request."""

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PATCH(self) -> None:
            self._answer()

        def _answer(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            site.requests.append(f"{self.command} {self.path}")
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            status, content = site.reply(self.command, self.path, token, json.loads(raw or b"null"))
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
