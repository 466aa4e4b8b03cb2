"""Scorers of what a sample used. They are no part of a comparison of correctness."""

from awaken.contracts.evals.scores import Outcome
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.record import StrictRecord

from .marks import CannotScore, Check, Marks, ScorerKind, ScorerSetup, grade


class MaxTokensOptions(StrictRecord, frozen=True, kw_only=True):
    """The most tokens, of requests and answers together."""

    max: int


class MaxCostOptions(StrictRecord, frozen=True, kw_only=True):
    """The most US dollars."""

    max: float


class MaxMsOptions(StrictRecord, frozen=True, kw_only=True):
    """The most milliseconds."""

    max: int


def _check_limit(limit: float) -> None:
    if not limit >= 0:
        raise ValueError("`max` must be 0 or more")


def count_tokens(usage: TokenUsage | None) -> int | None:
    """All tokens that are reported; None if a part is missing."""
    if usage is None:
        return None
    if usage.total_tokens is not None:
        return usage.total_tokens
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    return usage.prompt_tokens + usage.completion_tokens


def _build_max_tokens(options: MaxTokensOptions, setup: ScorerSetup) -> Check:
    _check_limit(options.max)

    def check(outcome: Outcome) -> Marks:
        used = count_tokens(outcome.recording.run.usage)
        is_partial = any(
            it.answer is not None and count_tokens(it.usage) is None
            for it in outcome.recording.steps
        )
        # What is reported already exceeds the limit: the missing part cannot change that.
        if used is None or (is_partial and used <= options.max):
            raise CannotScore("the provider did not report the tokens")
        reason = f"{used} tokens, at most {options.max}"
        evidence = {"budget": options.max, "actual": used}
        return grade(used <= options.max, "token_budget_exceeded", reason, evidence)

    return check


def _build_max_cost(options: MaxCostOptions, setup: ScorerSetup) -> Check:
    _check_limit(options.max)

    def check(outcome: Outcome) -> Marks:
        cost = outcome.cost_usd
        cost = outcome.recording.run.cost_usd if cost is None else cost
        if cost is None:
            raise CannotScore("a model of the run has no price")
        reason = f"{cost:.6f} USD, at most {options.max}"
        return grade(cost <= options.max, "cost_exceeded", reason, cost)

    return check


def _build_max_ms(options: MaxMsOptions, setup: ScorerSetup) -> Check:
    _check_limit(options.max)

    def check(outcome: Outcome) -> Marks:
        taken = outcome.recording.run.duration_ms if outcome.ms is None else outcome.ms
        if taken is None:
            raise CannotScore("the time of the run is not known")
        reason = f"{taken} ms, at most {options.max}"
        evidence = {"budget_ms": options.max, "actual_ms": taken}
        return grade(taken <= options.max, "duration_exceeded", reason, evidence)

    return check


KINDS = (
    ScorerKind(
        name="max_tokens",
        family="cost",
        options=MaxTokensOptions,
        build=_build_max_tokens,
        about="The run uses at most so many tokens; an unknown number is an error.",
    ),
    ScorerKind(
        name="max_cost_usd",
        family="cost",
        options=MaxCostOptions,
        build=_build_max_cost,
        about="The run costs at most so many US dollars; an unknown price is an error.",
    ),
    ScorerKind(
        name="max_ms",
        family="cost",
        options=MaxMsOptions,
        build=_build_max_ms,
        about="The run takes at most so many milliseconds.",
    ),
)
