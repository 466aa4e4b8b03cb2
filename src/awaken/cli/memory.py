"""`awaken memory`: lists, writes, edits, forgets and exports facts about users and projects."""

from datetime import timedelta
from typing import Annotated, Any, cast

import msgspec
import typer
from msgspec import UNSET

from awaken.bootstrap.memory import engine_of
from awaken.contracts.errors import InvalidInput
from awaken.contracts.memory.engine import Embedder
from awaken.contracts.memory.records import (
    Fact,
    FactOrigin,
    FactSource,
    HoldingThread,
    Partition,
    PartitionKind,
    can_be_kept,
    project_memory,
    user_memory,
)
from awaken.memory.facts import FactBook
from awaken.memory.service import MemoryService
from awaken.runtime.primitives.system import SystemClock, Uuid7Source

from .apps import FORMS, load_app
from .command_context import CommandContext, store_command
from .command_line import new_app
from .output import moment, plain, print_stdout, table
from .recording import open_app

app = new_app("Facts about users and projects.")

OfUser = Annotated[str | None, typer.Option("--user", help="The facts about this user.")]
OfProject = Annotated[str | None, typer.Option("--project", help="The facts about this project.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", help="Whose user or project.")]
By = Annotated[str, typer.Option("--by", help="Who writes it.")]
Days = Annotated[int | None, typer.Option("--days", min=1, help="After how many days it expires.")]
FactId = Annotated[str, typer.Argument(metavar="ID", help="A fact, from `list` or `search`.")]
_HEAD = ("ID", "TEXT", "ORIGIN", "BY", "RUN", "SINCE", "EXPIRES")


def open_memory(context: CommandContext, embedder: Embedder | None = None) -> MemoryService:
    """The memory of the command's store; without an embedder, facts are found by their words."""
    store = context.store
    return MemoryService(engine_of(store), store, SystemClock(), Uuid7Source(), embedder=embedder)


@app.command("list")
@store_command()
async def list_facts(
    context: CommandContext,
    user: OfUser = None,
    project: OfProject = None,
    tenant: OfTenant = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="How many.")] = 100,
    cursor: Annotated[str | None, typer.Option("--cursor", help="Where to go on.")] = None,
) -> None:
    """List the facts about a user or a project, oldest first."""
    owner = _owner(user, project, tenant)
    page = await open_memory(context).facts.list_facts(owner, cursor=cursor, limit=limit)
    _show(context, page.items, page.next_cursor)


@app.command("search")
@store_command()
async def search_facts(
    context: CommandContext,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    user: OfUser = None,
    project: OfProject = None,
    tenant: OfTenant = None,
) -> None:
    """Find facts by their words, the best first."""
    found = await open_memory(context).facts.search(_owner(user, project, tenant), query)
    _show(context, tuple(it.fact for it in found), None)


@app.command("add")
@store_command(may_create=True)
async def add_fact(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    text: Annotated[str, typer.Argument(help="One sentence that is clear on its own.")],
    user: OfUser = None,
    project: OfProject = None,
    tenant: OfTenant = None,
    by: By = "operator",
    days: Days = None,
) -> None:
    """Remember a fact; an equal one stays as it is."""
    source = FactSource(origin=FactOrigin.PERSON, by=by)
    (fact,) = await open_memory(context).facts.remember(
        _owner(user, project, tenant), [_check_text(text)], source, ttl_ms=_ttl(days)
    )
    context.show(_document(fact), f"Remembered: {fact.id} {plain(fact.text)}")


@app.command("edit")
@store_command()
async def edit_fact(  # noqa: PLR0913 - the options of the command
    context: CommandContext,
    fact_id: FactId,
    text: Annotated[str, typer.Argument(help="The new text.")],
    user: OfUser = None,
    project: OfProject = None,
    tenant: OfTenant = None,
    by: By = "operator",
    days: Days = None,
) -> None:
    """Replace the text of a fact; without --days it expires when it did before."""
    ttl_ms = UNSET if days is None else _ttl(days)
    fact = await open_memory(context).facts.edit(
        _owner(user, project, tenant), fact_id, _check_text(text), by=by, ttl_ms=ttl_ms
    )
    context.show(_document(fact), f"Edited: {fact.id} {plain(fact.text)}")


@app.command("forget")
@store_command()
async def forget_facts(
    context: CommandContext,
    fact_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="One fact, from `list` or `search`.")
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything about the user or the project.")
    ] = False,
    user: OfUser = None,
    project: OfProject = None,
    tenant: OfTenant = None,
) -> None:
    """Forget one fact or all, and list the transcripts that still hold it.

    The bytes are overwritten in the tables of memory. Transcripts, cases and recordings stay as
    they are; `awaken threads delete --with-cases` removes those of a thread.
    """
    facts, owner = open_memory(context).facts, _owner(user, project, tenant)
    if everything == (fact_id is not None):
        raise InvalidInput(what="what to forget", problem="name an ID, or --all")
    gone = await (facts.forget_all(owner) if fact_id is None else facts.forget(owner, fact_id))
    lines = [f"Forgotten: {plain(it.text)}" for it in gone.facts] or ["Nothing was remembered."]
    lines += [_describe_holding(it) for it in gone.transcripts]
    if not gone.is_erased:
        lines.append(
            "The rows are deleted; a busy reader keeps their bytes from being overwritten."
        )
    context.show(msgspec.to_builtins(gone), "\n".join(lines))


@app.command("export")
@store_command()
async def export_facts(
    context: CommandContext,
    user: OfUser = None,
    project: OfProject = None,
    tenant: OfTenant = None,
) -> None:
    """Print every fact as one JSON document per line."""
    async for fact in open_memory(context).facts.export(_owner(user, project, tenant)):
        print_stdout(msgspec.json.encode(fact).decode())


@app.command("owners")
@store_command()
async def list_owners(
    context: CommandContext,
    kind: Annotated[
        PartitionKind, typer.Option("--kind", help="Users, projects or collections.")
    ] = PartitionKind.USER,
    tenant: OfTenant = None,
) -> None:
    """List the users, projects or collections of a tenant that have something."""
    found = await open_memory(context).list_partitions(kind, tenant)
    rows = [(it.name, it.items) for it in found]
    text = table(("NAME", "ITEMS"), rows) if rows else "Nothing is there."
    context.show({"items": msgspec.to_builtins(found)}, text)


@app.command("reindex")
@store_command()
async def fill_missing_vectors(
    context: CommandContext,
    app_place: Annotated[
        str, typer.Option("--app", help=f"The code that names the embedding model: {FORMS}.")
    ],
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="How many items to look at, at most.")
    ] = None,
) -> None:
    """Make the vectors that facts and passages lack: the embedding model was away, or is new.

    All tenants are included. A command that was stopped is continued by the next one.
    """
    async with open_app(load_app(app_place)) as runtime:
        facts = cast("FactBook", runtime.memory)
        done = await open_memory(context, facts.embedder).fill_vectors(limit=limit)
    text = f"Filled: {done.filled} vectors of {plain(done.model)}"
    if done.skipped:
        text += f"; {done.skipped} could not be read or embedded, or were changed meanwhile"
    context.show(msgspec.to_builtins(done), text)


def _describe_holding(thread: HoldingThread) -> str:
    line = f"Still in thread {plain(thread.thread_id)}"
    if thread.eval_objects:
        line += f", and {thread.eval_objects} cases and recordings of evals were made from it"
    return line


def _owner(user: str | None, project: str | None, tenant: str | None) -> Partition:
    match user, project:
        case str(), None:
            return user_memory(tenant, user)
        case None, str():
            return project_memory(tenant, project)
    raise InvalidInput(what="whose facts", problem="name either --user or --project")


def _check_text(text: str) -> str:
    """Refuse a word of the command line of which a part could not be read, and would be lost."""
    if not can_be_kept(text):
        problem = "it has bytes that are no UTF-8; check the encoding of your terminal"
        raise InvalidInput(what="the text", problem=problem)
    return text


def _ttl(days: int | None) -> int | None:
    return None if days is None else round(timedelta(days=days) / timedelta(milliseconds=1))


def _show(context: CommandContext, facts: tuple[Fact, ...], cursor: str | None) -> None:
    text = table(_HEAD, map(_row, facts)) if facts else "Nothing is remembered."
    if cursor is not None:
        text += f"\nMore: --cursor {cursor}"
    context.show({"items": list(map(_document, facts)), "next_cursor": cursor}, text)


def _row(fact: Fact) -> tuple[object, ...]:
    source = fact.source
    ends = "" if fact.expires_at is None else moment(fact.expires_at)
    since = moment(fact.created_at)
    return (fact.id, plain(fact.text), source.origin, source.by, source.run_id, since, ends)


def _document(fact: Fact) -> Any:
    return msgspec.to_builtins(fact)
