/** Strangers that are no worker or no runner, and messages that neither sends. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { once } from "node:events"
import { createServer } from "node:https"
import { connect as connectTls } from "node:tls"
import { WebSocket, WebSocketServer } from "ws"
import type { RunnerConnection } from "../src/client/RunnerClient.ts"
import type { RunnerError } from "../src/client/RunnerErrors.ts"
import * as HomeFilesArchive from "../src/host/HomeFilesArchive.ts"
import { type ChannelMessage, encode as encodeChannel } from "../src/wire/ChannelWire.ts"
import { encodeEntry } from "../src/wire/DirectoryListing.ts"
import * as Identity from "../src/wire/Identity.ts"
import { decode, encode, type Hello, type Message, PROTOCOL } from "../src/wire/Wire.ts"
import * as Fixture from "../testing/Fixture.ts"
import { dial } from "../testing/Fixture.ts"

const hello: Hello = { protocol: PROTOCOL, session: "a".repeat(32), fence: 1, attempt: 1, resumes: false, received: 0 }

/** A worker that keeps no rule: says it, and answers what comes until the connection ends or `until` is content. */
const say = (place: Fixture.Place, first: Uint8Array | string, until: (message: Message) => boolean = () => true) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const line = connectTls({
        host: place.host,
        port: place.port,
        ...Identity.secureContext(place.worker),
        checkServerIdentity: () => undefined
      })
      await once(line, "secureConnect")
      const socket = new WebSocket("ws://runner/", { createConnection: () => line })
      const heard: Array<Message> = []
      const over = new Promise<void>((resolve) => {
        socket.on("close", () => resolve())
        socket.on("error", () => {})
        socket.on("message", (data) => {
          if (!Buffer.isBuffer(data)) return
          const message = decode(data)
          heard.push(message)
          if (until(message)) resolve()
        })
      })
      await once(socket, "open")
      socket.send(first)
      await over
      return { heard, socket }
    }),
    ({ socket }) => Effect.sync(() => socket.terminate())
  )

const greet = (place: Fixture.Place, change: Partial<Hello>) =>
  Effect.map(say(place, encode({ type: "hello", hello: { ...hello, ...change } })), ({ heard }) => heard[0])

describe("a runner", () => {
  it.live("admits only a client with the key that was minted for its worker", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      const { runner, worker: stranger } = Identity.mint()
      // It knows the runner's certificate, and has another key than its worker; or none at all.
      const answers = [{ ...stranger, peer: place.worker.peer }, undefined].map((identity) =>
        Effect.promise(() =>
          new Promise<string>((resolve) => {
            const context = identity === undefined ? { rejectUnauthorized: false } : Identity.secureContext(identity)
            const line = connectTls({ host: place.host, port: place.port, ...context, checkServerIdentity: () => undefined })
            line.on("error", (error: Error & { readonly code?: string }) => resolve(error.code ?? error.message))
            line.on("data", () => resolve("an answer"))
            line.on("close", () => resolve("closed"))
            line.on("secureConnect", () => line.write("GET / HTTP/1.1\r\nHost: runner\r\n\r\n"))
          })
        )
      )
      for (const answer of answers) assert.notStrictEqual(yield* answer, "an answer")
      assert.notStrictEqual(runner.certificate, place.settings.identity.certificate)
    }))

  it.live("speaks no TLS before 1.3", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      const code = yield* Effect.promise(() =>
        new Promise<string>((resolve) => {
          const context = { ...Identity.secureContext(place.worker), minVersion: "TLSv1.2", maxVersion: "TLSv1.2" } as const
          const line = connectTls({ host: place.host, port: place.port, ...context, checkServerIdentity: () => undefined })
          line.on("error", (error: Error & { readonly code?: string }) => resolve(error.code ?? error.message))
          line.on("secureConnect", () => resolve("connected"))
        })
      )
      assert.match(code, /VERSION/u)
    }))

  it.live("refuses another protocol and a session that it does not know, with why", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      assert.deepStrictEqual(yield* greet(place, { protocol: PROTOCOL + 1 }), { type: "refused", code: "protocol", fence: 0 })
      assert.deepStrictEqual(yield* greet(place, { resumes: true }), { type: "refused", code: "session", fence: 1 })
    }))

  it.live("lets a hello that was late on its way change nothing", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      const { heard, socket } = yield* say(place, encode({ type: "hello", hello: { ...hello, attempt: 2 } }))
      assert.deepStrictEqual(heard, [{ type: "welcome", received: 0, ports: true }])
      assert.deepStrictEqual(yield* greet(place, { attempt: 1 }), { type: "refused", code: "stale", fence: 1 })
      assert.strictEqual(socket.readyState, WebSocket.OPEN)
    }))

  it.live("answers a welcome again to who did not get it, and goes on with that session", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      yield* greet(place, { attempt: 1 })
      assert.deepStrictEqual(yield* greet(place, { attempt: 2 }), { type: "welcome", received: 0, ports: true })
      assert.deepStrictEqual(yield* greet(place, { attempt: 3, resumes: true }), { type: "welcome", received: 0, ports: true })
    }))

  for (
    const [name, first] of Object.entries<Uint8Array | string>({
      "something else than a hello": encode({ type: "beat", received: 0 }),
      "text": "hello",
      "more than a message may have": new Uint8Array(300 * 1024)
    })
  ) {
    it.live(`closes on ${name}, and takes the next worker`, () =>
      Effect.gen(function*() {
        const place = yield* Fixture.start()
        assert.deepStrictEqual((yield* say(place, first, () => false)).heard, [])
        assert.strictEqual((yield* greet(place, {}))?.type, "welcome")
      }))
  }

  it.live("a worker takes no other runner for its own", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      const { worker } = Identity.mint()
      const other = { ...place.worker, peer: worker.certificate }
      const ended = yield* Effect.flip(dial({ ...place, worker: other }, { patience: "200 millis" }))
      assert.strictEqual(ended._tag, "RunnerUnreachable")
    }))
})

/** A runner that an agent took over: it has the key, welcomes once, and says `said` when the worker opens a channel, whatever for. */
const takenOver = (said: ReadonlyArray<Uint8Array | string>) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const { runner, worker } = Identity.mint()
        const server = createServer({ ...Identity.secureContext(runner), requestCert: true })
        const sockets = new WebSocketServer({ server })
        let connections = 0
        sockets.on("connection", (socket) => {
          let messages = 0
          socket.on("error", () => {})
          socket.on("message", (data) => {
            messages++
            if (messages === 1 && connections++ === 0) socket.send(encode({ type: "welcome", received: 0, ports: true }))
            if (messages === 2) { for (const message of said) socket.send(message) }
            if (Buffer.isBuffer(data) && decode(data).type === "bye") socket.terminate()
          })
        })
        server.listen(0, "127.0.0.1")
        await once(server, "listening")
        const address = server.address()
        return { server, host: "127.0.0.1", port: typeof address === "object" && address !== null ? address.port : 0, worker }
      }),
      ({ server }) =>
        Effect.sync(() => {
          server.close()
          server.closeAllConnections()
        })
    ),
    ({ host, port, worker }) => ({ host, port, worker })
  )

const frames = (...messages: ReadonlyArray<ChannelMessage>) =>
  messages.map((message, i) => encode({ type: "frame", number: i + 1, payload: encodeChannel(message) }))
const note = (note: Readonly<Record<string, unknown>>): ChannelMessage => ({ type: "note", channel: 1, note })
const chunk = (bytes: Uint8Array): ChannelMessage => ({ type: "bytes", channel: 1, bytes })

type Use = (connection: RunnerConnection) => Effect.Effect<unknown, { readonly _tag: string } | RunnerError>

const run: Use = ({ spawn }) =>
  Effect.scoped(
    Effect.flatMap(spawn({ command: "true", args: [], env: {} }), ({ exited, stdout }) => Effect.andThen(Stream.runDrain(stdout), exited))
  )
const read: Use = ({ readFile }) =>
  Effect.scoped(Effect.flatMap(readFile(Buffer.from("a"), { maximumBytes: 10 }), ({ bytes }) => Stream.runDrain(bytes)))
const entry = (name: string) => encodeEntry({ name: Buffer.from(name), kind: "file", size: 0, mtimeMs: 0 })

const list: Use = ({ list }) => list(Buffer.from(""), { most: 1 })

const readHome: Use = ({ readHome }) => Stream.runDrain(readHome(["talk"], { maximumBytes: 60 }))
const writeHome: Use = ({ writeHome }) => writeHome(Stream.fromIterable(HomeFilesArchive.nothing(["talk"])))

const home = (...parts: ReadonlyArray<Uint8Array>) => frames(chunk(Buffer.concat(parts)), { type: "end", channel: 1 })
const nothingOf = (path: string) => HomeFilesArchive.nothing([path])

const hostile: Readonly<Record<string, { readonly use: Use; readonly said: ReadonlyArray<Uint8Array | string> }>> = {
  "a message that is text": { use: run, said: ["hello"] },
  "a message that is too long": { use: run, said: [new Uint8Array(300 * 1024)] },
  "an invalid message": { use: run, said: [Buffer.of(99)] },
  "a frame out of order": { use: run, said: [encode({ type: "frame", number: 2, payload: encodeChannel(note({ pid: 1 })) })] },
  "a process without a number": { use: run, said: frames(note({ pid: "1" })) },
  "an invalid exit": { use: run, said: frames(note({ pid: 1 }), note({ exit: { code: 256, signal: null }, stderr: "" })) },
  "a second exit": {
    use: run,
    said: frames(note({ pid: 1 }), ...[1, 2].map(() => note({ exit: { code: 0, signal: null }, stderr: "" })))
  },
  "a file larger than was asked for": { use: read, said: frames(note({ size: 11 })) },
  "more bytes than the file has": { use: read, said: frames(note({ size: 3 }), chunk(Buffer.from("four"))) },
  "more names than were asked for": { use: list, said: frames(chunk(Buffer.concat([entry("a"), entry("b")]))) },
  "a name with a slash": { use: list, said: frames(chunk(entry("/"))) },
  "an invalid home": { use: readHome, said: home(Buffer.from("PK")) },
  "a home that is cut": { use: readHome, said: home(...nothingOf("talk").slice(0, -1)) },
  "a home with another checksum": { use: readHome, said: home(...nothingOf("talk").slice(0, -1), Buffer.alloc(33)) },
  "a home of other paths": { use: readHome, said: home(...nothingOf("secrets")) },
  "more of a home than was asked for": {
    use: readHome,
    said: home(...Effect.runSync(HomeFilesArchive.of({ talk: "more than sixty bytes of it, and they are as they should be" })))
  },
  "a home that was written, and was not": { use: writeHome, said: frames(note({ isWritten: "yes" })) },
  "ways that it opens and resets without end": {
    use: ({ ended }) => ended,
    said: frames(
      ...Array.from({ length: 5000 }, (_, i) => 2 * i + 2).flatMap((channel): ReadonlyArray<ChannelMessage> => [
        { type: "open", channel, kind: "dial", header: { way: "model" } },
        { type: "reset", channel, reason: { code: "closed", message: "" } }
      ])
    )
  },
  "a way without a name": { use: run, said: frames({ type: "open", channel: 2, kind: "dial", header: { way: "../x" } }) }
}

describe("a worker whose runner was taken over", () => {
  for (const [name, { said, use }] of Object.entries(hostile)) {
    it.live(`ends all with a RunnerViolation at ${name}`, () =>
      Effect.gen(function*() {
        const connection = yield* dial(yield* takenOver(said))
        assert.strictEqual((yield* Effect.flip(use(connection)))._tag, "RunnerViolation")
        assert.strictEqual((yield* Effect.flip(connection.ended))._tag, "RunnerViolation")
      }))
  }

  it.live("gives up on a silent peer", () =>
    Effect.gen(function*() {
      const connection = yield* dial(yield* takenOver([]), { silence: "1 second", patience: "3 seconds", beat: "300 millis" })
      assert.strictEqual((yield* Effect.flip(connection.ended))._tag, "RunnerUnreachable")
    }))

  it.live("takes an operator's word of it only in a form of the system", () =>
    Effect.gen(function*() {
      const connection = yield* dial(
        yield* takenOver(frames({ type: "reset", channel: 1, reason: { code: "<b>trust me</b>", message: "" } }))
      )
      const refused = yield* Effect.flip(Effect.scoped(connection.spawn({ command: "true", args: [], env: {} })))
      assert.strictEqual(refused._tag === "ProcessRefused" && refused.code, "UNKNOWN")
    }))
})
