"""
Has an agent change a repository, decides what it asks for at the terminal, and publishes a draft pull request:

    python examples/change.py owner/name "Add a page about discounts."

Without a terminal everything is approved.
"""

import os
import sys

from slipway_client import SlipwayClient

client = SlipwayClient(os.environ.get("SLIPWAY_URL", "http://127.0.0.1:4000"), os.environ["SLIPWAY_API_KEY"])
repo, prompt = sys.argv[1:]

sandbox = client.create_sandbox({"repos": [{"fullName": repo}], "prompt": prompt, "toolApprovalMode": "prompt"})
print("sandbox", sandbox["id"])
state = None
said: dict[str, str] = {}
for event in client.stream_events(sandbox["id"], since=0, on_lost=lambda error, wait: print(f"{error}; again in {wait:.0f} s")):
    if event["type"] == "message.updated" and event["data"]["kind"] == "text":
        # Each has all of its part so far.
        said[event["data"]["part_id"]] = event["data"]["text"]
    elif event["type"] == "approval.requested":
        asked = event["data"]
        shown = "\n".join(str(part) for part in asked.get("preview", {}).values())
        wanted = not sys.stdin.isatty() or input(f"{shown}\nApprove? [y/n] ").strip().lower() == "y"
        (client.approve if wanted else client.deny)(sandbox["id"], asked["approval_id"])
    elif event["type"] == "turn.completed":
        state = event["data"]["state"]
        break
print("\n".join(said.values()))

if state == "succeeded":
    pull = client.publish_pull_request(sandbox["id"])["pullRequest"]
    print(pull["url"] if pull is not None else "It is published in the background.")
client.terminate_sandbox(sandbox["id"])
sys.exit(0 if state == "succeeded" else 1)
