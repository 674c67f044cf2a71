"""A set of ConfigMaps, and calls of the installed command on it, as a pipeline makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.live import config_maps
from tests.support.objects import config_map
from tests.support.pseudo_terminal import on_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.command import Ended
    from tests.support.pseudo_terminal import PseudoTerminal

NAMES = [f"a{number}" for number in range(9)]


@dataclass(frozen=True, slots=True)
class Desk:
    """The set ``web`` of one namespace, and a folder for its input."""

    plane: Plane
    api: Api
    namespace: str
    folder: Path

    def call(self, verb: str, *arguments: str | Path, **values: str) -> Ended:
        """Run a verb with ConfigMaps of these names and values as its input."""
        return self.call_on(self.plane.kubeconfig, verb, *arguments, **values)

    def call_on(self, kubeconfig: Path, verb: str, *arguments: str | Path, **values: str) -> Ended:
        """Do what ``call`` does, through another kubeconfig."""
        return applyprune(*self.line(verb, *arguments, **values), kubeconfig=kubeconfig)

    def call_with(self, verb: str, *arguments: str | Path) -> Ended:
        """Run a verb on the set, also one of a group, with the input that the arguments name."""
        words = [str(one) for one in arguments]
        group = [words.pop(0)] if verb == "inventory" else []
        where = (verb, *group, "web", "-n", self.namespace)
        return applyprune(*where, *words, kubeconfig=self.plane.kubeconfig)

    def on_terminal(self, *line: str | Path, **how: Any) -> PseudoTerminal:
        """Return a call on a terminal; ``how`` are the fields of that."""
        return on_terminal(*line, kubeconfig=self.plane.kubeconfig, **how)

    @property
    def target(self) -> str:
        """Return the line in which a call on a terminal names the set and the cluster."""
        where = f"context {self.plane.name} ({self.plane.server})"
        return f"web in namespace {self.namespace}, {where}\n"

    def line(self, verb: str, *arguments: str | Path, **values: str) -> list[str | Path]:
        """Write the input, and return the arguments of a call."""
        path = self.folder / "set.json"
        write_input(path, [config_map(name, value) for name, value in values.items()])
        return [verb, "web", "-n", self.namespace, "-f", path, *arguments]

    def there(self) -> dict[str, str]:
        """Return the ConfigMaps that exist, with their values."""
        found = config_maps(self.api, self.namespace)
        return {name: body["data"]["key"] for name, body in found.items() if "key" in body["data"]}
