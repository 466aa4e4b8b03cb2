"""`awaken knowledge`: ingests, lists, searches and deletes documents."""

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from awaken.contracts.errors import InvalidInput
from awaken.contracts.memory.access import DocumentDraft
from awaken.contracts.memory.errors import UnreadableDocument
from awaken.contracts.memory.records import (
    DocumentFormat,
    KnowledgeDocument,
    knowledge_collection,
)

from .command_context import CommandContext, store_command
from .command_line import new_app
from .memory import OfTenant, open_memory
from .output import moment, plain, table

app = new_app("Documents that agents search.")

PAGE = 1_000
"""How many documents are read at once."""
Collection = Annotated[str, typer.Argument(help="The collection.")]
_FORMATS = {
    ".md": DocumentFormat.MARKDOWN,
    ".markdown": DocumentFormat.MARKDOWN,
    ".pdf": DocumentFormat.PDF,
}


@app.command("add")
@store_command(may_create=True)
async def add_documents(
    context: CommandContext,
    collection: Collection,
    files: Annotated[list[Path], typer.Argument(help="Text, markdown or PDF files.")],
    tenant: OfTenant = None,
) -> None:
    """Ingest files; a file of the same name replaces its earlier version whole."""
    place, base = knowledge_collection(tenant, collection), open_memory(context).knowledge
    added = []
    for path in files:
        draft = DocumentDraft(
            data=await asyncio.to_thread(_read, path),
            format=_FORMATS.get(path.suffix.casefold(), DocumentFormat.TEXT),
            source=path.name,
            added_by="operator",
        )
        try:
            added.append(await base.ingest(place, draft))
        except UnreadableDocument as error:
            before = f" ({len(added)} files before it were added)" if added else ""
            raise UnreadableDocument(problem=f"{path}: {error.problem}{before}") from error
    lines = [f"Added: {it.id} {plain(it.title)} ({it.chunks} passages)" for it in added]
    context.show({"items": msgspec.to_builtins(added)}, "\n".join(lines))


@app.command("list")
@store_command()
async def list_documents(
    context: CommandContext, collection: Collection, tenant: OfTenant = None
) -> None:
    """List the documents of a collection."""
    place, base = knowledge_collection(tenant, collection), open_memory(context).knowledge
    found: list[KnowledgeDocument] = []
    cursor = None
    while True:
        page = await base.list_documents(place, cursor=cursor, limit=PAGE)
        found += page.items
        if (cursor := page.next_cursor) is None:
            break
    rows = [(it.id, plain(it.title), it.format, it.chunks, moment(it.created_at)) for it in found]
    text = (
        table(("ID", "TITLE", "FORMAT", "PASSAGES", "ADDED"), rows) if rows else "Nothing is there."
    )
    context.show({"items": msgspec.to_builtins(found)}, text)


@app.command("search")
@store_command()
async def search_documents(
    context: CommandContext,
    collection: Collection,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="How many.")] = 8,
    tenant: OfTenant = None,
) -> None:
    """Find passages by their words, the best first."""
    place = knowledge_collection(tenant, collection)
    found = await open_memory(context).knowledge.search(place, query, limit=limit)
    blocks = []
    for it in found:
        page = "" if it.page is None else f", page {it.page}"
        heading = f" ({plain(it.heading)})" if it.heading else ""
        blocks.append(f"{plain(it.title)}{heading}{page}, passage {it.position}\n{plain(it.text)}")
    text = "\n\n".join(blocks) or "Nothing was found."
    context.show({"items": msgspec.to_builtins(found)}, text)


@app.command("delete")
@store_command()
async def delete_document(
    context: CommandContext,
    collection: Collection,
    document_id: Annotated[str, typer.Argument(metavar="ID", help="A document, from `list`.")],
    tenant: OfTenant = None,
) -> None:
    """Delete a document whole."""
    place = knowledge_collection(tenant, collection)
    document = await open_memory(context).knowledge.delete(place, document_id)
    context.show(msgspec.to_builtins(document), f"Deleted: {plain(document.title)}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        problem = f"it cannot be read ({error.strerror or type(error).__name__})"
        raise InvalidInput(what=f"file '{path}'", problem=problem) from error
