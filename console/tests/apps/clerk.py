"""An agent with a fault and its fix: it refunds without looking, unless its instructions say so."""

from awaken import Agent, AgentRuntime, tool
from awaken.models import InferenceRequest, ModelSpec
from awaken.server import AdminConfig, PublishRules, RequiredEval, ServerConfig
from awaken.testing import ScriptedModel, Turn

refunded: list[str] = []


@tool(effect="none")
def look_up(order: str) -> str:
    """Look up an order."""
    return f"order {order}: not paid"


@tool(effect="once")
def refund(order: str) -> str:
    """Refund an order."""
    refunded.append(order)
    return "refunded"


@tool(effect="none")
def count_refunds() -> int:
    """Count the refunds that really happened."""
    return len(refunded)


def answer(request: InferenceRequest) -> Turn:
    """Stand for a real model: look first only if the instructions say so."""
    if "You are a grader" in request.system[0]:
        verdict = "pass" if "not paid" in request.messages[-1].text else "fail"
        return Turn(f'{{"reason": "It says what was found.", "verdict": "{verdict}"}}')
    results = [it for it in request.messages if it.role == "tool"]
    if "count" in request.messages[0].text and not results:
        return Turn(calls=[("count_refunds", {})])
    if "count" in request.messages[0].text:
        return Turn(f"{results[-1].text} refunds")
    if not results:
        name = "look_up" if "look up" in request.system[0] else "refund"
        return Turn(calls=[(name, {"order": "A-1"})])
    unpaid = "not paid" in results[-1].text
    return Turn("This order was not paid." if unpaid else "You have your money back.")


clerk = Agent(
    "clerk",
    model="orders",
    instructions="Help with orders.",
    tools=[look_up, refund, count_refunds],
)
runtime = AgentRuntime(
    [clerk],
    providers={"own": ScriptedModel([answer], cycle=True)},
    models=[ModelSpec(id="orders", provider_id="own", upstream_model="orders")],
)
config = ServerConfig(
    admin=AdminConfig(publish=PublishRules(requires_eval=(RequiredEval(dataset_id="refunds"),)))
)
