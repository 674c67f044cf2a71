"""Attacks by ``spec.kubeConfig``: what it may use of the controller, and whose Secret it is."""

from __future__ import annotations

import json
from typing import Any

from tests.support.attacks.attack import VICTIM, WEAK, Attack, Scene, body
from tests.support.kubeconfigs import COSTLY, FOREIGN, SERVERS, kubeconfig, with_foreign
from tests.support.objects import config_map

_ADDRESSES = (
    "https://127.0.0.1:6443",
    "https://[::1]:6443",
    "https://0.0.0.0",
    "https://169.254.169.254",
    "https://[fd00:ec2::254]",
    "https://[::ffff:169.254.169.254]/latest",
    "file:///etc/passwd",
    "unix:///run/api.sock",
)
_SECRETS = {
    "of the victim, by a path": f"../../{VICTIM}/secrets/bank",
    "of the victim, by a slash": f"{VICTIM}/bank",
    "of the victim, by an encoded slash": f"..%2F..%2F{VICTIM}%2Fsecrets%2Fbank",
    "with a query": "bank?dryRun=All",
    "with a line break": "bank\n",
    "without a name": "",
}


def _by_content(number: int, content: str, says: str) -> Attack:
    """Return the attack with this kubeconfig in a Secret of its own."""
    name = f"kubeconfig-{number}"

    def stored(scene: Scene, _bundle: str) -> None:
        secret = {**body("v1", "Secret", name), "stringData": {"value": content}}
        scene.tenant.put("secrets", secret)

    return Attack(
        manifests=(config_map("by-kubeconfig"),),
        spec={"kubeConfig": {"secretRef": {"name": name}}},
        before=stored,
        says=says,
    )


def _by_reference(says: str, **ref: Any) -> Attack:
    spec = {"kubeConfig": {"secretRef": ref}}
    return Attack(manifests=(config_map("by-kubeconfig"),), spec=spec, says=says)


_CONTENTS: dict[str, tuple[str, str]] = (
    {
        key: (json.dumps(with_foreign(key, value)), f"has {key}, which is not allowed")
        for key, (_, value) in FOREIGN.items()
    }
    | {
        server: (json.dumps(kubeconfig({"server": server})), SERVERS[server])
        for server in _ADDRESSES
    }
    | {name: (COSTLY[name][0].decode(), COSTLY[name][1]) for name in ("deep lists", "aliases")}
)

CLUSTERS: dict[str, Attack] = (
    {
        f"kubeconfig {number}: {name}": _by_content(number, content, says)
        for number, (name, (content, says)) in enumerate(_CONTENTS.items())
    }
    | {
        f"kubeconfig: a Secret {how}": _by_reference("spec.kubeConfig.secretRef.name", name=name)
        for how, name in _SECRETS.items()
    }
    | {
        "kubeconfig: a Secret of the victim, by its name": _by_reference(
            "secret/bank does not exist", name="bank"
        ),
        "kubeconfig: a key that is a path": _by_reference(
            "secret/own has no key", name="own", key="../../etc/passwd"
        ),
        "kubeconfig: a Secret that is none": _by_reference("cannot be used", name="own", key="key"),
        "kubeconfig: a Secret that the account may not read": Attack(
            manifests=(config_map("by-kubeconfig"),),
            spec={"kubeConfig": {"secretRef": {"name": "own"}}, "serviceAccountName": WEAK},
            says="forbidden",
        ),
    }
)
"""Attacks by another cluster."""
