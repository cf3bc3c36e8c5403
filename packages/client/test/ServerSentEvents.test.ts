import { assert, describe, it } from "@effect/vitest"
import { serverSentEvents } from "../src/ServerSentEvents.ts"

async function* pieces(bytes: Uint8Array, size: number) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size)
}

describe("the event reader", () => {
  it("puts blocks together wherever the network cuts them, and drops the last one if it is not whole", async () => {
    const text = "retry: 5\n\n: hb\n\nid: 1\ndata: {\"a\":\"\u{1F680}\"}\n\nid:2\r\ndata:x\r\ndata: y\r\n\r\nid: 3\ndata: lost"
    const expected = [
      { data: undefined, id: undefined, retry: 5 },
      { data: undefined, id: undefined, retry: undefined },
      { data: "{\"a\":\"\u{1F680}\"}", id: "1", retry: undefined },
      { data: "x\ny", id: "2", retry: undefined }
    ]
    const bytes = new TextEncoder().encode(text)
    for (const size of [1, 2, 3, 7, bytes.length]) {
      const events = []
      for await (const event of serverSentEvents(pieces(bytes, size))) events.push(event)
      assert.deepStrictEqual(events, expected)
    }
  })
})
