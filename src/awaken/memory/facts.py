"""Facts about users and projects: remembered, found, edited, forgotten."""

import logging
from collections.abc import AsyncIterator, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from awaken.contracts.clock import Clock, IdSource
from awaken.contracts.errors import InvalidInput
from awaken.contracts.memory.engine import KeptItem, MemoryEngine, MemoryItem
from awaken.contracts.memory.errors import UnknownFact
from awaken.contracts.memory.records import (
    Fact,
    FactMatch,
    FactOrigin,
    FactPage,
    FactSource,
    Forgotten,
    MemoryLimits,
    Partition,
    can_be_kept,
)
from awaken.contracts.messages.content import replace_surrogates

from .hybrid import HybridIndex
from .kept_items import read_kept, read_listed
from .terms import split_terms
from .texts import clean_text, digest_fact
from .transcripts import TranscriptSearch

logger = logging.getLogger(__name__)

EXPORTED_MAX = 1 << 31
GONE = "the item at which the previous page ended is gone; list again from the beginning"
LIMIT_MAX = 1_000
TTL_MS_MAX = 1 << 45
"""About a thousand years: the time at which a fact expires fits every store."""
_encode = msgspec.json.Encoder().encode
_FACT = msgspec.json.Decoder(Fact)


class FactBook:
    """Implements `FactAccess` over an engine."""

    def __init__(
        self,
        engine: MemoryEngine,
        index: HybridIndex,
        transcripts: TranscriptSearch,
        clock: Clock,
        ids: IdSource,
        limits: MemoryLimits,
    ) -> None:
        self._engine = engine
        self.embedder = index.embedder
        """Makes vectors of texts; None: facts are found by their words."""
        self._index = index
        self._transcripts = transcripts
        self._clock = clock
        self._ids = ids
        self.limits = limits

    async def remember(
        self,
        owner: Partition,
        texts: Sequence[str],
        source: FactSource,
        *,
        ttl_ms: int | None = None,
        once: str | None = None,
    ) -> tuple[Fact, ...]:
        """Remember texts, and return a fact for each.

        A fact that is known is returned as it is; if it would expire sooner, it is kept as long as
        the new one would be.
        """
        if isinstance(texts, str):
            raise InvalidInput(what="The facts", problem="give a list of texts, not a text")
        cleaned = [self._check_text(text) for text in texts]
        now = self._clock.now_ms()
        expires_at = _expiry(now, ttl_ms)
        facts = [
            Fact(
                id=self._ids.new_id(),
                text=text,
                source=source,
                created_at=now,
                updated_at=now,
                expires_at=expires_at,
            )
            for text in cleaned
        ]
        vectors = await self._index.embed(cleaned)
        items = [self._item(fact, vector) for fact, vector in zip(facts, vectors, strict=True)]
        limit = self.limits.facts_per_owner
        added = await self._engine.add(owner, items, limit=limit, mark=once)
        if added is None:
            return ()
        return tuple(
            [
                _read_fact(it.item) if it.is_new else await self._renew(owner, it.item, new)
                for it, new in zip(added, items, strict=True)
            ]
        )

    async def was_done(self, owner: Partition, once: str) -> bool:
        """Whether `remember` was called with this `once`."""
        return await self._engine.has_mark(owner, once)

    async def get(self, owner: Partition, fact_id: str) -> Fact:
        """Return a fact."""
        found = await self._engine.find(owner, _check_id(fact_id))
        if found is None:
            raise UnknownFact(fact_id=fact_id)
        return _read_fact(found)

    async def list_facts(
        self, owner: Partition, *, cursor: str | None = None, limit: int = 100
    ) -> FactPage:
        """List facts, oldest first."""
        wanted = check_limit(limit)
        if cursor is not None and not can_be_kept(cursor):
            raise InvalidInput(what="The cursor", problem=GONE)
        found = await self._engine.list_items(owner, after=cursor, limit=wanted + 1)
        if found is None:
            raise InvalidInput(what="The cursor", problem=GONE)
        read = map(_read_listed, found[:wanted])
        facts = tuple(it for it in read if it is not None)
        return FactPage(
            items=facts, next_cursor=found[wanted - 1].id if len(found) > wanted else None
        )

    async def search(
        self, owner: Partition, query: str, *, limit: int = 10
    ) -> tuple[FactMatch, ...]:
        """Find facts by their words and, with embeddings, by their meaning; the best first."""
        found = await self._index.search(owner, query, check_limit(limit))
        return tuple(
            FactMatch(fact=fact, is_lexical=is_lexical, is_similar=is_similar)
            for item, is_lexical, is_similar in found
            if (fact := _read_listed(item)) is not None
        )

    async def edit(
        self,
        owner: Partition,
        fact_id: str,
        text: str,
        *,
        by: str | None,
        ttl_ms: int | UnsetType | None = UNSET,
    ) -> Fact:
        """Replace the text of a fact; its source says that a person wrote it.

        What is not given stays: when it expires, and the run and thread that it comes from.
        """
        before, now = await self.get(owner, fact_id), self._clock.now_ms()
        fact = msgspec.structs.replace(before, text=self._check_text(text), updated_at=now)
        if fact.text != before.text:
            source = msgspec.structs.replace(before.source, origin=FactOrigin.PERSON, by=by)
            fact = msgspec.structs.replace(fact, source=source)
        if ttl_ms is not UNSET:
            fact = msgspec.structs.replace(fact, expires_at=_expiry(now, ttl_ms))
        (vector,) = await self._index.embed([fact.text])
        if not await self._engine.update(owner, self._item(fact, vector)):
            raise UnknownFact(fact_id=fact_id)
        # The text that was there before is gone as if it had been forgotten.
        await self._engine.erase_deleted()
        return fact

    async def forget(
        self, owner: Partition, fact_id: str, *, reader: str | None = None
    ) -> Forgotten:
        """Forget a fact, and tell which transcripts of the reader still hold its text."""
        found = await self._engine.find(owner, _check_id(fact_id))
        if not await self._engine.delete(owner, [fact_id]):
            raise UnknownFact(fact_id=fact_id)
        is_erased = await self._engine.erase_deleted()
        fact = None if found is None else _read_listed(found)
        if fact is None:
            # It had expired or is damaged: its text is not shown, so that none is searched for.
            return Forgotten(facts=(), is_erased=is_erased, is_search_complete=False)
        held = await self._transcripts.find_text(owner.tenant_id, fact, reader)
        return Forgotten(
            facts=(fact,),
            is_erased=is_erased,
            transcripts=held.threads,
            is_search_complete=held.is_complete,
        )

    async def forget_all(self, owner: Partition) -> Forgotten:
        """Forget everything about an owner; the reply lists no transcripts by text."""
        facts = [fact async for fact in self.export(owner)]
        await self._engine.clear(owner)
        is_erased = await self._engine.erase_deleted()
        return Forgotten(
            facts=tuple(facts),
            is_erased=is_erased,
            transcripts=await self._transcripts.list_sources(owner.tenant_id, facts),
            is_search_complete=False,
        )

    async def export(self, owner: Partition) -> AsyncIterator[Fact]:
        """Yield every fact of an owner, oldest first, as one moment had them."""
        # Read at once, bounded by `facts_per_owner`: between two pages the last fact of the first
        # one may be forgotten, and nothing says where to go on.
        for item in await self._engine.list_items(owner, after=None, limit=EXPORTED_MAX) or ():
            if (fact := _read_listed(item)) is not None:
                yield fact

    async def _renew(self, owner: Partition, known: KeptItem, new: MemoryItem) -> Fact:
        fact = _read_listed(known)
        if fact is None:
            # The same sentence again is what a damaged fact can be restored from.
            fact = msgspec.structs.replace(_FACT.decode(new.body), id=known.id)
        elif fact.expires_at is None or (
            new.expires_at is not None and new.expires_at <= fact.expires_at
        ):
            return fact
        renewed = msgspec.structs.replace(fact, expires_at=new.expires_at)
        is_there = await self._engine.update(owner, self._item(renewed, new.vector))
        return renewed if is_there else fact

    def _check_text(self, text: str) -> str:
        if not isinstance(text, str):
            raise InvalidInput(what="A fact", problem=f"it is a {type(text).__name__}, no text")
        cleaned = clean_text(text)
        if not cleaned:
            raise InvalidInput(what="A fact", problem="it has no visible text")
        if len(cleaned) > self.limits.fact_chars:
            problem = (
                f"it has {len(cleaned)} characters; {self.limits.fact_chars} are allowed, so "
                "shorten or split it"
            )
            raise InvalidInput(what="A fact", problem=problem)
        return cleaned

    def _item(self, fact: Fact, vector: bytes | None) -> MemoryItem:
        return MemoryItem(
            id=fact.id,
            text=fact.text,
            terms=split_terms(fact.text),
            digest=digest_fact(fact.text),
            body=_encode(fact),
            created_at=fact.created_at,
            expires_at=fact.expires_at,
            vector=vector,
            model=self._index.model if vector is not None else "",
        )


def check_limit(limit: int) -> int:
    """Return how many items a caller wants, if that is allowed.

    Raises:
        InvalidInput: It is not.
    """
    if not 1 <= limit <= LIMIT_MAX:
        raise InvalidInput(what=f"limit {limit}", problem=f"choose 1 to {LIMIT_MAX}")
    return limit


def _check_id(fact_id: str) -> str:
    if not can_be_kept(fact_id):
        raise UnknownFact(fact_id=replace_surrogates(fact_id))
    return fact_id


def _expiry(now: int, ttl_ms: int | None) -> int | None:
    if ttl_ms is None:
        return None
    if not 0 < ttl_ms <= TTL_MS_MAX:
        problem = f"it must be positive, and at most {TTL_MS_MAX} ms"
        raise InvalidInput(what="The time to live", problem=problem)
    return now + ttl_ms


def read_fact_text(item: KeptItem) -> str | None:
    """Return the text of a fact, or None if it is damaged."""
    fact = _read_listed(item)
    return None if fact is None else fact.text


def _read_fact(item: KeptItem) -> Fact:
    return read_kept(item, _FACT, "Fact")


def _read_listed(item: KeptItem) -> Fact | None:
    return read_listed(item, _FACT, "Fact")
