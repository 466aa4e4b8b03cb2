"""What is said to a question for permission, in all the ways that `decision_spellings.toml` has."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORDS = tomllib.loads(Path(__file__).with_name("decision_spellings.toml").read_text())
READINGS = ("yes", "no", "unclear")


def texts(reading: str) -> Iterator[str]:
    """The words of a reading; a yes or no also in other dress."""
    for word in WORDS[reading]:
        yield word
        if reading != "unclear":
            yield from (word.upper(), f"  {word.capitalize()} ", f"{word}.", f'"{word}!"')


def forms(reading: str) -> list[dict[str, Any]]:
    """The objects of a reading."""
    (found,) = [it["payloads"] for it in WORDS["form"] if it["says"] == reading]
    return list(found)


def payloads(reading: str) -> list[Any]:
    """Everything that is read so, whatever its type."""
    plain = {"yes": [True], "no": [False], "unclear": [0, 1, 1.5, [], [True], ["yes"], "", " "]}
    return [*plain[reading], *texts(reading), *forms(reading)]


def sample(reading: str, count: int = 60) -> list[Any]:
    """So many of them, evenly over all kinds, for wires on which each costs a run."""
    every = payloads(reading)
    step = max(1, len(every) // count)
    return every[::step]
