"""The state keys and scheduled actions of the loop that plugins may use."""

from collections.abc import Mapping
from typing import Any

from awaken.contracts.backend_results import BackendRunOutput
from awaken.contracts.backends.requests import REMOTE_TARGETS
from awaken.contracts.errors import IllegalTransition
from awaken.contracts.lifecycle import (
    RUN_TRANSITIONS,
    TOOL_CALL_TRANSITIONS,
    RunStatus,
    Termination,
    check_transition,
)
from awaken.contracts.messages.context_messages import ContextMessage
from awaken.contracts.messages.message import Message
from awaken.contracts.models.budgets import RUN_LEDGER, THREAD_LEDGER, Budget
from awaken.contracts.models.inference import InferenceOverride
from awaken.contracts.phases import Phase
from awaken.contracts.record import Record, always
from awaken.contracts.runs.records import WaitingReason
from awaken.contracts.state.context_state import CONTEXT_STATE
from awaken.contracts.state.keys import (
    FailedAction,
    MergeStrategy,
    QueuedAction,
    ScheduledActionSpec,
    StateKey,
    StateScope,
)
from awaken.contracts.suspension.permissions import TOOL_GRANTS, WANTED_TOOLS
from awaken.contracts.suspension.tickets import ToolCallState
from awaken.contracts.tasks import BACKGROUND_TASKS
from awaken.contracts.tools.tool import ToolDescriptor

from .screens import STEP_ANSWER as STEP_ANSWER

ADD_CONTEXT_MESSAGE = ScheduledActionSpec[ContextMessage](
    "runtime.add_context_message", Phase.BEFORE_INFERENCE, ContextMessage
)
SET_INFERENCE_OVERRIDE = ScheduledActionSpec[InferenceOverride](
    "runtime.set_inference_override", Phase.BEFORE_INFERENCE, InferenceOverride
)


class RunLifecycle(Record, frozen=True, kw_only=True):
    """The state of the run; plugins end a run by updating it with `End`."""

    run_id: str = ""
    status: RunStatus = RunStatus.CREATED
    step_count: int = 0
    """Completed steps."""
    waiting_for: WaitingReason | None = None
    termination: Termination | None = None


class Begin(Record, frozen=True, kw_only=True):
    """Start, or continue after `step_count` steps."""

    run_id: str
    step_count: int = 0


class CompleteStep(Record, frozen=True, kw_only=True):
    """A step is complete."""


class Wait(Record, frozen=True, kw_only=True):
    """Wait for an event outside of the run."""

    reason: WaitingReason


class End(Record, frozen=True, kw_only=True):
    """End the run; the first such update wins."""

    termination: Termination


LifecycleUpdate = Begin | CompleteStep | Wait | End


# Bound once: Python 3.11 reads a member through its class slowly.
_DONE = RunStatus.DONE


def _lifecycle_after(value: RunLifecycle, update: LifecycleUpdate) -> RunLifecycle:
    target, before = _TARGETS[type(update)], value.status
    if before is _DONE and target is _DONE:
        return value
    if target not in RUN_TRANSITIONS[before]:
        raise IllegalTransition(thing=f"Run '{value.run_id}'", old=str(before), new=str(target))
    match update:
        case CompleteStep():
            return RunLifecycle(run_id=value.run_id, status=target, step_count=value.step_count + 1)
        case Begin(run_id=run_id, step_count=step_count):
            return RunLifecycle(run_id=run_id, status=target, step_count=step_count)
        case Wait(reason=reason):
            return RunLifecycle(
                run_id=value.run_id, status=target, step_count=value.step_count, waiting_for=reason
            )
        case End(termination=termination):
            return RunLifecycle(
                run_id=value.run_id,
                status=target,
                step_count=value.step_count,
                termination=termination,
            )


_TARGETS: Mapping[type, RunStatus] = {
    Begin: RunStatus.RUNNING,
    CompleteStep: RunStatus.RUNNING,
    Wait: RunStatus.WAITING,
    End: RunStatus.DONE,
}

RUN_LIFECYCLE: StateKey[RunLifecycle, LifecycleUpdate] = StateKey(
    "__runtime.run_lifecycle",
    default=RunLifecycle(),
    apply=_lifecycle_after,
    # Not persistent: the run's record stores the same facts.
    persistent=False,
)


def _tool_states_after(
    value: Mapping[str, ToolCallState], update: tuple[ToolCallState, ...]
) -> Mapping[str, ToolCallState]:
    states = dict(value)
    for state in update:
        known = states.get(state.call_id)
        if known is not None:
            name = f"Tool call '{state.call_id}'"
            check_transition(TOOL_CALL_TRANSITIONS, name, known.status, state.status)
        states[state.call_id] = state
    return states


TOOL_CALL_STATES: StateKey[Mapping[str, ToolCallState], tuple[ToolCallState, ...]] = StateKey(
    "__runtime.tool_call_states",
    default={},
    type=dict[str, ToolCallState],
    apply=_tool_states_after,
    merge=MergeStrategy.COMMUTATIVE,
    # Suspended calls are rebuilt from their tickets, so this view need not be stored.
    persistent=False,
)
"""The states of the calls of the current step; kept only if the agent has plugins to read it."""

ACTIVE_AGENT: StateKey[str | None, str | None] = StateKey(
    "__runtime.active_agent", default=None, type=str | None, scope=StateScope.THREAD
)

PENDING_MESSAGES: StateKey[tuple[Message, ...], tuple[Message, ...]] = StateKey(
    "__runtime.pending_messages", default=(), type=tuple[Message, ...]
)
"""Messages sent to a run that was suspended before it could read them."""


class PendingWork(Record, frozen=True, kw_only=True):
    """Whether the run has to wait for outstanding work before it ends."""

    has_pending: bool = always(False)  # noqa: FBT003


PENDING_WORK: StateKey[PendingWork, bool] = StateKey(
    "__runtime.pending_work",
    default=PendingWork(),
    apply=lambda _, has_pending: PendingWork(has_pending=has_pending),
    update_type=bool,
)
"""Set by plugins: while it is true, a run that has answered waits instead of ending."""


class RequestOptions(Record, frozen=True, kw_only=True):
    """The options of the run's request besides its input."""

    overrides: InferenceOverride | None = None
    frontend_tools: tuple[ToolDescriptor, ...] = ()
    output_schema: dict[str, Any] | None = None
    budgets: tuple[Budget, ...] = ()
    budget_group: str | None = None
    session_tools: tuple[ToolDescriptor, ...] = ()


REQUEST_OPTIONS: StateKey[RequestOptions, RequestOptions] = StateKey(
    "__runtime.request_options", default=RequestOptions()
)
"""Stored with the run, because a decision on a ticket does not repeat the request."""


def _queue_after(
    value: tuple[QueuedAction, ...], update: tuple[str, Any]
) -> tuple[QueuedAction, ...]:
    verb, payload = update
    if verb == "push":
        return (*value, payload)
    return tuple(entry for entry in value if entry.id != payload)


PENDING_ACTIONS: StateKey[tuple[QueuedAction, ...], tuple[str, Any]] = StateKey(
    "__runtime.pending_scheduled_actions",
    default=(),
    type=tuple[QueuedAction, ...],
    apply=_queue_after,
    merge=MergeStrategy.COMMUTATIVE,
)

FAILED_ACTIONS: StateKey[tuple[FailedAction, ...], FailedAction] = StateKey(
    "__runtime.failed_scheduled_actions",
    default=(),
    type=tuple[FailedAction, ...],
    apply=lambda value, failed: (*value, failed),
    merge=MergeStrategy.COMMUTATIVE,
)


class Throttled(Record, frozen=True, kw_only=True):
    """When a context message was last injected, and with which content."""

    step: int
    content_hash: str


CONTEXT_THROTTLE: StateKey[Mapping[str, Throttled], tuple[str, Throttled]] = StateKey(
    "__runtime.context_throttle",
    default={},
    type=dict[str, Throttled],
    apply=lambda value, entry: {**value, entry[0]: entry[1]},
    merge=MergeStrategy.COMMUTATIVE,
)


class UpsertContext(Record, frozen=True, kw_only=True):
    """Add or replace a context message."""

    message: ContextMessage


class RemoveContext(Record, frozen=True, kw_only=True):
    """Remove the context messages whose key is, or begins with, this text."""

    key: str
    is_prefix: bool = False


class ContextEmitted(Record, frozen=True, kw_only=True):
    """A request contained the messages: drop the ephemeral and the emit-once ones."""


ContextUpdate = UpsertContext | RemoveContext | ContextEmitted


def _contexts_after(
    value: Mapping[str, ContextMessage], update: ContextUpdate
) -> Mapping[str, ContextMessage]:
    match update:
        case UpsertContext(message=message):
            return {**value, message.key: message}
        case RemoveContext(key=key, is_prefix=True):
            return {name: kept for name, kept in value.items() if not name.startswith(key)}
        case RemoveContext(key=key):
            return {name: kept for name, kept in value.items() if name != key}
        case ContextEmitted():
            return {
                name: kept
                for name, kept in value.items()
                if kept.persistent and not kept.consume_after_emit
            }


CONTEXT_MESSAGES: StateKey[Mapping[str, ContextMessage], ContextUpdate] = StateKey(
    "__runtime.context_message_store",
    default={},
    type=dict[str, ContextMessage],
    apply=_contexts_after,
    merge=MergeStrategy.COMMUTATIVE,
)


PRIVATE_CONTEXT: StateKey[Mapping[str, ContextMessage], ContextUpdate] = StateKey(
    "__runtime.private_context",
    default={},
    type=dict[str, ContextMessage],
    apply=_contexts_after,
    merge=MergeStrategy.COMMUTATIVE,
    persistent=False,
    private=True,
)
"""Context messages that no store keeps and no client sees: the plugin adds them again after a
restart. Each stays until it is removed."""


class ToolFilter(Record, frozen=True, kw_only=True):
    """Which tools the coming request does not offer; updates of several plugins add up."""

    excluded: tuple[str, ...] = ()
    """Tools that are hidden, also when a list of `include_only` names them."""
    include_only: tuple[tuple[str, ...], ...] = ()
    """Lists of tools: if there are any, only the tools that one of them names are offered."""
    last: tuple[str, ...] = ()
    """Tools that change often: they are listed last, so that the prompt before them is stable."""


def _filter_after(value: ToolFilter, update: ToolFilter | None) -> ToolFilter:
    if update is None:
        return ToolFilter()
    return ToolFilter(
        excluded=value.excluded + update.excluded,
        include_only=value.include_only + update.include_only,
        last=value.last + update.last,
    )


TOOL_FILTER: StateKey[ToolFilter, ToolFilter | None] = StateKey(
    "__runtime.tool_filter_state",
    default=ToolFilter(),
    apply=_filter_after,
    merge=MergeStrategy.COMMUTATIVE,
)
"""Hides tools from the coming request; the request uses it up."""


def _override_after(
    value: InferenceOverride, update: InferenceOverride | None
) -> InferenceOverride:
    return InferenceOverride() if update is None else value.merge(update)


STEP_OVERRIDE: StateKey[InferenceOverride, InferenceOverride | None] = StateKey(
    "__runtime.inference_override_state",
    default=InferenceOverride(),
    apply=_override_after,
    merge=MergeStrategy.COMMUTATIVE,
)


class StopStats(Record, frozen=True, kw_only=True):
    """The counters that stop conditions check; they survive suspensions of the run."""

    rounds: int = 0
    active_ms: int = 0
    consecutive_errors: int = 0
    last_calls: tuple[str, ...] = ()
    """Fingerprints of the tool calls of the latest steps, newest last."""


STOP_STATS: StateKey[StopStats, StopStats] = StateKey(
    "__runtime.stop_condition_stats", default=StopStats()
)

TOOL_REFUSALS: StateKey[dict[str, tuple[int, int]], dict[str, tuple[int, int]]] = StateKey(
    "__runtime.tool_refusals", default={}, type=dict[str, tuple[int, int]]
)
"""In how many steps in a row each tool with a limit refused arguments, and the last such step."""

BACKEND_OUTPUT: StateKey[BackendRunOutput, BackendRunOutput] = StateKey(
    "__runtime_backend_output", default=BackendRunOutput(), scope=StateScope.THREAD
)
"""The output of the latest run at a remote backend."""

LOOP_KEYS: tuple[StateKey[Any, Any], ...] = (
    RUN_LIFECYCLE,
    TOOL_CALL_STATES,
    ACTIVE_AGENT,
    PENDING_MESSAGES,
    PENDING_WORK,
    REQUEST_OPTIONS,
    PENDING_ACTIONS,
    FAILED_ACTIONS,
    CONTEXT_THROTTLE,
    CONTEXT_MESSAGES,
    PRIVATE_CONTEXT,
    TOOL_FILTER,
    STEP_OVERRIDE,
    STOP_STATS,
    CONTEXT_STATE,
    RUN_LEDGER,
    THREAD_LEDGER,
    BACKGROUND_TASKS,
    REMOTE_TARGETS,
    BACKEND_OUTPUT,
    TOOL_GRANTS,
    WANTED_TOOLS,
    STEP_ANSWER,
    TOOL_REFUSALS,
)
