"""OpenAI's Responses and Chat Completions: any OpenAI client can call an agent.

`model` names the agent. A response is a run up to its end or suspension, with the id `resp_` and
the run's id; a later response of the same run also has `~` and its position in the log. Calls that
the client must answer are `function_call` items or `tool_calls`. The agent's own calls are finished
`mcp_call` items, and are not shown in chat; a call that waits for an approval is an
`mcp_approval_request`. `starting` finds the thread of a request.
"""
