"""openai-agents with RunConfig(tracing_disabled=True)."""

from adapters.openai_agents_ import OpenAIAgents


class OpenAIAgentsNoTrace(OpenAIAgents):
    name = "openai-agents(notrace)"
    note = "tracing disabled"
    tracing = False


ADAPTER = OpenAIAgentsNoTrace
