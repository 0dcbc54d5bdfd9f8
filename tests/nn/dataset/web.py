"""A real web server on loopback that serves files and can misbehave in the ways that downloads meet."""

import math
import re
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """Serves `files` by name and keeps every request as (name, Range header)."""

    daemon_threads = False

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.requests = []
        self.cut_after = None  # bytes of one answer after which the connection breaks
        self.cuts = math.inf  # how many answers break off
        self.knows_ranges = True
        self.shift = 0  # how far a partial answer starts off the place that was asked for
        self.tells_length = True
        self.url = f"http://127.0.0.1:{self.server_port}/base"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, name, asked = self.server, self.path.rpartition("/")[2], self.headers.get("Range")
        server.requests.append((name, asked))
        if not self.path.startswith("/base/") or name not in server.files:
            self.send_error(404)
            return
        content, start = server.files[name], 0
        if asked and server.knows_ranges:
            start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) + server.shift
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if server.tells_length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        end = server.cut_after if len(server.requests) <= server.cuts else None
        self.wfile.write(content[start:][:end])

    def log_message(self, *_):
        """Keep the test output clean."""


@contextmanager
def serving(files):
    """Run a server for the files until the block ends."""
    with Server(files) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def silent():
    """Yield the base URL of a server that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/base"


def nobody():
    """Return a base URL at which nobody listens."""
    return "http://127.0.0.1:1/base"
