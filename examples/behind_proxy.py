#!/usr/bin/env python3
"""A file service without tokens, behind `fencing proxy`.

    examples/behind_proxy.py 127.0.0.1:9000
    fencing proxy --upstream http://127.0.0.1:9000 --marks sqlite:marks.db

Nobody else may reach it: bind it where only the proxy is, as here.
"""
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

files = {}
lock = threading.Lock()


class Files(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with lock:
            body = files.get(self.path)
        self.answer(404 if body is None else 200, body or b"")

    def do_PUT(self):
        if "Content-Length" not in self.headers:
            self.close_connection = True  # its body is not read
            return self.answer(411)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with lock:
            files[self.path] = body
        self.answer(204)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    host, port = sys.argv[1].rsplit(":", 1)
    server = ThreadingHTTPServer((host, int(port)), Files)
    print(f"files on http://{host}:{server.server_port}", flush=True)
    server.serve_forever()
