"""Facts about users and projects: callers have their own, an operator those of others."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from awaken.contracts.config.audit import AuditAction
from awaken.contracts.memory.records import (
    NAME_CHARS,
    CollectionInfo,
    Fact,
    FactOrigin,
    FactPage,
    FactSource,
    Forgotten,
    Partition,
    PartitionKind,
    project_memory,
    user_memory,
)
from awaken.contracts.record import StrictRecord
from awaken.contracts.tenancy import namespace_of, remove_namespace
from awaken.transport.asgi import Bytes, Header, Reply, as_json, encode_json
from awaken.transport.problems import HttpError
from awaken.transport.routes import Access, RouteCall

from .context import OperatorContext, OperatorList

_NDJSON: Header = (b"content-type", b"application/x-ndjson")
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS, pattern=r"^[^\x00-\x1f\x7f]*$")]
Query = Annotated[str, Meta(min_length=1, max_length=4_000)]
FactText = Annotated[str, Meta(min_length=1, max_length=20_000)]
Ttl = Annotated[int, Meta(ge=1, le=1 << 45)]
Limit = Annotated[int, Meta(ge=1, le=1_000)]


class WhoseMemory(StrictRecord, frozen=True, kw_only=True):
    """Whose facts: the caller's own unless a project, or for an operator another user, is named."""

    project: Name | None = None
    """The facts of a project instead of a user's."""
    user_id: Name | None = None
    """Another user; needs the scope `operate`."""
    tenant_id: Name | None = None
    """Another tenant; needs the scope `operate`, and a token without a tenant."""


class FactsQuery(WhoseMemory, frozen=True, kw_only=True):
    """A page of facts, oldest first; with `query` those that it finds, the best first."""

    query: Query | None = None
    cursor: Name | None = None
    limit: Limit = 100


class OwnersQuery(StrictRecord, frozen=True, kw_only=True):
    """Users or projects of one tenant, or of none."""

    kind: PartitionKind = PartitionKind.USER
    tenant_id: Name | None = None


class WriteFact(StrictRecord, frozen=True, kw_only=True):
    """The text of a fact, and for how long it holds."""

    text: FactText
    ttl_ms: Ttl | None = None


class EditFact(StrictRecord, frozen=True, kw_only=True):
    """The new text of a fact; what is left out stays as it is."""

    text: FactText
    ttl_ms: Ttl | UnsetType | None = UNSET
    """For how long it holds from now on; null: for ever."""
    expected_updated_at: Annotated[int, Meta(ge=0)] | None = None
    """The `updated_at` of the fact that was read; a later one refuses the request."""


class FactView(msgspec.Struct, frozen=True, kw_only=True):
    """A fact and where it comes from; times in milliseconds."""

    id: str
    text: str
    origin: FactOrigin
    created_at: int
    updated_at: int
    expires_at: int | None
    run_id: str | None
    thread_id: str | None
    agent_id: str | None
    by: str | None


class HoldingThreadView(msgspec.Struct, frozen=True, kw_only=True):
    """A transcript that still has the text of a forgotten fact."""

    thread_id: str
    run_id: str | None
    message_ids: tuple[str, ...]
    eval_objects: int | None
    """How many cases and recordings of evals were made from it; null: not counted."""


class ForgottenFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was forgotten, and which transcripts still hold it."""

    facts: tuple[FactView, ...]
    is_erased: bool
    """Whether the bytes were overwritten as well, not only the rows deleted."""
    transcripts: tuple[HoldingThreadView, ...]
    is_search_complete: bool


class MemoryOwner(msgspec.Struct, frozen=True, kw_only=True):
    """A user, a project or a collection that has something, and how much."""

    kind: PartitionKind
    name: str
    tenant_id: str | None
    items: int


class MemoryStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How this server searches."""

    has_vectors: bool
    vectors_problem: str
    fact_chars: int
    facts_per_owner: int


class MemoryRoutes:
    """Lists, writes, edits, forgets and exports facts."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    async def list_facts(self, call: RouteCall) -> Reply:
        """List the facts about the caller, a project or another user, or search them."""
        asked: FactsQuery = call.query
        owner = find_owner(call, asked)
        if asked.query is not None:
            found = await self._context.memory.facts.search(owner, asked.query, limit=asked.limit)
            page = FactPage(items=tuple(it.fact for it in found))
        else:
            page = await self._context.memory.facts.list_facts(
                owner, cursor=asked.cursor, limit=asked.limit
            )
        items = tuple(_view(owner, it) for it in page.items)
        return as_json(OperatorList[FactView](items=items, next_cursor=page.next_cursor))

    async def add_fact(self, call: RouteCall) -> Reply:
        """Remember a fact; an equal one is returned as it is."""
        owner, given = find_owner(call, call.query, writes=True), call.body
        assert isinstance(given, WriteFact)
        await self._audit(call, AuditAction.CREATE, owner, "")
        source = FactSource(origin=FactOrigin.PERSON, by=call.actor)
        (fact,) = await self._context.memory.facts.remember(
            owner, [given.text], source, ttl_ms=given.ttl_ms
        )
        return as_json(_view(owner, fact), 201)

    async def get_fact(self, call: RouteCall) -> Reply:
        """Show a fact and where it comes from."""
        owner = find_owner(call, call.query)
        return as_json(_view(owner, await self._context.memory.facts.get(owner, _fact_id(call))))

    async def edit_fact(self, call: RouteCall) -> Reply:
        """Replace the text of a fact; without `ttl_ms` it expires when it did before."""
        owner, given = find_owner(call, call.query, writes=True), call.body
        assert isinstance(given, EditFact)
        seen = given.expected_updated_at
        if seen is not None:
            now = await self._context.memory.facts.get(owner, _fact_id(call))
            if now.updated_at != seen:
                message = f"Fact '{now.id}' was changed since it was read; read it again."
                raise HttpError(409, "fact_conflict", message)
        await self._audit(call, AuditAction.UPDATE, owner, _fact_id(call))
        fact = await self._context.memory.facts.edit(
            owner, _fact_id(call), given.text, by=call.actor, ttl_ms=given.ttl_ms
        )
        return as_json(_view(owner, fact))

    async def forget_fact(self, call: RouteCall) -> Reply:
        """Forget a fact; answers with the transcripts that still hold its text."""
        owner = find_owner(call, call.query, writes=True)
        await self._audit(call, AuditAction.DELETE, owner, _fact_id(call))
        reader = None if call.principal.may(Access.READ) else call.principal.id
        return _reply_forgotten(
            owner, await self._context.memory.facts.forget(owner, _fact_id(call), reader=reader)
        )

    async def forget_all(self, call: RouteCall) -> Reply:
        """Forget everything about the caller, a project or another user."""
        owner = find_owner(call, call.query, writes=True)
        await self._audit(call, AuditAction.DELETE, owner, "")
        return _reply_forgotten(owner, await self._context.memory.facts.forget_all(owner))

    async def export_facts(self, call: RouteCall) -> Reply:
        """Export every fact as one JSON document per line."""
        owner = find_owner(call, call.query)
        lines = [
            encode_json(_view(owner, fact)) + b"\n"
            async for fact in self._context.memory.facts.export(owner)
        ]
        return Bytes(200, b"".join(lines), (_NDJSON,))

    async def list_owners(self, call: RouteCall) -> Reply:
        """List the users, projects or collections that have something."""
        asked: OwnersQuery = call.query
        found = await self._context.memory.list_partitions(asked.kind, asked.tenant_id)
        return as_json(OperatorList[MemoryOwner](items=tuple(map(view_owner, found))))

    async def get_status(self, call: RouteCall) -> Reply:
        """Tell whether facts and documents are also found by their meaning."""
        memory = self._context.memory
        support = await memory.read_vector_support()
        limits = memory.facts.limits
        return as_json(
            MemoryStatus(
                has_vectors=support.is_there and memory.has_embeddings,
                vectors_problem=support.reason
                or ("" if memory.has_embeddings else "no embedding model is configured"),
                fact_chars=limits.fact_chars,
                facts_per_owner=limits.facts_per_owner,
            )
        )

    async def _audit(
        self, call: RouteCall, action: AuditAction, owner: Partition, fact_id: str
    ) -> None:
        # What callers do with facts about themselves is theirs; an act on others' is recorded.
        if owner != user_memory(call.principal.tenant_id, call.principal.id):
            name = f"memory/{owner.kind.value}/{owner.name}"
            await self._context.audit(call, action, f"{name}/{fact_id}" if fact_id else name)


def find_owner(call: RouteCall, asked: WhoseMemory, *, writes: bool = False) -> Partition:
    """Return whose facts a request is about, if the caller may see or change them.

    Raises:
        HttpError: 403, it may not; 400, it names both a user and a project.
    """
    tenant_id = check_tenant(call, asked.tenant_id)
    if asked.project is not None:
        if asked.user_id is not None:
            raise HttpError(400, "invalid_query", "Name either a user or a project.")
        if writes:
            # All users of the tenant share them.
            call.require(Access.DECIDE)
        return project_memory(tenant_id, asked.project)
    is_own = tenant_id == call.principal.tenant_id and asked.user_id in (None, call.principal.id)
    if not is_own:
        call.principal.check(Access.OPERATE)
    return user_memory(tenant_id, asked.user_id or call.principal.id)


def check_tenant(call: RouteCall, asked: str | None) -> str | None:
    """Return the tenant that a request is about, if the caller may name it.

    Raises:
        HttpError: 403, it may not.
    """
    if asked in (None, call.principal.tenant_id):
        return call.principal.tenant_id
    call.principal.check(Access.OPERATE)
    return asked


def view_owner(found: CollectionInfo) -> MemoryOwner:
    """Return a partition as routes show it."""
    return MemoryOwner(
        kind=found.kind, name=found.name, tenant_id=found.tenant_id, items=found.items
    )


def _fact_id(call: RouteCall) -> str:
    return call.path["fact_id"]


def _view(owner: Partition, fact: Fact) -> FactView:
    source, namespace = fact.source, namespace_of(owner.tenant_id)

    def own_id(stored: str | None) -> str | None:
        return None if stored is None else remove_namespace(namespace, stored)

    return FactView(
        id=fact.id,
        text=fact.text,
        origin=source.origin,
        created_at=fact.created_at,
        updated_at=fact.updated_at,
        expires_at=fact.expires_at,
        run_id=own_id(source.run_id),
        thread_id=own_id(source.thread_id),
        agent_id=source.agent_id,
        by=source.by,
    )


def _reply_forgotten(owner: Partition, gone: Forgotten) -> Reply:
    namespace = namespace_of(owner.tenant_id)
    held = tuple(
        HoldingThreadView(
            thread_id=it.thread_id,
            run_id=None if it.run_id is None else remove_namespace(namespace, it.run_id),
            message_ids=it.message_ids,
            eval_objects=it.eval_objects,
        )
        for it in gone.transcripts
    )
    return as_json(
        ForgottenFacts(
            facts=tuple(_view(owner, it) for it in gone.facts),
            is_erased=gone.is_erased,
            transcripts=held,
            is_search_complete=gone.is_search_complete,
        )
    )
