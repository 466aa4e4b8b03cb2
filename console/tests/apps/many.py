"""More agents than the server lists at once."""

from awaken import Agent, AgentRuntime

runtime = AgentRuntime(
    [Agent(f"agent-{number:04d}", model="scripted") for number in range(1_002)],
)
