"""The app of the image: replace it by yours."""

from awaken import Agent

assistant = Agent("assistant", model="openai:gpt-5-mini", instructions="Answer in one sentence.")
