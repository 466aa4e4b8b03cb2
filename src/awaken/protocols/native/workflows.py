"""Runs of workflows: their journal, and events from outside."""

from typing import Any

import msgspec

from awaken.contracts.record import StrictRecord
from awaken.services.workflows import read_workflow
from awaken.services.workflows import send_event as send
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall


class RunEventBody(StrictRecord, frozen=True, kw_only=True):
    """An event for a workflow."""

    payload: Any = None
    """What it carries."""
    event_id: str | None = None
    """The same event under the same id is sent once."""


async def get_workflow(call: RouteCall) -> Reply:
    """Get the journal of a workflow's run: its steps, its status, and what it waits for."""
    run = await call.view.stored_run(call.path["run_id"])
    shown = await read_workflow(call.view.engine, run)
    given = await call.view.run(call.path["run_id"])
    # Everything else in it is the workflow's own.
    named = msgspec.structs.replace(shown, run_id=given.run_id, thread_id=given.thread_id)
    return as_json(named)


async def send_event(call: RouteCall) -> Reply:
    """Send an event to a run of a workflow; under the same `event_id` it is sent once."""
    body: RunEventBody = call.body
    run = await call.view.stored_run(call.path["run_id"])
    event = (call.path["name"], body.payload, body.event_id)
    user_id = call.view.principal_id
    receipt = await send(call.view.engine, call.view.control, run, event, user_id)
    return as_json(msgspec.structs.replace(receipt, run_id=call.path["run_id"]), 202)
