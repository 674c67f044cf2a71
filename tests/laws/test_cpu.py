"""The law of cost: each folder of tests has a budget of CPU seconds.

The figures are those of the last `make test ARGS=--record-durations`, and of `make stories` so.
"""

from __future__ import annotations

from collections import defaultdict

from tests.support.durations import Record

BUDGETS = {
    "controller": 550,
    "stories": 520,
    "deploy": 220,
    "command": 165,
    "unit": 145,
    "sweeps": 140,
    "contract": 85,
    "packaging": 85,
}
"""CPU seconds of each folder, with those of its control planes, on two cores of 2026."""
OTHERS = 20
"""The budget of each folder, or file beside the folders, that is not named."""


def test_folder_keeps_its_budget() -> None:
    """Whoever needs more first looks for what is proved twice, and then says why here."""
    used: dict[str, float] = defaultdict(float)
    for file, (_, cpu) in Record.read().files.items():
        used[file.split("/")[1]] += cpu
    over = {name: cpu for name, cpu in used.items() if cpu > BUDGETS.get(name, OTHERS)}
    assert over == {}
