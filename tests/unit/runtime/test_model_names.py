"""`did you mean …?`: the name of a model that was probably meant."""

import pytest

from awaken import Agent, AgentRuntime
from awaken.bootstrap.known_providers import KNOWN_PROVIDERS
from awaken.errors import InvalidSpec
from awaken.runtime.resolution.model_names import suggest_model


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("gpt-5-mini", "openai:gpt-5-mini"),
        ("o3", "openai:o3"),
        ("claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
        ("gemini-2.5-pro", "google:gemini-2.5-pro"),
        ("grok-4", "xai:grok-4"),
        ("llama3.3", "ollama:llama3.3"),
        ("openai/gpt-5-mini", "openai:gpt-5-mini"),
        ("OpenAI:gpt-5-mini", "openai:gpt-5-mini"),
        ("opnai:gpt-5-mini", "openai:gpt-5-mini"),
        ("google-gla:gemini-2.5-pro", "google:gemini-2.5-pro"),
        ("google_genai:gemini-2.5-pro", "google:gemini-2.5-pro"),
        ("openai-responses:gpt-5", "openai:gpt-5"),
        ("x-ai/grok-4", "xai:grok-4"),
        ("anthropc", "anthropic:MODEL"),
        ("scriptd", "scripted"),
        ("fst", "fast"),
        ("my-own-model", ""),
        ("qzx:model", ""),
        ("", ""),
    ],
)
def test_what_was_written_leads_to_what_was_meant(written: str, meant: str) -> None:
    assert suggest_model(written, [*KNOWN_PROVIDERS, "scripted"], ["fast"]) == meant


def test_an_agent_with_a_bare_model_name_is_told_the_whole_one() -> None:
    with pytest.raises(InvalidSpec, match=r"did you mean 'openai:gpt-5-mini'\? Known: anthropic,"):
        AgentRuntime([Agent("a", model="gpt-5-mini")])
    with pytest.raises(InvalidSpec) as caught:
        AgentRuntime([Agent("a", model="my-own-model")])
    assert "did you mean" not in str(caught.value)
