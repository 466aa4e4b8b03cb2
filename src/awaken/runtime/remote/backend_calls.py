"""From a run to its backend: the request that is made, and what the backend may store."""

from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from awaken.contracts.backend_results import BackendRunResult
from awaken.contracts.backends.backend import check_delegate_request
from awaken.contracts.backends.requests import (
    REMOTE_TARGETS,
    BackendControl,
    BackendDelegateRunRequest,
    BackendParentContext,
    BackendRootRunRequest,
    DecisionChannel,
    LocalDrive,
    RemoteTarget,
)
from awaken.contracts.identity import RunIdentity, RunOrigin
from awaken.contracts.messages.message import Message, Role
from awaken.runtime.run import Run

# Bound once: Python 3.11 reads a member through its class slowly.
_SUBAGENT = RunOrigin.SUBAGENT


class RunCheckpoint(msgspec.Struct, frozen=True, eq=False):
    """The backend's checkpoint, stored in the state of the run's thread."""

    run: Run

    def load(self, target: str) -> RemoteTarget | None:
        """The state that was saved last for a target."""
        return self.run.state.get(REMOTE_TARGETS).get(target)

    async def save(self, target: str, state: RemoteTarget) -> None:
        """Save a target's state; it is durable when this returns."""
        run = self.run
        known: dict[str, RemoteTarget] = run.state.get(REMOTE_TARGETS)
        run.state.update(REMOTE_TARGETS, {**known, target: state})
        await run.flush()


def call_backend(
    run: Run, decisions: DecisionChannel | None = None, drive: LocalDrive | None = None
) -> Coroutine[Any, Any, BackendRunResult]:
    """Execute a run at its agent's backend: the only way to a backend, local or remote.

    `drive` executes the run in this process; only the local backend uses it.

    Raises:
        UnsupportedFeature: The backend cannot serve the run; names everything that is missing.
        Exception: What the backend raises.
    """
    backend, asked = run.agent.backend, run.request
    # Only the controls that the backend's capabilities declare.
    control, capabilities = BackendControl(cancellation=run.token, decisions=decisions), None
    if run.agent.is_limited:
        capabilities = backend.capabilities()
        control = BackendControl(
            cancellation=run.token if capabilities.cancellation.has_token else None,
            decisions=decisions if capabilities.decisions else None,
        )
    # A run of this process appends its messages in the loop.
    new: Sequence[Message] = asked.messages if drive is not None else new_messages(run)
    checkpoint = RunCheckpoint(run)
    if run.identity.origin is not _SUBAGENT:
        return backend.execute_root(
            BackendRootRunRequest(
                agent_id=run.agent.spec.id,
                messages=run.messages,
                new_messages=new,
                sink=run,
                resolver=run.pinned,
                run_identity=run.identity,
                checkpoint=checkpoint,
                control=control,
                decisions=asked.decisions,
                overrides=asked.overrides,
                frontend_tools=asked.frontend_tools,
                drive=drive,
                is_continuation=run.is_continued,
                is_recovered=run.recovery is not None,
                context=run.record.context,
            )
        )
    request = BackendDelegateRunRequest(
        agent_id=run.agent.spec.id,
        messages=run.messages,
        new_messages=new,
        sink=run,
        resolver=run.pinned,
        run_identity=run.identity,
        parent=parent_of(run.identity),
        checkpoint=checkpoint,
        control=control,
        drive=drive,
        is_continuation=run.is_continued,
        is_recovered=run.recovery is not None,
        context=run.record.context,
    )
    if capabilities is not None:
        check_delegate_request(capabilities, request)
    return backend.execute_delegate(request)


def parent_of(identity: RunIdentity) -> BackendParentContext:
    """The parent run that started a run."""
    return BackendParentContext(
        parent_run_id=identity.parent_run_id,
        parent_thread_id=identity.parent_thread_id,
        parent_tool_call_id=identity.parent_tool_call_id,
    )


def new_messages(run: Run) -> Sequence[Message]:
    """The input of this turn as stored in the thread: the same, ids included, in any process."""
    own = run.identity.run_id
    found: list[Message] = []
    for message in reversed(run.messages):
        mark = message.metadata
        is_given = message.role in (Role.USER, Role.SYSTEM)
        if not is_given or mark is None or mark.run_id != own:
            break
        if found and found[-1].metadata != mark:
            # The input of an earlier turn that produced no answer.
            break
        found.append(message)
    return tuple(reversed(found))
