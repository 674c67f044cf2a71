"""What a Bundle is made of: which files of its source must be decrypted."""

from __future__ import annotations

import pytest

from applyprune.controller.sources import decrypted
from applyprune.sources.tree import DecryptionFailed

# Neither needs sops to be refused: the one by its form, the other by its keys.
INI = b"[main]\npassword = ENC[AES256_GCM]\n[sops]\nmac = x\nage__list_0__map_enc = x\n"
FOREIGN = b"PASSWORD=ENC[AES256_GCM]\nsops_mac=x\nsops_kms__list_0__map_arn=x\n"
GENERATOR = b"secretGenerator:\n- name: web\n  %b\n"
LOADED = {
    "as a file": GENERATOR % b"files: [password=../base/web.ini]",
    "as an env": GENERATOR % b"envs: [../base/web.ini]",
    "by a base": b"resources: [../base]\n",
}


@pytest.mark.holds("encrypted-elsewhere", row="as a file-ini-keys")
@pytest.mark.parametrize("keys", [{}, None], ids=["keys", "no-keys"])
@pytest.mark.parametrize("content", [INI, FOREIGN], ids=["ini", "foreign"])
@pytest.mark.parametrize("how", LOADED)
def test_file_that_a_kustomization_loads_elsewhere_is_never_used_encrypted(
    how: str, content: bytes, keys: dict[str, bytes] | None
) -> None:
    files = {
        "web/kustomization.yaml": LOADED[how],
        "base/kustomization.yaml": GENERATOR % b"envs: [web.ini]",
        "base/web.ini": content,
    }
    with pytest.raises(DecryptionFailed) as failed:
        decrypted(files, "web", keys)
    assert failed.value.location == "base/web.ini"


@pytest.mark.parametrize("content", [INI, FOREIGN], ids=["ini", "foreign"])
def test_file_of_others_that_no_kustomization_loads_stays_as_it_is(content: bytes) -> None:
    files = {"web/kustomization.yaml": b"resources: [../base/web.yaml]\n", "other.ini": content}
    assert decrypted(files, "web", {}) == files
