"""Takes whatever is posted to this machine, and says so: endpoint.py PORT."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        print(f"{self.path} took {body.decode()}", flush=True)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Not a word more."""


HTTPServer(("127.0.0.1", int(sys.argv[1])), Endpoint).serve_forever()
