"""Documents that agents search: collections of the caller's tenant."""

from typing import Annotated

import msgspec
from msgspec import Meta

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.memory.access import DocumentDraft
from awaken.contracts.memory.records import (
    DocumentFormat,
    KnowledgeDocument,
    KnowledgeMatch,
    Partition,
    PartitionKind,
    knowledge_collection,
)
from awaken.contracts.record import StrictRecord
from awaken.transport.asgi import Reply, as_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import RouteCall

from .context import OperatorContext, OperatorList
from .memory import Limit, MemoryOwner, Name, Query, check_tenant, view_owner


class WhoseKnowledge(StrictRecord, frozen=True, kw_only=True):
    """The caller's tenant unless an operator names another."""

    tenant_id: Name | None = None


class DocumentsQuery(WhoseKnowledge, frozen=True, kw_only=True):
    """A page of documents, in the order in which they were added."""

    cursor: Name | None = None
    limit: Limit = 100


class KnowledgeQuery(WhoseKnowledge, frozen=True, kw_only=True):
    """What to look for."""

    query: Query
    limit: Annotated[int, Meta(ge=1, le=100)] = 8


class AddDocument(StrictRecord, frozen=True, kw_only=True):
    """A document: its text, or the bytes of its file in base64."""

    text: str | None = None
    data: bytes | None = None
    format: DocumentFormat = DocumentFormat.TEXT
    id: Name | None = None
    """The id of the document that it replaces; without one it is derived from `source`."""
    title: Annotated[str, Meta(max_length=1_000)] = ""
    source: Annotated[str, Meta(max_length=4_000)] = ""


class DocumentView(msgspec.Struct, frozen=True, kw_only=True):
    """A document of a collection; the time in milliseconds."""

    id: str
    title: str
    format: DocumentFormat
    source: str
    chunks: int
    chars: int
    created_at: int
    added_by: str | None


class PassageView(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that a search found, and where it stands."""

    document_id: str
    title: str
    source: str
    text: str
    heading: str
    position: int
    start: int
    page: int | None


class KnowledgeRoutes:
    """Lists, ingests, searches and deletes documents."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def list_collections(self, call: RouteCall) -> Reply:
        """List the collections that have documents."""
        tenant_id = check_tenant(call, call.query.tenant_id)
        found = await self._context.memory.list_partitions(PartitionKind.COLLECTION, tenant_id)
        return as_json(OperatorList[MemoryOwner](items=tuple(map(view_owner, found))))

    async def list_documents(self, call: RouteCall) -> Reply:
        """List the documents of a collection."""
        asked: DocumentsQuery = call.query
        page = await self._context.memory.knowledge.list_documents(
            _collection(call, asked), cursor=asked.cursor, limit=asked.limit
        )
        items = tuple(map(_view, page.items))
        return as_json(OperatorList[DocumentView](items=items, next_cursor=page.next_cursor))

    async def add_document(self, call: RouteCall) -> Reply:
        """Ingest a document; one of the same id is replaced whole."""
        collection, given = _collection(call, call.query), call.body
        assert isinstance(given, AddDocument)
        data = given.data if given.text is None else given.text
        if data is None or None not in (given.text, given.data):
            raise HttpError(400, "invalid_body", "Give either `text` or `data`.")
        await self._audit(call, AuditAction.CREATE, collection, given.id or given.source)
        draft = DocumentDraft(
            data=data,
            format=given.format,
            id=given.id,
            title=given.title,
            source=given.source,
            added_by=call.actor,
        )
        return as_json(_view(await self._context.memory.knowledge.ingest(collection, draft)), 201)

    async def get_document(self, call: RouteCall) -> Reply:
        """Show a document."""
        collection, document_id = _collection(call, call.query), call.path["document_id"]
        return as_json(_view(await self._context.memory.knowledge.get(collection, document_id)))

    async def delete_document(self, call: RouteCall) -> Reply:
        """Delete a document whole; answers with what it was."""
        collection, document_id = _collection(call, call.query), call.path["document_id"]
        await self._audit(call, AuditAction.DELETE, collection, document_id)
        return as_json(_view(await self._context.memory.knowledge.delete(collection, document_id)))

    async def search(self, call: RouteCall) -> Reply:
        """Find passages of a collection, the best first."""
        asked: KnowledgeQuery = call.query
        found = await self._context.memory.knowledge.search(
            _collection(call, asked), asked.query, limit=asked.limit
        )
        return as_json(OperatorList[PassageView](items=tuple(map(_passage, found))))

    async def _audit(
        self, call: RouteCall, action: AuditAction, collection: Partition, name: str
    ) -> None:
        await self._context.audit(call, action, f"knowledge/{collection.name}/{name[:200]}")


def _collection(call: RouteCall, asked: WhoseKnowledge) -> Partition:
    return knowledge_collection(check_tenant(call, asked.tenant_id), call.path["collection"])


def _view(document: KnowledgeDocument) -> DocumentView:
    return DocumentView(**msgspec.structs.asdict(document))


def _passage(match: KnowledgeMatch) -> PassageView:
    return PassageView(**msgspec.structs.asdict(match))
