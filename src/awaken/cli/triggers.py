"""`awaken triggers`: runs that start by signed webhooks."""

from typing import Annotated, Any

import typer

from awaken.bootstrap.scheduling import build_operator_scheduling
from awaken.contracts.storage.queries import DeliveryQuery, Order, TriggerQuery
from awaken.contracts.storage.schedules import (
    EventFilter,
    HookDelivery,
    RunTarget,
    SignatureScheme,
    Trigger,
    TriggerSpec,
)
from awaken.scheduling.triggers import Triggers

from .command_context import CommandContext, store_command
from .command_line import new_app
from .list_options import DEFAULT_LIMIT, Cursor, Limit, OfTenant, apply_cursor
from .output import facts, moment, short
from .record_commands import RecordId, add_record_commands

app = new_app("Runs that start by signed webhooks.")


def _triggers(context: CommandContext) -> Triggers:
    return build_operator_scheduling(context.store, context.mailbox.services).triggers


@app.command("create")
@store_command()
async def create_trigger(  # noqa: PLR0913 - one parameter for each option
    context: CommandContext,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent that is started.")],
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What it is told; {/a/b} is a place of the body.")
    ] = "",
    scheme: Annotated[
        SignatureScheme, typer.Option("--scheme", help="How the sender signs.")
    ] = SignatureScheme.STANDARD_WEBHOOKS,
    secret: Annotated[
        list[str] | None, typer.Option("--secret", help="A reference such as env:NAME; repeatable.")
    ] = None,
    event: Annotated[
        list[str] | None, typer.Option("--event", help="Only this event; repeatable.")
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", help="Events with this text share a thread.")
    ] = None,
    as_event: Annotated[
        str | None,
        typer.Option(
            "--as-event", help="Send this event to the workflow that is open on --thread."
        ),
    ] = None,
    trigger_id: Annotated[str | None, typer.Option("--id", help="The trigger's id.")] = None,
) -> None:
    """Create a webhook trigger; a server accepts deliveries at its address."""
    spec = TriggerSpec(
        scheme=scheme,
        secrets=tuple(secret or ()),
        target=RunTarget(agent_id=agent, input=text, event=as_event),
        thread=thread,
        filter=EventFilter(events=tuple(event or ())),
    )
    made = await _triggers(context).create(spec, trigger_id=trigger_id)
    context.show(made, f"Senders deliver to /v1/triggers/{made.trigger_id}")


@app.command("list")
@store_command()
async def list_triggers(
    context: CommandContext,
    tenant: OfTenant = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List webhook triggers, oldest first."""
    query = apply_cursor(TriggerQuery(tenant_id=tenant, limit=limit), cursor)
    head = ("TRIGGER", "AGENT", "SCHEME", "PAUSED", "FIRED", "LAST")
    context.show_page(await _triggers(context).list(query), head, _row)


@app.command("deliveries")
@store_command()
async def list_deliveries(
    context: CommandContext,
    trigger_id: RecordId,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> None:
    """List what senders delivered, newest first."""
    query = DeliveryQuery(trigger_id=trigger_id, limit=limit, order=Order.DESC)
    page = await _triggers(context).deliveries(trigger_id, apply_cursor(query, cursor))
    context.show_page(page, ("DELIVERY", "EVENT", "OUTCOME", "REASON", "RECEIVED", "RUN"), _line)


def _row(trigger: Trigger) -> tuple[object, ...]:
    last: Any = trigger.last
    return (
        trigger.trigger_id,
        trigger.spec.target.agent_id,
        trigger.spec.scheme,
        "yes" if trigger.spec.is_paused else "",
        trigger.fired_count,
        "" if last is None else f"{last.outcome} {moment(last.received_at)}",
    )


def _line(delivery: HookDelivery) -> tuple[object, ...]:
    return (
        delivery.delivery_id,
        delivery.event or "",
        delivery.outcome,
        delivery.reason or "",
        moment(delivery.received_at),
        delivery.run_id or "",
    )


def _about(trigger: Trigger) -> str:
    spec = trigger.spec
    return facts(
        (
            ("trigger", trigger.trigger_id),
            ("address", f"/v1/triggers/{trigger.trigger_id}"),
            ("description", spec.description),
            ("agent", spec.target.agent_id),
            ("input", short(spec.target.input, 1000)),
            ("thread", spec.thread),
            ("event", spec.target.event),
            ("scheme", spec.scheme),
            ("secrets", ", ".join(spec.secrets)),
            ("events", ", ".join(spec.filter.events)),
            ("paused", "yes" if spec.is_paused else None),
            ("fired", trigger.fired_count),
            ("tenant", trigger.creator.tenant_id),
            ("created by", trigger.creator.principal_id),
            ("created", moment(trigger.created_at)),
        )
    )


add_record_commands(
    app,
    "trigger",
    _triggers,
    _about,
    {
        "show": "Show a webhook trigger; its secrets are references.",
        "pause": "Pause a webhook trigger: it refuses deliveries until it is resumed.",
        "resume": "Resume a paused webhook trigger.",
        "delete": "Delete a webhook trigger with its deliveries; runs that it started go on.",
    },
)
