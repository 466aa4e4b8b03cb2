"""Building the request of an earlier step again, with the builder that executing runs use."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from awaken.contracts.events import InferenceComplete
from awaken.contracts.messages.message import Message, MessageMetadata, Transcript
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.plugins.loop_state import STOP_STATS
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.state.context_state import CONTEXT_STATE, ContextState, Cut
from awaken.contracts.state.keys import StoredValue
from awaken.contracts.storage.store import Store
from awaken.runtime.context.digests import MessageDigest
from awaken.runtime.context.summaries import Compactor
from awaken.runtime.context.window import CORRECTIONS
from awaken.runtime.journal.journal import Inbox, Journal
from awaken.runtime.journal.streams import EventFeed
from awaken.runtime.primitives.cancellation import CancellationToken, TaskCancels
from awaken.runtime.progress import Step
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.resolution.snapshots import RegistrySnapshot
from awaken.runtime.run import Run, Services
from awaken.runtime.state.store import StateStore
from awaken.runtime.switches import SwitchBoard

from .request import build_request, digest_frame


class _IdleCompactor(Compactor):
    """Starts no summary: nothing that is rebuilt may call a model."""

    def is_free(self, thread_id: str) -> bool:
        """No summary may be started."""
        return False


class RebuiltStep(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the step: the run, its log entry, and the transcript before its answer."""

    record: RunRecord
    logged: InferenceComplete
    number: int
    messages: Sequence[Message]
    state: Mapping[str, StoredValue]
    """The newest state of the thread."""


def rebuild_request(
    services: Services,
    store: Store,
    place: tuple[RegistrySnapshot, ResolvedAgent],
    step: RebuiltStep,
) -> InferenceRequest:
    """Build the request of a step; nothing is written, and no model is called."""
    return build_request(_build_run(services, store, place, step))


def digest_of(request: InferenceRequest) -> str:
    """Return the digest of a request, as the log has it.

    Raises:
        TypeError: A message has no JSON form.
        ValueError: A message has no JSON form.
    """
    messages, digest = request.messages, MessageDigest()
    if isinstance(messages, Transcript):
        return digest_frame(request) + digest.follow(messages)
    return digest_frame(request) + digest.add(messages)


def _build_run(
    services: Services,
    store: Store,
    place: tuple[RegistrySnapshot, ResolvedAgent],
    step: RebuiltStep,
) -> Run:
    (pinned, agent), record = place, step.record
    loop, token = asyncio.get_running_loop(), CancellationToken()
    watchdog, feed = services.watchdogs.find(loop), EventFeed()
    if record.instructions is not None and agent.spec.id in record.instructions:
        agent = agent.with_instructions(record.instructions[agent.spec.id])
    quiet = replace(services, switches=SwitchBoard(), compactor=_IdleCompactor())
    state = StateStore(agent.env.keys)
    if CONTEXT_STATE.name in step.state:
        known = CONTEXT_STATE.decode(step.state[CONTEXT_STATE.name])
        context = _context_then(known, step)
        state.restore({CONTEXT_STATE.name: CONTEXT_STATE.encode(context)})
    return Run(
        identity=record.identity,
        record=record,
        agent=agent,
        pinned=pinned,
        request=RunRequest(overrides=record.overrides, tool_choice=record.tool_choice),
        services=quiet,
        store=store,
        state=state,
        journal=Journal(
            thread_id=record.thread_id,
            writer="",
            version=0,
            event_seq=0,
            store=store,
            clock=services.clock,
            feed=feed,
            watchers=services.watchers,
        ),
        feed=feed,
        inbox=Inbox(services.limits.inbox_messages),
        messages=Transcript(step.messages),
        tickets={},
        open_calls={},
        step=Step(number=step.number, metadata=MessageMetadata(run_id=record.run_id)),
        usage=record.usage,
        stats=STOP_STATS.default,
        started_ms=0,
        loop=loop,
        watchdog=watchdog,
        token=token,
        cancels=TaskCancels(token, watchdog, services.limits.run_end_ms, loop),
    )


def _context_then(known: ContextState, step: RebuiltStep) -> ContextState:
    """Return the context state at the step: the log has its cut, the marks have their times."""
    logged, messages = step.logged, step.messages
    until = logged.started_at
    is_old = until is not None
    marks = tuple(it for it in known.marks if not is_old or it.at <= (until or 0) + 1)
    first = logged.sent_from
    is_cut = 0 < first < len(messages) and not (marks and marks[-1].place + 1 == first)
    cut = Cut(message_id=messages[first].id or "", place=first) if is_cut else None
    # The cut is known, so no estimate may move it.
    return msgspec.structs.replace(known, marks=marks, cut=cut, correction=CORRECTIONS[0])
