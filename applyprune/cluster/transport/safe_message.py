"""Make foreign text safe to show: no control sequences, no secrets, not too long."""

from __future__ import annotations

import re

from applyprune.model.text.display import visible

MAX_SHOWN = 1024

# Patterns are compiled when an error comes: that takes longer than a whole request.
# Messages of the API server that can hold names and paths, but no values. A message must match as
# a whole: otherwise a value could follow the known part.
_WORD = r"[A-Za-z0-9_.:/-]+"
_QUOTED = r"\"[^\"\n]{0,300}\""
_OBJECT = rf"{_WORD}[ ]{_QUOTED}"
_AMOUNTS = r"[\w./=,-]+"
_WITHOUT_VALUES = rf"""
      {_OBJECT}[ ]not[ ]found
    | (?:object[ ]is[ ]being[ ]deleted:[ ])?{_OBJECT}[ ]already[ ]exists
    | {_OBJECT}[ ]is[ ]forbidden:[ ](?:
        User[ ]{_QUOTED}[ ]cannot[ ]\w+[ ]resource[ ]{_QUOTED}[ ]in[ ]API[ ]group[ ]{_QUOTED}
        (?:[ ]in[ ]the[ ]namespace[ ]{_QUOTED}|[ ]at[ ]the[ ]cluster[ ]scope)
      | unable[ ]to[ ]create[ ]new[ ]content[ ]in[ ]namespace[ ]{_WORD}
        [ ]because[ ]it[ ]is[ ]being[ ]terminated
      | exceeded[ ]quota:[ ]{_WORD},[ ]requested:[ ]{_AMOUNTS},[ ]used:[ ]{_AMOUNTS}
        ,[ ]limited:[ ]{_AMOUNTS}
      )
    | Operation[ ]cannot[ ]be[ ]fulfilled[ ]on[ ]{_OBJECT}:[ ](?:
        the[ ]object[ ]has[ ]been[ ]modified;[ ]please[ ]apply[ ]your[ ]changes[ ]to[ ]the
        [ ]latest[ ]version[ ]and[ ]try[ ]again
      | (?:Precondition[ ]failed:[ ])?
        (?:UID|ResourceVersion)[ ]in[ ]precondition:[ ][\w-]*,
        [ ](?:UID|ResourceVersion)[ ]in[ ]object[ ]meta:[ ][\w-]*
      )
    | \w+[ ]in[ ]version[ ]{_QUOTED}[ ]cannot[ ]be[ ]handled[ ]as[ ]a[ ]\w+:
        [ ]illegal[ ]base64[ ]data[ ]at[ ]input[ ]byte[ ]\d+
    | failed[ ]to[ ]convert[ ]new[ ]object[ ]\([\w./-]*;[ ][\w./-]*,[ ]Kind=\w+\)[ ]to[ ]proper
        [ ]version:[ ]unable[ ]to[ ]convert[ ]unstructured[ ]object[ ]to[ ][\w./-]*,[ ]Kind=\w+:
        [ ](?:error[ ]decoding[ ]from[ ]json:[ ])?
        illegal[ ]base64[ ]data[ ]at[ ]input[ ]byte[ ]\d+
    | unknown[ ]field[ ]{_QUOTED}
    | {_WORD}[ ]\w+[ ]is[ ]deprecated(?:[ ]in[ ]v[\d.]+\+)?(?:,[ ]unavailable[ ]in[ ]v[\d.]+\+)?
        (?:;[ ]use[ ]{_WORD}[ ]\w+)?
    | etcdserver:[ ][a-z ]{{1,80}}
    | Request[ ]entity[ ]too[ ]large:[ ]limit[ ]is[ ]\d+
    | Unauthorized
"""
# The known beginnings of messages whose end may quote a value.
_BEGINNINGS = (
    rf"admission webhook {_QUOTED} denied the request",
    rf"Internal error occurred: failed calling webhook {_QUOTED}",
    (
        r"failed to create typed patch object \([\w./-]*; [\w./-]*, Kind=\w+\): "
        r"(?:errors:\s+)?\.[\w.\[\]-]{1,300}: "
        r"(?:field not declared in schema|expected \w+|duplicate entries for key)"
    ),
    r"Apply failed with \d+ conflicts?",
    r"Validation failed for ValidatingAdmissionPolicy '[\w.-]{1,253}' with binding '[\w.-]{1,253}'",
)


def safe_text(text: str, limit: int = MAX_SHOWN) -> str:
    """Return the text on one line, with invisible characters escaped, cut to ``limit``."""
    # Cut first: the text may be a hundred megabytes.
    cut = len(text) > limit
    line = " ".join(text[:limit].split())
    clean = visible(line)
    return f"{clean[:limit]}…" if cut or len(clean) > limit else clean


def without_values(message: str) -> str:
    """Return the part of an API server's message that cannot hold a value of the object's fields.

    This is for errors about a Secret: server-side apply quotes values in its schema errors, and a
    webhook's message can hold anything. Empty when no part of the message is known to be safe.
    """
    message = message.strip()
    if len(message) <= 4 * MAX_SHOWN and re.fullmatch(_WITHOUT_VALUES, message, re.VERBOSE):
        return safe_text(message)
    for beginning in _BEGINNINGS:
        if found := re.match(beginning, message):
            return safe_text(found.group())
    return ""
