"""Asking the model on behalf of a tool call: outside of the transcript, within the budgets."""

import asyncio
from collections.abc import Sequence

import msgspec

from awaken.contracts.messages.message import Message
from awaken.contracts.models.inference import InferenceOverride, InferenceRequest, StreamResult
from awaken.runtime.primitives.timers import Alarm
from awaken.runtime.run import Run

from .answer import Answer
from .model_calls import ModelCalls, routes_for


async def side_answer(
    run: Run,
    messages: Sequence[Message],
    system: tuple[str, ...] = (),
    overrides: InferenceOverride | None = None,
) -> StreamResult:
    """What the agent's model says to these messages; asked once, without tools.

    Raises:
        ModelError: The model could not answer.
        BudgetExceeded: It may not be asked.
    """
    # Whoever asks may not choose what the run's model is.
    wanted = None if overrides is None else msgspec.structs.replace(overrides, upstream_model=None)
    request = InferenceRequest(
        upstream_model=run.agent.upstream_model,
        messages=list(messages),
        system=system,
        overrides=wanted,
    )
    # The run's own alarm watches over the tools that ask.
    alarm = Alarm()
    answer = Answer(run, is_held=True, alarm=alarm)
    calls = ModelCalls(run, answer, is_aside=True)
    try:
        # One after another: what a budget has left is known when the one before is paid.
        run.side_call_lock = run.side_call_lock or asyncio.Lock()
        async with run.side_call_lock:
            await calls.make(request, routes_for(run, request))
    finally:
        alarm.close()
    return msgspec.structs.replace(answer.result(), usage=calls.usage)
