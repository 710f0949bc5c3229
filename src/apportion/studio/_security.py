"""Who may talk to the server: only the page that it served itself, on this machine.

The server listens on the loopback interface. Other programs and other pages on this machine can
reach that too, so that every request is checked:

- The first segment of the path is a random token that only the opened page knows.
- `Host` must be the server's own address. A page of another site whose name is made to point to
  127.0.0.1 (DNS rebinding) sends the name of that site.
- `Origin` must be the server's own where a browser sends one, and `Sec-Fetch-Site` may not say
  that the request comes from another site. Ports do not make another *site*, so that `same-site`
  is refused as well: it may be another server on this machine. Only the page itself, which holds
  nothing of the user's, may be opened from elsewhere as a page of its own: the file that leads the
  browser here counts as another site.

A request that is refused gets an answer without any information.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

ADDRESS = "127.0.0.1"
"""The only address that the server is bound to."""

PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""The content security policy of the page and of all answers but the report."""

REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-modals allow-popups; frame-ancestors 'self'"
)
"""The policy of the report in its frame.

It comes beside the policy in the report itself, which allows the report's own scripts by their
hashes, and no network. Without `allow-same-origin` these scripts have another origin than the page.
"""

_HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
"""Headers of every answer that does not set them itself."""

_FROM_HERE = (b"same-origin", b"none")
"""What `Sec-Fetch-Site` may say; `none` is an address that was typed, or opened by a program."""

_OPENS = ((b"sec-fetch-mode", b"navigate"), (b"sec-fetch-dest", b"document"))
"""Headers of a request that opens a page in a tab of its own, and not in a frame."""


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(32)


class Guard:
    """Let only requests of the server's own page through, and add headers to all answers.

    Parameters
    ----------
    app : ASGI application
        What answers the requests; it sees paths without the token.
    token : str
        The first segment of every path.
    port : int
        The port that the server listens on.
    """

    def __init__(self, app: Application, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = {f"{name}:{port}".encode() for name in (ADDRESS, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return
        send = _with_headers(send)
        token, slash, rest = scope["path"].removeprefix("/").partition("/")
        known = secrets.compare_digest(token.encode("utf-8", "surrogatepass"), self._token)
        is_page = known and slash == "/" and not rest and scope["method"] == "GET"
        if not self._is_ours(scope["headers"], is_page=is_page):
            await _refuse(send, 403)
            return
        if not known:
            await _refuse(send, 404)
            return
        if not slash:  # relative addresses of the page need the slash
            await _refuse(send, 307, [(b"location", b"/" + self._token + b"/")])
            return
        inner = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode(), "root_path": ""}
        await self._app(inner, receive, send)

    def _is_ours(self, headers: Iterable[tuple[bytes, bytes]], *, is_page: bool = False) -> bool:
        """Return whether a request comes from this machine's user or from the page itself.

        Parameters
        ----------
        headers : iterable of (bytes, bytes)
            The headers of the request.
        is_page : bool, default=False
            Whether it asks for the page, by an address that only the user knows.
        """
        values: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            values.setdefault(name.lower(), []).append(value)
        host = values.get(b"host", [])
        if len(host) != 1 or host[0].lower() not in self._hosts:
            return False
        origins = {b"http://" + host[0].lower()}
        if any(origin.lower() not in origins for origin in values.get(b"origin", [])):
            return False
        if is_page and all(values.get(name) == [value] for name, value in _OPENS):
            return True
        return all(site in _FROM_HERE for site in values.get(b"sec-fetch-site", []))


def _with_headers(send: Send) -> Send:
    """Return a function that sends an answer with the headers that every answer has."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            present = {name.lower() for name, _ in headers}
            headers += [
                (name.encode(), value.encode())
                for name, value in _HEADERS.items()
                if name.encode() not in present
            ]
            message = {**message, "headers": headers}
        await send(message)

    return sending


async def _refuse(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    body = b"Not here.\n"
    length = (b"content-length", str(len(body)).encode())
    kind = (b"content-type", b"text/plain; charset=utf-8")
    await send(
        {"type": "http.response.start", "status": status, "headers": [kind, length, *headers]}
    )
    await send({"type": "http.response.body", "body": body})
