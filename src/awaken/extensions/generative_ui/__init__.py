"""User interfaces that models write: A2UI surfaces, JSON render specs and OpenUI Lang programs.

Belongs here: the formats, their validation before a client renders them, and the tools that a
model uses for them. Does not: rendering, which is the client's part.

`GenerativeUiPlugin` offers the tools that an agent's section `generative_ui` enables.
"""

from .config import GenerativeUiConfig, JsonRenderConfig, OpenUiConfig
from .json_patch import PatchRefused
from .openui_syntax import SyntaxRefused
from .plugin import GenerativeUiPlugin
from .prompts import json_render_rules, openui_rules

__all__ = [
    "GenerativeUiConfig",
    "GenerativeUiPlugin",
    "JsonRenderConfig",
    "OpenUiConfig",
    "PatchRefused",
    "SyntaxRefused",
    "json_render_rules",
    "openui_rules",
]
