"""What a run asks of its backend, from what the run is."""

from collections.abc import Sequence

from awaken.contracts.backends.backend import BackendCapabilities
from awaken.contracts.backends.requests import (
    REMOTE_TARGETS,
    BackendControl,
    BackendDelegateRunRequest,
    BackendParentContext,
    BackendRootRunRequest,
    DecisionChannel,
    RemoteTarget,
)
from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import Message, Role
from awaken.runtime.run import Run


class RunCheckpoint:
    """What a backend knows of its side, in the state of the run's thread."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def load(self, target: str) -> RemoteTarget | None:
        """What was saved last for a target."""
        return self._run.state.get(REMOTE_TARGETS).get(target)

    async def save(self, target: str, state: RemoteTarget) -> None:
        """Keep what is known; it is durable when this returns."""
        run = self._run
        known: dict[str, RemoteTarget] = run.state.get(REMOTE_TARGETS)
        run.state.update(REMOTE_TARGETS, {**known, target: state})
        await run.flush()


def control_of(
    run: Run, capabilities: BackendCapabilities, decisions: DecisionChannel | None
) -> BackendControl:
    """The ways into the run that its backend says it can serve."""
    return BackendControl(
        cancellation=run.token if capabilities.cancellation.has_token else None,
        decisions=decisions if capabilities.decisions else None,
    )


def root_request(
    run: Run, capabilities: BackendCapabilities, decisions: DecisionChannel | None = None
) -> BackendRootRunRequest:
    """A run that somebody asked for."""
    asked = run.request
    return BackendRootRunRequest(
        agent_id=run.agent.spec.id,
        messages=run.messages,
        new_messages=new_messages(run),
        sink=run,
        resolver=run.pinned,
        run_identity=run.identity,
        checkpoint=RunCheckpoint(run),
        control=control_of(run, capabilities, decisions),
        decisions=asked.decisions,
        overrides=asked.overrides,
        frontend_tools=asked.frontend_tools,
        local=run if run.agent.is_local else None,
        is_continuation=run.is_continued,
        is_recovered=run.is_recovered,
    )


def delegate_request(
    run: Run, capabilities: BackendCapabilities, decisions: DecisionChannel | None = None
) -> BackendDelegateRunRequest:
    """A run that another run asked for."""
    return BackendDelegateRunRequest(
        agent_id=run.agent.spec.id,
        messages=run.messages,
        new_messages=new_messages(run),
        sink=run,
        resolver=run.pinned,
        run_identity=run.identity,
        parent=parent_of(run.identity),
        checkpoint=RunCheckpoint(run),
        control=control_of(run, capabilities, decisions),
        local=run if run.agent.is_local else None,
        is_continuation=run.is_continued,
        is_recovered=run.is_recovered,
    )


def parent_of(identity: RunIdentity) -> BackendParentContext:
    """Who asked for a run."""
    return BackendParentContext(
        parent_run_id=identity.parent_run_id,
        parent_thread_id=identity.parent_thread_id,
        parent_tool_call_id=identity.parent_tool_call_id,
    )


def new_messages(run: Run) -> Sequence[Message]:
    """What this turn was given, as the thread keeps it: the same, ids too, whoever executes it."""
    own = run.identity.run_id
    found: list[Message] = []
    for message in reversed(run.messages):
        mark = message.metadata
        is_given = message.role in (Role.USER, Role.SYSTEM)
        if not is_given or mark is None or mark.run_id != own:
            break
        if found and found[-1].metadata != mark:
            # What an earlier turn was given, which said nothing.
            break
        found.append(message)
    return tuple(reversed(found))
