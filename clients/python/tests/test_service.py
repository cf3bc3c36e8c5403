"""The same against a service that runs: `SLIPWAY_URL`, a key of a grant that may use `acme/shop`, the offline agent."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
import unittest
import uuid
from urllib.parse import urlsplit

import slipway_client
from slipway_client import SlipwayClient

URL = os.environ.get("SLIPWAY_URL", "")
KEY = os.environ.get("SLIPWAY_API_KEY", "")
REPOS: list[slipway_client.types.RepoRef] = [{"fullName": "acme/shop"}]


class Cutting:
    """In front of the service: cuts each of the first connections after so many bytes of the reply."""

    def __init__(self, url: str, after: list[int]) -> None:
        parts = urlsplit(url)
        self._to = (parts.hostname or "", parts.port or 80)
        self._after = after
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        for count in itertools.count():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            most = self._after[count] if count < len(self._after) else None
            threading.Thread(target=self._pass, args=(client, most), daemon=True).start()

    def _pass(self, client: socket.socket, most: int | None) -> None:
        with client, socket.create_connection(self._to) as service:
            service.sendall(client.recv(65536))
            left = most
            while chunk := service.recv(4096 if left is None else min(left, 4096)):
                try:
                    client.sendall(chunk)
                except OSError:
                    return
                if left is not None:
                    left -= len(chunk)
                    if left == 0:
                        self.cuts += 1
                        return

    def close(self) -> None:
        self._listener.close()


@unittest.skipUnless(URL and KEY, "SLIPWAY_URL and SLIPWAY_API_KEY say where a service runs")
class Service(unittest.TestCase):
    def setUp(self) -> None:
        self.client = SlipwayClient(URL, KEY)

    def test_a_stream_that_is_cut_again_and_again_brings_every_event_once_in_order(self) -> None:
        cutting = Cutting(URL, [1, 200, *range(700, 2500, 150), *[1200] * 8])
        self.addCleanup(cutting.close)
        through = SlipwayClient(cutting.url, KEY, reconnect=0.001)
        script = "[[say one]] [[slow 40 5]] [[write path=a.txt content=a]] [[say Größe €]]"
        sandbox = self.client.create_sandbox({"repos": REPOS, "prompt": script})
        events = []
        for event in through.stream_events(sandbox["id"], since=0):
            events.append(event)
            if event["type"] == "turn.completed":
                self.client.terminate_sandbox(sandbox["id"])
        told = [event for event in events if "id" in event]
        self.assertEqual([event["id"] for event in told], [str(number) for number in range(1, len(told) + 1)])
        logged = []
        after = 0
        while page := self.client.list_events(sandbox["id"], after=after)["data"]:
            logged += page
            after = int(page[-1]["id"])  # type: ignore[typeddict-item]
        self.assertEqual(told, logged)
        self.assertGreater(cutting.cuts, 5)
        self.assertEqual(told[-1]["type"], "sandbox.status")

    def test_a_sandbox_from_its_prompt_to_its_pull_request(self) -> None:
        key = str(uuid.uuid4())
        body: slipway_client.types.CreateSandbox = {
            "repos": REPOS,
            "prompt": "[[write path=docs/b.txt content=bee]]",
            "toolApprovalMode": "prompt",
        }
        sandbox = self.client.create_sandbox(body, idempotency_key=key)
        self.assertEqual(self.client.create_sandbox(body, idempotency_key=key)["id"], sandbox["id"])
        with self.assertRaises(slipway_client.Conflict):
            self.client.create_sandbox({**body, "prompt": "another"}, idempotency_key=key)
        id = sandbox["id"]
        asked = 0
        for event in self.client.stream_events(id, since=0):
            if event["type"] == "approval.requested":
                asked += 1
                self.assertEqual(self.client.approve(id, event["data"]["approval_id"])["outcome"], "applied")
            if event["type"] == "turn.completed":
                self.assertEqual(event["data"]["state"], "succeeded")
                break
        self.assertEqual(asked, 1)
        with self.client.download_file(id, "docs/b.txt") as file:
            self.assertEqual(file.read(2) + file.read(), b"bee\n")
        self.assertIn("+bee", self.client.diff_files(id, from_="base"))
        self.assertIn("docs", [entry["path"] for entry in self.client.list_files(id)["entries"]])
        self.assertEqual(self.client.snapshot(id)["sandbox"]["id"], id)
        published = self.client.publish_pull_request(id)
        # A publication that takes longer than 20 s goes on, and is asked about.
        while published["detailsPending"]:
            time.sleep(0.5)
            published = self.client.get_pull_request(id)
        pull = published["pullRequest"]
        assert pull is not None
        self.assertTrue(pull["draft"])
        self.assertIn(id, [one["id"] for one in self.client.list_sandboxes(repo="acme/shop", status="running")["data"]])
        self.assertEqual(self.client.terminate_sandbox(id)["outcome"], "applied")

    def test_errors_are_told_apart_by_their_class(self) -> None:
        with self.assertRaises(slipway_client.NotFound) as caught:
            self.client.get_sandbox("c_aaaaaaaaaaaa")
        self.assertTrue(caught.exception.request_id)
        with self.assertRaises(slipway_client.InvalidRequest):
            self.client.create_sandbox({"repos": [], "prompt": "x"})
        with self.assertRaises(slipway_client.NotAuthenticated):
            SlipwayClient(URL, "sbx_live_none").list_sandboxes()


if __name__ == "__main__":
    unittest.main()
