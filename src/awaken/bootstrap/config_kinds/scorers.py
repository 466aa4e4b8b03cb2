"""Checks the scorers of real runs; loaded by the first record that has some."""

from collections.abc import Iterator

from awaken.bootstrap.eval_modules import read_eval_modules
from awaken.contracts.config.specs import LiveScoringSpec
from awaken.contracts.errors import AwakenError
from awaken.contracts.evals.scores import ModelReply
from awaken.evals.live_scoring import list_scorers
from awaken.scoring.judged import NAMES as JUDGED
from awaken.scoring.registry import make_scorers


class _NoAsk:
    """Stands for what judges ask: scorers are only made here."""

    async def ask(self, *_: object) -> ModelReply:
        raise AssertionError


def list_scorer_problems(spec: LiveScoringSpec) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with the scorers of a record, by their place."""
    names = set[str]()
    for at, it in enumerate(list_scorers(spec)):
        if it.shown_name in names:
            yield at, "Another scorer has this name."
        names.add(it.shown_name)
        try:
            make_scorers([it], ask=_NoAsk(), modules=read_eval_modules())
        except AwakenError as error:
            yield at, str(error)
        if it.scorer in JUDGED and not it.options.get("model_id"):
            yield at, "A judge needs the option model_id."
        if it.scorer in JUDGED and spec.max_usd_per_day is None:
            yield at, "A judge needs max_usd_per_day."
