"""Values that no output may show, the traces that they would leave, and input that has them."""

from __future__ import annotations

import base64
import json
import secrets
from typing import Any

TOKEN = f"tk{secrets.token_hex(12)}"
"""Stands in every field of every Secret, and nowhere else; another one in each run."""
OTHER = f"tk{secrets.token_hex(12)}"
"""What the Secrets in the cluster hold where they differ."""


def encoded(text: str) -> str:
    """Return a text in base64."""
    return base64.b64encode(text.encode()).decode()


def traces(token: str) -> list[str]:
    """Return what a leak would look like: raw, hex, and base64 at each of its three alignments."""
    found = [token, token.encode().hex(), token[::-1], token[:12], token[-12:]]
    for shift in range(3):
        # The characters in the middle do not depend on what stands around the token.
        whole = encoded("x" * shift + token)
        found.append(whole[8:28])
    return found


NUMBER = secrets.randbelow(10**12) + 10**12
TRACES = [str(NUMBER), *(trace for token in (TOKEN, OTHER) for trace in traces(token))]


def forged_refusal(code: int) -> dict[str, Any]:
    """Return a webhook's refusal with a value wherever a refusal has a place for one."""
    causes = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{OTHER}"', "field": path}
        for path in (f".data.{OTHER}", f"data[{OTHER}]", OTHER, ".data.plain")
    ]
    causes.append({"reason": OTHER, "message": OTHER, "field": f".metadata.{OTHER}"})
    details = {"name": OTHER, "group": OTHER, "kind": OTHER, "causes": causes}
    reason = "Conflict" if code == 409 else OTHER
    return {"code": code, "reason": reason, "message": OTHER, "details": details}


def secret(name: str = "key", **content: Any) -> dict[str, Any]:
    """Return a Secret, by default with the token in ``data`` and in ``stringData``."""
    content = content or {
        "data": {"encoded": encoded(TOKEN), "more": encoded(f"x{TOKEN}y")},
        "stringData": {"plain": TOKEN, "lines": f"a\n{TOKEN}\nb"},
    }
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **content}


def annotated(name: str = "key") -> dict[str, Any]:
    """Return a Secret that kubectl has left its copy of the values on."""
    copy = json.dumps(secret(name))
    one = secret(name)
    one["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": copy}
    return one


BROKEN_TEXTS: dict[str, str] = {
    "a quote never closed": f'kind: Secret\napiVersion: v1\ndata:\n  a: "{TOKEN}\n',
    "a bracket never closed": f"kind: Secret\napiVersion: v1\ndata: {{a: {TOKEN}\n",
    "a tab": f"kind: Secret\napiVersion: v1\ndata:\n\ta: {TOKEN}\n",
    "less indented": f"kind: Secret\napiVersion: v1\ndata:\n    a: b\n  {TOKEN}: c\n",
    "a text between": f"kind: Secret\napiVersion: v1\ndata:\n  a: b\n{TOKEN}\nstringData: {{}}\n",
    "no kind": f"apiVersion: v1\nmetadata: {{name: a}}\nstringData:\n  a: {TOKEN}\n",
    "an alias that is none": f"kind: Secret\napiVersion: v1\ndata:\n  a: *{TOKEN}\n",
    "a tag of YAML's": f"kind: Secret\napiVersion: v1\ndata:\n  a: !!{TOKEN} b\n",
    "a tag in brackets": f"kind: Secret\napiVersion: v1\ndata:\n  a: !<{TOKEN}> b\n",
    "a sign that begins nothing": f"kind: Secret\napiVersion: v1\ndata:\n  a: @{TOKEN}\n",
    "a tag": f"kind: Secret\napiVersion: v1\ndata:\n  a: !{TOKEN} b\n",
    "the same key": f"kind: Secret\napiVersion: v1\ndata:\n  a: {TOKEN}\n  a: {TOKEN}\n",
    "a key that is a token twice": (
        f"kind: Secret\napiVersion: v1\nstringData:\n  k: |\n    {TOKEN}\n  k: |\n    {TOKEN}\n"
    ),
    "JSON that stops": '{"kind": "Secret", "apiVersion": "v1", "data": {"a": "' + TOKEN,
    "a list without end": f"kind: List\napiVersion: v1\nitems:\n- kind: Secret\n  data: [{TOKEN}\n",
    "control characters": f"kind: Secret\napiVersion: v1\ndata:\n  a: {TOKEN}\x01\n",
}
BROKEN_OBJECTS: dict[str, Any] = {
    "data is a list": secret(data=[TOKEN]),
    "data is a text": secret(data=TOKEN),
    "a value is a number": secret(data={"a": NUMBER}, stringData={"b": TOKEN}),
    "a value is a mapping": secret(stringData={"a": {"b": TOKEN}}),
    "a value is a list": secret(stringData={"a": [TOKEN]}),
    "not base64": secret(data={"a": f"{TOKEN}!"}),
    "both": secret(data={"a": encoded(TOKEN)}, stringData={"a": TOKEN}),
    "the name is a mapping": {**secret(), "metadata": {"name": {"a": TOKEN}}},
    "no name": {**secret(), "metadata": {}},
    "in a list": {"apiVersion": "v1", "kind": "List", "items": [secret(), secret(data=[TOKEN])]},
}
REFUSED: dict[str, Any] = {
    "an unknown field": {**secret(), "date": {"a": encoded(TOKEN)}},
    "a key that is none": secret(stringData={"a b": TOKEN}),
    "a certificate without its key": secret(
        type="kubernetes.io/tls", data={"tls.crt": encoded(TOKEN)}
    ),
    "docker settings that are none": secret(
        type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": encoded(TOKEN)}
    ),
    "immutable is a text": {**secret(), "immutable": TOKEN},
    "too large": secret(data={"a": encoded(TOKEN * 45_000)}),
}


def untold(told: str) -> None:
    """Fail when any trace of a token is in what was told; the message shows none of it."""
    leaks = [told[max(0, told.find(one) - 80) : told.find(one)] for one in TRACES if one in told]
    assert leaks == [], "a value stands behind this"
