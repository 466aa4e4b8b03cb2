"""Evals in pytest: one test for each case, its repeats inside, and the gate as the assertion."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

if TYPE_CHECKING:
    from awaken.authoring.agents import Agent
    from awaken.contracts.evals.cases import Case
    from awaken.contracts.specs.agents import AgentSpec
    from awaken.evals.evaluating import Dataset, EvalOptions, EvalResult


def eval_cases(
    dataset: "Dataset | Sequence[Case]",
    agents: "Iterable[Agent | AgentSpec] | Any" = (),
    *,
    runtime_options: Mapping[str, Any] | None = None,
    **options: "Unpack[EvalOptions]",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make one test of each case of a dataset.

    The decorated function gets the `EvalResult` of its case as `result`, and may assert more. It
    is called after the gate has passed; without a gate, every sample has to pass every scorer.

    Args:
        dataset: A dataset, or cases.
        agents: The agents, or a runtime that is not open.
        runtime_options: Further arguments of the `AgentRuntime`.
        **options: As of `awaken.evals.evaluate`.
    """
    # Only a test run has the one, and only one with evals needs the other.
    import pytest  # noqa: PLC0415

    from awaken.evals.evaluating import Dataset, evaluate  # noqa: PLC0415

    given = dataset if isinstance(dataset, Dataset) else Dataset(cases=tuple(dataset))

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        def run_case(case_id: str) -> None:
            alone = msgspec.structs.replace(
                given, cases=tuple(it for it in given.cases if it.id == case_id)
            )
            result = asyncio.run(
                evaluate(alone, agents, runtime_options=runtime_options, **options)
            )
            assert result.is_passed, describe_failures(result)
            made = test(result)
            if isinstance(made, Awaitable):
                asyncio.run(_finish(made))

        run_case.__name__ = test.__name__
        run_case.__doc__ = test.__doc__
        run_case.__module__ = test.__module__
        ids = [it.id for it in given.cases]
        return pytest.mark.parametrize("case_id", ids)(run_case)

    return decorate


async def _finish(made: Awaitable[Any]) -> None:
    await made


def describe_failures(result: "EvalResult") -> str:
    """Return what did not pass, as the message of an assertion."""
    lines = []
    if result.gate is not None:
        lines += [
            f"gate: {it.condition} {it.status}: {it.reason}"
            for it in result.gate.checks
            if it.status != "passed"
        ]
    for item in result.items:
        where = f"case '{item.case_id}', variant '{item.variant}', sample {item.sample}"
        if item.error is not None:
            lines.append(f"{where}: {item.status}: {item.error}")
        for score in item.scores:
            if not score.passed:
                why = score.error or score.reason or f"{score.value}"
                lines.append(f"{where}: {score.name}: {why}; the answer was {item.text!r:.200}")
    return "\n".join(lines) or "the eval did not pass"
