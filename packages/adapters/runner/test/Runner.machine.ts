import { assert, describe, it } from "@effect/vitest"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Effect, Fiber, Stream } from "effect"
import { once } from "node:events"
import { chmodSync, existsSync, linkSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import path from "node:path"
import type { EgressTunnel } from "../src/client/EgressTunnel.ts"
import { MOST_CHANNELS } from "../src/wire/Channels.ts"
import * as Fixture from "../testing/Fixture.ts"
import { dial, shell, textOf } from "../testing/Fixture.ts"

const { eventually } = SandboxHostContract

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0)
    // A zombie has ended.
    return !/^\d+ \(.*\) Z/u.test(readFileSync(`/proc/${pid}/stat`, "utf8"))
  } catch {
    return false
  }
}

const SETPRIV = existsSync("/usr/bin/setpriv") || existsSync("/bin/setpriv")

/** While it is on, SIGKILL ends nothing, as with processes that hang in a disk. */
const surviving = Effect.acquireRelease(
  Effect.sync(() => {
    const kill = process.kill.bind(process)
    const survivor = { isOn: false, restore: () => void (process.kill = kill) }
    process.kill = (pid, signal) => survivor.isOn && signal === "SIGKILL" ? true : kill(pid, signal)
    return survivor
  }),
  ({ restore }) => Effect.sync(restore)
)

/** Unhandled rejections, each of which ends a runner. */
const unhandled = Effect.acquireRelease(
  Effect.sync(() => {
    const found: Array<unknown> = []
    const listen = (error: unknown) => void found.push(error)
    process.on("unhandledRejection", listen)
    return { found, listen }
  }),
  ({ listen }) => Effect.sync(() => void process.off("unhandledRejection", listen))
).pipe(Effect.map(({ found }) => found))

const gone = (pid: number) => eventually(Effect.sync(() => isAlive(pid)), (alive) => !alive, "30 seconds")

const bytes = (text: string) => Buffer.from(text)

/** Repeats each line that it gets, and keeps it: what ran twice or was lost shows. */
const ECHO = "while read line; do echo \"$line\" >> \"$KEPT\"; echo \"got $line\"; done; echo over"

const LINES = Array.from({ length: 12 }, (_, i) => `line ${i}`)

const talk = Effect.fnUntraced(function*(place: Parameters<typeof dial>[0] & { readonly folder: string }, fence: number) {
  const kept = path.join(place.folder, `kept-${fence}`)
  const connection = yield* dial(place, { fence })
  const { endInput, exited, stdout, write } = yield* connection.spawn(shell(ECHO, { KEPT: kept }))
  const lines = LINES.values()
  const next = Effect.suspend(() => {
    const { done, value } = lines.next()
    return done === true ? endInput : write(bytes(`${value}\n`))
  })
  // Three are under way at any time, until none is left.
  yield* Effect.repeat(next, { times: 2 })
  const heard = yield* stdout.pipe(Stream.decodeText, Stream.splitLines, Stream.tap(() => next), Stream.runCollect)
  assert.deepStrictEqual(heard, [...LINES.map((line) => `got ${line}`), "over"])
  assert.deepStrictEqual(yield* exited, { code: 0, signal: null })
  assert.strictEqual(readFileSync(kept, "utf8"), LINES.map((line) => `${line}\n`).join(""))
}, Effect.scoped)

describe("a worker and its runner", () => {
  it.live("a process gets its input to the end, and its output and exit come after each other", () =>
    Effect.gen(function*() {
      const connection = yield* dial(yield* Fixture.start())
      const process = yield* connection.spawn(shell("cat; echo to the operator >&2; exit 7"))
      yield* process.write(bytes("one"))
      yield* process.write(bytes(" two"))
      yield* process.endInput
      assert.strictEqual(yield* textOf(process.stdout), "one two")
      assert.deepStrictEqual(yield* process.exited, { code: 7, signal: null })
      assert.strictEqual(yield* process.stderrTail, "to the operator\n")
    }))

  it.live("a process has the environment that it was given and no other, and starts where it was asked to", () =>
    Effect.gen(function*() {
      const { tree, ...place } = yield* Fixture.start()
      mkdirSync(path.join(tree, "inner"))
      const connection = yield* dial(place)
      const output = (cwd?: string) =>
        Effect.scoped(
          Effect.flatMap(connection.spawn({ command: "/usr/bin/env", args: [], env: { ONE: "1" }, cwd }), ({ stdout }) => textOf(stdout))
        )
      assert.strictEqual(yield* output(), "ONE=1\n")
      const pwd = yield* connection.spawn({ command: "/bin/pwd", args: [], env: {}, cwd: path.join(tree, "inner") })
      assert.strictEqual(yield* textOf(pwd.stdout), `${path.join(tree, "inner")}\n`)
    }))

  it.live("bytes come as they were, however many", () =>
    Effect.gen(function*() {
      const connection = yield* dial(yield* Fixture.start())
      const sent = Buffer.from(Uint8Array.from({ length: 3_000_000 }, (_, i) => i * 7 % 251))
      const { endInput, stdout, write } = yield* connection.spawn({ command: "/bin/cat", args: [], env: {} })
      const reading = yield* Effect.forkChild(Stream.runCollect(stdout))
      yield* write(sent)
      yield* endInput
      assert.isTrue(Buffer.concat(yield* Fiber.join(reading)).equals(sent))
    }))

  it.live("a process that cannot be started is refused with the system's word", () =>
    Effect.gen(function*() {
      const connection = yield* dial(yield* Fixture.start())
      const refused = yield* Effect.flip(connection.spawn({ command: "/there/is/none", args: [], env: {} }))
      assert.strictEqual(refused._tag === "ProcessRefused" && refused.code, "ENOENT")
      const long = yield* Effect.flip(connection.spawn({ command: "/bin/true", args: ["x".repeat(300_000)], env: {} }))
      assert.strictEqual(long._tag === "ProcessRefused" && long.code, "E2BIG")
    }))

  it.live("who waits for a channel may give up, and the next one gets it when there is room", () =>
    Effect.gen(function*() {
      const connection = yield* dial(yield* Fixture.start())
      const sleep = connection.spawn({ command: "/bin/sleep", args: ["600"], env: {} })
      const [first] = yield* Effect.all(Array.from({ length: MOST_CHANNELS }, () => sleep), { concurrency: "unbounded" })
      const waiting = yield* Effect.forkChild(sleep)
      yield* Effect.yieldNow
      yield* Fiber.interrupt(waiting)
      const next = yield* Effect.forkChild(sleep)
      yield* first?.signal("SIGKILL") ?? Effect.void
      yield* first?.exited ?? Effect.void
      assert.isTrue(isAlive((yield* Fiber.join(next)).pid))
    }))

  it.live("a signal reaches a process that does not read its input", () =>
    Effect.gen(function*() {
      const connection = yield* dial(yield* Fixture.start())
      const process = yield* connection.spawn({ command: "/bin/sleep", args: ["600"], env: {} })
      yield* Effect.forkChild(process.write(new Uint8Array(2_000_000)))
      yield* process.signal("SIGTERM")
      assert.deepStrictEqual(yield* process.exited, { code: null, signal: "SIGTERM" })
    }))

  it.live("a process ends with its scope, and all of its group with it", () =>
    Effect.gen(function*() {
      const connection = yield* dial(yield* Fixture.start())
      const pids = yield* Effect.scoped(Effect.gen(function*() {
        const { pid, stdout } = yield* connection.spawn(shell("sleep 600 & echo $!; wait"))
        const line = yield* Stream.runHead(Stream.splitLines(Stream.decodeText(stdout)))
        return [pid, Number(line._tag === "Some" ? line.value : "0")]
      }))
      for (const pid of pids) yield* gone(pid)
    }))

  it.live("the exit is told though somebody outside of the group holds the output open", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      const connection = yield* dial(place)
      // The first one leaves when the other has left its group.
      const script = "setsid sh -c 'echo $$; : > \"$LEFT\"; exec sleep 600' & until [ -e \"$LEFT\" ]; do sleep 0.01; done; exit 3"
      const { exited, stdout } = yield* connection.spawn(shell(script, { LEFT: path.join(place.folder, "left") }))
      const left = Number(yield* textOf(stdout))
      assert.deepStrictEqual(yield* exited, { code: 3, signal: null })
      assert.isTrue(isAlive(left))
      process.kill(left, "SIGKILL")
    }))

  it.live("reads plain files below the tree and follows no link", () =>
    Effect.gen(function*() {
      const { folder, tree, ...place } = yield* Fixture.start()
      writeFileSync(path.join(folder, "secret"), "outside")
      mkdirSync(path.join(tree, "inner"))
      writeFileSync(path.join(tree, "inner", "file"), "x".repeat(200_000))
      symlinkSync(path.join(folder, "secret"), path.join(tree, "link"))
      symlinkSync(folder, path.join(tree, "out"))
      linkSync(path.join(folder, "secret"), path.join(tree, "second-name"))
      const connection = yield* dial(place)
      const { bytes: read, size } = yield* connection.readFile(bytes("inner/file"), { maximumBytes: 200_000 })
      assert.deepStrictEqual([size, (yield* textOf(read)).length], [200_000, 200_000])
      const why = (file: string, maximumBytes = 1000) =>
        Effect.map(Effect.flip(Effect.scoped(connection.readFile(bytes(file), { maximumBytes }))), (error) =>
          error._tag === "FileRefused" ? error.reason : error._tag)
      assert.strictEqual(yield* why("link"), "protected")
      assert.strictEqual(yield* why("out/secret"), "protected")
      assert.strictEqual(yield* why("second-name"), "protected")
      assert.strictEqual(yield* why("../secret"), "not_found")
      assert.strictEqual(yield* why("a\0b"), "not_found")
      assert.strictEqual(yield* why("inner"), "is_directory")
      assert.strictEqual(yield* why("none"), "not_found")
      assert.strictEqual(yield* why("inner/file"), "too_large")
    }))

  it.live("lists a folder, its first names where there are more than were asked for", () =>
    Effect.gen(function*() {
      const { tree, ...place } = yield* Fixture.start()
      const names = Array.from({ length: 3000 }, (_, i) => `${"n".repeat(100)}${i}`)
      for (const name of names) writeFileSync(path.join(tree, name), "")
      mkdirSync(path.join(tree, "folder"))
      symlinkSync("none", path.join(tree, "link"))
      const connection = yield* dial(place)
      const all = yield* connection.list(bytes(""), { most: 5000 })
      assert.isFalse(all.isCut)
      const kinds = new Map(all.entries.map(({ kind, name }) => [Buffer.from(name).toString(), kind]))
      assert.deepStrictEqual([...kinds.keys()].sort(), [...names, "folder", "link"].sort())
      assert.deepStrictEqual([kinds.get("folder"), kinds.get("link"), kinds.get(names[0] ?? "")], ["directory", "link", "file"])
      const some = yield* connection.list(bytes(""), { most: 10 })
      assert.deepStrictEqual([some.entries.length, some.isCut], [10, true])
      const refused = yield* Effect.flip(connection.list(bytes("link"), { most: 1 }))
      assert.strictEqual(refused._tag === "FileRefused" && refused.reason, "protected")
    }))

  it.live("a way out goes where the worker carries it, half by half, and nowhere else", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start({ ways: [{ name: "model", port: 0 }, { name: "other", port: 0 }] })
      const carry = (way: string, { bytes, end, write }: EgressTunnel) =>
        way === "model"
          ? Effect.gen(function*() {
            yield* write(Buffer.from(`asked: ${yield* textOf(bytes)}`))
            yield* end
          })
          : Effect.fail("no such way")
      yield* dial(place, { dial: carry })
      const ask = (port: number) =>
        Effect.promise(async () => {
          const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true })
          socket.end("a question")
          const said: Array<Buffer> = []
          socket.on("data", (bytes) => void said.push(bytes))
          socket.on("error", () => {})
          await once(socket, "close")
          return Buffer.concat(said).toString()
        })
      assert.strictEqual(yield* ask(place.ways[0]?.port ?? 0), "asked: a question")
      assert.strictEqual(yield* ask(place.ways[1]?.port ?? 0), "")
    }))
})

describe("a line between a worker and its runner that breaks", () => {
  for (const direction of ["to the runner", "to the worker"] as const) {
    it.live(`loses nothing and runs nothing twice, after whichever message ${direction} it is cut`, () =>
      Effect.gen(function*() {
        const place = yield* Fixture.start()
        let records = 0
        for (let wasCut = true; wasCut;) {
          records++
          wasCut = yield* Effect.scoped(Effect.gen(function*() {
            const line = yield* Fixture.line(place, (connection) => connection === 0 ? { records, direction } : undefined)
            yield* talk({ ...place, port: line.port }, records)
            return line.cuts() > 0
          }))
        }
        // Greetings are eleven at most; each cut beyond them was in the middle of the conversation.
        assert.isAbove(records, 15)
      }))
  }

  // Eleven are the greetings.
  for (const records of [12, 13, 14, 16]) {
    it.live(`loses nothing and runs nothing twice, cut again and again after ${records} messages`, () =>
      Effect.gen(function*() {
        const place = yield* Fixture.start()
        const line = yield* Fixture.line(place, () => ({ records, direction: "to the worker" }))
        yield* talk({ ...place, port: line.port }, 1)
        assert.isAbove(line.cuts(), 0)
      }))
  }

  it.live("the worker gives up after its patience, and says so to all who wait", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      const line = yield* Fixture.line(place, () => undefined)
      const connection = yield* dial({ ...place, port: line.port }, { patience: "300 millis" })
      const { exited, stdout } = yield* connection.spawn({ command: "/bin/sleep", args: ["600"], env: {} })
      line.server.close()
      line.cutAll()
      for (const waiting of [exited, Stream.runDrain(stdout), connection.ended, connection.list(bytes(""), { most: 1 })]) {
        assert.strictEqual((yield* Effect.flip(waiting))._tag, "RunnerUnreachable")
      }
    }))

  it.live("the runner ends all processes when it hears nothing of the worker, and keeps the tree", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start({ silenceMillis: 300 })
      writeFileSync(path.join(place.tree, "kept"), "")
      const line = yield* Fixture.line(place, () => undefined)
      const connection = yield* dial({ ...place, port: line.port }, { patience: "30 seconds", beat: "50 millis" })
      const { exited, pid } = yield* connection.spawn({ command: "/bin/sleep", args: ["600"], env: {} })
      line.server.close()
      line.cutAll()
      yield* gone(pid)
      assert.isTrue(existsSync(path.join(place.tree, "kept")))
      line.server.listen(line.port, "127.0.0.1")
      const ended = yield* Effect.flip(exited)
      assert.strictEqual(ended._tag === "RunnerRefused" && ended.reason, "session")
    }))
})

describe("the fence of a lease", () => {
  it.live("a lower one than the highest is refused, with that", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      yield* dial(place, { fence: 5 })
      const refused = yield* Effect.flip(dial(place, { fence: 4 }))
      assert.deepStrictEqual(refused._tag === "RunnerRefused" && [refused.reason, refused.fence], ["fence", 5])
    }))

  it.live("a higher one ends all processes of the older before it is answered, and the older connection", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      const older = yield* dial(place, { fence: 1 })
      const { pid } = yield* older.spawn(shell("trap '' TERM; sleep 600"))
      yield* dial(place, { fence: 2 })
      assert.isFalse(isAlive(pid))
      const ended = yield* Effect.flip(older.ended)
      assert.deepStrictEqual(ended._tag === "RunnerRefused" && [ended.reason, ended.fence], ["fence", 2])
    }))

  it.live("the same one in a new session ends the session before", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      const older = yield* dial(place)
      const { pid } = yield* older.spawn({ command: "/bin/sleep", args: ["600"], env: {} })
      yield* dial(place)
      assert.isFalse(isAlive(pid))
      const ended = yield* Effect.flip(older.ended)
      assert.strictEqual(ended._tag === "RunnerRefused" && ended.reason, "session")
    }))

  it.live(
    "a session is held until its processes have ended: none begins beside those that survive, and the runner goes on",
    () =>
      Effect.gen(function*() {
        const place = yield* Fixture.start()
        const survivor = yield* surviving
        const rejections = yield* unhandled
        const one = yield* dial(place, { fence: 1 })
        const { pid } = yield* one.spawn(shell("exec sleep 300"))
        survivor.isOn = true
        assert.strictEqual((yield* Effect.flip(dial(place, { fence: 2, patience: "4 seconds" })))._tag, "RunnerUnreachable")
        assert.isTrue(isAlive(pid))
        // The older one is over all the same.
        assert.strictEqual((yield* Effect.flip(dial(place, { fence: 1 })))._tag, "RunnerRefused")
        survivor.isOn = false
        const two = yield* dial(place, { fence: 2 })
        assert.isFalse(isAlive(pid))
        assert.strictEqual(yield* textOf((yield* two.spawn(shell("echo in"))).stdout), "in\n")
        assert.deepStrictEqual(rejections, [])
      })
  )

  it.live("a worker that says goodbye admits no client beside processes that survive", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      const survivor = yield* surviving
      const rejections = yield* unhandled
      const pid = yield* Effect.scoped(Effect.gen(function*() {
        const { pid } = yield* (yield* dial(place, { fence: 1 })).spawn(shell("exec sleep 300"))
        survivor.isOn = true
        return pid
      }))
      assert.strictEqual((yield* Effect.flip(dial(place, { fence: 1, patience: "3 seconds" })))._tag, "RunnerUnreachable")
      survivor.isOn = false
      yield* dial(place, { fence: 1 })
      assert.isFalse(isAlive(pid))
      assert.deepStrictEqual(rejections, [])
    }))

  const marks = process.getuid?.() === 0 && SETPRIV ? "" : " (skipped: it needs root, and setpriv of util-linux)"
  it.live.skipIf(marks !== "")(
    `what survives its process keeps its mark, and keeps newer sessions out${marks}`,
    () =>
      Effect.gen(function*() {
        const place = yield* Fixture.start({ user: { uid: 54_321, gid: 54_321, marks: 3_000_000 } })
        chmodSync(place.folder, 0o755)
        chmodSync(place.tree, 0o777)
        const survivor = yield* surviving
        const rejections = yield* unhandled
        const one = yield* dial(place, { fence: 1 })
        survivor.isOn = true
        // Out of its group, as daemons are.
        const parent = yield* one.spawn(shell("setsid sleep 300 >/dev/null 2>&1 </dev/null & echo $!"))
        const pid = Number((yield* textOf(parent.stdout)).trim())
        assert.strictEqual((yield* parent.exited).code, 0)
        const groupsOf = Effect.flatMap(one.spawn(shell("id -G")), ({ stdout }) => textOf(stdout))
        const kept = /^Groups:\s*(\d+)/mu.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? ""
        assert.notInclude(yield* groupsOf, kept)
        assert.strictEqual((yield* Effect.flip(dial(place, { fence: 2, patience: "4 seconds" })))._tag, "RunnerUnreachable")
        assert.isTrue(isAlive(pid))
        survivor.isOn = false
        yield* dial(place, { fence: 2 })
        assert.isFalse(isAlive(pid))
        assert.deepStrictEqual(rejections, [])
      })
  )

  it.live("is told at once that no runner listens, while it waits for a silent runner", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      const { child, told } = yield* Fixture.launch({ ...place, settings: { ...place.settings, state: `${place.folder}/other` } })
      const connection = yield* dial({ ...place, ...told })
      child.kill("SIGKILL")
      const ended = yield* Effect.flip(Effect.timeout(connection.ended, "20 seconds"))
      assert.deepInclude(ended, { _tag: "RunnerUnreachable", isRefused: true })
    }))

  it.live("closing a connection returns when its processes have ended", () =>
    Effect.gen(function*() {
      const place = yield* Fixture.start()
      const pid = yield* Effect.scoped(Effect.flatMap(dial(place), (connection) =>
        // In a scope that stays open: it is the connection that ends it.
        Effect.map(connection.spawn({ command: "/bin/sleep", args: ["600"], env: {} }), ({ pid }) => pid)))
      assert.isFalse(isAlive(pid))
    }))
})

describe("the runner's program", () => {
  it.live("keeps the highest fence over a restart", () =>
    Effect.gen(function*() {
      const made = yield* Fixture.folders
      const first = yield* Fixture.launch(made)
      yield* Effect.scoped(dial({ ...made, ...first.told }, { fence: 7 }))
      first.child.kill("SIGKILL")
      yield* Effect.promise(() => first.exited)
      const { told } = yield* Fixture.launch(made)
      const refused = yield* Effect.flip(dial({ ...made, ...told }, { fence: 6 }))
      assert.deepStrictEqual(refused._tag === "RunnerRefused" && [refused.reason, refused.fence], ["fence", 7])
    }))

  it.live("ends at its next start what it left behind when it was killed, and has forgotten the session", () =>
    Effect.gen(function*() {
      const made = yield* Fixture.folders
      const first = yield* Fixture.launch(made)
      const connection = yield* dial({ ...made, ...first.told })
      const { exited, pid } = yield* connection.spawn({ command: "/bin/sleep", args: ["600"], env: {} })
      first.child.kill("SIGKILL")
      yield* Effect.promise(() => first.exited)
      assert.isTrue(isAlive(pid))
      const settings = { ...made.settings, listen: { host: "127.0.0.1", port: first.told.port } }
      yield* Fixture.launch({ ...made, settings })
      yield* gone(pid)
      const ended = yield* Effect.flip(exited)
      assert.strictEqual(ended._tag === "RunnerRefused" && ended.reason, "session")
    }))

  it.live("ends with all processes at SIGTERM, and with 0", () =>
    Effect.gen(function*() {
      const made = yield* Fixture.folders
      const { child, exited, told } = yield* Fixture.launch(made)
      const connection = yield* dial({ ...made, ...told })
      const { pid } = yield* connection.spawn({ command: "/bin/sleep", args: ["600"], env: {} })
      child.kill("SIGTERM")
      assert.deepStrictEqual(yield* Effect.promise(() => exited), [0, null])
      assert.isFalse(isAlive(pid))
    }))

  it.live("starts nothing with settings that others may read, or with an invalid fence", () =>
    Effect.gen(function*() {
      const made = yield* Fixture.folders
      const { child, exited } = yield* Fixture.launch(made)
      child.kill("SIGTERM")
      yield* Effect.promise(() => exited)
      const again = SpawnedProgram.run(process.execPath, [Fixture.program, path.join(made.folder, "settings.json")])
      chmodSync(path.join(made.folder, "settings.json"), 0o640)
      assert.deepInclude(yield* again, { code: 1, stderr: "runner: others may read the settings: their mode has to be 0600\n" })
      chmodSync(path.join(made.folder, "settings.json"), 0o600)
      writeFileSync(path.join(made.settings.state, "fence"), "")
      assert.strictEqual((yield* again).code, 1)
    }))
})
