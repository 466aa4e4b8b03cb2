"""The cost of models: their configured prices, else the price list of the extra `pricing`."""

import importlib
import importlib.util
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from awaken.contracts.clock import Clock
from awaken.contracts.models.inference import TokenUsage
from awaken.contracts.models.model_specs import NANOS, ModelPrices, ModelSpec

_PACKAGE = "genai_prices"
_VENDORS = {"gemini": "google", "vertex": "google", "bedrock": "aws", "xai": "x-ai", "grok": "x-ai"}
"""Names of vendors in the price list that differ from the usual ones."""
_FREE = frozenset({"scripted"})
_NAMES = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
}


class KnownPrices:
    """A `PriceList`. The list is part of its package; it is read on first use, never online.

    A model or a vendor that is not in the list has no price; nothing is guessed.
    """

    __slots__ = ("_clock", "_fixed", "_has_list")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._has_list: bool | None = None
        self._fixed: dict[tuple[str, str], ModelPrices | None] = {}
        """Prices that depend neither on the time nor on the size of a request; None: no price."""

    def nanos(self, model: ModelSpec, usage: TokenUsage) -> int | None:
        """Return the cost in billionths of a US dollar, or None if the price is not known."""
        if model.prices is not None:
            return model.prices.nanos(usage)
        name = (model.provider_id, model.upstream_model)
        if name in self._fixed:
            fixed = self._fixed[name]
            return None if fixed is None else fixed.nanos(usage)
        if model.provider_id in _FREE or not self._is_installed():
            self._fixed[name] = None
            return None
        return self._look_up(name, usage)

    def _is_installed(self) -> bool:
        if self._has_list is None:
            self._has_list = importlib.util.find_spec(_PACKAGE) is not None
        return self._has_list

    def _look_up(self, name: tuple[str, str], usage: TokenUsage) -> int | None:
        prices: Any = importlib.import_module(_PACKAGE)
        moment = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        try:
            found = prices.calc_price(
                _convert_usage(prices, usage),
                name[1],
                provider_id=_VENDORS.get(name[0], name[0]),
                genai_request_timestamp=moment,
            )
        except LookupError:
            self._fixed[name] = None
            return None
        fixed = _find_fixed(found.model.prices)
        if fixed is not None:
            self._fixed[name] = fixed
            return fixed.nanos(usage)
        total: Decimal = found.total_price
        return round(total * NANOS)


def _convert_usage(prices: Any, usage: TokenUsage) -> Any:
    """Return the usage in the form of the price list, whose counts must be consistent."""
    read, written = usage.cache_read_tokens or 0, usage.cache_creation_tokens or 0
    return prices.Usage(
        input_tokens=max(usage.prompt_tokens or 0, read + written),
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=usage.completion_tokens or 0,
    )


def _find_fixed(listed: Any) -> ModelPrices | None:
    """Return plain prices per token, which are faster to compute; None if other fees apply."""
    if isinstance(listed, list) or getattr(listed, "requests_kcount", None) is not None:
        return None
    found: dict[str, float] = {}
    for theirs, ours in _NAMES.items():
        price = getattr(listed, theirs, None)
        if price is None:
            continue
        if not isinstance(price, Decimal):
            return None
        found[ours] = float(price)
    return ModelPrices(**found) if found.keys() >= {"input", "output"} else None
