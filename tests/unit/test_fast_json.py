"""JSON by msgspec: the same text, and no crash where there is no memory."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from applyprune.values import decode, encode, encode_sorted

VALUE: dict[str, Any] = {"b": [1, None, "é"], "a": {"d": 1.5, "c": True}}


def test_text_is_that_of_msgspec() -> None:
    """Small and large, in the given order or sorted."""
    for value in (VALUE, {"key": "x" * 200_000, **VALUE}):
        assert encode(value) == msgspec.json.encode(value)
        assert encode_sorted(value) == msgspec.json.encode(value, order="sorted")
        assert decode(encode(value)) == json.loads(encode_sorted(value)) == value


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of the address space")
@pytest.mark.parametrize("call", ["encode(value)", "encode_sorted(value)", "decode(text)"])
def test_lack_of_memory_is_an_error(call: str) -> None:
    """With each of several limits, and at last it fits."""
    script = f"""
import resource, sys
from pathlib import Path
from applyprune.values import decode, encode, encode_sorted
value = [{{f"key-{{number}}": "x" * 1000 for number in range(100)}} for _ in range(200)]
text = encode(value)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[1]),) * 2)
try:
    {call}
except MemoryError:
    print("no memory")
else:
    print("done")
"""
    said = [_run(script, megabytes) for megabytes in (0, 1, 4, 16, 32, 200)]
    assert said[0] == "no memory"
    assert said[-1] == "done"
    assert set(said) == {"no memory", "done"}


def _run(script: str, megabytes: int) -> str:
    command = [sys.executable, "-c", script, str(megabytes << 20)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{megabytes} MB: {done.returncode}, {done.stderr}"
    return done.stdout.strip()
