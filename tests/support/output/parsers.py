"""Read our output like the program that it is made for."""

from __future__ import annotations

import re

import xmlschema

from tests.support.output.printed import FIXTURES

JUNIT = xmlschema.XMLSchema(FIXTURES / "output" / "junit-10.xsd")
COMMAND = re.compile(r"::(?P<name>[a-z-]+)(?: (?P<properties>[^:]*))?::(?P<data>.*)")


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Return the workflow commands of a log, read by the runner's rules.

    A line is one when it begins with ``::``, blanks aside; the old form ``##[name]`` may be
    anywhere in any other line. Properties are escaped beyond what data is.
    """
    found = []
    for line in text.splitlines():
        if match := COMMAND.match(line.lstrip()):
            pairs = (one.partition("=") for one in (match["properties"] or "").split(",") if one)
            properties = {key: _unescaped(value, ":,") for key, _, value in pairs}
            found.append((match["name"], properties, _unescaped(match["data"], "")))
        else:
            assert "##[" not in line
    return found


def _unescaped(text: str, more: str) -> str:
    for char in ("\r", "\n", *more):
        text = text.replace(f"%{ord(char):02X}", char)
    return text.replace("%25", "%")
