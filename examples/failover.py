"""A pool of two models over real HTTP, one of which fails in every way.

The vendors are fakes on this machine, so no key is needed. The first one is busy, then hangs up in
the middle of its answer, then has no credit left; the second one finishes the sentence.
"""

import asyncio

from awaken import Agent, AgentRuntime, Budget, ModelPool, ModelSpec, PoolMember, ProviderSpec
from awaken.errors import QuotaExceeded, RateLimited, StreamInterrupted
from awaken.models import ModelPrices, PoolRole
from awaken.testing import FakeModelServer, Turn

PRICES = ModelPrices(input=1.0, output=4.0)
MODELS = [
    ModelSpec(id="large", provider_id="first", upstream_model="large-1", prices=PRICES),
    ModelSpec(id="backup", provider_id="second", upstream_model="backup-1", prices=PRICES),
    ModelPool(
        id="writers",
        members=(
            PoolMember(model_id="large"),
            PoolMember(model_id="backup", role=PoolRole.FAILOVER_ONLY),
        ),
    ),
]
TROUBLE = [
    RateLimited("Slow down.", retry_after_ms=10),
    Turn("The sky is ", error=StreamInterrupted("The connection broke.")),
    QuotaExceeded("No credit left."),
]


async def main() -> None:
    agent = Agent(
        "writer",
        model="writers",
        budgets=[Budget(cost_usd=1.0)],
        config={"retry": {"backoff_base_ms": 10}},
    )
    async with FakeModelServer(TROUBLE) as first, FakeModelServer(["blue."]) as second:
        providers = {
            "first": ProviderSpec(id="first", adapter="anthropic", base_url=first.url),
            "second": ProviderSpec(id="second", adapter="openai_chat", base_url=second.url),
        }
        async with AgentRuntime([agent], models=MODELS, providers=providers) as runtime:
            result = await runtime.run("writer", "What colour is the sky?", thread_id="t1")
            stored = [record.message.text for record in await runtime.messages("t1")]
        asked = (len(first.requests), len(second.requests))

    print(result.text)
    print(f"{asked[0]} + {asked[1]} calls, ${result.usage.cost_usd:.6f}")
    assert result.text == "The sky is blue."
    assert stored == ["What colour is the sky?", "The sky is blue."]
    assert asked == (3, 1)


if __name__ == "__main__":
    asyncio.run(main())
