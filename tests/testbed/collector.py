"""A collector of traces.

    collector.py PORT FILE     takes OTLP over HTTP (JSON), and appends each span to FILE as one line of JSON
    collector.py --tree FILE REQUEST_ID     prints the trace of a request: each span below its parent, indented; a span
                                            whose parent is missing begins with `orphan`
"""

import http.server
import json
import sys


def collect(port, path):
    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with open(path, "a") as file:
                for resource in body["resourceSpans"]:
                    for scope in resource["scopeSpans"]:
                        file.writelines(json.dumps(span) + "\n" for span in scope["spans"])
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    http.server.HTTPServer(("127.0.0.1", port), Collector).serve_forever()


def tree(path, request):
    trace = request.removeprefix("req-").replace("-", "")
    spans = [span for span in map(json.loads, open(path)) if span["traceId"] == trace]
    spans.sort(key=lambda span: int(span["startTimeUnixNano"]))
    known = {span["spanId"] for span in spans}

    def show(parent, depth):
        for span in spans:
            if span.get("parentSpanId") == parent:
                failed = f"  FAILED: {span['status'].get('message')}" if span["status"].get("code") == 2 else ""
                print("  " * depth + span["name"] + failed)
                show(span["spanId"], depth + 1)

    show(None, 0)
    for span in spans:
        if span.get("parentSpanId") not in known and "parentSpanId" in span:
            print("orphan", span["name"])


if sys.argv[1] == "--tree":
    tree(*sys.argv[2:])
else:
    collect(int(sys.argv[1]), sys.argv[2])
