import { afterEach, assert, describe, it, vi } from "@effect/vitest"
import { SlipwayClient, SlipwayError, type StreamEvent } from "@slipway/client"
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { inspect } from "node:util"

const ID = "c_abcdefghjkmn"
const KEY = "sbx_live_thisIsTheSecretPartOfTheKey"

const servers: Array<() => Promise<void>> = []
afterEach(async () => {
  vi.useRealTimers()
  vi.unstubAllGlobals()
  await Promise.all(servers.splice(0).map((close) => close()))
})

/** A server with scripted answers, and the requests it got. */
const serve = async (...answers: ReadonlyArray<(response: ServerResponse, request: IncomingMessage) => void>) => {
  const asked: Array<IncomingMessage> = []
  const listener: RequestListener = (request, response) => {
    asked.push(request)
    const answer = answers[Math.min(asked.length, answers.length) - 1]
    request.resume().on("end", () => answer?.(response, request))
  }
  const server = createServer(listener)
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))
  servers.push(() =>
    new Promise((closed) => {
      server.close(() => closed())
      server.closeAllConnections()
    })
  )
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

const cut = (response: ServerResponse) => response.socket?.destroy()
const silent = () => {}
const good = (body: unknown) => (response: ServerResponse) =>
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body))
const refuse = (status: number, headers: Record<string, string> = {}) => (response: ServerResponse) =>
  response.writeHead(status, { "x-request-id": "req_1", ...headers }).end(JSON.stringify({ error: { code: "told", message: "So." } }))
/** Frames, then the end of the connection unless it stays open. */
const frames = (text: string, { stays = false } = {}) => (response: ServerResponse) => {
  response.writeHead(200, { "content-type": "text/event-stream" }).write(text)
  if (!stays) response.end()
}
const nothingLeft = (response: ServerResponse) => response.writeHead(204).end()
const frame = (id: number, type = "sandbox.error", data: object = {}) =>
  `id: ${id}\ndata: ${JSON.stringify({ id: String(id), type, data })}\n\n`

const clientOf = (baseUrl: string, more: object = {}) =>
  new SlipwayClient({ baseUrl, apiKey: KEY, backoffMillis: 1, reconnectMillis: 1, ...more })

const failure = (promise: Promise<unknown>): Promise<SlipwayError> =>
  promise.then(() => assert.fail("it succeeded"), (error: unknown) => {
    assert(error instanceof SlipwayError, String(error))
    return error
  })
const reason = (promise: Promise<unknown>): Promise<unknown> => promise.then(() => assert.fail("it succeeded"), (error: unknown) => error)

const readAll = async (events: AsyncIterable<StreamEvent>) => {
  const read: Array<StreamEvent> = []
  for await (const event of events) read.push(event)
  return read
}
const idsOf = (events: ReadonlyArray<StreamEvent>) => events.map((event) => "id" in event ? event.id : event.type)

describe("retries", () => {
  it("a read, and a write with a key, are sent again after a cut connection, 429 and 503", async () => {
    const reading = await serve(cut, refuse(429), refuse(503), good({ id: ID }))
    assert.strictEqual((await clientOf(reading.url).getSandbox(ID)).id, ID)
    assert.strictEqual(reading.asked.length, 4)

    const writing = await serve(cut, refuse(429), refuse(503), good({ id: ID }))
    await clientOf(writing.url).createSandbox({ repos: [], prompt: "x" })
    const keys = writing.asked.map(({ headers }) => headers["idempotency-key"])
    assert.match(String(keys[0]), /^[0-9a-f-]{36}$/u)
    assert.deepStrictEqual([keys.length, new Set(keys).size], [4, 1])

    const chosen = await serve(good({}))
    await clientOf(chosen.url).sendMessage(ID, "x", { idempotencyKey: "mine" })
    assert.strictEqual(chosen.asked[0]?.headers["idempotency-key"], "mine")
  })

  it("what could be done twice is sent once, and so is what would be refused again", async () => {
    for (const answer of [cut, refuse(429), refuse(503)]) {
      const { asked, url } = await serve(answer)
      await failure(clientOf(url).interruptTurn(ID))
      assert.strictEqual(asked.length, 1)
    }
    for (const status of [400, 401, 404, 409, 500, 502]) {
      const { asked, url } = await serve(refuse(status))
      assert.strictEqual((await failure(clientOf(url).getSandbox(ID))).status, status)
      assert.strictEqual(asked.length, 1)
    }
  })

  it("they end, with what was said last", async () => {
    const { asked, url } = await serve(refuse(503))
    const error = await failure(clientOf(url, { retries: 2 }).getSandbox(ID))
    assert.strictEqual(asked.length, 3)
    const { code, isTemporary, message, requestId, retryAfter, status } = error
    assert.deepStrictEqual({ code, isTemporary, message, requestId, retryAfter, status }, {
      code: "told",
      isTemporary: true,
      message: "So.",
      requestId: "req_1",
      retryAfter: undefined,
      status: 503
    })
  })

  it("they wait as long as the service says, and no request waits for more than a minute", async () => {
    vi.useFakeTimers()
    const asked: Array<number> = []
    const answers = ["7", new Date(Date.now() + 20_000).toUTCString(), "61"]
    const client = clientOf("http://slipway.example", {
      fetch: async () => new Response("", { status: 429, headers: { "retry-after": answers[asked.push(Date.now()) - 1] ?? "1" } })
    })
    const started = Date.now()
    const failed = failure(client.getSandbox(ID))
    await vi.runAllTimersAsync()
    assert.strictEqual((await failed).retryAfter, 61)
    const [first, second, third] = asked.map((at) => at - started)
    assert.deepStrictEqual([asked.length, first, second], [3, 0, 7_000])
    // The date has whole seconds.
    assert(third !== undefined && third > 19_000 && third <= 21_000, `${third}`)
  })
})

describe("timeouts", () => {
  it("a server that is silent is asked again, and then given up", async () => {
    const { url } = await serve(silent)
    let attempts = 0
    const counting: typeof fetch = (input, init) => {
      attempts++
      return fetch(input, init)
    }
    const error = await failure(clientOf(url, { timeoutMillis: 20, retries: 1, fetch: counting }).getSandbox(ID))
    assert.deepStrictEqual([error.status, error.code, error.isTemporary, attempts], [0, "timeout", true, 2])
  })

  it("a reply that stops on its way is no reply", async () => {
    const { url } = await serve((response) => response.writeHead(200, { "content-type": "application/json" }).write("{"))
    assert.strictEqual((await failure(clientOf(url, { timeoutMillis: 20, retries: 0 }).listSandboxes())).code, "timeout")
  })

  it("a download may take any time, but not bring nothing", async () => {
    const { url } = await serve((response) => response.writeHead(200).write("some"))
    const response = await clientOf(url, { timeoutMillis: 5_000, idleTimeoutMillis: 20 }).downloadFile(ID, "a")
    assert.strictEqual((await failure(response.text())).code, "timeout")
  })

  it("a reader of a stream may take any time", async () => {
    vi.useFakeTimers()
    const pieces = [frame(1) + frame(2), frame(3)].map((text) => new TextEncoder().encode(text))
    const bodyUntil = (signal: AbortSignal | null | undefined) =>
      new ReadableStream<Uint8Array>({
        start: (controller) => signal?.addEventListener("abort", () => controller.error(signal.reason)),
        pull: (controller) => {
          const next = pieces.shift()
          if (next !== undefined) controller.enqueue(next)
        }
      }, { highWaterMark: 0 })
    const client = clientOf("http://slipway.example", {
      idleTimeoutMillis: 1_000,
      fetch: async (_: unknown, init?: RequestInit) => new Response(bodyUntil(init?.signal))
    })
    const read: Array<unknown> = []
    for await (const event of client.streamEvents(ID, { since: 0 })) {
      read.push(...idsOf([event]))
      await vi.advanceTimersByTimeAsync(3_600_000)
      if (read.length === 3) break
    }
    assert.deepStrictEqual(read, ["1", "2", "3"])
  })
})

describe("where the key goes", () => {
  it("not to where the service redirects, and not into an address", async () => {
    const other = await serve(good({ id: ID }))
    const { asked, url } = await serve(refuse(307, { location: `${other.url}/elsewhere` }))
    const client = clientOf(url)
    const refused = [
      client.getSandbox(ID),
      client.createSandbox({ repos: [], prompt: "x" }),
      client.downloadFile(ID, "a"),
      client.streamEvents(ID).next()
    ]
    for (const error of await Promise.all(refused.map(failure))) {
      assert.deepStrictEqual([error.code, error.isTemporary], ["redirected", false])
    }
    assert.deepStrictEqual([asked.length, other.asked.length], [4, 0])
    assert(asked.every(({ headers, url }) => headers.authorization === `Bearer ${KEY}` && url?.includes(KEY) === false))
  })

  it("not into what fails", async () => {
    const { url } = await serve(cut)
    const errors = [
      await failure(clientOf(url).getSandbox(ID)),
      await failure(clientOf("http://127.0.0.1:1").getSandbox(ID)),
      await failure(clientOf((await serve(refuse(401))).url).getSandbox(ID)),
      await failure(clientOf((await serve((response) => response.writeHead(200).end("<html>"))).url).getSandbox(ID))
    ]
    for (const error of errors) assert(!inspect(error, { depth: Infinity, showHidden: true }).includes(KEY))
    assert.deepStrictEqual(errors.map(({ code }) => code), ["unreachable", "unreachable", "told", "invalid_reply"])
    for (const apiKey of [`${KEY}\n`, `${KEY}é`, ""]) {
      let message = ""
      try {
        new SlipwayClient({ baseUrl: url, apiKey })
      } catch (error) {
        message = inspect(error, { depth: Infinity, showHidden: true })
      }
      assert(message.includes("`apiKey`") && !message.includes(KEY), message)
    }
    assert(!inspect(clientOf(url), { depth: Infinity, showHidden: true }).includes(KEY))
  })

  it("only to an address of http", () => {
    for (const baseUrl of ["slipway.example", "ftp://slipway.example", "https://user:pass@slipway.example", "https://slipway.example?a"]) {
      assert.throws(() => clientOf(baseUrl), TypeError)
    }
  })
})

describe("aborting", () => {
  it("ends a call before it begins, while it is under way, and between two attempts", async () => {
    const { asked, url } = await serve(silent)
    const why = new Error("enough")
    assert.strictEqual(await reason(clientOf(url).getSandbox(ID, { signal: AbortSignal.abort(why) })), why)
    assert.strictEqual(asked.length, 0)

    const during = new AbortController()
    const waiting = await serve(() => during.abort(why))
    assert.strictEqual(await reason(clientOf(waiting.url).createSandbox({ repos: [], prompt: "x" }, { signal: during.signal })), why)
    assert.strictEqual(waiting.asked.length, 1)

    const between = new AbortController()
    vi.useFakeTimers()
    const client = clientOf("http://slipway.example", {
      fetch: async () => new Response("", { status: 503, headers: { "retry-after": "60" } })
    })
    const called = reason(client.getSandbox(ID, { signal: between.signal }))
    await vi.advanceTimersByTimeAsync(59_999)
    between.abort(why)
    assert.strictEqual(await called, why)
    assert.strictEqual(vi.getTimerCount(), 0)
  })

  it("ends a running download, and cancelling it closes the connection", async () => {
    const why = new Error("enough")
    const stop = new AbortController()
    const closed: Array<Promise<unknown>> = []
    const { url } = await serve((response) => {
      closed.push(new Promise((over) => response.once("close", over)))
      response.writeHead(200).write("some")
    })
    const aborted = await clientOf(url).downloadFile(ID, "a", {}, { signal: stop.signal })
    const text = reason(aborted.text())
    stop.abort(why)
    assert.strictEqual(await text, why)
    const cancelled = await clientOf(url).downloadFile(ID, "a")
    await cancelled.body?.cancel()
    await Promise.all(closed)
    assert.strictEqual(closed.length, 2)
  })
})

describe("streams", () => {
  it("tell of each connection that failed, and of none that ended as it should", async () => {
    const { url } = await serve(frames(frame(1)), cut, refuse(503), frames(frame(2)), nothingLeft)
    const lost: Array<string> = []
    const onLost = ({ code }: SlipwayError) => void lost.push(code)
    assert.deepStrictEqual(idsOf(await readAll(clientOf(url).streamEvents(ID, { since: 0, onLost }))), ["1", "2"])
    assert.deepStrictEqual(lost, ["unreachable", "told"])
  })

  it("wait about twice as long after each connection in a row without an event, and start over after an event", async () => {
    const base = 8
    const { url } = await serve(frames(frame(1)), cut, cut, cut, cut, frames(frame(2)), cut, nothingLeft)
    const waits: Array<number> = []
    const onLost = (_: SlipwayError, wait: number) => void waits.push(wait)
    assert.deepStrictEqual(idsOf(await readAll(clientOf(url, { reconnectMillis: base }).streamEvents(ID, { since: 0, onLost }))), ["1",
      "2"])
    // Half of each is drawn.
    const doublings = waits.map((wait) => Math.ceil(Math.log2(wait / base)))
    assert.deepStrictEqual(doublings, [1, 2, 3, 4, 1])
  })

  it("give one snapshot, and the connection up with it", async () => {
    const snapshot = { resume_cursor: "7", turn: null }
    let isClosed = false
    const { url } = await serve(cut, (response) => {
      response.on("close", () => isClosed = true)
      frames(`retry: 2000\n\n: hb\n\ndata: ${JSON.stringify({ type: "snapshot", data: snapshot })}\n\n`, { stays: true })(response)
    })
    assert.deepStrictEqual<object>(await clientOf(url).snapshot(ID), snapshot)
    await vi.waitUntil(() => isClosed)
    const other = await serve(frames(frame(1)))
    assert.strictEqual((await failure(clientOf(other.url).snapshot(ID))).code, "invalid_reply")
  })

  it("go on after silence, a cut, a resync and a refusal that passes, each time after the last event", async () => {
    let isBusy = true
    // Answers by the reader's position: a repeated request gets the same answer.
    const answers: Record<string, (response: ServerResponse) => void> = {
      2: frames(`retry: 60000\n\n${frame(3)}`, { stays: true }),
      3: (response) => {
        frames(`: hb\n\n${frame(4)}`, { stays: true })(response)
        setImmediate(() => cut(response))
      },
      4: frames("data: {\"type\":\"stream.resync\",\"data\":{\"reason\":\"shutdown\",\"resume_cursor\":\"5\"}}\n\n"),
      5: (response) => {
        const answer = isBusy ? refuse(503) : frames(frame(6, "sandbox.status", { status: "succeeded" }))
        isBusy = false
        answer(response)
      },
      6: nothingLeft
    }
    const { asked, url } = await serve((response, { headers }) => answers[String(headers["last-event-id"])]?.(response))
    const read = await readAll(clientOf(url, { idleTimeoutMillis: 100 }).streamEvents(ID, { since: "2" }))
    assert.deepStrictEqual(idsOf(read), ["3", "4", "stream.resync", "6"])
    const cursors = asked.map(({ headers }) => headers["last-event-id"])
    assert.deepStrictEqual([...new Set(cursors)], ["2", "3", "4", "5", "6"])
  })

  it("do not take a finished status for the end: what comes after it is read as well", async () => {
    const { url } = await serve(
      frames(frame(1, "sandbox.status", { status: "succeeded" })),
      frames(frame(2, "sandbox.status", { status: "terminating" }) + frame(3, "sandbox.status", { status: "terminated" })),
      nothingLeft
    )
    assert.deepStrictEqual(idsOf(await readAll(clientOf(url, { reconnectMillis: 3_600_000 }).streamEvents(ID, { since: 0 }))), ["1", "2",
      "3"])
  })

  it("tell nothing more once they are aborted, not even what has come already", async () => {
    const { url } = await serve(frames(frame(1) + frame(2), { stays: true }))
    const stop = new AbortController()
    const read: Array<StreamEvent> = []
    for await (const event of clientOf(url).streamEvents(ID, { signal: stop.signal })) {
      read.push(event)
      stop.abort()
    }
    assert.deepStrictEqual(idsOf(read), ["1"])
  })

  it("give up the connection when the reader leaves", async () => {
    let closed: Promise<unknown> | undefined
    const { asked, url } = await serve((response) => {
      closed = new Promise((over) => response.once("close", over))
      frames(frame(1), { stays: true })(response)
    })
    for await (const _ of clientOf(url).streamEvents(ID)) break
    await closed
    assert.strictEqual(asked.length, 1)
  })

  it("fail at once with a refusal that will not change", async () => {
    const { asked, url } = await serve(frames(frame(1)), refuse(410))
    const read: Array<StreamEvent> = []
    const error = await failure((async () => {
      for await (const event of clientOf(url).streamEvents(ID)) read.push(event)
    })())
    assert.deepStrictEqual([idsOf(read), error.status, asked.length], [["1"], 410, 2])
  })

  it("fail when connections end in order, one after the other, and bring no event", async () => {
    const { asked, url } = await serve(frames(frame(1)), frames(""), frames(": hb\n\nretry: 1\n\n"), frames(frame(2)), frames(""))
    const lost: Array<string> = []
    const read: Array<StreamEvent> = []
    const error = await failure((async () => {
      for await (const event of clientOf(url).streamEvents(ID, { since: 0, onLost: ({ code }) => void lost.push(code) })) read.push(event)
    })())
    assert.deepStrictEqual([idsOf(read), error.code, error.isTemporary, asked.length], [["1", "2"], "empty_stream", true, 15])
    assert.deepStrictEqual(lost, Array.from({ length: 12 }, () => "empty_stream"))
  })

  it("fail when connections bring no event for as long as they may, and never if they may forever", async () => {
    vi.useFakeTimers()
    let asked = 0
    const client = clientOf("http://slipway.example", {
      reconnectMillis: undefined,
      fetch: (_: string, { signal }: RequestInit) => {
        asked++
        // Odd requests are refused, even ones hang until they time out.
        return new Promise((_, reject) => asked % 2 === 1 ? reject(new TypeError("gone")) : signal?.addEventListener("abort", reject))
      }
    })
    const begun = performance.now()
    const failed = failure(client.streamEvents(ID, { giveUpMillis: 100_000 }).next())
    await vi.runAllTimersAsync()
    assert.include(["unreachable", "timeout"], (await failed).code)
    assert.closeTo(performance.now() - begun, 100_000, 1_000)

    asked = 0
    assert.strictEqual((await failure(client.streamEvents(ID, { giveUpMillis: 0 }).next())).code, "unreachable")
    const abort = new AbortController()
    const next = client.streamEvents(ID, { giveUpMillis: Infinity, signal: abort.signal }).next()
    await vi.advanceTimersByTimeAsync(24 * 3_600_000)
    assert.isAbove(asked, 100)
    abort.abort()
    assert.isTrue((await next).done)
  })

  it("say why a page of another origin may not have been answered", async () => {
    vi.stubGlobal("location", { origin: "https://app.example" })
    const fetch = () => Promise.reject(new TypeError("Failed to fetch"))
    const told = async (baseUrl: string) => {
      const { code, message } = await failure(clientOf(baseUrl, { fetch, retries: 0 }).getSandbox(ID))
      return [code, message.includes("of this origin")]
    }
    assert.deepStrictEqual(await told("https://slipway.example"), ["unreachable", true])
    assert.deepStrictEqual(await told("https://app.example/below"), ["unreachable", false])
  })

  it("fail when the server does not answer for long", async () => {
    vi.useFakeTimers()
    let asked = 0
    const client = clientOf("http://slipway.example", {
      reconnectMillis: undefined,
      fetch: () => {
        asked++
        return Promise.reject(new TypeError("nobody"))
      }
    })
    const failed = failure(client.streamEvents(ID).next())
    await vi.runAllTimersAsync()
    assert.deepStrictEqual([(await failed).code, asked], ["unreachable", 11])
  })
})

describe("the platform's fetch", () => {
  it("is called as a plain function, as browsers require", async () => {
    const client = clientOf("http://slipway.example", {
      fetch: function(this: unknown) {
        assert.strictEqual(this, undefined)
        return Promise.resolve(Response.json({ id: ID }))
      }
    })
    assert.strictEqual((await client.getSandbox(ID)).id, ID)
  })
})
