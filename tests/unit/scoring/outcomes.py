"""Outcomes for tests of scorers."""

import asyncio
from typing import Any

import msgspec

from awaken.contracts.evals.recordings import (
    RecordedCall,
    RecordedConfig,
    RecordedRun,
    RecordedStep,
    Recording,
)
from awaken.contracts.evals.scores import Outcome, Score, ScorerSpec
from awaken.contracts.lifecycle import NaturalEnd
from awaken.contracts.messages.message import assistant
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.suspension.tickets import ToolCallOutcome
from awaken.contracts.tool_results import ToolResult
from awaken.contracts.tools.tool import ToolEffect
from awaken.scoring import make_scorers


def store(value: Any) -> StoredValue:
    return StoredValue(version=1, data=msgspec.Raw(msgspec.json.encode(value)))


def make_call(tool: str, arguments: Any = None, data: Any = None, **fields: Any) -> RecordedCall:
    given: dict[str, Any] = {
        "id": f"call_{tool}",
        "tool": tool,
        "arguments": arguments if arguments is not None else {},
        "result": ToolResult.success(tool, data),
        "outcome": ToolCallOutcome.SUCCEEDED,
        "effect": ToolEffect.NONE,
    }
    return RecordedCall(**{**given, **fields})


def make_recording(
    *steps: RecordedStep, text: str | None = None, run: Any = None, **fields: Any
) -> Recording:
    given = {
        "run_id": "r1",
        "thread_id": "t1",
        "agent_id": "support",
        "termination": NaturalEnd(),
        "final_output": text,
        "usage": TokenUsage(prompt_tokens=60, completion_tokens=40, total_tokens=100),
        "cost_usd": 0.01,
        "duration_ms": 500,
    }
    return Recording(
        run=RecordedRun(**{**given, **(run or {})}),
        config=RecordedConfig(awaken="0.1.0"),
        steps=steps,
        **fields,
    )


def make_step(*calls: RecordedCall, n: int = 1, **fields: Any) -> RecordedStep:
    usage = TokenUsage(prompt_tokens=60, completion_tokens=40, total_tokens=100)
    given = {"n": n, "answer": assistant("said"), "usage": usage, "calls": calls}
    return RecordedStep(**{**given, **fields})


def make_outcome(text: str = "", *calls: RecordedCall, **fields: Any) -> Outcome:
    names = ("run", "state", "incomplete", "redacted", "config", "input")
    below = {name: fields.pop(name) for name in names if name in fields}
    if "recording" not in fields:
        steps = (make_step(*calls),) if calls else ()
        config = below.pop("config", None)
        recording = make_recording(*steps, text=text, **below)
        if config is not None:
            recording = msgspec.structs.replace(recording, config=config)
        fields["recording"] = recording
    return Outcome(**fields)


def score_all(specs: list[ScorerSpec], outcome: Outcome, **setup: Any) -> tuple[Score, ...]:
    async def score() -> tuple[Score, ...]:
        return tuple([await it.score(outcome) for it in make_scorers(specs, **setup)])

    return asyncio.run(score())


def score_one(name: str, options: dict[str, Any], outcome: Outcome, **fields: Any) -> Score:
    threshold = fields.pop("threshold", 0.5)
    spec = ScorerSpec(scorer=name, options=options, threshold=threshold)
    return score_all([spec], outcome, **fields)[0]
