"""Which applyprune this is: its version, in one place, and from where it was installed."""

__version__ = "0.1.0"


def pip_install(extra: str) -> str:
    """Return the command that installs this applyprune again, with an extra.

    From the folder or file that pip has installed it from, if that is still there: a checkout need
    not be in any index.
    """
    # Imported here: only an error needs them.
    import json
    import shlex
    from contextlib import suppress
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from typing import Any
    from urllib.parse import unquote, urlsplit

    found: dict[str, Any] = {}
    with suppress(PackageNotFoundError, ValueError):
        found = json.loads(distribution("applyprune").read_text("direct_url.json") or "{}")
    url = urlsplit(found.get("url", ""))
    folder = Path(unquote(url.path))
    is_local = url.scheme == "file" and folder.exists()
    option = "-e " if is_local and found.get("dir_info", {}).get("editable") else ""
    source = str(folder) if is_local else "applyprune"
    return f"pip install {option}{shlex.quote(f'{source}[{extra}]')}"
