"""What a model call cost, by the list prices of a maintained table (genai-prices: shipped with it, nothing is fetched).

A price is for one call: some vendors charge a long prompt more for each token, so usages are never added up before.
Nobody's price is zero: what is not known is None, and has to be said.
"""

import os
from datetime import datetime
from decimal import Decimal
from functools import cache, lru_cache
from typing import Final

from perdure.core.contracts import Usage
from perdure.core.labels import TEXT_MODE

_VENDORS: Final = {"anthropic": "anthropic", "openai-responses": "openai", "openai-chat": "openai"}
_URLS: Final = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
    "openai-chat": "OPENAI_BASE_URL",
}
_OPEN: Final = "openai-chat"  # the protocol that anybody's server speaks: a model's name there does not say whose it is


def price(protocol: str, model: str, usage: Usage, *, url: str = "", at: datetime | None = None) -> Decimal | None:
    """What one model call cost, in US dollars; None when nobody knows.

    Args:
        protocol: as in `Opening.protocol`.
        model: the vendor's own name; one that carries a date is known too.
        usage: of one call. All zero means that the server did not count, and then nobody knows.
        url: the base URL asked, if it is not the vendor's own. A vendor of the table is known by it. At any other
            address, a gateway say, the vendor's list price is taken, except for "openai-chat".
        at: when, with a zone: prices change. Now, unless said.

    Cache writes are taken to be kept for five minutes, as they are unless a request says otherwise; batches, priority
    and what server tools cost are not in it.
    """
    vendor = _vendor(protocol, url)
    if vendor is None or not (usage.input or usage.output) or not _holds(vendor, model):
        return None
    from genai_prices import Usage as Counts  # its table takes half a second to load, and few verbs need it
    from genai_prices import calc_price

    counts = Counts(
        input_tokens=usage.input,
        cache_read_tokens=usage.cached,
        cache_write_tokens=usage.cache_written,
        output_tokens=usage.output,
    )
    try:
        return calc_price(counts, model, provider_id=vendor, genai_request_timestamp=at).total_price
    except ValueError:  # counts that cannot be, as more cached than there was
        return None


def listed(protocol: str, model: str) -> bool:
    """Whether the table knows the price of a model, asked from here."""
    return price(protocol, model, Usage(input=1, output=1), url=asked_at(protocol)) is not None


def asked_at(protocol: str) -> str:
    """The base URL that the environment names; "" for the vendor's own."""
    return os.environ.get(_URLS.get(protocol.removeprefix(TEXT_MODE), ""), "")


@lru_cache(maxsize=256)
def _holds(vendor: str, model: str) -> bool:
    """Whether the table has the model; looked for once, since a search in vain goes through all of a vendor's."""
    from genai_prices.data_snapshot import get_snapshot

    try:
        get_snapshot().find_provider_model(model, None, vendor, None)
    except LookupError:
        return False
    return True


@cache
def _vendor(protocol: str, url: str) -> str | None:
    """The vendor whose list holds, by the table's own id for it."""
    protocol = protocol.removeprefix(TEXT_MODE)
    vendor = _VENDORS.get(protocol)
    if not url:
        return vendor
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider(None, None, url).id
    except LookupError:
        return None if protocol == _OPEN else vendor
