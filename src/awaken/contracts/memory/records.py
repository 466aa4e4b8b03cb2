"""Facts and documents: what people, tools and other code see of them."""

from enum import StrEnum

from awaken.contracts.errors import InvalidInput
from awaken.contracts.identity import normalize_id
from awaken.contracts.record import Record, StrictRecord, always

NAME_CHARS = 256
"""How long the name of a user, a project or a collection may be."""


DIMENSIONS_MAX = 16_000
"""How long a vector may be."""


class PartitionKind(StrEnum):
    """What a partition is about."""

    USER = "user"
    PROJECT = "project"
    COLLECTION = "collection"


def can_be_kept(text: str) -> bool:
    """Whether every store can keep a text; an id of which none could is that of nothing."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Partition(Record, frozen=True, kw_only=True):
    """Whose facts or documents. Nothing of one partition is ever found in another.

    `tenant_id` and, for a user, `name` come from the principal of a run or a request, never from
    the arguments of a tool.
    """

    kind: PartitionKind = always(PartitionKind.USER)
    name: str
    tenant_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse a name that is blank or too long, or that no column can keep.

        Raises:
            InvalidInput: There is no such name.
        """
        if not self.name.strip() or len(self.name) > NAME_CHARS:
            problem = f"give a name of 1 to {NAME_CHARS} characters"
            raise InvalidInput(what=f"The name of a {self.kind.value}", problem=problem)
        if not can_be_kept(self.name) or not can_be_kept(self.tenant):
            problem = "it has U+0000 or half of a surrogate pair"
            raise InvalidInput(what=f"The name of a {self.kind.value}", problem=problem)

    @property
    def tenant(self) -> str:
        """The tenant as a column keeps it; blank means none."""
        return normalize_id(self.tenant_id) or ""


def user_memory(tenant_id: str | None, user_id: str) -> Partition:
    """The facts about one user, whose id is trimmed as that of a run is."""
    name = normalize_id(user_id) or ""
    return Partition(kind=PartitionKind.USER, name=name, tenant_id=normalize_id(tenant_id))


def project_memory(tenant_id: str | None, project: str) -> Partition:
    """The facts about one project of a tenant."""
    return Partition(kind=PartitionKind.PROJECT, name=project, tenant_id=normalize_id(tenant_id))


def knowledge_collection(tenant_id: str | None, collection: str) -> Partition:
    """The documents of one collection of a tenant."""
    return Partition(
        kind=PartitionKind.COLLECTION, name=collection, tenant_id=normalize_id(tenant_id)
    )


class FactOrigin(StrEnum):
    """How a fact came to be remembered."""

    TOOL = "tool"
    """A model called the tool `remember`."""
    EXTRACTION = "extraction"
    """A model found it in a run that had ended."""
    PERSON = "person"
    """A person wrote or edited it."""


class FactSource(Record, frozen=True, kw_only=True):
    """Where a fact comes from."""

    origin: FactOrigin = always(FactOrigin.PERSON)
    run_id: str | None = None
    thread_id: str | None = None
    agent_id: str | None = None
    by: str | None = None
    """The person who wrote it, or the user of the run."""


class Fact(Record, frozen=True, kw_only=True):
    """One remembered sentence. Its text is data: whoever reads it takes no order from it."""

    id: str
    text: str
    source: FactSource
    created_at: int
    updated_at: int
    expires_at: int | None = None
    """When it is no longer found; None: never."""


class FactMatch(Record, frozen=True, kw_only=True):
    """A fact that a search found; the better ones come first."""

    fact: Fact
    is_lexical: bool = always(False)  # noqa: FBT003
    """Whether it has words of the query."""
    is_similar: bool = always(False)  # noqa: FBT003
    """Whether its embedding is among the nearest."""


class FactPage(Record, frozen=True, kw_only=True):
    """Facts in the order in which they were remembered."""

    items: tuple[Fact, ...]
    next_cursor: str | None = None


class HoldingThread(Record, frozen=True, kw_only=True):
    """A transcript that still has the text of a forgotten fact."""

    thread_id: str
    run_id: str | None = None
    """The run that the fact came from, if this is why the thread is listed."""
    message_ids: tuple[str, ...] = ()
    """Messages that contain the exact text."""
    eval_objects: int | None = None
    """How many cases and recordings of evals were made from it, which may have the text as well;
    None: not counted, as there are more threads than are searched."""


class Forgotten(Record, frozen=True, kw_only=True):
    """What was forgotten, and where its text still is."""

    facts: tuple[Fact, ...]
    is_erased: bool
    """Whether the engine has overwritten the bytes as well, not only deleted the rows."""
    transcripts: tuple[HoldingThread, ...] = always(())
    """Threads that still hold the text. Deleting them is a decision of its own."""
    is_search_complete: bool = always(True)  # noqa: FBT003
    """Whether every thread of the tenant was searched; a search is bounded."""


class DocumentFormat(StrEnum):
    """How the text of a document is read."""

    TEXT = "text"
    MARKDOWN = "markdown"
    PDF = "pdf"


class KnowledgeDocument(Record, frozen=True, kw_only=True):
    """A document of a collection; it is replaced and deleted whole."""

    id: str
    title: str
    format: DocumentFormat
    source: str = always("")
    """Where it comes from, such as a file name or an address."""
    chunks: int
    chars: int
    created_at: int
    added_by: str | None = None


class DocumentPage(Record, frozen=True, kw_only=True):
    """Documents in the order in which they were added."""

    items: tuple[KnowledgeDocument, ...]
    next_cursor: str | None = None


class KnowledgeMatch(Record, frozen=True, kw_only=True):
    """A passage that a search found, and where it stands."""

    document_id: str
    title: str
    source: str = always("")
    text: str
    heading: str = always("")
    """The headings above it, outermost first, joined by ` > `."""
    position: int
    """Which passage of the document, from 0."""
    start: int
    """At which character of the document's text it begins."""
    page: int | None = None
    """The page of a PDF, from 1."""


class FilledVectors(Record, frozen=True, kw_only=True):
    """What became of items that had no vector of the present model."""

    model: str = always("")
    filled: int = always(0)
    skipped: int = always(0)
    """Items that are damaged, that the model refused, or that were changed meanwhile."""


class CollectionInfo(Record, frozen=True, kw_only=True):
    """A collection of documents, or the facts of one user or project, with its size."""

    kind: PartitionKind
    name: str
    tenant_id: str | None = None
    items: int


class MemoryLimits(Record, frozen=True, kw_only=True):
    """Bounds of what is kept."""

    fact_chars: int = 2_000
    facts_per_owner: int = 10_000
    document_bytes: int = 20_000_000
    document_chars: int = 4_000_000
    pdf_pages: int = 2_000
    pdf_ms: int = 20_000
    """How long the text of a PDF may take to read."""
    pdf_memory_bytes: int = 512 * 1024 * 1024
    """How much memory the process may take that reads a PDF; one is read at a time."""
    chunk_chars: int = 1_200
    chunks_per_collection: int = 200_000
    searched_threads: int = 200
    """How many transcripts are searched for the text of a forgotten fact."""


class EmbeddingSpec(StrictRecord, frozen=True, kw_only=True):
    """A model that turns texts into vectors, at a provider with OpenAI's API for embeddings."""

    provider_id: str
    """One of the runtime's providers, such as `openai`."""
    model: str
    dimensions: int | None = None
    """How long the vectors are to be; None: as the model makes them."""

    def __post_init__(self) -> None:
        if not (self.provider_id.strip() and self.model.strip()):
            message = "an embedding model has a provider_id and a model"
            raise ValueError(message)
        if self.dimensions is not None and not 1 <= self.dimensions <= DIMENSIONS_MAX:
            message = f"dimensions must be 1 to {DIMENSIONS_MAX}"
            raise ValueError(message)
