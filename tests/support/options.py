"""Options of a run by their plain names, as tests give them."""

from __future__ import annotations

from typing import Any

from applyprune.model.options import Options, WaitMode
from applyprune.values import replace

_GROUPS = ("apply", "prune", "wait", "diff")


def options_of(**given: Any) -> Options:
    """Return options; set a group's field by its name; a group's own name enables the group.

    Unlike a user's, these runs check nothing before the first write unless ``check`` says so: most
    stories are about a write, and how it fails. ``wait`` is True or False, as ``--wait`` and
    ``--no-wait``.
    """
    options = Options(check=False)
    if "wait" in given:
        mode = WaitMode.asked(given.pop("wait"))
        options = replace(options, wait=replace(options.wait, mode=mode))
    for name, value in given.items():
        if name in _GROUPS:
            group, part = name, "enabled"
        else:
            group, part = _group_of(options, name), name
        fresh = replace(getattr(options, group), **{part: value}) if group else value
        options = replace(options, **{group or name: fresh})
    return options


def _group_of(options: Options, name: str) -> str:
    for group in _GROUPS if not hasattr(options, name) else ():
        if name in getattr(options, group).__struct_fields__:
            return group
    return ""
