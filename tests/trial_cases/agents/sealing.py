"""A data converter that seals every payload with AES-GCM, named by PERDURE_DATA_CONVERTER=sealing:converter."""

import os
from collections.abc import Sequence
from dataclasses import replace

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import PayloadCodec

KEY = AESGCM(b"0123456789abcdef0123456789abcdef")


class Sealing(PayloadCodec):
    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [_sealed(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [_opened(payload) for payload in payloads]


def _sealed(payload: Payload) -> Payload:
    nonce = os.urandom(12)
    return Payload(
        metadata={"encoding": b"binary/sealed"}, data=nonce + KEY.encrypt(nonce, payload.SerializeToString(), None)
    )


def _opened(payload: Payload) -> Payload:
    if payload.metadata.get("encoding") != b"binary/sealed":
        return payload
    return Payload.FromString(KEY.decrypt(payload.data[:12], payload.data[12:], None))


converter = replace(pydantic_data_converter, payload_codec=Sealing())
