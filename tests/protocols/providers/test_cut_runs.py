"""A run whose model is cut off at every byte of its answer ends as if it had not been."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.sampling import choose_size, sampled

from awaken import Agent, AgentRuntime, tool
from awaken.contracts.messages.message import Message, Role, Visibility
from awaken.contracts.models.model_specs import ProviderSpec
from awaken.contracts.models.stream_recovery import INTERRUPTED_PROMPT
from awaken.testing import ToolCalls, Turn, assert_valid_transcript
from awaken.testing.model_server import FakeModelServer, ModelRequest, Sent, stream_of

from .formats import CODECS

TEXT = "Grüße aus 東京 🙂"
CALLS = [("note", {"text": "ä 🙂"}), ("note", {"text": "two"})]
ANSWERS = {"text": Turn([TEXT[:5], TEXT[5:]]), "calls": Turn(TEXT, calls=ToolCalls(CALLS, split=2))}
PATHS = {wire: urlsplit(codec({}).base_url).path for wire, codec in CODECS.items()}
CUTS = 24
"""How many places of an answer `make test` tries."""
RETRY = {"backoff_base_ms": 0, "overloaded_backoff_base_ms": 0}


class Vendor:
    """Cuts its first answer after some bytes, and goes on where it is asked to."""

    def __init__(self, answer: Turn) -> None:
        self._answer = answer
        self.cut_after: int | None = None

    def __call__(self, request: ModelRequest) -> Any:
        match request.turns:
            case (*_, ("assistant", said), ("user", asked)) if asked == INTERRUPTED_PROMPT:
                return Turn(TEXT.removeprefix(said), calls=self._answer.calls)
            case (*_, ("user", "go")):
                cut, self.cut_after = self.cut_after, None
                return Sent(self._answer, cut_after=cut)
        return "done"


class Office:
    """A runtime with one agent, whose model is the vendor; it notes what it is told."""

    def __init__(self, wire: str, server: FakeModelServer) -> None:
        self.noted: list[str] = []

        @tool(effect="once")
        async def note(text: str) -> str:
            self.noted.append(text)
            return f"noted {text}"

        agent = Agent("a", model="fake:m", tools=[note], config={"retry": RETRY})
        spec = ProviderSpec(id="fake", adapter=wire, base_url=server.url + PATHS[wire])
        self.runtime = AgentRuntime([agent], providers={"fake": spec})

    async def transcript(self, thread_id: str) -> list[Message]:
        self.noted.clear()
        await self.runtime.run("a", "go", thread_id=thread_id)
        return [it.message for it in await self.runtime.messages(thread_id)]


def shape(messages: list[Message]) -> list[tuple[str, str, list[Any]]]:
    return [
        (str(it.role), it.text, [call.arguments for call in it.tool_calls or ()]) for it in messages
    ]


def check_cut(uncut: list[Message], messages: list[Message], noted: list[str]) -> bool:
    """Whether a cut run is the whole one; if not, what was given up has to be said."""
    assert_valid_transcript(messages)
    assert len(noted) == len(set(noted))
    if shape(messages) == shape(uncut):
        return True
    (hint,) = [it for it in messages if it.visibility is Visibility.INTERNAL]
    assert "not executed" in hint.text
    kept = [it for it in messages if it is not hint and it.role is not Role.TOOL]
    assert [it.text for it in kept] == ["go", TEXT, "done"]
    assert noted in ([CALLS[0][1]["text"]], [arguments["text"] for _, arguments in CALLS])
    return False


@sampled
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("wire", CODECS)
def test_a_run_cut_at_every_byte_says_everything_once(wire: str, kind: str) -> None:
    answer, vendor = ANSWERS[kind], Vendor(ANSWERS[kind])
    size = sum(map(len, stream_of(wire, answer)))

    async def scenario() -> list[int]:
        async with FakeModelServer(vendor) as server:
            office = Office(wire, server)
            async with office.runtime:
                uncut, marked = await office.transcript("uncut"), []
                for cut in range(0, size, choose_size(max(1, size // CUTS), 1)):
                    vendor.cut_after = cut
                    messages = await office.transcript(f"cut after {cut}")
                    if not check_cut(uncut, messages, office.noted):
                        marked.append(cut)
                return marked

    marked = asyncio.run(scenario())
    assert bool(marked) is (kind == "calls")
