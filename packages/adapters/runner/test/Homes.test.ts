import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import path from "node:path"
import * as RunnerClient from "../src/client/RunnerClient.ts"
import * as HomeFilesArchive from "../src/host/HomeFilesArchive.ts"
import * as Runner from "../src/program/Runner.ts"
import * as Fixture from "../testing/Fixture.ts"
import { dial } from "../testing/Fixture.ts"

/** A runner with a home. */
const started = Effect.gen(function*() {
  const made = yield* Fixture.folders
  const home = path.join(made.folder, "homes", "home")
  const settings = { ...made.settings, home }
  const runner = yield* Effect.acquireRelease(Effect.promise(() => Runner.start(settings)), (runner) => Effect.promise(runner.close))
  const { address } = runner
  const { host, port } = "path" in address ? { host: "", port: 0 } : address
  return { ...made, home, host, port }
})

const archive = (files: Readonly<Record<string, string>>) => Effect.map(HomeFilesArchive.of(files), (bytes) => Buffer.concat(bytes))

const readAll = (connection: RunnerClient.RunnerConnection, paths: ReadonlyArray<string>, maximumBytes = 1_000_000) =>
  Effect.map(Stream.runCollect(connection.readHome(paths, { maximumBytes })), (chunks) => Buffer.concat(chunks))

describe("a home in a machine", () => {
  it.live("is written, and read as it was, over a socket of this machine as over any other", () =>
    Effect.gen(function*() {
      const made = yield* Fixture.folders
      const home = path.join(made.folder, "homes", "home")
      const listen = { path: path.join(made.folder, "socket") }
      yield* Effect.acquireRelease(
        Effect.promise(() => Runner.start({ ...made.settings, home, listen })),
        (runner) => Effect.promise(runner.close)
      )
      const connection = yield* RunnerClient.connect({ address: listen, identity: made.worker, fence: 1 })
      const bytes = yield* archive({ "talk/a": "one", "talk/b": "x".repeat(1_000_000) })
      yield* connection.writeHome(Stream.make(bytes))
      assert.strictEqual(readFileSync(path.join(home, "talk/a"), "utf8"), "one")
      assert.strictEqual(statSync(path.join(home, "talk/a")).mode & 0o777, 0o600)
      assert.isTrue((yield* readAll(connection, ["talk/a", "talk/b"], 2_000_000)).equals(bytes))
      assert.deepStrictEqual(readdirSync(path.dirname(home)), ["home"])
    }))

  it.live("is left as it was by what is damaged, breaks off, or is given up", () =>
    Effect.gen(function*() {
      const { home, ...place } = yield* started
      const connection = yield* dial(place)
      const bytes = yield* archive({ file: "one" })
      const cut = Stream.make(bytes.subarray(0, -1))
      const damaged = yield* Effect.flip(connection.writeHome(cut))
      assert.strictEqual(damaged._tag === "HomeRefused" && damaged.reason, "damaged")
      assert.strictEqual(yield* Effect.flip(connection.writeHome(Stream.concat(cut, Stream.fail("lost")))), "lost")
      yield* Effect.timeoutOption(connection.writeHome(Stream.concat(cut, Stream.never)), "50 millis")
      assert.isFalse(existsSync(path.join(home, "file")))
      yield* connection.writeHome(Stream.make(bytes))
      assert.strictEqual(readFileSync(path.join(home, "file"), "utf8"), "one")
    }))

  it.live("is written by one after the other", () =>
    Effect.gen(function*() {
      const { home, ...place } = yield* started
      const connection = yield* dial(place)
      const names = Array.from({ length: 20 }, (_, i) => `file ${i}`)
      yield* Effect.forEach(
        names,
        (name) => Effect.flatMap(archive({ [name]: name }), (bytes) => connection.writeHome(Stream.make(bytes))),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(names.map((name) => readFileSync(path.join(home, name), "utf8")), names)
    }))

  it.live("tells nothing through links, and no more than was asked for", () =>
    Effect.gen(function*() {
      const { folder, home, ...place } = yield* started
      const connection = yield* dial(place)
      mkdirSync(path.join(folder, "outside"))
      writeFileSync(path.join(folder, "outside", "file"), "secret")
      symlinkSync(path.join(folder, "outside"), path.join(home, "way"))
      assert.isTrue((yield* readAll(connection, ["way"])).equals(Buffer.concat(HomeFilesArchive.nothing(["way"]))))
      writeFileSync(path.join(home, "large"), "x".repeat(10_000))
      const refused = yield* Effect.flip(readAll(connection, ["large"], 5000))
      assert.strictEqual(refused._tag === "HomeRefused" && refused.reason, "too_large")
    }))

  it.live("gives what came before the first file that is larger than was asked for", () =>
    Effect.gen(function*() {
      const { home, ...place } = yield* started
      const connection = yield* dial(place)
      mkdirSync(path.join(home, "out"))
      for (const [name, text] of [["a", "first"], ["b", "x".repeat(10_000)], ["c", "last"]] as const) {
        writeFileSync(path.join(home, "out", name), text)
      }
      const came: Array<Uint8Array> = []
      const reading = Stream.runForEach(
        connection.readHome(["out"], { maximumBytes: 5000 }),
        (bytes) => Effect.sync(() => came.push(bytes))
      )
      const refused = yield* Effect.flip(reading)
      assert.strictEqual(refused._tag === "HomeRefused" && refused.reason, "too_large")
      const text = Buffer.concat(came).toString("latin1")
      assert.include(text, "first")
      assert.notInclude(text, "last")
    }))

  it.live("has no home when none was configured", () =>
    Effect.gen(function*() {
      const connection = yield* dial(yield* Fixture.start())
      const refused = yield* Effect.flip(readAll(connection, ["file"]))
      assert.strictEqual(refused._tag === "HomeRefused" && refused.reason, "failed")
    }))
})

describe("a process that is let go of", () => {
  it.live("has ended with its output, though it was not read", () =>
    Effect.gen(function*() {
      const connection = yield* dial(yield* Fixture.start())
      for (const command of ["cat /dev/zero", "sleep 600", "exit 0"]) {
        const process = yield* connection.spawn(Fixture.shell(command))
        yield* process.end
        yield* process.exited
      }
    }))
})
