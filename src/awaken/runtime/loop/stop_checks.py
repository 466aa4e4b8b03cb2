"""The rounds of a run: whether another one may begin, and what one that is over adds."""

from awaken.contracts.lifecycle import StoppedReason
from awaken.runtime.run import Run
from awaken.runtime.stop_conditions import RunProgress, advanced


def stop_reason(run: Run) -> StoppedReason | None:
    """Which stop condition holds now, or None while the run may go on."""
    rules = run.agent.stop_rules
    if not rules.conditions:
        return rules.rounds_verdict(run.stats.rounds)
    progress = RunProgress(
        stats=run.stats,
        usage=run.usage,
        tool_names=tuple(call.name for call in run.step_calls),
        text=run.response,
    )
    return rules.verdict(progress)


def count_step(run: Run) -> None:
    """Count a step that is over."""
    calls = run.step_calls
    run.stats = advanced(
        run.stats,
        calls if run.agent.stop_rules.conditions else (),
        failed=bool(calls) and run.step_failures >= len(calls),
        active_ms=run.active_ms,
    )
