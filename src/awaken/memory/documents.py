"""Documents of a collection: ingested, searched, replaced and deleted whole."""

import asyncio
import codecs
import hashlib
from collections.abc import Sequence

import msgspec

from awaken.contracts.clock import Clock
from awaken.contracts.errors import InvalidInput
from awaken.contracts.identity import derive_id
from awaken.contracts.memory.access import DocumentDraft
from awaken.contracts.memory.engine import KeptItem, MemoryEngine, MemoryItem
from awaken.contracts.memory.errors import MemoryFull, UnknownDocument, UnreadableDocument
from awaken.contracts.memory.records import (
    DocumentFormat,
    DocumentPage,
    KnowledgeDocument,
    KnowledgeMatch,
    MemoryLimits,
    Partition,
    can_be_kept,
)
from awaken.contracts.messages.content import replace_surrogates
from awaken.contracts.record import Record

from .facts import GONE, check_limit
from .hybrid import HybridIndex
from .kept_items import read_kept, read_listed
from .passages import Passage, cut_markdown, cut_text
from .pdf_text import PdfReader
from .terms import split_terms
from .texts import clean_text

TITLE_CHARS = 300
SOURCE_CHARS = 1_000
ID_CHARS = 256
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class KeptPassage(Record, frozen=True, kw_only=True):
    """A passage as it is stored, with the document that it is of."""

    match: KnowledgeMatch
    document: KnowledgeDocument | None = None
    """Only the first passage of a document has it."""


_encode = msgspec.json.Encoder().encode
_PASSAGE = msgspec.json.Decoder(KeptPassage)


class KnowledgeBase:
    """Implements `KnowledgeAccess` over an engine."""

    def __init__(
        self, engine: MemoryEngine, index: HybridIndex, clock: Clock, limits: MemoryLimits
    ) -> None:
        self._engine = engine
        self._index = index
        self._clock = clock
        self.limits = limits
        self._pdfs = PdfReader(limits)

    async def ingest(self, collection: Partition, draft: DocumentDraft) -> KnowledgeDocument:
        """Read a document, cut it into passages and make them searchable."""
        document_id = _check_id(draft, collection)
        text, passages = await self._read(draft)
        if not passages:
            raise UnreadableDocument(problem="it has no text")
        if len(passages) > (limit := self.limits.chunks_per_collection):
            # Before anything is paid for: its vectors, and a write that all others wait for.
            raise MemoryFull(what=f"The memory of collection '{collection.name}'", limit=limit)
        document = KnowledgeDocument(
            id=document_id,
            title=clean_text(draft.title or draft.source or document_id)[:TITLE_CHARS],
            format=draft.format,
            source=clean_text(draft.source)[:SOURCE_CHARS],
            chunks=len(passages),
            chars=len(text),
            created_at=self._clock.now_ms(),
            added_by=draft.added_by,
        )
        vectors = await self._index.embed([it.text for it in passages])
        # Off the event loop: the words of a long document take a second.
        items = await asyncio.to_thread(self._make_items, document, passages, vectors)
        had_any = await self._engine.replace_group(collection, document_id, items, limit=limit)
        if had_any:
            await self._engine.erase_deleted()
        return document

    async def search(
        self, collection: Partition, query: str, *, limit: int = 8
    ) -> tuple[KnowledgeMatch, ...]:
        """Find passages by their words and, with embeddings, by their meaning; the best first."""
        found = await self._index.search(collection, query, check_limit(limit))
        read = (read_listed(item, _PASSAGE, "Passage") for item, _, _ in found)
        return tuple(it.match for it in read if it is not None)

    async def list_documents(
        self, collection: Partition, *, cursor: str | None = None, limit: int = 100
    ) -> DocumentPage:
        """List documents in the order in which they were added."""
        wanted = check_limit(limit)
        if cursor is not None and not can_be_kept(cursor):
            raise InvalidInput(what="The cursor", problem=GONE)
        after = None if cursor is None else _first_id(cursor)
        found = await self._engine.list_items(collection, after=after, limit=wanted + 1, position=0)
        if found is None:
            raise InvalidInput(what="The cursor", problem=GONE)
        read = [read_listed(it, _PASSAGE, "Passage") for it in found[:wanted]]
        documents = tuple(it.document for it in read if it is not None and it.document is not None)
        last = found[wanted - 1].group if len(found) > wanted else None
        return DocumentPage(items=documents, next_cursor=last)

    async def get(self, collection: Partition, document_id: str) -> KnowledgeDocument:
        """Return a document."""
        found = None
        if can_be_kept(document_id):
            found = await self._engine.find(collection, _first_id(document_id))
        if found is None:
            named = replace_surrogates(document_id)
            raise UnknownDocument(document_id=named, collection=collection.name)
        return _read_document(found)

    async def delete(self, collection: Partition, document_id: str) -> KnowledgeDocument:
        """Delete a document whole, and return what it was."""
        document = await self.get(collection, document_id)
        await self._engine.delete_group(collection, document_id)
        await self._engine.erase_deleted()
        return document

    async def _read(self, draft: DocumentDraft) -> tuple[str, list[Passage]]:
        """Return the text and the passages of a document; the work is done off the event loop."""
        data = draft.data.encode("utf-8", "replace") if isinstance(draft.data, str) else draft.data
        if len(data) > self.limits.document_bytes:
            problem = f"it has {len(data)} bytes; {self.limits.document_bytes} are allowed"
            raise UnreadableDocument(problem=problem)
        pages = await self._pdfs.read(data) if draft.format is DocumentFormat.PDF else None
        return await asyncio.to_thread(self._cut, draft.format, data, pages)

    def _cut(
        self, format_: DocumentFormat, data: bytes, pages: list[str] | None
    ) -> tuple[str, list[Passage]]:
        size = self.limits.chunk_chars
        if pages is not None:
            found: list[Passage] = []
            cleaned = [clean_text(page) for page in pages]
            start = 0
            for number, page in enumerate(cleaned, 1):
                cut = cut_text(page, size, start)
                found += [msgspec.structs.replace(it, page=number) for it in cut]
                start += len(page) + 1
            return "\n".join(cleaned), found
        # Some programs save "Unicode" as UTF-16; its mark is no text in UTF-8.
        encoding = "utf-16" if data[:2] in UTF_16_MARKS else "utf-8-sig"
        try:
            decoded = data.decode(encoding)
        except UnicodeDecodeError as error:
            problem = "it is not UTF-8 text; save it as UTF-8, or name its format"
            raise UnreadableDocument(problem=problem) from error
        text = clean_text(decoded)
        if len(text) > self.limits.document_chars:
            problem = f"it has {len(text)} characters; {self.limits.document_chars} are allowed"
            raise UnreadableDocument(problem=problem)
        is_markdown = format_ is DocumentFormat.MARKDOWN
        return text, list(cut_markdown(text, size) if is_markdown else cut_text(text, size))

    def _make_items(
        self,
        document: KnowledgeDocument,
        passages: Sequence[Passage],
        vectors: Sequence[bytes | None],
    ) -> list[MemoryItem]:
        return [
            self._item(document, place, passage, vector)
            for place, (passage, vector) in enumerate(zip(passages, vectors, strict=True))
        ]

    def _item(
        self, document: KnowledgeDocument, place: int, passage: Passage, vector: bytes | None
    ) -> MemoryItem:
        match = KnowledgeMatch(
            document_id=document.id,
            title=document.title,
            source=document.source,
            text=passage.text,
            heading=passage.heading,
            position=place,
            start=passage.start,
            page=passage.page,
        )
        kept = KeptPassage(match=match, document=document if place == 0 else None)
        item_id = _first_id(document.id) if place == 0 else derive_id(document.id, str(place))
        return MemoryItem(
            id=item_id,
            text=passage.text,
            terms=(*split_terms(passage.heading), *split_terms(passage.text)),
            # Two documents may have the same passage: it is found in both of them.
            digest=hashlib.sha256(f"{document.id}\0{place}".encode()).hexdigest(),
            body=_encode(kept),
            group=document.id,
            position=place,
            created_at=document.created_at,
            vector=vector,
            model=self._index.model if vector is not None else "",
        )


def read_passage_text(item: KeptItem) -> str | None:
    """Return the text of a passage, or None if it is damaged."""
    passage = read_listed(item, _PASSAGE, "Passage")
    return None if passage is None else passage.match.text


def _check_id(draft: DocumentDraft, collection: Partition) -> str:
    if draft.id is None:
        given = draft.source or (draft.data if isinstance(draft.data, str) else draft.data.hex())
        return derive_id(collection.tenant, collection.name, replace_surrogates(given))
    if not draft.id.strip() or len(draft.id) > ID_CHARS or not draft.id.isprintable():
        problem = f"use 1 to {ID_CHARS} visible characters"
        raise InvalidInput(what="The id of a document", problem=problem)
    return draft.id


def _first_id(document_id: str) -> str:
    """The id of the first passage of a document, which has the document itself."""
    return derive_id(document_id, "0")


def _read_document(item: KeptItem) -> KnowledgeDocument:
    document = read_kept(item, _PASSAGE, "Passage").document
    assert document is not None
    return document
