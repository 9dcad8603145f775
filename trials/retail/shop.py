"""The shop as a process of its own: `python -m trials.retail.shop --port PORT --journal FILE`, on loopback.

    POST   /branches/{name}         open one, with an untouched database
    POST   /branches/{name}/calls   {"tool", "arguments", "key"} -> {"result"} or {"error"}
    GET    /branches/{name}         {"hash"}
    DELETE /branches/{name}         close it -> {"hash"}
    GET    /stats                   the journal, counted

Misuse (see ledger.py) is a 409 with {"misuse"}. With `--linger` every answer is held back that long after the deed is
done: the window in which a killed worker loses an answer and not a request.
"""

import argparse
import asyncio
import socket
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trials.retail.ledger import Journal, MisuseError, Shop, Toolkit, audit


def shop_app(stocked: Callable[[], Toolkit], journal: Path, *, linger: float = 0.0) -> Starlette:
    """The shop over HTTP. `linger` is in seconds."""
    shop = Shop(stocked, Journal(journal))

    def open_branch(request: Request) -> Response:
        shop.open(request.path_params["name"])
        return JSONResponse({}, status_code=201)

    async def call(request: Request) -> Response:
        asked = await request.json()
        branch = shop.branch(request.path_params["name"])
        answer = await run_in_threadpool(branch.call, asked["tool"], asked["arguments"], asked.get("key", ""))
        await asyncio.sleep(linger)
        return JSONResponse({"result": answer.result} if answer.error is None else {"error": answer.error})

    def hash_of(request: Request) -> Response:
        return JSONResponse({"hash": shop.branch(request.path_params["name"]).hash()})

    def close(request: Request) -> Response:
        return JSONResponse({"hash": shop.branch(request.path_params["name"]).close()})

    def stats(_: Request) -> Response:
        return JSONResponse(asdict(audit(journal.read_text(encoding="utf-8").splitlines())))

    return Starlette(
        routes=[
            Route("/branches/{name}/calls", call, methods=["POST"]),
            Route("/branches/{name}", open_branch, methods=["POST"]),
            Route("/branches/{name}", hash_of, methods=["GET"]),
            Route("/branches/{name}", close, methods=["DELETE"]),
            Route("/stats", stats),
        ],
        exception_handlers={MisuseError: _misused},
    )


def _misused(_: Request, error: Exception) -> Response:
    return JSONResponse({"misuse": str(error)}, status_code=409)


def main() -> None:
    from trials.retail.source import fresh_toolkit  # needs the trial's environment; the app above does not

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--journal", type=Path, required=True, help="a file to append to")
    parser.add_argument("--linger", type=float, default=0.0, metavar="SECONDS")
    given = parser.parse_args()
    fresh_toolkit()  # so that the first branch opens as fast as the others
    # Bound here and not by uvicorn, to name the protocol: without it asyncio leaves TCP_NODELAY off, and every answer
    # on a connection that is kept alive waits 40 ms for an acknowledgement.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", given.port))
    app = shop_app(fresh_toolkit, given.journal, linger=given.linger)
    uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off")).run(sockets=[listening])


if __name__ == "__main__":
    main()
