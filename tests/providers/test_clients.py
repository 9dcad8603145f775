"""The connections that a turn takes its time on."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from perdure.providers import PROTOCOLS, ModelError, provider
from perdure.testing import say

_CONNECTED, _KEPT_ALIVE = "01", "02"  # in the kernel's table: state, and what a connection's timer is for


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux tells what a connection's timer is for")
async def test_a_connection_on_which_nothing_moves_is_kept_alive(protocol: str, converse: Any) -> None:
    talk = converse(protocol, [say("done")])
    await talk.turn()
    port = urlsplit(os.environ["ANTHROPIC_BASE_URL"]).port
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    timers = [line[5][:2] for line in lines if line[2].endswith(f":{port:04X}") and line[3] == _CONNECTED]
    assert timers
    assert set(timers) == {_KEPT_ALIVE}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_proxy_that_the_environment_names_is_asked(
    protocol: str, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    served({"error": {"message": "asked through the proxy"}}, 401)
    monkeypatch.setenv("HTTP_PROXY", os.environ["OPENAI_BASE_URL"])
    monkeypatch.setenv("NO_PROXY", "")
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "http://vendor.invalid")
    with pytest.raises(ModelError, match="asked through the proxy"):
        await provider(protocol).post(b"{}")
