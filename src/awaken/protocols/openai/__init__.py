"""OpenAI's Responses and Chat Completions: any OpenAI client talks to an agent.

`model` names the agent. A response is what a run does up to its end or suspension: `resp_` and
the run's id; what the run does after answers has `~` and its place in the log behind it. Calls
that the client must answer are `function_call` items or `tool_calls`. The agent's own calls are
shown as finished `mcp_call` items and not at all in chat; what waits for an approval is an
`mcp_approval_request`. `starting` says which thread a request is for.
"""
