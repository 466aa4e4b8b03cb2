"""The routes of the native API in one table."""

from functools import partial

from awaken.contracts.events import LoggedEvent
from awaken.contracts.messages.message import MessageRecord
from awaken.mailbox.workflow_runs import EventReceipt
from awaken.services.run_states import RunState
from awaken.services.step_requests import StepRequest
from awaken.services.thread_context import ThreadContext
from awaken.services.threads import ThreadEdit
from awaken.services.timeline import Timeline
from awaken.services.workflows import WorkflowView
from awaken.transport.routes import Access, make_route
from awaken.transport.stop_routes import cancel_thread, interrupt_thread

from . import (
    bodies,
    catalog,
    events,
    inputs,
    paging,
    runs,
    threads,
    timelines,
    views,
    whole_results,
    workflows,
)
from . import (
    remembered_answers as remembered,
)

Listed = views.Listed
_route = partial(make_route, takes_camel=True)
_read = partial(_route, Access.READ)
_invoke = partial(_route, Access.INVOKE)
_accept = partial(_route, Access.INVOKE, reply=views.Accepted, status=202)
_decide = partial(
    _route, Access.DECIDE, reply=views.Accepted, body=bodies.TicketDecision, status=202
)
_forget = partial(_route, Access.DECIDE)
_KEY = ("Idempotency-Key",)
_ID = ("Last-Event-ID",)
_THREAD = "/v1/threads/{thread_id}"
_RUN = "/v1/runs/{run_id}"
_ANSWERS = "/v1/remembered-answers"

ROUTES = (
    _invoke(
        "POST /v1/runs",
        runs.start_run,
        bytes,
        body=bodies.StartRun,
        headers=(*_KEY, "Accept"),
        document=whole_results.WholeResult,
        statuses={202: views.Accepted},
    ),
    _read("GET /v1/runs", runs.list_runs, Listed[views.RunView], query=paging.AnyRunFilter),
    _read(f"GET {_RUN}", runs.get_run, views.RunView),
    _accept(f"POST {_RUN}/inputs", inputs.send_inputs, body=bodies.RunInputs, headers=_KEY),
    _accept(f"POST {_RUN}/cancel", inputs.cancel_run),
    _invoke(
        f"POST {_RUN}/fork",
        runs.fork_run,
        runs.RunForkView,
        body=runs.ForkRun,
        is_body_optional=True,
        status=201,
        statuses={202: runs.RunForkView},
    ),
    _decide(f"POST {_RUN}/decision", inputs.decide_on_run),
    _read(f"GET {_RUN}/events", events.run_events, Listed[LoggedEvent], query=paging.LogPaging),
    _read(
        f"GET {_RUN}/events/stream", events.stream_run, bytes, query=paging.AttachQuery, headers=_ID
    ),
    _invoke(
        f"POST {_RUN}/events/{{name}}",
        workflows.send_event,
        EventReceipt,
        body=workflows.RunEventBody,
        status=202,
    ),
    _read(f"GET {_RUN}/workflow", workflows.get_workflow, WorkflowView),
    _read(f"GET {_RUN}/timeline", timelines.get_timeline, Timeline, query=paging.AttachQuery),
    _read(f"GET {_RUN}/state", timelines.get_state, RunState, query=paging.StateQuery),
    _route(
        Access.CONFIG, f"GET {_RUN}/steps/{{n}}/request", timelines.get_step_request, StepRequest
    ),
    _read(
        f"GET {_RUN}/tickets",
        catalog.run_tickets,
        Listed[views.TicketView],
        query=paging.TicketFilter,
    ),
    _read("GET /v1/threads", threads.list_threads, Listed[str], query=paging.ThreadFilter),
    _invoke(
        "POST /v1/threads",
        threads.create_thread,
        views.NativeThreadView,
        body=ThreadEdit,
        status=201,
    ),
    _read(
        "GET /v1/threads/summaries",
        threads.list_summaries,
        Listed[views.ThreadSummary],
        query=paging.ThreadFilter,
    ),
    _read("GET /v1/threads/search", threads.search, views.ThreadMatches, query=paging.ThreadSearch),
    _read(f"GET {_THREAD}", threads.get_thread, views.NativeThreadView),
    _read(f"GET {_THREAD}/context", threads.get_context, ThreadContext),
    _invoke(f"DELETE {_THREAD}/context", threads.restore_context, ThreadContext),
    _invoke(f"PATCH {_THREAD}", threads.edit_thread, views.NativeThreadView, body=ThreadEdit),
    _invoke(
        f"PATCH {_THREAD}/metadata", threads.edit_thread, views.NativeThreadView, body=ThreadEdit
    ),
    _invoke(
        f"POST {_THREAD}/fork",
        threads.fork_thread,
        views.NativeThreadView,
        body=threads.ForkThread,
        status=201,
    ),
    _invoke(
        f"DELETE {_THREAD}", threads.delete_thread, None, query=threads.DeleteQuery, status=204
    ),
    _read(
        f"GET {_THREAD}/messages",
        threads.list_messages,
        Listed[MessageRecord],
        query=paging.MessageFilter,
    ),
    _accept(f"POST {_THREAD}/messages", inputs.send_messages, body=bodies.NewInput, headers=_KEY),
    _read(
        f"GET {_THREAD}/mailbox",
        threads.list_mailbox,
        Listed[views.DispatchView],
        query=paging.DispatchFilter,
    ),
    _invoke(
        f"POST {_THREAD}/mailbox",
        inputs.push_mailbox,
        views.Queued,
        body=bodies.MailboxItem,
        status=201,
        headers=_KEY,
    ),
    _accept(f"POST {_THREAD}/cancel", cancel_thread),
    _accept(f"POST {_THREAD}/interrupt", interrupt_thread),
    _decide(f"POST {_THREAD}/decision", inputs.decide_on_thread),
    _read(
        f"GET {_THREAD}/runs",
        threads.list_thread_runs,
        Listed[views.RunView],
        query=paging.RunFilter,
    ),
    _read(f"GET {_THREAD}/runs/active", threads.active_run, views.ActiveRunView),
    _read(f"GET {_THREAD}/runs/latest", threads.latest_run, views.RunView),
    _read(
        f"GET {_THREAD}/events",
        events.thread_events,
        Listed[LoggedEvent],
        query=paging.LogPaging,
    ),
    _read(
        f"GET {_THREAD}/events/stream",
        events.stream_thread,
        bytes,
        query=paging.AttachQuery,
        headers=_ID,
    ),
    _read(
        f"GET {_THREAD}/tickets",
        catalog.thread_tickets,
        Listed[views.TicketView],
        query=paging.TicketFilter,
    ),
    _read(
        "GET /v1/tickets",
        catalog.list_tickets,
        Listed[views.TicketView],
        query=paging.TicketFilter,
    ),
    _read(
        f"GET {_ANSWERS}",
        remembered.list_answers,
        Listed[remembered.AnswerView],
        query=remembered.Whose,
    ),
    _forget(
        f"DELETE {_ANSWERS}",
        remembered.forget_answers,
        Listed[remembered.AnswerView],
        query=remembered.AllOf,
    ),
    _forget(
        f"DELETE {_ANSWERS}/{{answer_id}}",
        remembered.forget_answer,
        None,
        query=remembered.Whose,
        status=204,
    ),
    _read("GET /v1/agents", catalog.list_agents, views.AgentList, query=catalog.AgentPaging),
    _read("GET /v1/agents/{agent_id}", catalog.get_agent, views.AgentView),
    _route(
        Access.CONFIG,
        "GET /v1/agents/{agent_id}/models",
        catalog.list_models,
        views.ModelChoices,
        query=catalog.ModelsQuery,
    ),
)
