"""The real cosign, and its recorded signatures: ``python -m tests.support.cosign`` makes them.

They are in ``fixtures/signatures``: those of a new key of each kind, for one manifest,
in both forms. The private keys were thrown away.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from applyprune.localplane import progress_on
from tests.components import ensure_components, ensure_cosign
from tests.support.registries import PASSWORD, USER, password_registry
from tests.support.registry_client import BASIC, MANIFEST_TYPE, Client, manifest_of
from tests.support.signing import MEDIA_TYPE, Signer, signer

if TYPE_CHECKING:
    from tests.support.registries import Registry

RECORDED = Path(__file__).parents[2] / "fixtures" / "signatures"
KINDS = ("p256", "rsa")
FORMS = ("tag", "bundle")
NAME = "shop/web"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
SIGNATURE = "dev.cosignproject.cosign/signature"


@dataclass(frozen=True, slots=True)
class Cosign:
    """Signs what is in a registry, with one key, without a transparency log."""

    program: Path
    folder: Path
    """A folder for its key."""
    registry: Registry

    def new_key(self, kind: str) -> Signer:
        """Make a new key, of a kind of ``signer``, the one to sign with."""
        key = signer(kind)
        private = key.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / "private.pem").write_bytes(private)
        self._run("import-key-pair", "--key=private.pem", "--output-key-prefix=cosign", "--yes")
        return key

    def sign(self, digest: str, form: str) -> None:
        """Sign a manifest; ``form`` is one of FORMS."""
        self._run(
            "sign",
            "--yes",
            "--key=cosign.key",
            "--tlog-upload=false",
            "--use-signing-config=false",
            "--sign-container-identity=registry.example.com/shop/web",
            f"--new-bundle-format={str(form == 'bundle').lower()}",
            *self._where(digest),
        )

    def verify(self, digest: str, form: str) -> bool:
        """Return whether cosign itself finds a signature in this form."""
        reply = self._try(
            "verify",
            "--key=cosign.pub",
            "--insecure-ignore-tlog",
            f"--new-bundle-format={str(form == 'bundle').lower()}",
            *self._where(digest),
        )
        return reply.returncode == 0

    def _where(self, digest: str) -> tuple[str, ...]:
        return (
            f"--registry-cacert={self.registry.ca}",
            f"--registry-username={USER}",
            f"--registry-password={PASSWORD}",
            f"{self.registry.host}/{NAME}@{digest}",
        )

    def _run(self, *arguments: str) -> None:
        reply = self._try(*arguments)
        assert reply.returncode == 0, reply.stderr

    def _try(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "COSIGN_PASSWORD": "x"}
        return subprocess.run(
            [self.program, *arguments],
            cwd=self.folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )


def push_artifact(client: Client) -> str:
    """Push an artifact with the tag ``1.4.0`` and return its digest, which is always the same."""
    config = client.push(NAME, b"{}", BASIC)
    return client.push_manifest(NAME, "1.4.0", manifest_of(config))


def record() -> None:
    """Write the signatures of each kind of key, as the registry has them."""
    program = ensure_cosign(progress_on(sys.stderr))
    components = ensure_components(progress_on(sys.stderr))
    for kind in KINDS:
        with (
            tempfile.TemporaryDirectory() as name,
            password_registry(components, Path(name) / "registry") as registry,
        ):
            client = Client(registry)
            digest = push_artifact(client)
            cosign = Cosign(program, Path(name), registry)
            target = RECORDED / kind
            target.mkdir(parents=True, exist_ok=True)
            (target / "cosign.pub").write_bytes(cosign.new_key(kind).public)
            for form in FORMS:
                cosign.sign(digest, form)
                assert cosign.verify(digest, form)
            tag = digest.replace(":", "-")
            layer = manifest(client, f"{tag}.sig")["layers"][0]
            (target / "payload.json").write_bytes(blob(client, layer["digest"]))
            (target / "signature.txt").write_text(layer["annotations"][SIGNATURE] + "\n")
            referrer = manifest(client, tag)["manifests"][0]["digest"]
            layer = manifest(client, referrer)["layers"][0]
            assert layer["mediaType"] == MEDIA_TYPE
            (target / "bundle.json").write_bytes(blob(client, layer["digest"]))


def manifest(client: Client, reference: str) -> Any:
    """Return a manifest or an index."""
    kinds = {"Accept": f"{MANIFEST_TYPE}, {INDEX_TYPE}"}
    found = client("GET", f"/v2/{NAME}/manifests/{reference}", BASIC | kinds)
    assert found.status == 200, found.data
    return found.json()


def blob(client: Client, digest: str) -> bytes:
    """Return a blob."""
    return client("GET", f"/v2/{NAME}/blobs/{digest}", BASIC).data


if __name__ == "__main__":
    record()
