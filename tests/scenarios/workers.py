"""What tests of workers share: models that talk, agents that ask, and what must always hold."""

import asyncio
from typing import Any

from awaken import Agent, RunStatus
from awaken.messages import Role
from awaken.stores import Commit
from awaken.testing import (
    ScriptedModel,
    ToolCalls,
)

from .asking import Asking
from .nodes import TruthStore
from .worlds import assert_valid_at_every_commit


class Talking:
    """A model that answers every request after a while, and notes who asked and how many."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self.pause_s = pause_s
        self.asked: list[str] = []
        self.now = self.most = 0

    async def answer(self, request: Any) -> str:
        text = next(it.text for it in reversed(request.messages) if it.role is Role.USER)
        self.asked.append(text)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.pause_s)
        self.now -= 1
        return f"heard {text}"

    def agent(self, **options: Any) -> Agent:
        return Agent("agent", model=ScriptedModel([self.answer] * 5000), **options)


class Door:
    """A model that answers when it is let go."""

    def __init__(self) -> None:
        self.entered, self.let_go, self.visits = asyncio.Event(), asyncio.Event(), 0

    async def answer(self, _request: Any) -> str:
        self.visits += 1
        self.entered.set()
        await self.let_go.wait()
        return "done"

    def agent(self) -> Agent:
        return Agent("agent", model=ScriptedModel([self.answer] * 50))


async def texts(truth: TruthStore, thread_id: str = "t") -> list[tuple[str, str]]:
    checkout = await truth.checkout(thread_id)
    assert checkout is not None
    assert_valid_at_every_commit(truth.commits)
    return [(str(it.role), it.text) for it in checkout.messages]


def assert_one_writer_at_a_time(commits: list[Commit]) -> None:
    """The commits of a thread come in blocks of one claim token each."""
    blocks: dict[str, list[str]] = {}
    for commit in commits:
        tokens = blocks.setdefault(commit.thread_id, [])
        token = commit.fencing_token
        if token is not None and (not tokens or tokens[-1] != token):
            assert token not in tokens, "a claim that was lost writes again"
            tokens.append(token)


def asking_agent(answers: int = 1) -> tuple[Asking, Agent]:
    asking = Asking()
    model = ScriptedModel([ToolCalls([("ask", {"question": "?"})]), "thanks"] * answers)
    return asking, Agent("agent", model=model, tools=asking.tools)


async def open_ticket(truth: TruthStore) -> str:
    while True:
        tickets = await truth.list_tickets("t")
        checkout = await truth.checkout("t")
        run = None if checkout is None else checkout.open_run
        if tickets and run is not None and run.status is RunStatus.WAITING:
            return tickets[0].ticket_id
        await asyncio.sleep(0.01)
