"""Stop conditions: pure rules over the progress of a run.

The loop checks them between steps, before the next inference, so that `max_rounds = N` means
exactly N inferences and no answer is ever thrown away.
"""

import hashlib
from typing import TYPE_CHECKING

import msgspec

from awaken.contracts.errors import InvalidSpec
from awaken.contracts.lifecycle import StoppedReason
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.plugins.loop_state import StopStats
from awaken.contracts.record import Record
from awaken.contracts.specs.agents import (
    AgentSpec,
    ConsecutiveErrors,
    ContentMatch,
    LoopDetection,
    MaxRounds,
    StopCondition,
    StopOnTool,
    Timeout,
    TokenBudget,
)

if TYPE_CHECKING:
    import re2


class RunProgress(Record, frozen=True, kw_only=True):
    """The part of a run's progress that the rules use."""

    stats: StopStats
    usage: TokenUsage = TokenUsage()
    tool_names: tuple[str, ...] = ()
    """Tools called in the latest step."""
    text: str = ""
    """Text of the latest answer."""


class StopRules(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's stop conditions, checked in order; a limit of 0 switches one off."""

    max_rounds: int
    conditions: tuple[StopCondition, ...]
    patterns: tuple[tuple[str, "re2._Regexp"], ...] = ()

    @classmethod
    def of(cls, spec: AgentSpec) -> "StopRules":
        """Compile the conditions of a spec.

        Raises:
            InvalidSpec: A pattern is not valid RE2, or a limit makes no sense.
        """
        patterns = []
        for condition in spec.stop_conditions:
            _check_limits(spec.id, condition)
            if isinstance(condition, ContentMatch):
                patterns.append((condition.pattern, _compile_pattern(spec.id, condition.pattern)))
        return cls(
            max_rounds=spec.max_rounds,
            conditions=spec.stop_conditions,
            patterns=tuple(patterns),
        )

    def verdict(self, progress: RunProgress) -> StoppedReason | None:
        """Return why the run must stop now, or None."""
        reason = self.rounds_verdict(progress.stats.rounds)
        for condition in self.conditions:
            reason = reason or self._holds(condition, progress)
        return reason

    def rounds_verdict(self, rounds: int) -> StoppedReason | None:
        """Return why the run must stop after this many inferences, or None."""
        if 0 < self.max_rounds <= rounds:
            return StoppedReason(code="max_rounds", detail=f"{self.max_rounds} rounds")
        return None

    def _holds(self, condition: StopCondition, progress: RunProgress) -> StoppedReason | None:
        stats = progress.stats
        code = condition.__struct_config__.tag
        match condition:
            case MaxRounds(rounds=limit):
                holds, detail = _is_reached(stats.rounds, limit)
            case Timeout(seconds=limit):
                holds, detail = _is_exceeded(stats.active_ms, limit * 1000)
            case TokenBudget(max_total=limit):
                holds, detail = _is_exceeded(_count_tokens(progress.usage), limit)
            case ConsecutiveErrors(max=limit):
                holds, detail = _is_reached(stats.consecutive_errors, limit)
            case StopOnTool(tool_name=name):
                holds, detail = name in progress.tool_names, name
            case ContentMatch(pattern=pattern):
                holds = bool(dict(self.patterns)[pattern].search(progress.text))
                detail = pattern
            case LoopDetection(window=window):
                holds, detail = _repeats(stats, window), f"{window} equal steps"
        return StoppedReason(code=str(code), detail=detail) if holds else None


def count_step(
    stats: StopStats, calls: tuple[ToolCall, ...], *, is_failed: bool, active_ms: int
) -> StopStats:
    """Return the stats after one more step; a step failed when every tool call in it did."""
    prints = (*stats.last_calls, _fingerprint(calls)) if calls else ()
    return StopStats(
        rounds=stats.rounds + 1,
        active_ms=active_ms,
        consecutive_errors=stats.consecutive_errors + 1 if is_failed else 0,
        last_calls=prints[-_WINDOW_MAX:] if prints else (),
    )


_WINDOW_MAX = 32


def _fingerprint(calls: tuple[ToolCall, ...]) -> str:
    asked = [[call.name, call.arguments] for call in calls]
    data = msgspec.json.encode(asked, order="sorted")
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _repeats(stats: StopStats, window: int) -> bool:
    latest = stats.last_calls[-window:] if window > 0 else ()
    return len(latest) == window > 1 and len(set(latest)) == 1


def _count_tokens(usage: TokenUsage) -> int:
    return (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)


def _is_reached(value: int, limit: int) -> tuple[bool, str]:
    return 0 < limit <= value, f"{value} of {limit}"


def _is_exceeded(value: int, limit: int) -> tuple[bool, str]:
    return 0 < limit < value, f"{value} of {limit}"


def _check_limits(agent_id: str, condition: StopCondition) -> None:
    what = f"Stop condition '{condition.__struct_config__.tag}' of agent '{agent_id}'"
    for name in condition.__struct_fields__:
        limit = getattr(condition, name)
        if isinstance(limit, int) and limit < 0:
            raise InvalidSpec(what=what, problem=f"{name} must not be negative")
    if isinstance(condition, LoopDetection) and not (
        condition.window == 0 or 2 <= condition.window <= _WINDOW_MAX
    ):
        raise InvalidSpec(what=what, problem=f"window must be 0 (off) or 2 to {_WINDOW_MAX}")


def _compile_pattern(agent_id: str, pattern: str) -> "re2._Regexp":
    # Loaded for the first such condition: most agents have none.
    import re2  # noqa: PLC0415

    quiet = re2.Options()
    quiet.log_errors = False
    try:
        return re2.compile(pattern, quiet)
    except re2.error as error:
        (reason,) = error.args
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidSpec(
            what=f"Stop condition of agent '{agent_id}'", problem=f"not a RE2 pattern: {text}"
        ) from error
