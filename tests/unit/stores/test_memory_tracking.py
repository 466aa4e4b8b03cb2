"""Ended runs of the memory store give the garbage collector little to visit."""

import asyncio
import gc
from collections import Counter

from awaken import Agent, AgentRuntime
from awaken.testing import ScriptedModel

RUNS = 40


class ForgetfulModel(ScriptedModel):
    """Keeps no requests, which refer to the messages of their runs."""

    def stream(self, request):  # type: ignore[no-untyped-def]
        self.requests.clear()
        return super().stream(request)


def count_tracked() -> Counter[str]:
    gc.collect()
    return Counter(type(it).__name__ for it in gc.get_objects())


async def count_left_by_runs() -> dict[str, int]:
    model = ForgetfulModel(["Hello."], cycle=True)
    async with AgentRuntime([Agent("a", model=model)]) as runtime:
        for _ in range(5):
            await runtime.run("a", "hi")
        before = count_tracked()
        for _ in range(RUNS):
            await runtime.run("a", "hi")
        more = count_tracked() - before
    return {name: count for name, count in more.items() if count >= RUNS}


def test_an_ended_run_leaves_two_messages_and_three_containers() -> None:
    # The lists of its thread's messages and events, and the messages of its last commit.
    expected = {"Message": 2 * RUNS, "list": 2 * RUNS, "tuple": RUNS}
    assert asyncio.run(count_left_by_runs()) == expected
