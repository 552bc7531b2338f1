"""Serves moto's S3, with one request at work at a time: its comparison and its write are two steps."""
import io
import sys
import threading

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, run_simple

app = DomainDispatcherApplication(create_backend_app)
turn = threading.Lock()


def one_at_a_time(environ, start_response):
    # What a slow client sends is awaited before it has its turn.
    length = int(environ.get("CONTENT_LENGTH") or 0)
    environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
    with turn:
        return list(app(environ, start_response))


WSGIRequestHandler.protocol_version = "HTTP/1.1"
run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time, threaded=True)
