"""The words of other frameworks, for the errors of programs that use one of them here.

Loaded by such an error only.
"""

import difflib
import inspect
from collections.abc import Iterable, Mapping

_FIELDS: Mapping[str, str] = {
    "agents": "AgentRuntime([…]) has several agents",
    "backstory": "write it into instructions=",
    "checkpointer": "a store keeps conversations: AgentRuntime([agent], store='sqlite:///awaken.db')",
    "deps": "they belong to the runtime: AgentRuntime([agent], deps=…)",
    "deps_type": "a value of each run has context_type=; shared objects are AgentRuntime(deps=…)",
    "goal": "write it into instructions=",
    "handoff_description": "write description=",
    "handoffs": "write plugins=[HandoffPlugin([…])], from awaken.extensions.handoff",
    "input_guardrails": "write plugins=[GuardrailsPlugin()], from awaken.extensions.guardrails",
    "max_turns": "write max_rounds=",
    "mcp_servers": "write plugins=[McpPlugin(…)], from awaken.extensions.mcp",
    "knowledge": "write plugins=[MemoryPlugin(MemoryConfig(collections=(…)))], "
    "from awaken.extensions.memory",
    "memory": "a store keeps conversations: AgentRuntime([agent], store='sqlite:///awaken.db'); "
    "facts across them: plugins=[MemoryPlugin()], from awaken.extensions.memory",
    "name": "the id is the first argument: Agent('helper', model=…)",
    "output_guardrails": "write plugins=[GuardrailsPlugin()], or output_validators=[…]",
    "output_schema": "write output_type=",
    "prompt": "write instructions=",
    "recursion_limit": "write max_rounds=",
    "response_format": "write output_type=",
    "response_model": "write output_type=",
    "result_type": "write output_type=",
    "retries": "write output_retries=, and @tool(retries=…) for a tool",
    "role": "write it into instructions=",
    "sections": "write config=[…], with the section of each plugin, such as MemoryConfig(…)",
    "state_schema": "a value of each run has context_type=",
    "sub_agents": "write delegates=[…]",
    "subagents": "write delegates=[…]",
    "system_message": "write instructions=",
    "system_prompt": "write instructions=",
    "toolsets": "write tools=[…]",
}
_ATTRIBUTES: Mapping[str, str] = {
    "ainvoke": "write await agent.run(…)",
    "as_tool": "another agent asks it with delegates=[agent], or Delegate(agent, arguments=…)",
    "invoke": "write agent.run_sync(…)",
    "iter": "write runtime.stream(agent, …)",
    "kickoff": "write agent.run_sync(…)",
    "name": "write agent.id",
    "output_validator": "write Agent(…, output_validators=[function])",
    "override": "a test passes a model of its own: Agent(…, model=ScriptedModel([…]))",
    "run_stream": "write agent.stream_text(…), or runtime.stream(agent, …) for all events",
    "run_streamed": "write agent.stream_text(…), or runtime.stream(agent, …) for all events",
    "stream": "write agent.stream_text(…), or runtime.stream(agent, …) for all events",
    "system_prompt": "write Agent(…, instructions=function)",
    "tool": "write @tool at the function, and Agent(…, tools=[function])",
    "tool_plain": "write @tool at the function, and Agent(…, tools=[function])",
}


def explain_fields(given: Iterable[str], signature: inspect.Signature) -> str | None:
    """Return what to write in place of the first field that an agent does not have, or None."""
    names = sorted(signature.parameters.keys() - {"self"})
    for name in given:
        if name in names:
            continue
        if name in _FIELDS:
            return f"there is no '{name}'; {_FIELDS[name]}"
        close = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean '{close[0]}'?" if close else f"; the fields are: {', '.join(names)}"
        return f"there is no '{name}'{hint}"
    return None


def explain_attribute(name: str) -> str:
    """Return what to write in place of an attribute that an agent does not have, or nothing."""
    return f"; {_ATTRIBUTES[name]}" if name in _ATTRIBUTES else ""
