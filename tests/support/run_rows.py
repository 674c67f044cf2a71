"""A story as a row: apply, let somebody change something, run again, and compare what is there.

The words are those of ``tests.decisions.rows``; here a whole run happens, on a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from applyprune.model.events import Event, Planned
from applyprune.model.fate import Outcome
from tests.decisions.world import Body, Change, Site, created, place_on, renamed
from tests.support.stage import on

if TYPE_CHECKING:
    from tests.support.api import Api
    from tests.support.stage import Stage, Story


@dataclass(frozen=True)
class RunRow:
    """What is there, what is run, and what is there afterwards."""

    before: Sequence[Body] = ()
    """What others have created before the set was applied."""
    applied: Sequence[Body] = ()
    """What the set has applied."""
    others: Sequence[Change] = ()
    """What somebody else has done since, in order."""
    given: Sequence[Body] | None = None
    """The input; None for the same as before."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """As ``options_of`` takes them."""
    meanwhile: Sequence[Change] = ()
    """What somebody else does as soon as the run has ``when``."""
    when: type[Event] = Planned
    exit_code: int = 0
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    """By ``kind/name``, but for what is unchanged."""
    listed: frozenset[str] | None = None
    """What the inventory lists afterwards; None for what the run has in its input."""
    live: Mapping[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """A part of objects as they are afterwards; None for one that must not exist."""
    says: Mapping[str, str] = field(default_factory=dict)
    """A part of the problem or the reason of an object; an empty name for the refusal."""

    def holds(self, api: Api, stage: Stage) -> Story:
        """Fail unless a run ends as the row says; return that run."""
        home = partial(renamed, stage.namespace)
        self._do(tuple(map(created, self.before)), api, stage)
        if self.applied:
            first = stage.run(*home(self.applied))
            assert first.exit_code == 0, first.events
        self._do(self.others, api, stage)
        input_ = home(self.applied if self.given is None else self.given)
        stage.seen = on(self.when, partial(self._do, self.meanwhile, api, stage))
        story = stage.run(*input_, **self.options)
        assert story.exit_code == self.exit_code, story.events
        unchanged = Outcome.UNCHANGED
        found = {name: one for name, one in story.outcomes.items() if one is not unchanged}
        assert found == dict(home(list(self.outcomes.items()))), story.events
        self._is_live(api, stage)
        for name, words in home(list(self.says.items())):
            told = story.refusal if not name else story.reasons[name] + story.problem(name)
            assert words in told, told
        if self.listed is not None:
            assert stage.listed() == set(home(sorted(self.listed)))
        return story

    def _do(self, changes: Sequence[Change], api: Api, stage: Stage) -> None:
        for change in changes:
            assert change.there is not None
            change.there(Site(api, stage, place_on(stage, change.name)))

    def _is_live(self, api: Api, stage: Stage) -> None:
        for name, part in self.live.items():
            found = api.find(place_on(stage, name))
            if part is None:
                assert found is None, found
            else:
                assert found is not None, name
                _has(found, renamed(stage.namespace, dict(part)))


def _has(found: Any, part: Any) -> None:
    """Fail unless an object has these values; None stands for a key that is not there."""
    if not isinstance(part, Mapping):
        assert found == part
        return
    for key, value in part.items():
        if value is None:
            assert key not in (found or {})
        else:
            _has((found or {}).get(key), value)
