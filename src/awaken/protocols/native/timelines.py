"""What a run did when, and what it asked its model."""

from awaken.contracts.errors import RecordNotFound
from awaken.services.run_states import read_run_state
from awaken.services.step_requests import read_step_request
from awaken.services.timeline import read_timeline
from awaken.transport.asgi import Reply, as_json
from awaken.transport.routes import Access, RouteCall

from .paging import AttachQuery, StateQuery

_DIGITS_MAX = 10


async def get_timeline(call: RouteCall) -> Reply:
    """Get the steps, calls and waits of a run with their times, without their contents."""
    given: AttachQuery = call.query
    return as_json(await read_timeline(call.view, call.path["run_id"], given.cursor or 0))


async def get_state(call: RouteCall) -> Reply:
    """Get the state at the end of a step; values need the scope `config`, private ones `admin`."""
    given: StateQuery = call.query
    # Values may be private, and those of a thread hold what plugins know of its people.
    may_see = call.principal.tenant_id is None and call.principal.may(Access.CONFIG)
    shown = await read_run_state(
        call.view,
        call.path["run_id"],
        given.step,
        with_values=may_see,
        with_private=call.principal.may(Access.ADMIN),
    )
    return as_json(shown)


async def get_step_request(call: RouteCall) -> Reply:
    """Get the request of a step, built again from the transcript and the run's agent."""
    number = call.path["n"]
    if not (number.isascii() and number.isdecimal() and len(number) < _DIGITS_MAX):
        raise RecordNotFound(kind="Step", record_id=number)
    return as_json(await read_step_request(call.view, call.path["run_id"], int(number)))
