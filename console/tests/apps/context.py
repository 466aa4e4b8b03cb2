"""An agent that is told who asks, and one that takes any context: for tests of the chat."""

from dataclasses import dataclass
from typing import Any

from awaken import Agent
from awaken.testing import ScriptedModel


@dataclass
class Visitor:
    """Who asks."""

    name: str
    account: int = 0


model: Any = ScriptedModel(["Noted."], cycle=True)
greeter = Agent("greeter", model=model, context_type=Visitor, instructions="Greet {context.name}.")
open_minded = Agent("open-minded", model=model, instructions="Order {context.order}.")
