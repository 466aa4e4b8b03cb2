"""A personal assistant: it remembers who it talks to, and looks things up in a handbook.

Facts belong to the user of a run, whom the server knows by the token and a script by `user_id`. The
handbook is a collection of documents, ingested when the runtime opens.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from scripted_assistant import scripted_assistant

from awaken import Agent, AgentRuntime
from awaken.extensions.memory import (
    DocumentDraft,
    DocumentFormat,
    MemoryConfig,
    MemoryPlugin,
    knowledge_collection,
)

HANDBOOK = Path(__file__).with_name("handbook.md")
COLLECTION = "handbook"

memory = MemoryPlugin(MemoryConfig(collections=(COLLECTION,), ttl_days=365))
assistant = Agent(
    "assistant",
    model=os.environ.get("AGENT_MODEL") or scripted_assistant(),
    instructions=(
        "You are a personal assistant. Remember lasting facts about the user with `remember`, and "
        "forget them with `forget` when the user asks. Look up the handbook before you answer "
        "questions about the company."
    ),
    plugins=[memory],
)


async def ingest_handbook(runtime: AgentRuntime) -> None:
    """Make the handbook searchable; the same file replaces its earlier version."""
    draft = DocumentDraft(
        data=HANDBOOK.read_bytes(), format=DocumentFormat.MARKDOWN, source=HANDBOOK.name
    )
    await runtime.knowledge.ingest(knowledge_collection(None, COLLECTION), draft)


@asynccontextmanager
async def open_handbook() -> AsyncIterator[None]:
    """Ingest the handbook when the runtime opens."""
    await ingest_handbook(runtime)
    yield


runtime = AgentRuntime(
    [assistant], store=os.environ.get("ASSISTANT_STORE", "memory://"), deps=open_handbook
)
