"""Random schedules of two nodes on one Postgres, compared with a model after every step.

A node may lapse, beat, claim, finish and be swept at any moment. A token that was taken back is
never accepted again, and a node that beats in time loses nothing.
"""

import asyncio
import random

import msgspec
import pytest
from tests.postgres.server import new_schema, server
from tests.postgres.stores import opened
from tests.sampling import choose_size, sampled
from tests.unit.stores.test_nodes import CLAIM_MS, beat, lapse, node

from awaken.contracts.errors import LeaseLost
from awaken.contracts.storage.nodes import NodeReport
from awaken.stores.postgres import PostgresStore
from awaken.testing.store_conformance.writing import dispatch

THREADS = ("t1", "t2", "t3")
STEPS = 25
SCHEDULES = choose_size(12, 400)


class Player:
    """One node: what it is, and the claims that it believes to have."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lives = 1
        self.about = node(name)
        self.believed: dict[str, str] = {}
        """Threads by the tokens of claims."""

    def begin_anew(self) -> NodeReport:
        self.lives += 1
        self.believed.clear()
        again = f"h:1.{self.lives}:{self.name * 12}"
        self.about = msgspec.structs.replace(self.about, node_id=again)
        return self.about


class Model:
    """What must be true of the store."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[str, str]] = {}
        """The token and the node of each thread that is claimed."""
        self.lapsed: set[str] = set()
        self.over: set[str] = set()

    def sweep(self) -> set[str]:
        self.over |= self.lapsed
        back = {thread for thread, (_, by) in self.held.items() if by in self.over}
        for thread in back:
            del self.held[thread]
        return back


async def play(store: PostgresStore, rng: random.Random, steps: list[str]) -> None:
    players, model = [Player("a"), Player("b")], Model()
    for player in players:
        await store.begin_node(player.about, 60_000)
    for thread_id in THREADS:
        await store.enqueue(dispatch(f"d-{thread_id}", thread_id=thread_id))
    for number in range(STEPS):
        player = rng.choice(players)
        step = rng.choice(("beat", "beat", "lapse", "sweep", "claim", "claim", "finish"))
        steps.append(f"{player.about.node_id} {step}")
        await take(store, player, model, step, f"token-{number}", rng)


async def take(
    store: PostgresStore, player: Player, model: Model, step: str, token: str, rng: random.Random
) -> None:
    me = player.about.node_id
    match step:
        case "lapse":
            await lapse(store, player.about)
            model.lapsed.add(me)
        case "sweep":
            assert {it.thread_id for it in await store.reclaim()} == model.sweep()
        case "beat":
            answer = await beat(store, player.about)
            assert answer.is_over == (me in model.over)
            if answer.is_over:
                await store.begin_node(player.begin_anew(), 60_000)
                return
            model.lapsed.discard(me)
            mine = {held for held, by in model.held.values() if by == me}
            assert {it.claim_token for it in answer.leases} == mine
        case "claim":
            free = set(THREADS) - set(model.held)
            claimed = await store.claim(me, token, CLAIM_MS)
            assert len(claimed) == min(len(free), 1)
            for it in claimed:
                assert it.thread_id in free
                assert it.claim_token == token, "a token is used once"
                model.held[it.thread_id] = (token, me)
                player.believed[token] = it.thread_id
        case "finish" if player.believed:
            stale = rng.choice(sorted(player.believed))
            thread_id = player.believed.pop(stale)
            if model.held.get(thread_id, ("", ""))[0] == stale:
                await store.requeue(f"d-{thread_id}", stale, is_charged=False)
                del model.held[thread_id]
            else:
                with pytest.raises(LeaseLost):
                    await store.requeue(f"d-{thread_id}", stale, is_charged=False)


@sampled
def test_no_schedule_lets_a_token_live_on_after_its_thread_was_taken_back() -> None:
    async def check() -> None:
        schema = new_schema()
        for seed in range(SCHEDULES):
            steps: list[str] = []
            async with opened(schema=schema, pool_size=1) as store:
                # Making a schema takes longer than a schedule.
                tables = ", ".join(f"{schema}.{it}" for it in ("nodes", "threads", "dispatches"))
                await server().sql(f"TRUNCATE {tables} CASCADE")
                try:
                    await play(store, random.Random(seed), steps)
                except BaseException as failure:
                    failure.add_note(f"seed {seed}: {steps}")
                    raise

    asyncio.run(check())
