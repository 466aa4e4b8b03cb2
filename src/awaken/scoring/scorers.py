"""Scorers by their names, for cases and datasets that are written in Python."""

from collections.abc import Callable, Sequence
from typing import Any

from awaken.contracts.evals.scores import ScorerSpec

from .own import name_function


def scorer(kind: str, *, name: str = "", threshold: float = 0.5, **options: Any) -> ScorerSpec:
    """Return any scorer by its name and options."""
    return ScorerSpec(scorer=kind, name=name, threshold=threshold, options=options)


def contains(*phrases: str, name: str = "") -> ScorerSpec:
    """The answer contains every phrase."""
    return scorer("contains", name=name, phrases=list(phrases))


def excludes(*phrases: str, name: str = "") -> ScorerSpec:
    """The answer contains none of the phrases."""
    return scorer("excludes", name=name, phrases=list(phrases))


def exact(value: str | None = None, *, name: str = "") -> ScorerSpec:
    """The answer is this text; absent: what the case expects."""
    given: dict[str, Any] = {} if value is None else {"value": value}
    return ScorerSpec(scorer="exact", name=name, options=given)


def regex(pattern: str, *, name: str = "") -> ScorerSpec:
    """The answer has a match of an RE2 pattern."""
    return scorer("regex", name=name, pattern=pattern)


def tool_sequence(*tools: str, mode: str = "exact", name: str = "") -> ScorerSpec:
    """These tools are called: `exact`, `in_order`, `any_order` or `subset`."""
    return scorer("tool_sequence", name=name, tools=list(tools), mode=mode)


def forbidden_tools(*tools: str, name: str = "") -> ScorerSpec:
    """None of these tools is called."""
    return scorer("forbidden_tools", name=name, tools=list(tools))


def max_steps(limit: int, *, name: str = "") -> ScorerSpec:
    """The run takes at most so many steps."""
    return scorer("max_steps", name=name, max=limit)


def max_tokens(limit: int, *, name: str = "") -> ScorerSpec:
    """The run uses at most so many tokens."""
    return scorer("max_tokens", name=name, max=limit)


def json_schema(schema: dict[str, Any], *, name: str = "") -> ScorerSpec:
    """The answer fits a JSON Schema."""
    return scorer("json_schema", name=name, schema=schema)


def judge(
    rubric: str,
    *,
    model_id: str | None = None,
    scale: str = "binary",
    votes: int = 1,
    threshold: float = 0.5,
    name: str = "",
) -> ScorerSpec:
    """A model judges the answer by a rubric."""
    options = {"rubric": rubric, "scale": scale, "votes": votes, "model_id": model_id}
    given = {key: value for key, value in options.items() if value is not None}
    return scorer("judge", name=name, threshold=threshold, **given)


def python(function: str | Callable[..., Any], *, name: str = "") -> ScorerSpec:
    """A function of yours scores the outcome.

    Args:
        function: The function itself, which then names the score as well; or `module:function`, of
            a module that AWAKEN_EVAL_MODULES names.
        name: The name of the score.

    Raises:
        InvalidScorer: It is not a function of a module, such as a lambda.
    """
    if isinstance(function, str):
        return scorer("python", name=name, function=function)
    reference = name_function(function)
    return scorer("python", name=name or function.__name__, function=reference)


def names(specs: Sequence[ScorerSpec]) -> tuple[str, ...]:
    """The names of the scores that scorers give."""
    return tuple(it.shown_name for it in specs)
