"""What a run did when, and what it asked its model."""

from awaken.contracts.errors import RecordNotFound
from awaken.services.step_requests import read_step_request
from awaken.services.timeline import read_timeline
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import RouteCall

from .paging import AttachQuery

_DIGITS_MAX = 10


async def get_timeline(call: RouteCall) -> Reply:
    """Get the steps, calls and waits of a run with their times, without their contents."""
    given: AttachQuery = call.query
    return as_json(await read_timeline(call.view, call.path["run_id"], given.cursor or 0))


async def get_step_request(call: RouteCall) -> Reply:
    """Get the request of a step, built again from the transcript and the run's agent."""
    number = call.path["n"]
    if not (number.isascii() and number.isdecimal() and len(number) < _DIGITS_MAX):
        raise RecordNotFound(kind="Step", record_id=number)
    return as_json(await read_step_request(call.view, call.path["run_id"], int(number)))
