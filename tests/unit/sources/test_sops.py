"""SOPS: what the real program has encrypted, and what somebody has done to it since."""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from applyprune.sources.documents import read_documents
from applyprune.sources.sops import decrypt, encrypted_files
from applyprune.sources.tree import DecryptionFailed, SourceTooLarge
from tests.support.encryption import Key, age_key, encrypt, gnupg_home, openpgp_key
from tests.support.listening import listening

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from tests.components import Components

    Decrypt = Callable[..., dict[str, bytes]]

WORD = "hunter2-5d1e"
SECRET = f"""\
apiVersion: v1
kind: Secret
metadata:
  name: web
stringData:
  password: {WORD}
"""
PLAIN = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n"
ONLY_DATA = ("--encrypted-regex", "^(data|stringData)$")
CLOUDS = {
    "kms": [
        {
            "arn": "arn:aws:kms:us-east-1:123456789012:key/1",
            "created_at": "2026-01-01T00:00:00Z",
            "enc": "AQICAHg=",
            "aws_profile": "",
        }
    ],
    "hc_vault": [
        {
            "vault_address": "http://127.0.0.1:PORT",
            "engine_path": "sops",
            "key_name": "first",
            "created_at": "2026-01-01T00:00:00Z",
            "enc": "vault:v1:AAAA",
        }
    ],
}


@pytest.fixture(scope="module")
def key(components: Components) -> Key:
    return age_key(components)


@pytest.fixture(scope="module")
def other(components: Components) -> Key:
    return age_key(components, "other.agekey")


@pytest.fixture(scope="module")
def opened(components: Components, key: Key) -> Decrypt:
    """``decrypt`` by the sops of the tests, with the key unless others are given."""

    def run(
        files: Mapping[str, bytes], keys: Mapping[str, bytes] | None = None, **more: float
    ) -> dict[str, bytes]:
        chosen = key.secret if keys is None else keys
        return decrypt(files, chosen, program=str(components.sops), **more)  # type: ignore[arg-type]

    return run


@pytest.fixture(scope="module")
def secret(components: Components, key: Key) -> bytes:
    """A Secret as users of Flux encrypt it."""
    return encrypt(components, SECRET, *ONLY_DATA, "--age", key.recipient)


def values(data: bytes) -> list[object]:
    """Return the documents of a file."""
    return [getattr(one.content, "value", one.content) for one in read_documents(data)]


def refused(call: Callable[[], object]) -> DecryptionFailed:
    """Return the error of a call, which shows nothing of the content."""
    with pytest.raises(DecryptionFailed) as caught:
        call()
    assert WORD not in str(caught.value)
    assert "ENC[" not in str(caught.value)
    assert caught.value.__context__ is None or WORD not in repr(caught.value.__context__)
    return caught.value


@pytest.mark.parametrize(
    ("path", "kind", "content"),
    [
        ("secret.yaml", "yaml", SECRET),
        ("a/b/secret.yml", "yaml", SECRET),
        ("secret.json", "json", json.dumps({"kind": "Secret", "data": {"x": WORD, "n": 1.5}})),
        ("config.env", "dotenv", f"PASSWORD={WORD}\nOTHER=1\n"),
        ("config.ini", "binary", f"[main]\npassword = {WORD}\n"),
        ("certificate.pem", "binary", f"-----BEGIN-----\n{WORD}\n"),
        ("without-suffix", "binary", WORD),
        ("settings", "dotenv", f"PASSWORD={WORD}\n"),
    ],
)
def test_each_format_is_found_and_decrypted(
    components: Components, key: Key, opened: Decrypt, path: str, kind: str, content: str
) -> None:
    data = encrypt(components, content, "--age", key.recipient, kind=kind)
    assert WORD not in data.decode()
    files = {"plain.yaml": PLAIN.encode(), path: data}
    assert encrypted_files(files) == (path,)
    result = opened(files)
    assert list(result) == ["plain.yaml", path]
    assert result["plain.yaml"] == PLAIN.encode()
    if kind in {"yaml", "json"}:
        assert values(result[path]) == values(content.encode())
    else:
        assert result[path].decode().split() == content.split()


def test_binary_content_is_the_same_bytes(
    components: Components, key: Key, opened: Decrypt
) -> None:
    data = bytes(range(256)) * 40
    file = encrypt(components, data, "--age", key.recipient, kind="binary")
    assert opened({"blob.bin": file})["blob.bin"] == data


def test_documents_that_were_encrypted_at_once(
    components: Components, key: Key, opened: Decrypt
) -> None:
    text = f"{SECRET}---\n{PLAIN}---\n{SECRET.replace('web', 'api')}"
    data = encrypt(components, text, *ONLY_DATA, "--age", key.recipient)
    assert values(opened({"all.yaml": data})["all.yaml"]) == values(text.encode())


def test_documents_that_were_encrypted_one_by_one_beside_plain_ones(
    components: Components, key: Key, opened: Decrypt, secret: bytes
) -> None:
    api = SECRET.replace("web", "api")
    second = encrypt(components, api, *ONLY_DATA, "--age", key.recipient)
    parts = [PLAIN.encode(), secret, PLAIN.encode(), second]
    data = b"# all\n---\n" + b"---\n".join(parts)
    wanted = values(f"{PLAIN}---\n{SECRET}---\n{PLAIN}---\n{api}".encode())
    assert values(opened({"all.yaml": data})["all.yaml"]) == wanted
    windows = data.replace(b"\n", b"\r\n")
    assert values(opened({"all.yaml": windows})["all.yaml"]) == wanted


def test_json_in_a_yaml_file(components: Components, key: Key, opened: Decrypt) -> None:
    content = json.dumps({"kind": "Secret", "stringData": {"x": WORD}})
    data = encrypt(components, content, *ONLY_DATA, "--age", key.recipient, kind="json")
    assert values(opened({"a.yaml": data})["a.yaml"]) == [json.loads(content)]


@pytest.mark.parametrize(
    "content",
    [
        b"kind: ConfigMap\ndata:\n  sops: ENC[nothing]\n",
        b"sops: ENC[text]\n",
        b"sops: {what: 'ENC[]'}\n",
        b"# sops ENC[\n",
        b"sops ENC[ \xff\xfe",
        b'{"sops": "ENC["}',
    ],
)
@pytest.mark.parametrize("path", ["a.yaml", "a.env", "a.ini", "a"])
def test_files_that_only_mention_sops_stay_as_they_are(path: str, content: bytes) -> None:
    """Neither a key nor the program is needed."""
    files = {path: content}
    assert encrypted_files(files) == ()
    assert decrypt(files, {}, program="/nonexistent/sops") == files


@pytest.mark.parametrize("path", ["config.ini", "settings.conf", "settings"])
def test_ini_is_refused_with_what_is_supported(
    components: Components, key: Key, opened: Decrypt, path: str
) -> None:
    content = f"[main]\npassword = {WORD}\n"
    files = {path: encrypt(components, content, "--age", key.recipient, kind="ini")}
    assert encrypted_files(files) == (path,)
    error = refused(lambda: opened(files))
    assert error.location == path
    assert "as INI; only YAML, JSON, dotenv and binary are supported" in error.reason
    assert "--input-type binary" in error.hint


def test_any_key_of_the_secret_may_fit(
    opened: Decrypt, key: Key, other: Key, secret: bytes
) -> None:
    keys = {**other.secret, **key.secret, "unrelated": b"\xff"}
    assert WORD.encode() in opened({"a.yaml": secret}, keys)["a.yaml"]


def test_no_key_fits(opened: Decrypt, other: Key, secret: bytes) -> None:
    error = refused(lambda: opened({"a.yaml": secret}, other.secret))
    assert error.location == "a.yaml"
    assert error.reason == "no key of the Secret can decrypt it"
    assert "sops updatekeys" in error.hint


@pytest.mark.parametrize("algorithm", ["rsa2048", "future-default"])
def test_openpgp_keys_decrypt_without_gpg(
    components: Components, opened: Decrypt, other: Key, tmp_path: Path, algorithm: str
) -> None:
    with gnupg_home(tmp_path / "gnupg") as home:
        key = openpgp_key(home, algorithm)
        file = encrypt(components, SECRET, *ONLY_DATA, "--pgp", key.recipient, home=home)
        stranger = openpgp_key(home, algorithm, user="stranger")
    files = {"a.yaml": file}
    keys = {**other.secret, **stranger.secret, key.name.replace("c", "d", 1): key.private}
    assert values(opened(files, keys)["a.yaml"]) == values(SECRET.encode())
    error = refused(lambda: opened(files, stranger.secret))
    assert error.reason == "no key of the Secret can decrypt it"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "the Secret has no key for decryption"),
        ({"sops.vault-token": b"x"}, "the Secret has no key for decryption"),
        ({"a.agekey": b"age1notprivate"}, "the key a.agekey of the Secret is not an age identity"),
        ({"a.agekey": b"AGE-PLUGIN-YUBIKEY-1QQ"}, "the key a.agekey of the Secret is not an age"),
        ({"a.agekey": b"\xff\xfe"}, "the key a.agekey of the Secret is not an age identity"),
        ({"a.asc": b"nothing"}, "the key a.asc of the Secret is not an armored OpenPGP"),
        (
            {
                "a.asc": b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nabc\n"
                b"-----END PGP PRIVATE KEY BLOCK-----\n"
            },
            "the key a.asc of the Secret is not an armored OpenPGP",
        ),
    ],
)
def test_unusable_keys_are_named(
    opened: Decrypt, secret: bytes, keys: dict[str, bytes], message: str
) -> None:
    error = refused(lambda: opened({"a.yaml": secret}, keys))
    assert message in error.message
    assert error.hint


def _line_of(data: bytes, begin: bytes) -> bytes:
    return next(line for line in data.splitlines(keepends=True) if line.strip().startswith(begin))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda data: data.replace(b"name: web", b"name: api"), "does not match its MAC"),
        (lambda data: data.replace(_line_of(data, b"kind:"), b""), "does not match its MAC"),
        (lambda data: data.replace(b"type:str]", b"type:int]", 1), "does not match its MAC"),
        (lambda data: data.replace(b",data:", b",data:AAAA", 1), "does not match its MAC"),
        (lambda data: data.replace(_line_of(data, b"mac:"), b""), "its MAC"),
        (lambda data: data + b"added: 1\n", "does not match its MAC"),
        (lambda data: data[: len(data) // 2], ""),
        (lambda data: data + b"\t- x", "cannot be read as YAML"),
        (lambda data: data + b"sops: {}\n", "cannot be read as YAML"),
    ],
    ids=[
        "changed", "removed", "type", "value", "no-mac", "added", "cut", "no-yaml", "twice"
    ],
)  # fmt: skip
def test_file_that_was_edited_is_refused(
    opened: Decrypt, secret: bytes, edit: Callable[[bytes], bytes], reason: str
) -> None:
    assert edit(secret) != secret
    error = refused(lambda: opened({"a/secret.yaml": edit(secret)}))
    assert (error.message, error.location) == ("the file cannot be decrypted", "a/secret.yaml")
    assert reason in error.reason
    assert error.hint


@pytest.mark.parametrize("kind", ["yaml", "json", "dotenv"])
@pytest.mark.parametrize("is_mine", [True, False], ids=["mine", "foreign"])
def test_no_service_that_a_file_names_is_asked(
    components: Components, key: Key, other: Key, opened: Decrypt, kind: str, is_mine: bool
) -> None:
    """A file has keys of Vault, at an address of the attacker's choice, and of AWS too."""
    asked: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        asked.append(connection.recv(100))

    recipient = key.recipient if is_mine else other.recipient
    content = {
        "yaml": SECRET,
        "json": json.dumps({"password": WORD}),
        "dotenv": f"PASSWORD={WORD}\n",
    }[kind]
    file = encrypt(components, content, "--age", recipient, kind=kind)
    suffix = {"dotenv": "env"}.get(kind, kind)
    with listening(serve) as port:
        named = json.loads(json.dumps(CLOUDS).replace("PORT", str(port)))
        files = {f"a.{suffix}": with_keys(file, kind, named)}
        if is_mine:
            assert WORD.encode() in opened(files)[f"a.{suffix}"]
        else:
            assert "no key of the Secret" in refused(lambda: opened(files)).reason
        assert asked == []
        if not is_mine:
            # sops itself would ask.
            env = {
                "HOME": "/nonexistent",
                "VAULT_TOKEN": "x",
                "VAULT_MAX_RETRIES": "0",
                "AWS_EC2_METADATA_DISABLED": "true",
            }
            command = [str(components.sops), "-d", "--input-type", kind, "/dev/stdin"]
            subprocess.run(
                command, input=files[f"a.{suffix}"], capture_output=True, check=False, env=env
            )
            assert asked


def with_keys(file: bytes, kind: str, named: Mapping[str, list[dict[str, str]]]) -> bytes:
    """Return an encrypted file that names more keys, as sops writes them."""
    flat = {
        f"{name}__list_0__map_{field}": value
        for name, keys in named.items()
        for field, value in keys[0].items()
    }
    text = file.decode()
    match kind:
        case "json":
            value = json.loads(text)
            value["sops"] |= named
            return json.dumps(value).encode()
        case "dotenv":
            return (text + "".join(f"sops_{key}={value}\n" for key, value in flat.items())).encode()
    block = ""
    for name, keys in named.items():
        fields = [f"{field}: {json.dumps(value)}\n" for field, value in keys[0].items()]
        block += f"    {name}:\n        - " + "          ".join(fields)
    return text.replace("sops:\n", f"sops:\n{block}").encode()


@pytest.mark.parametrize("encrypted", [(), ONLY_DATA], ids=["all", "data"])
def test_left_out_metadata_changes_no_value(
    components: Components, key: Key, opened: Decrypt, encrypted: tuple[str, ...]
) -> None:
    """Comments, encrypted ones too, are not a part of what the MAC is about."""
    text = f"""\
# of the file
{SECRET}  # of a value
  more: "\U0001f511 \\u2028 \\t \\x7f"
  list: [1, 2.5, true, null, "1"]
spec: {{n: 12345678901234567, f: 1.50, e: 1e3, oct: 0o17, when: 2026-01-01T00:00:00Z, day: "1"}}
"""
    both = f"{text}---\n{text.replace('web', 'api')}"
    for content in (text, both):
        file = encrypt(components, content, *encrypted, "--age", key.recipient)
        found = opened({"a.yaml": with_keys(file, "yaml", CLOUDS)})["a.yaml"]
        assert values(found) == values(opened({"a.yaml": file})["a.yaml"])
        assert WORD.encode() in found


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        ("a.yaml", "x: ENC[]\nsops:\n  kms: [{arn: x}]\n  mac: ENC[x]\n", "no age or OpenPGP key"),
        ("a.yaml", "x: ENC[]\nsops:\n  age: []\n  mac: ENC[x]\n", "no age or OpenPGP key"),
        ("a.json", '{"x": "ENC[]", "sops": {"hc_vault": [{}], "mac": ""}}', "no age or OpenPGP"),
        ("a.env", "X=ENC[]\nsops_mac=x\nsops_kms__list_0__map_arn=x\n", "no age or OpenPGP key"),
        ("a.ini", "[x]\na = ENC[]\n[ sops ]\nmac = x\nkms__list_0__map_arn = x\n", "as INI"),
        (
            "a.yaml",
            "x: ENC[]\nsops:\n  key_groups: [{age: [{}]}, {hc_vault: [{}]}]\n  mac: ENC[x]\n",
            "key groups",
        ),
        (
            "a.yaml",
            "x: ENC[]\nsops:\n  key_groups: [{age: [{}]}, {HC_Vault: [{}]}]\n  mac: ENC[x]\n",
            "key groups",
        ),
        (
            "a.env",
            "X=ENC[]\nsops_mac=x\nsops_key_groups__list_0__map_kms__list_0__map_arn=x\n",
            "key groups",
        ),
        (
            "a.yaml",
            "x: ENC[]\nsops: {age: [{}], HC_VAULT: [{}], mac: 'ENC[x]'}\n",
            "",
        ),
        (
            "a.yaml",
            "m: &m {hc_vault: [{}]}\nx: ENC[]\nsops:\n  <<: *m\n  age: [{}]\n  mac: ENC[x]\n",
            "",
        ),
        (
            "a.yaml",
            "x: ENC[]\nsops:\n  ? hc_vault\n  : [{}]\n  age: [{}]\n  mac: ENC[x]\n",
            "",
        ),
    ],
)
def test_metadata_that_names_services_is_never_given_to_sops(
    opened: Decrypt, path: str, content: str, reason: str
) -> None:
    error = refused(lambda: opened({path: content.encode()}))
    assert reason in error.reason


def test_missing_program_is_an_error_with_a_hint(key: Key, secret: bytes) -> None:
    error = refused(lambda: decrypt({"a.yaml": secret}, key.secret, program="/nonexistent/sops"))
    assert "need sops, and it is not installed" in error.message
    assert "Install sops" in error.hint


def test_time_and_size_are_limited(opened: Decrypt, secret: bytes) -> None:
    assert refused(lambda: opened({"a.yaml": secret}, timeout=0.001)).reason == (
        "sops did not finish in time"
    )
    with pytest.raises(SourceTooLarge, match="larger than"):
        opened({"a.yaml": secret}, size=50)


def test_program_that_fails_otherwise_shows_its_code_only(
    key: Key, secret: bytes, tmp_path: Path
) -> None:
    program = tmp_path / "sops"
    program.write_text(f"#!/bin/sh\necho {WORD}; echo {WORD} >&2; exit 9\n")
    program.chmod(0o755)
    error = refused(lambda: decrypt({"a.yaml": secret}, key.secret, program=str(program)))
    assert error.reason == "sops ended with code 9"


def test_environment_has_keys_and_nothing_of_the_caller(
    key: Key, secret: bytes, tmp_path: Path
) -> None:
    """Credentials of a cloud would be used, and a proxy would be asked."""
    program = tmp_path / "sops"
    program.write_text('#!/bin/sh\necho "$#$@"; env\n')
    program.chmod(0o755)
    shown = decrypt({"a.yaml": secret}, key.secret, program=str(program))["a.yaml"].decode()
    assert "AGE-SECRET-KEY" not in shown.splitlines()[0]
    names = {line.partition("=")[0] for line in shown.splitlines()[1:]}
    ours = {"HOME", "GNUPGHOME", "HTTP_PROXY", "HTTPS_PROXY", "AWS_EC2_METADATA_DISABLED"}
    shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert ours <= names
    assert {name for name in names - shell - ours if not name.startswith(("SOPS_", "GO"))} == set()


_BLOCK = "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\n{}\n=abcd\n-----END PGP {}\n"
RING = {
    "a.asc": _BLOCK.format(base64.b64encode(b"ring\n").decode(), "PRIVATE KEY BLOCK-----").encode()
}
"""A Secret whose ring of private keys is a word."""


def test_private_key_is_never_on_a_disk(opened: Decrypt, secret: bytes, tmp_path: Path) -> None:
    """The folder of the ring has a link to a file in memory, and goes with the call."""
    program = tmp_path / "sops"
    program.write_text(
        '#!/bin/sh\nif [ -f "$GNUPGHOME/secring.gpg" ]; then cat "$GNUPGHOME/secring.gpg"; fi\n'
        'find "$GNUPGHOME" -type f; dirname "$GNUPGHOME/x"\n'
    )
    program.chmod(0o755)
    shown = decrypt({"a.yaml": secret}, RING, program=str(program))["a.yaml"].decode()
    ring, folder = shown.splitlines()
    assert ring == "ring"
    assert not Path(folder).exists()


def test_folder_of_a_ring_that_cannot_be_removed_is_no_error(
    secret: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one on a disk that has become read-only: it has nothing but a link."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = tmp_path / "sops"
    # Python removes no folder through a link.
    program.write_text(
        '#!/bin/sh\nmv "$GNUPGHOME" "$GNUPGHOME.kept" && ln -s "$GNUPGHOME.kept" "$GNUPGHOME"\n'
        "echo done\n"
    )
    program.chmod(0o755)
    assert decrypt({"a.yaml": secret}, RING, program=str(program)) == {"a.yaml": b"done\n"}
    (kept,) = tmp_path.glob("*.kept")
    assert [path.is_symlink() for path in kept.iterdir()] == [True]
