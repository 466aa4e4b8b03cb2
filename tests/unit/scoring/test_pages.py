"""The YAML of the page about scorers and gates is real."""

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from awaken.contracts.evals.scores import ScorerSpec
from awaken.scoring import SCORERS, make_scorers
from awaken.scoring.gates import parse_gate

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "how-to" / "scorers-and-gates.md").read_text(encoding="utf-8")


class Asks:
    async def ask(self, *given: Any) -> Any:
        raise AssertionError


def test_the_examples_of_the_page_are_accepted() -> None:
    documents = [yaml.safe_load(it) for it in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    scorers, online = [it["scorers"] for it in documents if "scorers" in it]
    (gate,) = [it["gate"] for it in documents if "gate" in it]
    made = make_scorers(msgspec.convert(scorers, tuple[ScorerSpec, ...]), ask=Asks())
    # Those of real runs are of the same kinds.
    (record,) = online
    assert make_scorers(msgspec.convert(record["scorers"], tuple[ScorerSpec, ...]), ask=Asks())
    names = {it.spec.shown_name for it in made}
    read = parse_gate(gate)
    assert {it.scorer for it in (*read.require, *read.compare)} <= names


def test_the_reference_has_every_scorer() -> None:
    text = (DOCS / "reference" / "scorers.md").read_text(encoding="utf-8")
    assert [it for it in SCORERS if f"**`{it}`**" not in text] == []
