"""`awaken config status|history|show|rollback`: what is live, what was, and going back."""

from typing import Annotated, Any

import typer

from awaken.contracts.config.errors import UnknownPublication
from awaken.contracts.config.heads import SeenCanary
from awaken.contracts.config.publications import Publication
from awaken.managed.history import list_undone

from .config_context import ConfigContext, config_command
from .output import facts, moment, plain, section, short, table


@config_command
async def show_status(context: ConfigContext) -> None:
    """Show the head, what drifted from its files, what is switched off, and every process."""
    managed = context.managed
    head = await managed.heads.read_head()
    live = await managed.parts.reader.load_publication(head.publication)
    drift: dict[str, list[str]] = {}
    owned: dict[str, int] = {}
    for namespace, entries in sorted(live.manifest.items()):
        for record_id, entry in sorted(entries.items()):
            owned[entry.owner] = owned.get(entry.owner, 0) + 1
            if entry.has_drift:
                drift.setdefault(entry.origin or "", []).append(f"{namespace}/{record_id}")
    workers = await managed.list_followers()
    document = {
        "publication": head.publication,
        "revision": head.revision,
        "canary": head.canary,
        "owners": owned,
        "drift": drift,
        "switches": head.switches,
        "workers": [
            {"id": it.id, "publication": it.publication, "problem": it.problem} for it in workers
        ],
    }
    pairs: list[tuple[str, object]] = [
        ("publication", head.publication or "none"),
        ("revision", head.revision),
        ("canary", head.canary and f"{head.canary.publication}, {head.canary.plan.percent:g} %"),
        ("records", ", ".join(f"{count} of {owner}" for owner, count in owned.items())),
    ]
    drifted = [f"  {name}: {', '.join(its)}" for name, its in drift.items()]
    switched = [f"  {it.kind}/{it.id} {it.state}: {it.reason}" for it in head.switches]
    rows = [(it.id, it.publication, it.problem) for it in workers]
    text = facts(pairs)
    text += section("Changed elsewhere", "\n".join(map(plain, drifted)))
    text += section("Switches", "\n".join(map(plain, switched)))
    text += section("Processes", table(("ID", "PUBLICATION", "PROBLEM"), rows) if rows else "")
    context.show(document, text)


@config_command
async def list_publications(
    context: ConfigContext,
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="How many at most.")] = 20,
    before: Annotated[
        int | None, typer.Option("--before", min=1, help="Continue before this publication.")
    ] = None,
) -> None:
    """List publications, newest first."""
    found = await context.managed.parts.store.list_publications(before=before, limit=limit)
    rows = [
        (it.no, moment(it.created_at), it.created_by, it.origin, len(it.changes), short(it.message))
        for it in found
    ]
    head = ("NO", "AT", "BY", "ORIGIN", "CHANGES", "MESSAGE")
    text = table(head, rows) if rows else "Nothing was published yet."
    context.show({"items": [_describe(it) for it in found]}, text)


@config_command
async def show_publication(
    context: ConfigContext,
    number: Annotated[int, typer.Argument(metavar="NO", min=1, help="The publication.")],
) -> None:
    """Show a publication, and what it changed."""
    found = await context.managed.parts.store.load_publication(number)
    if found is None:
        raise UnknownPublication(no=number)
    shown = _describe(found)
    pairs = [(name, value) for name, value in shown.items() if name != "changes"]
    lines = [f"  {it['action']} {it['ns']}/{it['id']}" for it in shown["changes"]]
    context.show(shown, facts(pairs) + section("Changes", "\n".join(map(plain, lines))))


@config_command
async def roll_back(
    context: ConfigContext,
    number: Annotated[int, typer.Argument(metavar="NO", min=1, help="The publication.")],
    message: Annotated[str, typer.Option("--message", help="Why; the history shows it.")] = "",
    *,
    expected: Annotated[
        int | None,
        typer.Option("--expect", min=0, help="What must be live; else nothing is done."),
    ] = None,
    over_canary: Annotated[
        int | None,
        typer.Option("--over-canary", min=1, help="End the canary of this publication."),
    ] = None,
) -> None:
    """Publish an earlier publication again, and say what that undoes; secrets stay as they are."""
    context.warn_without_app()
    heads = context.managed.heads
    live = (await heads.read_head()).publication or 0 if expected is None else expected
    published = await heads.roll_back(
        number,
        context.author,
        message,
        expected_head=live,
        over_canary=None if over_canary is None else SeenCanary(publication=over_canary),
    )
    made = published.publication.no
    undone = await list_undone(context.managed.parts.store, live, number)
    document = {
        "publication": made,
        "is_changed": published.is_changed,
        "undone": [it.no for it in undone] if published.is_changed else [],
    }
    lines = [f"  {it.no} by {it.created_by}: {short(it.message)}" for it in undone]
    text = f"Publication {made} is live, with the records of {number}."
    text += section("It undoes", "\n".join(map(plain, lines))) if lines else ""
    context.show(document, text if published.is_changed else "There is nothing to do.")


def _describe(publication: Publication) -> dict[str, Any]:
    changes = [
        {
            "ns": it.namespace,
            "id": it.id,
            "action": "create" if it.before is None else "delete" if it.after is None else "update",
        }
        for it in publication.changes
    ]
    return {
        "publication": publication.no,
        "parent": publication.parent,
        "created_at": publication.created_at,
        "created_by": publication.created_by,
        "origin": publication.origin.value,
        "message": publication.message,
        "changes": changes,
    }
