"""
Follows the feed of a grant and keeps in a file how far it is, so that every event is told at least once:

    python examples/feed.py [--once] cursor.txt
"""

import os
import sys
import time
from pathlib import Path

from slipway_client import SlipwayClient

client = SlipwayClient(os.environ.get("SLIPWAY_URL", "http://127.0.0.1:4000"), os.environ["SLIPWAY_API_KEY"])
once = "--once" in sys.argv
file = Path(sys.argv[-1])
cursor = int(file.read_text()) if file.exists() else 0

while True:
    page = client.list_partner_events(after=cursor)
    for event in page["data"]:
        print(event["sequence"], event["type"], event["createdAt"])
    # Only after every event was processed.
    cursor = page["nextCursor"]
    whole = file.with_suffix(".new")
    whole.write_text(str(cursor))
    whole.replace(file)
    if not page["data"]:
        if once:
            break
        time.sleep(10)
