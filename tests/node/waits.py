"""Runs of the command line that wait for real Pods, and the Pods of stories."""

from __future__ import annotations

import json
import re
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.node.images import WORKLOAD
from tests.support.command import start
from tests.support.objects import text
from tests.support.waiting import eventually
from tests.support.workloads import workload

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.workloads import Body

READY: Body = {"readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 1}}
"""Of a container that serves."""


def container(*arguments: str, name: str = "main", **more: Any) -> Body:
    """Return a container that runs `workload` with these arguments."""
    return {"name": name, "image": WORKLOAD, "args": list(arguments), **more}


def pods(*containers: Body, kind: str = "Deployment", name: str = "web", **spec: Any) -> Body:
    """Return a workload with Pods of these containers; ``spec`` goes into its own spec."""
    return workload(kind, name, pods={"containers": list(containers)}, spec=spec)


@dataclass(slots=True)
class Run:
    """A run that goes on; ``told`` are the lines of its output so far, as JSON."""

    process: subprocess.Popen[str]
    namespace: str
    told: list[dict[str, Any]] = field(default_factory=list)
    _reader: threading.Thread | None = None

    def read(self) -> None:
        """Read its output in a thread, until its end."""

        def collect() -> None:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                self.told.append(json.loads(line))

        self._reader = threading.Thread(target=collect)
        self._reader.start()

    def tells(self, words: str) -> dict[str, Any]:
        """Wait for a line that has these words, a regular expression, anywhere; return it."""

        def found() -> dict[str, Any] | None:
            matching = [one for one in self.told if re.search(words, _words(one))]
            if not matching and self.process.poll() is not None:
                assert self._reader is not None
                self._reader.join()
                matching = [one for one in self.told if re.search(words, _words(one))]
                assert matching, f"it has ended without {words!r}: {self.told[-2:]}"
            return matching[0] if matching else None

        line: dict[str, Any] = eventually(found, lambda: f"{words!r} after {self.told[-2:]}")
        return line

    def end(self) -> int:
        """Wait for its end; return its exit code."""
        code = self.process.wait()
        assert self._reader is not None
        self._reader.join()
        assert self.process.stderr is not None
        assert "Traceback" not in self.process.stderr.read()
        return code

    def interrupt(self) -> int:
        """End it as Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)
        return self.end()


def _words(line: dict[str, Any]) -> str:
    return json.dumps(line, ensure_ascii=False).replace('\\"', '"')


@contextmanager
def waiting(
    plane: Plane, namespace: str, folder: Path, *manifests: Body, options: tuple[str, ...] = ()
) -> Iterator[Run]:
    """Apply the set ``web`` and yield the run, which waits longer than any test does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "all.yaml").write_text(text(*manifests))
    arguments = ("apply", "web", "-n", namespace, "-f", folder / "all.yaml", "--output=jsonl")
    process = start(*arguments, "--timeout=1h", *options, kubeconfig=plane.kubeconfig)
    run = Run(process, namespace)
    run.read()
    try:
        yield run
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert run._reader is not None
        run._reader.join()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
