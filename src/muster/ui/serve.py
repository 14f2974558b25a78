"""The server of the dashboard: one process of its own, on loopback unless told otherwise, until it is interrupted."""

from __future__ import annotations

import secrets
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn

from muster.api import UserError
from muster.server.status import Ask
from muster.ui.access import Gate, OpenGate, ReviewGate, TokenGate, is_loopback
from muster.ui.app import Desk, make_app
from muster.ui.feeds import Feed
from muster.ui.runs import Runs

DEFAULT_PORT: Final = 8330
_TRIES: Final = 20
#: Connections at once; browsers open six each.
_MAX_CONNECTIONS: Final = 400
#: Seconds that open streams have to end.
_GRACE_S: Final = 2


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where the dashboard listens, and who may read it."""

    host: str = "127.0.0.1"
    #: None: the usual one, or the next that is free.
    port: int | None = None
    token_file: Path | None = None
    #: Asks the cluster; None: there is none to ask.
    ask: Ask | None = None
    cert: Path | None = None
    key: Path | None = None


def serve(feed: Feed, runs: Runs, options: ServeOptions, ready: Callable[[str], None]) -> None:
    """Listen, begin the feed, say where (`ready`), and answer until interrupted. Raises UserError."""
    gate, token = gate_of(options)
    listening = _listen(options)
    host, port = options.host, listening.getsockname()[1]
    shown = "127.0.0.1" if host in ("", "0.0.0.0") else f"[{host}]" if ":" in host else host  # noqa: S104
    scheme = "http" if options.cert is None else "https"
    desk = Desk(feed, runs, gate, loopback_only=is_loopback(host) and isinstance(gate, OpenGate))
    config = uvicorn.Config(
        make_app(desk),
        log_config=None,
        access_log=False,
        lifespan="off",
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=_GRACE_S,
        server_header=False,
        ssl_certfile=None if options.cert is None else str(options.cert),
        ssl_keyfile=None if options.key is None else str(options.key),
    )
    try:
        config.load()
    except OSError as fault:  # what is wrong with a certificate is one, too
        listening.close()
        said = f"cannot answer over TLS with {options.cert} and {options.key}"
        raise UserError(f"--cert, --key: {said}: {fault.strerror or fault}") from None
    feed.begin()
    ready(f"{scheme}://{shown}:{port}/" + (f"#token={token}" if token else ""))
    try:
        _Server(config, desk).run([listening])
    finally:
        feed.stop()
        listening.close()


class _Server(uvicorn.Server):
    """Ends its streams when it is asked to end, so that nobody has to be cut off."""

    def __init__(self, config: uvicorn.Config, desk: Desk) -> None:
        super().__init__(config)
        self._desk = desk

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._desk.close()
        if sig == signal.SIGTERM:
            self.should_exit = True  # an orderly end, and no end by the signal as the library would have it
        else:
            super().handle_exit(sig, frame)


def gate_of(options: ServeOptions) -> tuple[Gate, str]:
    """Who may read, and the token that was made for it if nobody gave one. Raises UserError."""
    if options.token_file is not None:
        return TokenGate(file=options.token_file), ""
    if is_loopback(options.host):
        return OpenGate(), ""
    if options.ask is not None:
        return ReviewGate(options.ask), ""
    token = secrets.token_urlsafe(24)
    return TokenGate(token), token


def _listen(options: ServeOptions) -> socket.socket:
    """A socket on the port, or on the next free one where none was asked for. Raises UserError."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    ports = range(DEFAULT_PORT, DEFAULT_PORT + _TRIES) if options.port is None else (options.port,)
    fault = ""
    for port in ports:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((options.host, port))
        except OSError as error:
            fault = error.strerror or str(error)
            listening.close()
        else:
            listening.listen(128)  # before the address is told: whoever comes at once waits for the first answer
            listening.set_inheritable(True)  # as the library has it
            return listening
    where = f"{options.host}:{ports[0]}" if len(ports) == 1 else f"{options.host}:{ports[0]} to {ports[-1]}"
    raise UserError(f"cannot listen on {where}: {fault}")
