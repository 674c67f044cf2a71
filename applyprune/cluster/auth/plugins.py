"""Credentials that other programs issue: an ``exec`` plugin, or an ``auth-provider``'s client."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from applyprune.cluster.auth.credentials import (
    FILE_MAX_AGE,
    Credentials,
    Identity,
    Issued,
    checked_token,
)
from applyprune.cluster.auth.kubeconfig_files import Entry
from applyprune.cluster.transport.safe_message import safe_text
from applyprune.errors import AccessError
from applyprune.model.text.display import time_of
from applyprune.system.processes import GROUP_FLAGS, kill_group

if TYPE_CHECKING:
    from pathlib import Path


# Seconds. There is no limit if the plugin may ask a person (standard output is a terminal).
PLUGIN_TIMEOUT = 60.0
# Renew this long before they expire, because of requests under way.
EXPIRY_SKEW = timedelta(seconds=10)


class ExecPlugin:
    """Runs an exec plugin of the kubeconfig and reads the credentials that it prints.

    The official client's loader would log a plugin's failure and continue without credentials, and
    its runner keeps the process to itself, so that nobody could end it.
    """

    def __init__(
        self, plugin: Entry, cluster: Entry, plain: Credentials, timeout: float = PLUGIN_TIMEOUT
    ) -> None:
        """Keep the ``exec`` mapping; ``plain`` adds the user's own client certificate, if any."""
        self._plugin = plugin
        self._cluster = cluster
        self._plain = plain
        self._timeout = timeout

    def issue(self) -> Issued:
        """Run the plugin; raises AccessError unless it prints usable credentials."""
        from applyprune.system.processes import UnsafeArguments, command_line

        environment, folder = self._environment(), self._plugin.base
        # A person at a terminal gets all the time.
        limit = None if _is_interactive() else self._timeout
        try:
            command = command_line(self._command(), folder, environment)
            code, out, err = _run(command, environment, folder, limit)
        except FileNotFoundError:
            raise self._failure("cannot be found", hint=self._plugin.text("installHint")) from None
        except UnsafeArguments as error:
            raise self._failure("cannot get its arguments as they are", str(error)) from None
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not finish within {limit:.0f} seconds") from None
        except (OSError, ValueError) as error:
            raise self._failure("failed", type(error).__name__) from None
        if code:
            raise self._failure("failed", _last_line(err) or f"its exit code is {code}")
        return self._from_status(self._status(out))

    def _command(self) -> Sequence[str]:
        for key in ("command", "apiVersion"):
            if not self._plugin.text(key):
                raise AccessError(
                    "the kubeconfig is malformed",
                    location=f"user {self._plugin.name!r}",
                    reason=f"exec has no {key}",
                )
        return self._plugin.text("command"), *self._plugin.texts("args")

    def _environment(self) -> Mapping[str, str]:
        added = {
            str(item.get("name", "")): str(item.get("value", ""))
            for item in self._plugin.items("env")
        }
        spec: dict[str, Any] = {"interactive": _is_interactive()}
        if self._plugin.flag("provideClusterInfo"):
            spec["cluster"] = dict(self._cluster.fields)
            for extension in self._cluster.items("extensions"):
                if extension.get("name") == "client.authentication.k8s.io/exec":
                    spec["cluster"]["config"] = extension.get("extension")
        info = {
            "apiVersion": self._plugin.text("apiVersion"),
            "kind": "ExecCredential",
            "spec": spec,
        }
        return {**os.environ, **added, "KUBERNETES_EXEC_INFO": json.dumps(info)}

    def _status(self, out: bytes) -> dict[str, Any]:
        try:
            printed = json.loads(out)
        except (ValueError, RecursionError):
            raise self._failure("failed", "it printed no JSON") from None
        if not isinstance(printed, dict) or not {"apiVersion", "kind", "status"} <= printed.keys():
            raise self._failure("failed", "it printed no ExecCredential with a status")
        if printed["apiVersion"] != (version := self._plugin.text("apiVersion")):
            raise self._failure("failed", f"it printed another apiVersion than {version}")
        if not isinstance(status := printed["status"], dict):
            raise self._failure("printed no credentials")
        return status

    def _from_status(self, status: dict[str, Any]) -> Issued:
        def text(key: str) -> str:
            value = status.get(key) or ""
            if not isinstance(value, str):
                raise self._failure("printed malformed credentials", f"{key} is not text")
            return value

        plain = self._plain.current()
        certificate, key = text("clientCertificateData"), text("clientKeyData")
        if bool(certificate) != bool(key):
            raise self._failure("printed a client certificate without its key, or the reverse")
        token = checked_token(text("token"), f"credential plugin of user {self._plugin.name!r}")
        if not token and not certificate:
            raise self._failure("printed neither a token nor a client certificate")
        identity = Identity(
            token, certificate.encode() or plain.certificate, key.encode() or plain.key
        )
        return Issued(identity, self._seconds_until(text("expirationTimestamp")))

    def _seconds_until(self, expiration: str) -> float:
        """Return the seconds until that RFC 3339 time, minus the skew; infinity if it is empty."""
        if not expiration:
            return math.inf
        if (until := time_of(expiration)) is None:
            raise self._failure("printed an invalid expiration time")
        return (until - datetime.now(UTC) - EXPIRY_SKEW).total_seconds()

    def _failure(self, happened: str, why: str = "", hint: str = "") -> AccessError:
        command = self._plugin.text("command")
        return AccessError(
            f"the credential plugin {command!r} of user {self._plugin.name!r} {happened}",
            reason=why,
            hint=safe_text(hint)
            or f"Run {command} yourself to see what it needs, such as a login.",
        )


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return safe_text(lines[-1].strip()) if lines else ""


def _is_interactive() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, seconds: float | None
) -> tuple[int, bytes, str]:
    """Run a plugin; return its exit code and output. After ``seconds``, end it and what it started.

    Raises subprocess.TimeoutExpired then. In a terminal, only the plugin itself is ended: it must
    stay in the group of processes that gets Ctrl-C.
    """
    from applyprune.system.terminal import has_terminal

    own_group = seconds is not None and not has_terminal()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=sys.stderr if seconds is None else subprocess.PIPE,
        cwd=folder,
        env=environment,
        process_group=0 if own_group else None,
        creationflags=GROUP_FLAGS if own_group else 0,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException:
            with suppress(OSError):
                if own_group:
                    kill_group(process.pid)
                else:
                    process.kill()
            raise
    # Its text is UTF-8 on every system, whatever the console has.
    return process.returncode, out, (err or b"").decode("utf-8", "replace")


SUPPORTED = frozenset({"oidc", "gcp"})


class AuthProvider:
    """Lets the official client load a provider's token from the kubeconfig files.

    The client renews an OIDC token only while loading, within five minutes of its expiry, and
    writes it back into the kubeconfig as kubectl does. So the token is loaded again every minute.
    """

    def __init__(self, provider: Entry, files: Sequence[Path], context: str) -> None:
        """Keep the ``auth-provider`` mapping; raises AccessError for an unsupported provider."""
        name = provider.text("name")
        if name not in SUPPORTED:
            raise AccessError(
                f"user {provider.name!r} has the unsupported auth-provider {name!r}",
                hint="Kubernetes replaced such providers with exec plugins; log in with one.",
            )
        self._user = provider.name
        self._name = name
        self._files = os.pathsep.join(str(path) for path in files)
        self._context = context

    def issue(self) -> Issued:
        """Load the token; raises AccessError when the provider returns none."""
        # Imported here: the import takes 0.25 s, and few users have such a provider.
        from kubernetes.client import Configuration
        from kubernetes.config import load_kube_config

        configuration = Configuration()
        try:
            load_kube_config(
                config_file=self._files,
                context=self._context,
                client_configuration=configuration,
                persist_config=True,
            )
        except Exception as error:  # noqa: BLE001 -- five libraries deep, and all mean the same
            # The text may hold a token or a client secret: show only the type of the error.
            raise self._failure(type(error).__name__) from None
        token = str(configuration.api_key.get("BearerToken", "")).removeprefix("Bearer ")
        if not token:
            raise self._failure("it returned no token")
        identity = Identity(token=checked_token(token, f"auth-provider {self._name!r}"))
        return Issued(identity, FILE_MAX_AGE)

    def _failure(self, why: str) -> AccessError:
        return AccessError(
            f"the auth-provider {self._name!r} of user {self._user!r} failed",
            reason=why,
            hint="Log in again; the kubeconfig's refresh token may have expired.",
        )
