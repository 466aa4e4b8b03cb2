"""The request that a step sent to its model, built again from the transcript and the agent."""

from collections.abc import Iterator
from typing import Any

import msgspec

from awaken.contracts.errors import AwakenError, RecordNotFound
from awaken.contracts.events import InferenceComplete, LoggedEvent, StepStart
from awaken.contracts.messages.message import Message
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.record import Record, always
from awaken.contracts.runs.records import RunRecord
from awaken.runtime.engine import RunEngine
from awaken.runtime.inference.rebuild import RebuiltStep, digest_of, rebuild_request
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.resolution.snapshots import RegistrySnapshot

from .control import run_events
from .view import TenantView

HIDDEN = "[hidden]"
EVENTS_MAX = 100_000
_HALF = 16
"""How many digits of a digest cover instructions, tools and parameters."""


class StepRequest(Record, frozen=True, kw_only=True):
    """A request as it was sent, or as close to it as what is stored allows."""

    run_id: str
    step: int
    agent_id: str
    model: str
    """The model that answered, as its provider calls it."""
    is_exact: bool
    """Whether its digest equals that of the request that was sent."""
    reason: str | None = None
    """Why it is not, or may not be, what was sent."""
    digest: str | None = None
    logged_digest: str | None = None
    stable_messages: int = always(0)
    """How many of the first messages the previous step's request began with: a cached prefix."""
    request: dict[str, Any] = msgspec.field(default_factory=dict)


class LoggedStep(msgspec.Struct, frozen=True):
    """A step with a complete inference in the log."""

    number: int
    message_id: str
    inference: InferenceComplete


def list_steps(events: Iterator[LoggedEvent] | tuple[LoggedEvent, ...]) -> list[LoggedStep]:
    """Return the steps whose inference is complete; of a repeated one the last."""
    found: dict[int, LoggedStep] = {}
    number, message_id = 0, ""
    for logged in events:
        if isinstance(logged.event, StepStart):
            number, message_id = number + 1, logged.event.message_id
        elif isinstance(logged.event, InferenceComplete):
            found[number] = LoggedStep(number, message_id, logged.event)
    return list(found.values())


async def read_step_request(view: TenantView, run_id: str, number: int) -> StepRequest:
    """Build the request of a step of a tenant's run again.

    Raises:
        UnknownRun: There is none, or it belongs to another tenant.
        RecordNotFound: It has no such step, or the model has not answered yet.
    """
    await view.run(run_id)
    engine = view.engine
    record = await engine.store.load_run(view.add_namespace(run_id))
    if record is None:
        # It is queued: no step has begun.
        raise RecordNotFound(kind="Step", record_id=str(number))
    events = await run_events(engine.store, record, record.log_start, EVENTS_MAX)
    found = await rebuild_step(engine, record, events, number)
    return msgspec.structs.replace(found, run_id=run_id)


async def rebuild_step(
    engine: RunEngine, record: RunRecord, events: tuple[LoggedEvent, ...], number: int
) -> StepRequest:
    """Build the request of a step again; `record` and `events` are of the run as stored.

    Raises:
        RecordNotFound: The run has no such step, or its model has not answered yet.
        AwakenError: The run's agent cannot be resolved in this process.
    """
    steps = {it.number: it for it in list_steps(events)}
    if number not in steps:
        raise RecordNotFound(kind="Step", record_id=str(number))
    checkout = await engine.store.checkout(record.thread_id)
    if checkout is None:
        raise RecordNotFound(kind="Thread", record_id=record.thread_id)
    messages, state = list(checkout.messages), checkout.state
    pinned = await engine.registry.pin(record.agent_id, record.publication)

    def rebuild(step: LoggedStep) -> tuple[ResolvedAgent, InferenceRequest]:
        before = RebuiltStep(
            record=record,
            logged=step.inference,
            number=step.number,
            messages=_list_before(messages, record, step),
            state=state,
        )
        wanted, first = step.inference.request_digest or "", None
        for agent in _list_agents(pinned, record):
            made = rebuild_request(engine.services, engine.store, (pinned, agent), before)
            if not wanted or digest_of(made)[:_HALF] == wanted[:_HALF]:
                return agent, made
            first = first or (agent, made)
        if first is None:
            raise RecordNotFound(kind="Request of a remote agent's step", record_id=str(number))
        return first

    agent, request = rebuild(steps[number])
    logged, digest = steps[number].inference, digest_of(request)
    previous = steps.get(number - 1)
    stable = 0 if previous is None else _count_common(rebuild(previous)[1], request)
    return StepRequest(
        run_id=record.run_id,
        step=number,
        agent_id=agent.spec.id,
        model=logged.model,
        is_exact=digest == logged.request_digest,
        reason=_explain(agent, digest, logged.request_digest),
        digest=digest,
        logged_digest=logged.request_digest,
        stable_messages=stable,
        request=_show(request),
    )


def _list_agents(pinned: RegistrySnapshot, record: RunRecord) -> Iterator[ResolvedAgent]:
    """Yield the agents that may have asked: a handoff may have changed the run's agent."""
    named = (record.agent_id, record.active_agent_id, *sorted(pinned.registries.agents))
    for agent_id in dict.fromkeys(it for it in named if it):
        try:
            agent = pinned.resolve(agent_id)
        except AwakenError:
            if agent_id == record.agent_id:
                raise
            continue
        if agent.is_local:
            yield agent


def _list_before(messages: list[Message], record: RunRecord, step: LoggedStep) -> list[Message]:
    """Return the messages before the step's answer."""
    for place, message in enumerate(messages):
        if message.id == step.message_id:
            return messages[:place]
    # The answer was blank and is not stored: what later steps and runs added is left out.
    end = len(messages)
    for place in range(end - 1, -1, -1):
        metadata = messages[place].metadata
        is_own = metadata is not None and metadata.run_id == record.run_id
        if is_own and metadata is not None and (metadata.step_index or 0) < step.number:
            return messages[: place + 1]
    return messages


def _count_common(one: InferenceRequest, two: InferenceRequest) -> int:
    count = 0
    for left, right in zip(one.messages, two.messages, strict=False):
        if left != right:
            break
        count += 1
    return count


def _explain(agent: ResolvedAgent, digest: str, logged: str | None) -> str | None:
    if digest == logged:
        return None
    if logged is None:
        return "The log has no digest of this request."
    if agent.env.transforms:
        return "A plugin rewrites requests; what it did then cannot be repeated."
    if digest[:_HALF] != logged[:_HALF]:
        return (
            "The instructions, tools or parameters differ: those of the request, of a plugin or "
            "of a switch are not stored with the run."
        )
    return "The messages differ: a plugin added some, or the window on the history has moved."


def _show(request: InferenceRequest) -> dict[str, Any]:
    """Return the request as JSON; options for a provider are hidden, as they may be secrets."""
    # Without what only the runtime knows of a message: its id, its run and its sender.
    sent = [
        Message(
            role=it.role, content=it.content, tool_calls=it.tool_calls, tool_call_id=it.tool_call_id
        )
        for it in request.messages
    ]
    shown: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(request, messages=sent))
    options = (shown.get("overrides") or {}).get("provider_options")
    if options:
        shown["overrides"]["provider_options"] = dict.fromkeys(options, HIDDEN)
    return shown
