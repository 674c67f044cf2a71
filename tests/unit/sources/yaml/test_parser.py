"""What the recorded pairs do not hold: streams, aliases, merges, JSON, and texts made to hurt."""

from __future__ import annotations

from time import process_time

import pytest

from applyprune.sources.documents import read_documents
from applyprune.sources.yaml import Document, YAMLFault, read_stream
from tests.support.source_text import refusals, value, values

STREAMS = {
    "nothing": ("", []),
    "comments only": ("# a\n---\n# b\n", []),
    "separators only": ("---\n---\n---", []),
    "null documents": ("~\n---\nnull\n---\na: 1\n", [{"a": 1}]),
    "a comment after the separator": ("--- # first\na: 1\n--- \t # second\nb: 2\n", 2),
    "an end before a separator": ("a: 1\n...\n---\nb: 2\n", 2),
    "a separator in a block": ("a: |\n  x\n  ---\n  y\n", [{"a": "x\n---\ny\n"}]),
    "Windows line ends": ("---\r\na: 1\r\n---\r\nb: |\r\n  x\r\n", [{"a": 1}, {"b": "x\n"}]),
    "no line end at the end of a block": ("a: |\n  x", [{"a": "x\n"}]),
    "a byte order mark first": ("\ufeff---\na: 1\n", [{"a": 1}]),
    "a mark after a separator": ("a: 1\n---\n\ufeffb: 2\n", [{"a": 1}, {"b": 2}]),
    "a mark after a separator of Windows": ("a: 1\r\n---\r\n\ufeffb: 2", [{"a": 1}, {"b": 2}]),
    "a mark after a comment": ("a: 1\n--- # next\n\ufeffb: 2\n", [{"a": 1}, {"b": 2}]),
    "a mark before a separator": ("a: 1\n\ufeff---\nb: 2\n", [{"a": 1}, {"b": 2}]),
    "marks on both sides": ("\ufeff---\n\ufeffa: 1\n\ufeff---\n\ufeffb: 2\n", [{"a": 1}, {"b": 2}]),
    "a byte order mark in a text": ("a: 'x\ufeff'\n", [{"a": "x\ufeff"}]),
    "JSON documents without a space": ('{"a":1}{"b":2}\n{"c":3}', 3),
    "JSON, then YAML": ('{"a": 1}\n---\nb: 2\n', 2),
    "JSON with a byte order mark": ('\ufeff{"a":1}', [{"a": 1}]),
    "YAML that begins like JSON": ("{a: b}\n---\n{c: d}\n", [{"a": "b"}, {"c": "d"}]),
    "JSON nulls": ('{"a":1} null {"b":2}', 2),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_read(name: str) -> None:
    text, expected = STREAMS[name]
    if isinstance(expected, int):
        expected = [{"a": 1}, {"b": 2}, {"c": 3}][:expected]
    assert values(text) == expected


LINES_REFUSED = {
    "a: 1\n---\nb: [\n---\nc: {\n---\nd: 1\n": [3, 5],
    "a: 1\na: 2\n---\nb: 1\nb: 2\n": [2, 5],
    "a: 1\n\ufeffb: 1\n": [2],
    "a: 1\n---\n# no longer first\n\ufeffb: 1\n": [4],
    "a: 1\n--- b\n---x\n": [2, 3],
    "a: 1\r---\rb: 1\r": [1],
    "a: 1\u2028---\u2028b: 1\n": [1],
    "a: 1\n--- # \u2028b: 1\n": [2],
    "# c\n%YAML 1.1\n---\na: 1\n": [1],
    '{"a":1}\n{"b":2}\n{"c":\n\n}': [5],
    '{"a":1} b: 2\n': [1],
    '{"a":1,\n"a":2}\n\n{"b":NaN}': [2, 4],
    '{"a":1}\n{"b":1e400}': [2],
}


@pytest.mark.parametrize("text", LINES_REFUSED, ids=ascii)
def test_every_error_is_found_with_its_line(text: str) -> None:
    assert [line for line, _ in refusals(text)] == LINES_REFUSED[text]


FLOW_COLONS = {
    "a: [http://x:80/y]": ["http://x:80/y"],
    "a: [--listen=:8080, -v]": ["--listen=:8080", "-v"],
    "a: [x:]": ["x:"],
    "a: [x:, y]": ["x:", True],
    "a: {b: c:d, e: 1:30}": {"b": "c:d", "e": "1:30"},
    "a: [b:c: d]": [{"b:c": "d"}],
    "a: [b:c\n  d:e, f]": ["b:c d:e", "f"],
    "a: [é:ü, 'b:c', \"d:e\"]": ["é:ü", "b:c", "d:e"],
    'a: {"b":1, c:d}': {"b": 1, "c:d": None},
    "a: [nginx:1.2, sha256:0e]  # [b:c\n": ["nginx:1.2", "sha256:0e"],
    'a: [b:c, \'d\'\'e:f\', "g\\"h:i", {"j":k, l: m:n}]': [
        "b:c",
        "d'e:f",
        'g"h:i',
        {"j": "k", "l": "m:n"},
    ],
    "a: [b:c]\nd:\n- e:f: g:h\n- |\n  i:j\n": ["b:c"],
}


@pytest.mark.parametrize("text", FLOW_COLONS, ids=ascii)
def test_colon_in_unquoted_text_in_brackets_is_text(text: str) -> None:
    """libyaml 0.1 refuses it, Go reads it; so do manifests with ``args: [--listen=:80]``."""
    assert value(text)["a"] == FLOW_COLONS[text]
    # Its neighbours do not change, and lines stay as they are.
    assert values(f"z: 1\n---\n{text}\n---\nz: 1\n") == [{"z": 1}, value(text), {"z": 1}]
    assert refusals(f"{text}\n---\nz: 1\nz: 2\n") == [(text.count("\n") + 4, "duplicate key 'z'")]


@pytest.mark.parametrize(
    "text",
    ["a: [:x]", "a: [::1]", "a: [x:{b}]", "a: [x:y?]", "a: {: b}", "a: [b:c, d", "a: [b:c]: d: e"],
)
def test_colon_that_go_rejects_is_rejected(text: str) -> None:
    assert refusals(text)


def test_aliases_become_copies() -> None:
    """One value in two places would change in both."""
    read = value("a: &x {b: [1]}\nc: *x\nd:\n  <<: *x\n")
    assert read == {"a": {"b": [1]}, "c": {"b": [1]}, "d": {"b": [1]}}
    read["a"]["b"].append(2)
    assert read["c"] == read["d"] == {"b": [1]}


def test_anchor_names_the_latest_node_before_the_alias() -> None:
    assert value("a: &x 1\nb: &x [&x 2, *x]\nc: *x\n") == {"a": 1, "b": [2, 2], "c": 2}
    assert refusals("a: &x 1\n---\nb: *x\n") == [
        (3, "an alias refers to an anchor that is not defined before it in this document")
    ]


MERGES = {
    "a: {<<: {b: 1}, b: 2}": {"b": 2},
    "a: {<<: [{b: 1, c: 1}, {b: 2, d: 2}]}": {"b": 1, "c": 1, "d": 2},
    "a: {<<: {b: 1}, <<: {c: 2}}": {"b": 1, "c": 2},
    "a: {<<: {b: 1}, <<: {b: 2}}": None,
    "a: {<<: {b: 1}, <<: {b: 1}, b: 2}": {"b": 2},
    "a: {<<: {b: 1}, b: 2, <<: {b: 1}}": None,
    "a: {b: 1, <<: {b: 2}}": None,
    "a: {b: 1, <<: {b: 1, c: 2}}": {"b": 1, "c": 2},
    "a: {b: 1, <<: {b: 1}, b: 1}": None,
    "a: {b: 1, <<: [{b: 1}, {b: 2}]}": {"b": 1},
    "a: {b: 1, <<: [{b: 2}, {b: 1}]}": None,
    "a: {b: {c: [1, {d: x, e: 0x1}]}, <<: {b: {c: [1, {e: 1, d: 'x'}]}}}": {
        "b": {"c": [1, {"d": "x", "e": 1}]}
    },
    "a: {b: {c: [1]}, <<: {b: {c: [1, 2]}}}": None,
    "a: {b: {c: 1}, <<: {b: {c: 1, d: 1}}}": None,
    "a: {b: {c: 1}, <<: {b: {c: true}}}": None,
    "a: {b: 1, <<: {b: '1'}}": None,
    "a: {'': 1, <<: {'': 2}}": None,
    "a: {<<: {b: 1}, b: 2, b: 3}": None,
    "a: {<<: {1: x}, '1': z}": {"1": "z"},
    "a: {<<: []}": {},
    "a: {<<: 1}": None,
    "a: {<<: [1]}": None,
    "a: {? &x << : {b: 1}}": None,
    "a: {! <<: {b: 1}}": None,
    "a: {'<<': {b: 1}}": {"<<": {"b": 1}},
}


@pytest.mark.holds("merge-overwrites-a-key", row="a: {<<: {b: 1}, <<: {b: 2}}")
@pytest.mark.parametrize("text", MERGES)
def test_merge_keys_are_read(text: str) -> None:
    expected = MERGES[text]
    assert values(text) == (None if expected is None else [{"a": expected}])


def test_aliases_are_limited_as_in_go() -> None:
    """Go's own measure: at most 99 % of a document of more than 1,000 nodes comes from aliases."""
    shared = "a: &a [" + "x, " * 90 + "]\n"
    assert len(value(shared + "b: [" + "*a, " * 500 + "]")["b"]) == 500
    assert refusals("a: &a [" + "x, " * 990 + "]\n" + "b: [" + "*a, " * 500 + "]")


BOMBS = {
    "aliases": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"b{i}: &b{i} [{','.join([f'*b{i - 1}' if i else '*a'] * 9)}]\n" for i in range(30)),
    "aliases that nest": "a0: &a0 [x]\n"
    + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 5000)),
    "brackets": "[" * 1_000_000,
    "braces": "{a: " * 300_000,
    "JSON brackets": '{"a":' + "[" * 1_000_000,
    "JSON that is too deep": '{"a":' * 200 + "1" + "}" * 200,
    "dashes": "- " * 300_000 + "a",
    "question marks": "? " * 100_000,
    "indentation": "".join(f"{' ' * i}a:\n" for i in range(2000)),
    "colons in brackets": "[" + "a:b, " * 3000,
    "separators": "---\n" * 20_000 + "a: [",
    "a long number": "a: " + "9" * 1_000_000,
    "a long octal number": "a: 0" + "7" * 1_000_000,
    "anchors": "".join(f"a{i}: &a{i} [x]\n" for i in range(5000)) + "b: [",
    "one key again and again": "a: 1\n" * 100_000,
    "tags": "!a " * 100_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_text_is_refused_quickly(name: str) -> None:
    began = process_time()
    assert refusals(BOMBS[name])
    # Nothing here computes for a second; what is quadratic would for minutes.
    assert process_time() - began < 60


def test_deepest_allowed_nesting_is_read() -> None:
    assert values("[" * 100 + "]" * 100) is not None
    assert values("[" * 101 + "]" * 101) is None
    assert values('{"a":' + "[" * 99 + "]" * 99 + "}") is not None
    assert values('{"a":' + "[" * 100 + "]" * 100 + "}") is None
    deep = "a: &a " + "[" * 60 + "]" * 60 + "\nb: "
    assert values(f"{deep}[*a]") is not None
    assert values(deep + "[" * 50 + "*a" + "]" * 50) is None


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_other_encodings_are_refused(encoding: str) -> None:
    assert refusals("a: ü\nb: 2\n".encode(encoding))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_by_its_mark(encoding: str) -> None:
    """PowerShell writes it, and kubectl reads it; half a character is an error with its line."""
    text = "\ufeffa: ü\r\n---\r\n\ufeffb: 2\r\n".encode(encoding)
    found = [one.content for one in read_documents(text)]
    assert [one.value for one in found if isinstance(one, Document)] == [{"a": "ü"}, {"b": 2}]
    (broken,) = read_documents("\ufeffa: 1\nb: 2\n".encode(encoding)[:-1])
    assert isinstance(broken.content, YAMLFault)
    assert (broken.content.problem, broken.content.line) == ("the text is not UTF-16", 2)


JSON_VALUES = {
    '{"a":"\\/\\ud83d\\ude00\\t"}': "/😀\t",
    '\t{\t"a"\t:\t1\t}': 1,
    '{"a":1.0}': 1,
    '{"a":1e19}': 10**19,
    '{"a":1e21}': 1e21,
    '{"a":-0.0}': 0,
    '{"a":18446744073709551615}': 2**64 - 1,
    f'{{"a":"{"x" * 2000}"}}': "x" * 2000,
}


@pytest.mark.parametrize("text", JSON_VALUES, ids=range(len(JSON_VALUES)))
def test_json_is_read(text: str) -> None:
    assert repr(value(text)["a"]) == repr(JSON_VALUES[text])


def test_json_key_may_be_too_long_for_yaml() -> None:
    assert value(f'{{"{"k" * 2000}":1}}') == {"k" * 2000: 1}


@pytest.mark.parametrize("value", ["!hunter2", "!!hunter2 x", "!<hunter2> x", "!hunter2 {a: b}"])
def test_password_that_begins_like_a_tag_is_not_quoted(value: str) -> None:
    with pytest.raises(YAMLFault) as caught:
        read_stream(f"kind: Secret\nstringData:\n  p: {value}\n")
    assert "hunter2" not in caught.value.problem
    assert caught.value.hint == "Quote a string that begins with !."


CHANGED_KEYS: dict[str, list[tuple[str, str]]] = {
    "a: {b: 1, 8080: 2, 2001-01-01: 3, 'y': 4, true: 5, \"010\": 6, oN: 7}": [],
    "a: {y: 1, NO: 2}": [("a.true", "y"), ("a.false", "NO")],
    "a: [{010: {0x10: 1}}, {1_000: 1, 1.0: 1}]": [
        ("a.0.8", "010"),
        ("a.0.8.16", "0x10"),
        ("a.1.1000", "1_000"),
        ("a.1.1", "1.0"),
    ],
    "a: &a {n: 1}\nb: *a\nc: {<<: *a}": [("a.false", "n"), ("b.false", "n"), ("c.false", "n")],
    "&a y: 1\n!!bool n: 2\n!!str off: 3\n!!int '7': 4": [("true", "y"), ("false", "n")],
    "'y': 1\n---\na: {y: 1}\n---\na: 1": [("a.true", "y")],
}


@pytest.mark.parametrize("text", CHANGED_KEYS)
def test_keys_with_another_text_are_known(text: str) -> None:
    """Not a key whose JSON text is that of the file."""
    contents = [one.content for one in read_documents(text.encode())]
    found = [
        (".".join(map(str, key.place)), key.written)
        for content in contents
        if isinstance(content, Document)
        for key in content.changed_keys
    ]
    assert found == CHANGED_KEYS[text]
