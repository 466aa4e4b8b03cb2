"""Continuing a run by another request: what the request changes, and when it is refused."""

import msgspec

from awaken.contracts.backends.backend import BackendCapabilities, check_root_request
from awaken.contracts.errors import UnsupportedFeature
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.runs.records import RunRecord, RunRequest


class CannotGoOn(UnsupportedFeature):
    """A message arrived for a run that waits at a backend without state between turns."""

    template = (
        "agent '{agent_id}' backend does not support: {features}; run '{run_id}' cannot go on: "
        "send the message without naming the run and a new one begins, or cancel it"
    )
    run_id: str


def check_capabilities(
    capabilities: BackendCapabilities,
    agent_id: str,
    request: RunRequest,
    previous: RunRecord | None,
) -> None:
    """Refuse a request that the agent's backend cannot serve, before anything is written.

    Raises:
        UnsupportedFeature: Names every missing capability.
        CannotGoOn: Only resuming the run is unsupported; a new run could start.
    """
    # A recovered run needs no more capabilities of its backend than it did before.
    continues = previous is not None and previous.status is not RunStatus.RUNNING
    try:
        check_root_request(capabilities, agent_id, request, continues=continues)
    except UnsupportedFeature as error:
        is_message = bool(request.messages) and not request.is_quiet
        if previous is None or error.features != "continuation" or not is_message:
            raise
        features, run_id = error.features, previous.run_id
        raise CannotGoOn(agent_id=agent_id, features=features, run_id=run_id) from None


def continue_record(request: RunRequest, previous: RunRecord) -> RunRecord:
    """Return the record of a continued run, with the dispatch whose input it has taken in.

    A run that waited resumes by another request and takes over that request's session and
    transport. Messages from tasks and other agents come from no session.
    """
    dispatch_id = request.dispatch_id or previous.dispatch_id
    is_told = bool(request.messages) and all(it.sender is not None for it in request.messages)
    if previous.status is not RunStatus.WAITING or is_told:
        return msgspec.structs.replace(previous, dispatch_id=dispatch_id)
    return msgspec.structs.replace(
        previous,
        dispatch_id=dispatch_id,
        session_id=request.session_id,
        transport_request_id=request.transport_request_id,
    )
