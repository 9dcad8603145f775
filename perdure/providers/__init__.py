"""Model providers: one file per wire protocol. See `perdure.providers.protocol` for what each one does.

Importing this package imports no vendor's SDK; `provider` imports one when its protocol is first used.
"""

from perdure.providers.protocol import AskedCall, ModelError, Provider, Reply
from perdure.providers.registry import PROTOCOLS, provider

__all__ = ["PROTOCOLS", "AskedCall", "ModelError", "Provider", "Reply", "provider"]
