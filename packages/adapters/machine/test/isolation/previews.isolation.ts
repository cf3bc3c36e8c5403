/**
 * The way of previews into a box (docs/decisions/32) as an attacker has it from within: its program may speak for the bridge. It reaches
 * nothing, answers for no other sandbox, and takes no more of the worker than the limits say.
 */
import { assert, describe, it } from "@effect/vitest"
import { type ByteConnection, PortClosed } from "@slipway/domain/sandbox/ports/BoxConnection"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Stream } from "effect"
import { CANARY, make } from "../../testing/isolation/World.ts"

/** Machines under load take long; a hanging test ends all the same. */
const PATIENCE = 110_000

/** As many bridges as a sandbox may have, and the connections into it. */
const [MAX_BRIDGES, MAX_CONNECTIONS] = [64, 64]

/** For programs of the box. `tunnel` calls `begun` with the bytes after the proxy's head, `isThere` tells whether it did. */
const TUNNELS = `
  const { connect, createServer } = require("net")
  const tell = (text) => console.log(text)
  const tunnel = (target, begun = () => {}) => {
    const socket = connect("/run/slipway/egress.sock").on("error", () => {})
    let head = ""
    const look = (chunk) => {
      head += chunk.toString("latin1")
      const end = head.indexOf("\\r\\n\\r\\n")
      if (end < 0) return
      socket.off("data", look)
      begun(socket, head.slice(end + 4))
    }
    socket.on("data", look).write("CONNECT " + target + " HTTP/1.1\\r\\nHost: " + target + "\\r\\n\\r\\n")
    return socket
  }
  const isThere = (target) => new Promise((done) => tunnel(target, () => done(true)).on("close", () => done(false)))
  const bridge = (asked, ready = () => tell("ready")) => tunnel("ports.slipway:1", (control, rest) => {
    ready(control)
    let text = rest
    control.on("data", (chunk) => {
      const lines = (text + chunk.toString("latin1")).split("\\n")
      text = lines.pop()
      for (const line of lines) asked(...line.split(" "), control)
    })
  })
`

/** Starts a program in the box until the scope closes, and waits for its first line. */
const started = Effect.fnUntraced(function*(box: Box, program: string) {
  const process = yield* box.spawn({ command: "node", args: ["-e", TUNNELS + program], env: {} })
  const lines = Stream.splitLines(Stream.decodeText(process.stdout))
  const first = yield* Stream.runHead(lines)
  return first._tag === "Some" ? first.value : yield* Effect.die(`the program ended: ${yield* process.stderrTail}`)
})

const SERVER = (text: string) =>
  `createServer((s) => s.on("error", () => {}).end("${text}")).listen(4000, "127.0.0.1", () => tell("ready"))`

const textOf = ({ received }: ByteConnection) => Effect.map(Stream.runCollect(received), (chunks) => Buffer.concat([...chunks]).toString())

const open = (box: Box, port: number) => box.connect?.(port) ?? Effect.die("the box has no ports")

/** The text that a server of the box sends. */
const heard = (box: Box, port: number) => Effect.scoped(Effect.flatMap(open(box, port), textOf))

const world = make({ isOpen: true }, {})

describe("a hostile program, asked for ports in place of the bridge,", () => {
  it.live("answers for its own sandbox alone, as the newest of its processes", () =>
    Effect.gen(function*() {
      const { box, other } = yield* world
      yield* started(box, SERVER("an earlier process"))
      assert.strictEqual(yield* heard(box, 4000), "an earlier process")
      yield* started(box, "bridge((port, nonce) => tunnel(nonce + '.port.slipway:1', (s) => s.end('hostile ' + port)))")
      assert.strictEqual(yield* heard(box, 4000), "hostile 4000")
      assert.instanceOf(yield* Effect.flip(heard(other.box, 4000)), PortClosed)
      yield* started(other.box, SERVER("another sandbox"))
      assert.strictEqual(yield* heard(other.box, 4000), "another sandbox")
    }).pipe(Effect.scoped), PATIENCE)

  it.live("reaches no port of the machine, and uses the name of a connection once", () =>
    Effect.gen(function*() {
      const { box, port } = yield* world
      assert.instanceOf(yield* Effect.flip(heard(box, port)), PortClosed)
      // Asks as the worker does, in the words of both sides, and passes on all that it hears.
      yield* started(
        box,
        `bridge(async (asked, nonce, control) => {
          const loot = []
          control.write("${port} " + nonce.replaceAll("0", "1") + "\\n${port}\\n127.0.0.1:${port} x\\n")
          control.on("data", (chunk) => loot.push(chunk))
          const targets = ["${port}.port.slipway:1", nonce + ".port.slipway:${port}", nonce.toUpperCase() + ".port.slipway:1",
            "127.0.0.1:${port}", "ports.slipway:${port}", nonce.replaceAll("0", "1").replaceAll("2", "3") + ".port.slipway:1"]
          for (const target of targets) {
            await new Promise((done) => tunnel(target, (s, rest) => loot.push(rest)).on("data", (d) => loot.push(d)).on("close", done))
          }
          tunnel(nonce + ".port.slipway:1", async (s) => {
            s.on("data", (chunk) => loot.push(chunk))
            let again = 0
            const second = tunnel(nonce + ".port.slipway:1", (_, rest) => loot.push(rest)).on("data", (d) => again += d.length)
            second.on("close", () => s.end("again " + (again > 0 && again < 60) + " " + loot.join("")))
          })
        })`
      )
      const said = yield* heard(box, 4000)
      assert.match(said, /^again true /u)
      assert.notInclude(said, CANARY)
    }).pipe(Effect.scoped), PATIENCE)

  it.live("is cut off when it sends a line without an end, or a head without one", () =>
    Effect.gen(function*() {
      const { box, other } = yield* world
      const flood = (head: string, chunk: string) =>
        `const s = connect("/run/slipway/egress.sock").on("error", () => {}).on("close", () => { tell("cut off"); process.exit() })
        s.write("${head}")
        let sent = 0
        const more = () => {
          while (s.write("${chunk}".repeat(1000))) sent++
          if (sent++ > 2e5) { tell("it took all"); process.exit() }
        }
        s.on("drain", more).resume()
        more()`
      assert.strictEqual(yield* started(box, flood("CONNECT ports.slipway:1 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n", "xx")), "cut off")
      assert.strictEqual(yield* started(box, flood("CONNECT ports.slipway:1 HTTP/1.1\\r\\n", "a: b\\r\\n")), "cut off")
      for (const one of [box, other.box]) {
        yield* started(one, SERVER("fine"))
        assert.strictEqual(yield* heard(one, 4000), "fine")
      }
    }).pipe(Effect.scoped), PATIENCE)

  it.live(
    "is as many bridges as there may be at most, whatever it opens, and holds up no other sandbox with silence",
    () =>
      Effect.gen(function*() {
        const { box, other } = yield* world
        const opened = yield* started(
          box,
          `Promise.all(Array.from({ length: 1000 }, () => isThere("ports.slipway:1")))
          .then((all) => tell(all.filter((one) => one).length))`
        )
        assert.isAbove(Number(opened), MAX_BRIDGES / 2)
        assert.isAtMost(Number(opened), MAX_BRIDGES)
        yield* started(other.box, SERVER("another sandbox"))
        // Each of the silent ones alone would be waited for.
        const [late, text] = yield* Effect.all([Effect.flip(heard(box, 4000)), heard(other.box, 4000)], { concurrency: 2 })
        assert.instanceOf(late, PortClosed)
        assert.strictEqual(text, "another sandbox")
      }).pipe(Effect.scoped),
    PATIENCE
  )
})

describe("connections into a box", () => {
  it.live("say of processes without a way out that no way leads to them", () =>
    Effect.gen(function*() {
      const { box } = yield* make({ isOpen: false }, {})
      yield* started(box, SERVER("hello"))
      assert.strictEqual((yield* Effect.flip(heard(box, 4000)))._tag, "PortsUnsupported")
    }).pipe(Effect.scoped), PATIENCE)

  it.live("are limited for each sandbox, and free again when they are over", () =>
    Effect.gen(function*() {
      const { box, other } = yield* world
      const held = "createServer((s) => s.on('error', () => {}).resume()).listen(4000, '127.0.0.1', () => tell('ready'))"
      for (const one of [box, other.box]) yield* started(one, held)
      yield* Effect.scoped(Effect.gen(function*() {
        yield* Effect.forEach(Array.from({ length: MAX_CONNECTIONS }), () => open(box, 4000))
        assert.strictEqual((yield* Effect.flip(open(box, 4000)))._tag, "TooManyConnections")
        yield* open(other.box, 4000)
      }))
      yield* Effect.scoped(open(box, 4000))
    }).pipe(Effect.scoped), PATIENCE)

  it.live("break for their client when the server resets them, and do not just end", () =>
    Effect.gen(function*() {
      const { box } = yield* world
      const half = "s.once('data', () => s.write('half', () => s.resetAndDestroy()))"
      yield* started(box, `createServer((s) => ${half}).listen(4000, "127.0.0.1", () => tell("ready"))`)
      const connection = yield* open(box, 4000)
      yield* connection.send(new Uint8Array([1]))
      assert.strictEqual((yield* Effect.flip(textOf(connection)))._tag, "ConnectionBroken")
    }).pipe(Effect.scoped), PATIENCE)
})
