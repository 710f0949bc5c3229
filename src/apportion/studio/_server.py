"""The web server of the studio: routes, bodies of requests, and how it starts and stops."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from apportion.exceptions import InputError, OutputError
from apportion.studio._problems import ProblemError, in_words
from apportion.studio._security import ADDRESS, REPORT_POLICY, Application, Guard, new_token
from apportion.studio._studio import MOST_BYTES, Studio
from apportion.studio._workspace import (
    DOWNLOADS,
    EARLIER,
    ROLES,
    Workspace,
    ending_for,
    shown_name,
)

MOST_JSON = 2**20
"""The largest body of a request that is no file."""

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
}
_PAGE = "studio.html"
_COMMON = "common.js"
"""The script that the page shares with the report."""

_PATIENCE = 2
"""Seconds that requests in progress have to end after Ctrl-C."""

Answer = TypeVar("Answer")
Handler = Callable[[Request], Awaitable[Response]]


def application(studio: Studio, token: str, port: int) -> Application:
    """Return the ASGI application of a studio, which answers only its own page."""
    api = _Api(studio)
    routes = [
        Route("/", _static(_PAGE)),
        *(Route(f"/static/{name}", _static(name)) for name in _page_files() if name != _PAGE),
        Route("/report", api.report),
        Route("/download/{name}", api.download),
        Route("/api/state", api.state),
        Route("/api/files/{role}", api.put_file, methods=["PUT"]),
        Route("/api/files/{role}", api.delete_file, methods=["DELETE"]),
        Route("/api/settings", api.put_settings, methods=["PUT"]),
        Route("/api/run", api.run, methods=["POST"]),
        Route("/api/relabel", api.relabel, methods=["POST"]),
        Route("/api/cancel", api.cancel, methods=["POST"]),
        Route("/api/leave", api.leave, methods=["POST"]),
        Route("/api/days", api.days),
        Route("/api/rows", api.rows),
        Route("/api/participants", api.participants),
        Route("/api/questions", api.questions),
        Route("/api/questions/{name}", api.answer, methods=["POST"]),
        Route("/api/corrections", api.correct, methods=["POST"]),
        Route("/api/corrections/{number}", api.undo, methods=["DELETE"]),
    ]
    handlers: Any = {
        ProblemError: _problem,
        InputError: _refused,
        OSError: _refused,  # such as a disk that is full, which is no fault of this program
        404: _nothing,
        405: _nothing,
        Exception: _fault,
    }
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token, port)


def serve(
    folder: Path,
    *,
    port: int = 0,
    open_browser: bool = True,
    announce: Callable[[str], None] = print,
    inputs: dict[str, Path] | None = None,
) -> None:
    """Serve the page of a folder on this machine until Ctrl-C.

    Parameters
    ----------
    folder : path
        Where everything is kept; it is made if it is not there.
    port : int, default=0
        The port; 0 = one that is free.
    open_browser : bool, default=True
        Whether to open the page in the browser.
    announce : callable, optional
        Called with the address of the page.
    inputs : dict of str to path, optional
        Files to copy into the folder first, by what they are for: `readings`, `diary`,
        `proportions`, `given`.
    """
    workspace = Workspace(Path(folder))
    studio = Studio(workspace)
    try:
        for role, path in (inputs or {}).items():
            studio.copy_file(role, path)
        listener = _listening(port)
        port = listener.getsockname()[1]
        token = new_token()
        address = f"http://{ADDRESS}:{port}/{token}/"
        config = uvicorn.Config(
            application(studio, token, port),
            log_level="warning",
            access_log=False,  # it would print the token
            server_header=False,
            ws="none",
            lifespan="off",
            proxy_headers=False,
            timeout_graceful_shutdown=_PATIENCE,
        )
        announce(address)
        if open_browser:
            with suppress(OSError):  # such as a full disk: the address was announced
                page = workspace.write_opener(address).as_uri()
                threading.Thread(target=_open, args=(page,), daemon=True).start()
        # uvicorn takes Ctrl-C while it runs, and raises it again for our own handler once it has
        # closed its connections.
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        studio.close()


def _open(address: str) -> None:
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(address)


def _listening(port: int) -> socket.socket:
    """Return a socket that listens on the loopback interface only."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":  # elsewhere this would let another program take the port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
    except OSError as error:
        listener.close()
        raise OutputError(
            f"Port {port} of this machine cannot be used: {error.strerror}. Name another port, or "
            "none."
        ) from error
    listener.listen()
    return listener


class _Api:
    """The requests of the page, each a call of the studio."""

    def __init__(self, studio: Studio) -> None:
        self._studio = studio

    async def state(self, request: Request) -> Response:
        self._studio.seen(_tab(request))
        return await self._state(request)

    async def put_file(self, request: Request) -> Response:
        """Receive a file under a temporary name, and keep it once it is whole."""
        received = self._studio.new_file()
        try:
            role, revision = _role(request), _revision(request)
            name = shown_name(request.query_params.get("name", "")) or role
            ending = ending_for(name)
            self._studio.require_revision(revision)
            await _receive(request, received)
            await in_thread(self._studio.keep_file, role, name, ending, received, revision)
        except Exception:
            # A browser that is still sending would see a closed connection, and not the answer.
            await _discard(request)
            raise
        finally:
            received.unlink(missing_ok=True)
        return await self._state(request)

    async def delete_file(self, request: Request) -> Response:
        await in_thread(self._studio.drop_file, _role(request), _revision(request))
        return await self._state(request)

    async def put_settings(self, request: Request) -> Response:
        await in_thread(self._studio.set_settings, await _document(request), _revision(request))
        return await self._state(request)

    async def run(self, request: Request) -> Response:
        await _document(request)
        await in_thread(self._studio.run, "full", _revision(request))
        return await self._state(request)

    async def relabel(self, request: Request) -> Response:
        await _document(request)
        await in_thread(self._studio.run, "quick", _revision(request))
        return await self._state(request)

    async def cancel(self, request: Request) -> Response:
        await in_thread(self._studio.cancel)
        return await self._state(request)

    async def leave(self, request: Request) -> Response:
        """Note that a tab was closed."""
        self._studio.leave(_tab(request))
        return JSONResponse({})

    async def days(self, request: Request) -> Response:
        participant = request.query_params.get("participant")
        return JSONResponse(await in_thread(self._studio.days, participant))

    async def rows(self, request: Request) -> Response:
        offset = _whole(request.query_params.get("offset", "0"), "offset")
        bag = request.query_params.get("bag")
        return JSONResponse(await in_thread(self._studio.rows, offset, bag))

    async def participants(self, request: Request) -> Response:
        return JSONResponse(await in_thread(self._studio.participants))

    async def correct(self, request: Request) -> Response:
        await in_thread(self._studio.correct, await _document(request), _revision(request))
        return await self._state(request)

    async def undo(self, request: Request) -> Response:
        number = _whole(request.path_params["number"], "number")
        await in_thread(self._studio.undo, number, _revision(request))
        return await self._state(request)

    async def questions(self, request: Request) -> Response:
        return JSONResponse(await in_thread(self._studio.questions))

    async def answer(self, request: Request) -> Response:
        name, document = request.path_params["name"], await _document(request)
        await in_thread(self._studio.answer, name, document, _revision(request))
        return await self._state(request)

    async def report(self, request: Request) -> Response:
        page = await in_thread(self._studio.report)
        headers = {"content-security-policy": REPORT_POLICY}
        return Response(page, media_type="text/html; charset=utf-8", headers=headers)

    async def download(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in (*DOWNLOADS, *EARLIER):
            raise ProblemError("There is no such file.", status=404)
        content = await in_thread(self._studio.download, name)
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=_KINDS[Path(name).suffix], headers=headers)

    async def _state(self, request: Request) -> Response:
        state = await in_thread(self._studio.state, _tab(request))
        return JSONResponse(state)


async def in_thread(function: Callable[..., Answer], *args: Any) -> Answer:
    """Call a function in a thread of its own, so that the server answers others meanwhile.

    The threads are daemons: one that reads a large file does not hold up Ctrl-C, as a thread of a
    pool would.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Answer] = loop.create_future()

    def deliver(result: Any, error: BaseException | None) -> None:
        if answer.cancelled():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    def work() -> None:
        result, failure = None, None
        try:
            result = function(*args)
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(deliver, result, failure)

    threading.Thread(target=work, daemon=True).start()
    return await answer


async def _receive(request: Request, path: Path) -> None:
    """Write the body of a request to a new file; raise if it is larger than allowed."""
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > MOST_BYTES:
        raise _too_large()
    size = 0
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        try:
            async for chunk in request.stream():
                size += len(chunk)
                if size > MOST_BYTES:
                    raise _too_large()
                file.write(chunk)
            file.flush()
        except ClientDisconnect:
            raise ProblemError("The file did not arrive whole.", status=400) from None
    if not size:
        raise ProblemError("The file is empty.", _role(request))


async def _discard(request: Request) -> None:
    """Receive what is left of the body of a request."""
    with suppress(ClientDisconnect, RuntimeError):  # it was received
        async for _ in request.stream():
            pass


def _too_large() -> ProblemError:
    return ProblemError(
        f"The file is larger than {MOST_BYTES / 1e6:,.0f} MB, the most that the studio takes. Use "
        "the command `apportion label`, or longer windows.",
        status=413,
    )


async def _document(request: Request) -> Any:
    """Return the JSON body of a request."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_JSON:
            raise ProblemError("The request is larger than 1 MB.", status=413)
    try:
        document = json.loads(bytes(body) or b"{}", parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ProblemError("The request is no JSON.", status=400) from None
    try:
        # What no answer could repeat: half of a character such as \ud800, and 1e999.
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise ProblemError(
            "The request has a number that is too large, or a text with half of a character. "
            "Write another."
        ) from None
    return document


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _role(request: Request) -> str:
    role: str = request.path_params["role"]
    if role not in ROLES:
        raise ProblemError("There is no such kind of file.", status=404)
    return role


def _revision(request: Request) -> str | None:
    return request.headers.get("x-revision")


def _tab(request: Request) -> str:
    return request.headers.get("x-tab", "")[:64]


def _whole(text: str, name: str) -> int:
    if not (text.isdecimal() and len(text) < 16):
        raise ProblemError(f"{name!r} must be a whole number of 0 or more.", name, 400)
    return int(text)


def _page_files() -> list[str]:
    """Return the names of the files that the page consists of."""
    page = files("apportion.studio") / "page"
    own = (file.name for file in page.iterdir() if Path(file.name).suffix in _KINDS)
    return sorted([*own, _COMMON])


def _static(name: str) -> Handler:
    folder = "apportion.report/templates" if name == _COMMON else "apportion.studio/page"
    package, _, inner = folder.partition("/")
    content = (files(package) / inner / name).read_bytes()
    kind = _KINDS[Path(name).suffix]

    async def answer(request: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return _answer(error.problem, error.field, error.status)


async def _refused(request: Request, error: Exception) -> Response:
    return _answer(in_words(error), getattr(error, "parameter", None), 422)


async def _nothing(request: Request, error: Exception) -> Response:
    return _answer("There is nothing here.", None, 404)


async def _fault(request: Request, error: Exception) -> Response:
    return _answer(in_words(error), None, 500)


def _answer(problem: str, field: str | None, status: int) -> Response:
    return JSONResponse({"problem": problem, "field": field}, status)
