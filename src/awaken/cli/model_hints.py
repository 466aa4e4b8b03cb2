"""Guesses which model was meant when its provider does not know it, from the extra `pricing`."""

import importlib
import importlib.util
from difflib import get_close_matches
from typing import Any

from awaken.contracts.models.errors import ModelNotFound

_PACKAGE = "genai_prices"
_VENDORS = {"xai": "x-ai", "bedrock": "aws", "openai-chat": "openai"}
"""Names of providers in the price list that differ from ours."""

NOT_FOUND = ModelNotFound.code


def suggest_known_model(model_id: str) -> str:
    """A sentence with the name of a known model of the same provider; empty if none is near.

    The list is part of a package that need not be installed; nothing is asked of the provider.
    """
    provider, _, model = model_id.partition(":")
    if not model or importlib.util.find_spec(_PACKAGE) is None:
        return ""
    vendors: Any = importlib.import_module(f"{_PACKAGE}.data").providers
    wanted = _VENDORS.get(provider, provider)
    known = [it.id for vendor in vendors if vendor.id == wanted for it in vendor.models]
    near = [it for it in get_close_matches(model, known, n=2) if it != model]
    return f"Did you mean '{provider}:{near[0]}'?" if near else ""
