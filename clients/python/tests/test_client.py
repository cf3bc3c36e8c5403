"""What the network and the service may do to a client: a server of this process, which says what each test wants."""

from __future__ import annotations

import json
import threading
import unittest
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import slipway_client
from slipway_client import SlipwayClient
from slipway_client._server_sent_events import blocks

Answer = Callable[[BaseHTTPRequestHandler], None]

STREAM = (
    "retry: 20\n\n"
    'event: a\nid: 1\ndata: {"type": "turn.started", "data": {"text": "Größe €"}}\n\n'
    ": heartbeat\n\n"
    'id: 2\r\ndata: {"type": "sandbox.status",\r\ndata: "data": {"status": "terminated"}}\r\n\r\n'
    'id: 3\rdata: {"type": "usage.updated", "data": {}}\r\r'
)


def reply(status: int, body: object, headers: dict[str, str] | None = None) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        data = json.dumps(body).encode()
        request.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(data)

    return answer


def refused(status: int, code: str, headers: dict[str, str] | None = None) -> Answer:
    return reply(status, {"error": {"code": code, "message": "No."}}, headers)


def cut(request: BaseHTTPRequestHandler) -> None:
    request.close_connection = True


class Served(unittest.TestCase):
    def serve(self, *answers: Answer, **options: object) -> SlipwayClient:
        """Answers requests in turn; `self.asked` has them."""
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        left = list(answers)
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def handle_request(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                asked.append((self.command, self.path, dict(self.headers.items()), body))
                left.pop(0)(self)

            do_GET = do_POST = do_DELETE = handle_request

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        address = f"http://127.0.0.1:{server.server_port}/below/"
        return SlipwayClient(address, "sbx_live_1", backoff=0.001, reconnect=0.001, **options)  # type: ignore[arg-type]


class Files(Served):
    def test_an_upload_sends_the_bytes_with_name_and_type(self) -> None:
        client = self.serve(reply(201, {"id": "file_aaaaaaaaaaaa"}), reply(201, {"id": "file_bbbbbbbbbbbb"}))
        self.assertEqual(client.upload_file(b"\x00\xff", name="ü b.png", media_type="image/png")["id"], "file_aaaaaaaaaaaa")
        client.upload_file(b"")
        (method, path, headers, body), (_, _, others, empty) = self.asked
        self.assertEqual((method, path, body, empty), ("POST", "/below/api/public/v1/files", b"\x00\xff", b""))
        self.assertEqual(headers["Content-Type"], "image/png")
        self.assertEqual(headers["Content-Disposition"], "attachment; filename*=UTF-8''%C3%BC%20b.png")
        self.assertEqual(others["Content-Type"], "application/octet-stream")
        self.assertNotIn("Content-Disposition", others)


class Streams(Served):
    def test_blocks_are_the_same_wherever_the_bytes_are_cut(self) -> None:
        data = STREAM.encode()
        whole = list(blocks([data + b"x"]))
        self.assertEqual([block.id for block in whole], [None, "1", None, "2", "3"])
        self.assertEqual(whole[0].retry, 0.02)
        self.assertEqual(json.loads(whole[1].data or "")["data"]["text"], "Größe €")
        for position in range(len(data)):
            self.assertEqual(list(blocks([data[:position], data[position:] + b"x"])), whole, position)
        self.assertEqual(list(blocks([bytes([byte]) for byte in data + b"x"])), whole)

    def test_one_that_is_cut_goes_on_after_its_last_event(self) -> None:
        def event(id: int, type: str, data: object) -> bytes:
            return f"id: {id}\ndata: {json.dumps({'type': type, 'data': data})}\n\n".encode()

        def stream(*events: bytes, whole: bool) -> Answer:
            def answer(request: BaseHTTPRequestHandler) -> None:
                data = b"".join(events)
                request.send_response(200)
                request.send_header("Content-Length", str(len(data) + (0 if whole else 1)))
                request.end_headers()
                request.wfile.write(data)

            return answer

        first, second = event(1, "turn.started", {}), event(2, "turn.completed", {})
        over = event(3, "sandbox.status", {"status": "terminated"})
        nothing: Answer = lambda request: (request.send_response(204), request.end_headers()) and None
        client = self.serve(
            stream(first, second[:-1], whole=False),
            cut,
            refused(503, "unavailable"),
            stream(second, whole=True),
            stream(over, whole=True),
            nothing,
        )
        lost: list[str] = []
        events = list(client.stream_events("c_1", since=0, on_lost=lambda error, wait: lost.append(error.code)))
        self.assertEqual([event["type"] for event in events], ["turn.started", "turn.completed", "sandbox.status"])
        self.assertEqual([headers.get("Last-Event-Id") for _, _, headers, _ in self.asked], ["0", "1", "1", "1", "2", "3"])
        self.assertEqual(lost, ["unreachable", "unavailable"])

    def test_one_that_brings_nothing_ends_with_an_error(self) -> None:
        client = self.serve(*[refused(503, "unavailable")] * 20)
        slipway_client._client.MAX_RECONNECT, kept = 0.001, slipway_client._client.MAX_RECONNECT
        self.addCleanup(setattr, slipway_client._client, "MAX_RECONNECT", kept)
        with self.assertRaises(slipway_client.Unavailable):
            list(client.stream_events("c_1"))
        self.assertEqual(len(self.asked), 11)

    def test_one_that_ends_in_order_and_brings_no_event_ends_with_an_error(self) -> None:
        def empty(request: BaseHTTPRequestHandler) -> None:
            request.send_response(200)
            request.send_header("Content-Length", "6")
            request.end_headers()
            request.wfile.write(b": hb\n\n")

        client = self.serve(*[empty] * 20)
        slipway_client._client.MAX_RECONNECT, kept = 0.001, slipway_client._client.MAX_RECONNECT
        self.addCleanup(setattr, slipway_client._client, "MAX_RECONNECT", kept)
        lost: list[str] = []
        with self.assertRaises(slipway_client.EmptyStream):
            list(client.stream_events("c_1", on_lost=lambda error, wait: lost.append(error.code)))
        self.assertEqual((len(self.asked), lost), (11, ["empty_stream"] * 10))

    def test_what_cannot_get_better_ends_it_at_once(self) -> None:
        client = self.serve(refused(404, "not_found"))
        with self.assertRaises(slipway_client.NotFound):
            list(client.stream_events("c_1"))


class Requests(Served):
    def test_a_request_with_a_key_is_sent_again_with_the_same_key(self) -> None:
        client = self.serve(cut, refused(429, "rate_limited", {"Retry-After": "0"}), reply(201, {"id": "c_1"}))
        self.assertEqual(client.create_sandbox({"repos": [{"fullName": "acme/shop"}], "prompt": "x"}), {"id": "c_1"})
        self.assertEqual({(method, path) for method, path, _, _ in self.asked}, {("POST", "/below/api/public/v1/sandboxes")})
        self.assertEqual(len({headers["Idempotency-Key"] for _, _, headers, _ in self.asked}), 1)
        self.assertEqual(len(self.asked), 3)

    def test_a_request_that_may_be_done_twice_is_not(self) -> None:
        client = self.serve(cut)
        with self.assertRaises(slipway_client.Unreachable):
            client.interrupt_turn("c_1")
        self.assertEqual(len(self.asked), 1)

    def test_retries_end(self) -> None:
        client = self.serve(*[cut] * 9, retries=2)
        with self.assertRaises(slipway_client.Unreachable):
            client.get_sandbox("c_1")
        self.assertEqual(len(self.asked), 3)

    def test_an_error_has_what_the_service_says(self) -> None:
        client = self.serve(refused(409, "turn_active", {"X-Request-Id": "r-1"}))
        with self.assertRaises(slipway_client.Conflict) as caught:
            client.send_message("c_1", {"prompt": "x"})
        error = caught.exception
        self.assertEqual((error.status, error.code, error.message, error.request_id), (409, "turn_active", "No.", "r-1"))
        self.assertFalse(error.is_temporary)

    def test_redirects_are_not_followed(self) -> None:
        client = self.serve(reply(307, {}, {"Location": "/elsewhere"}))
        with self.assertRaises(slipway_client.InvalidReply):
            client.get_sandbox("c_1")
        self.assertEqual(len(self.asked), 1)

    def test_what_is_no_json_is_said_so(self) -> None:
        def page(request: BaseHTTPRequestHandler) -> None:
            request.send_response(200)
            request.end_headers()
            request.wfile.write(b"<html>")

        with self.assertRaises(slipway_client.InvalidReply):
            self.serve(page).get_sandbox("c_1")

    def test_ids_cannot_lead_elsewhere(self) -> None:
        client = self.serve(reply(200, {}))
        client.get_sandbox("../x?y#z")
        self.assertEqual(self.asked[0][1], "/below/api/public/v1/sandboxes/..%2Fx%3Fy%23z")
        for id in ("", ".", ".."):
            with self.assertRaises(ValueError):
                client.get_sandbox(id)

    def test_addresses_and_keys_that_cannot_be_are_refused_without_saying_the_key(self) -> None:
        for address in ("slipway.example", "ftp://slipway.example", "https://a:b@slipway.example", "https://slipway.example/?a"):
            with self.assertRaises(ValueError):
                SlipwayClient(address, "key")
        with self.assertRaises(ValueError) as caught:
            SlipwayClient("https://slipway.example", "se cret\n")
        self.assertNotIn("cret", str(caught.exception))
        self.assertNotIn("sbx_live_1", repr(SlipwayClient("https://slipway.example", "sbx_live_1")))


if __name__ == "__main__":
    unittest.main()
