"""An HTTP server on this machine that serves a folder, and misbehaves as a test tells it to."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class LocalServer(ThreadingHTTPServer):
    """Serves the files of a folder, from the byte that a request asks for.

    Attributes
    ----------
    folder : Path
    asked : list of str
        The path of each request so far.
    ranges : list of str or None
        The Range header of each request so far.
    statuses : list of int
        Errors to answer with, one for each of the next requests.
    dies_after : list of int
        Bytes that each of the next answers sends before the connection ends.
    knows_ranges, tells_length : bool
        Whether it serves part of a file, and sends Content-Length.
    delay : float
        Seconds before each answer.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.asked: list[str] = []
        self.ranges: list[str | None] = []
        self.statuses: list[int] = []
        self.dies_after: list[int] = []
        self.knows_ranges = self.tells_length = True
        self.delay = 0.0

    def url(self, name: str = "") -> str:
        """Return the URL of a file, by default that of the folder."""
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: LocalServer

    def do_GET(self) -> None:
        asked, server = self.headers["Range"], self.server
        server.asked.append(self.path)
        server.ranges.append(asked)
        time.sleep(server.delay)
        path = server.folder / self.path[1:]
        if server.statuses or not path.is_file():
            self.send_error(server.statuses.pop(0) if server.statuses else 404)
            return
        content = path.read_bytes()
        start = int(asked[len("bytes=") : -1]) if asked and server.knows_ranges else 0
        if start and start >= len(content):
            self.send_error(416)
            return
        body = content[start:]
        self.send_response(206 if start else 200)
        if server.tells_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.dies_after.pop(0) if server.dies_after else None])

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[LocalServer]:
    """Serve a folder until the block ends."""
    with LocalServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
