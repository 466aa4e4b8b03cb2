"""The section `memory` of an agent."""

from typing import Annotated, ClassVar

from msgspec import Meta

from awaken.contracts.memory.records import NAME_CHARS
from awaken.contracts.record import StrictRecord

SECTION = "memory"
Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS, pattern=r"\S")]


class MemoryConfig(StrictRecord, frozen=True, kw_only=True):
    """What an agent remembers, is told and may search."""

    section: ClassVar[str] = SECTION

    project: Name | None = None
    """The project whose facts all users of the tenant share; None: no project memory."""
    inject_facts: Annotated[int, Meta(ge=0, le=100)] = 10
    """How many facts of each memory a run is told at its start; 0: none."""
    inject_chars: Annotated[int, Meta(ge=200, le=100_000)] = 6_000
    """How long the text of these facts may be."""
    ttl_days: Annotated[int, Meta(ge=1)] | None = None
    """After how many days a fact expires that a tool or an extraction wrote; None: never."""
    extract: bool = False
    """Whether the model is asked, after each run, what is worth remembering about the user."""
    extract_facts: Annotated[int, Meta(ge=1, le=20)] = 5
    """How many facts one run may add that way."""
    extract_ms: Annotated[int, Meta(ge=100, le=100_000)] = 30_000
    """How long the question may take, after the end of the run; nothing is learnt if it takes
    longer."""
    collections: tuple[Name, ...] = ()
    """The collections of documents that `search_knowledge` may search."""
