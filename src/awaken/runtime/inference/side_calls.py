"""Calling the model on behalf of a tool call: outside of the transcript, within the budgets."""

import asyncio
from collections.abc import Sequence

import msgspec

from awaken.contracts.messages.message import Message
from awaken.contracts.models.inference import InferenceOverride, InferenceRequest, StreamResult
from awaken.runtime.run import Run

from .answer import Answer
from .model_calls import make_call, routes_for


async def side_answer(
    run: Run,
    messages: Sequence[Message],
    system: tuple[str, ...] = (),
    overrides: InferenceOverride | None = None,
) -> StreamResult:
    """Return the answer of the agent's model to these messages; one call, without tools.

    Raises:
        ModelError: The model could not answer.
        BudgetExceeded: The budget does not allow the call.
    """
    # The tool may not choose another model than the run's.
    wanted = None if overrides is None else msgspec.structs.replace(overrides, upstream_model=None)
    request = InferenceRequest(
        upstream_model=run.agent.upstream_model,
        messages=list(messages),
        system=system,
        overrides=wanted,
    )
    watchdog = run.services.watchdogs.find(asyncio.get_running_loop())
    client = run.agent.models[0].client
    answer = Answer(run, client, watchdog, is_held=True, is_aside=True)
    # One at a time: the rest of a budget is known only after the previous call is settled.
    run.side_call_lock = run.side_call_lock or asyncio.Lock()
    async with run.side_call_lock:
        await make_call(run, answer, request, routes_for(run, request))
    return answer.result()
