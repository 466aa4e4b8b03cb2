"""An answer as a value: `output_type` names its type, the runtime decodes and checks it.

The model's first answer has a field of the wrong type. The runtime says so to the model, and the
second answer fits.
"""

import asyncio

import msgspec

from awaken import Agent, AgentRuntime, RunFailed
from awaken.testing import ScriptedModel


class Trip(msgspec.Struct):
    """What we want to know about a trip."""

    city: str
    days: int
    highlights: list[str] = []


WRONG = '{"city": "Rome", "days": "three"}'
RIGHT = '{"city": "Rome", "days": 3, "highlights": ["Forum", "Pantheon"]}'


async def cause_of_failure(runtime: AgentRuntime) -> str | None:
    """A model that never gets it right fails the run."""
    try:
        await runtime.run("stubborn", "Plan three days in Rome.")
    except RunFailed as error:
        print(f"Given up: {error}")
        return error.cause_code
    return None


async def main() -> None:
    patient = ScriptedModel([WRONG, RIGHT])
    stubborn = ScriptedModel([WRONG], cycle=True)
    agents = [
        Agent("planner", model=patient, output_type=Trip),
        Agent("stubborn", model=stubborn, output_type=Trip),
    ]
    async with AgentRuntime(agents) as runtime:
        result = await runtime.run("planner", "Plan three days in Rome.")
        print(result.output)
        print(f"The model was told: {patient.requests[1].messages[-1].text}")

        assert result.output == Trip(city="Rome", days=3, highlights=["Forum", "Pantheon"])
        assert result.steps == 2

        cause = await cause_of_failure(runtime)
        assert cause == "invalid_output"


if __name__ == "__main__":
    asyncio.run(main())
