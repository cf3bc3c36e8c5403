import { assert, describe, it } from "@effect/vitest"
import { eventually } from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Effect, Exit, Layer, Scope } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import type { Readable } from "node:stream"
import { type Child, direct, killGroup, Spawn } from "../../src/node/spawner/Spawn.ts"
import * as Spawner from "../../src/node/spawner/Spawner.ts"

const PATH = process.env["PATH"] ?? ""

const text = async (stream: Readable | null): Promise<string> => {
  const chunks: Array<Buffer> = []
  if (stream === null) return ""
  stream.on("data", (chunk: Buffer) => chunks.push(chunk))
  await new Promise((resolve) => stream.once("close", resolve))
  return Buffer.concat(chunks).toString()
}

const sh = (spawn: Spawn, script: string, options: Partial<Parameters<Spawn>[2]> = {}) =>
  spawn("/bin/sh", ["-c", script], { cwd: "/", env: { PATH }, ...options })

/** All it says, and how it ended. */
const said = async (started: Promise<Child>, input = "") => {
  const child = await started
  const [stdout, stderr] = [text(child.stdout), text(child.stderr)]
  child.stdin?.end(input)
  return { stdout: await stdout, stderr: await stderr, ...await child.closed }
}

const stateOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.[0] ?? "gone"
  } catch {
    return "gone"
  }
}

const childrenOf = (pid: number): ReadonlyArray<number> =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number)

const suite = (name: string, layer: Layer.Layer<never>) =>
  describe(`a program that is started by ${name}`, () => {
    it.layer(layer)((it) => {
      const rule = (title: string, test: (spawn: Spawn) => Promise<void>) =>
        it.effect(title, () => Effect.flatMap(Spawn, (spawn) => Effect.promise(() => test(spawn))))

      rule("reads what it is given, says two things, and its code is told", async (spawn) => {
        const { code, signal, stderr, stdout } = await said(sh(spawn, "cat; echo wrong >&2; exit 7"), "given")
        assert.deepStrictEqual({ code, signal, stderr, stdout }, { code: 7, signal: null, stderr: "wrong\n", stdout: "given" })
      })

      rule("says nothing that is lost, however soon it ends and however much it is", async (spawn) => {
        const all = await Promise.all(Array.from({ length: 20 }, (_, i) => said(sh(spawn, `printf "%0${(i + 1) * 20_000}d" 1`))))
        assert.deepStrictEqual(all.map(({ stdout }) => stdout.length), Array.from({ length: 20 }, (_, i) => (i + 1) * 20_000))
      })

      rule("has open streams for who gets it, although it said nothing, has ended, and this process was busy", async (spawn) => {
        const busy = setInterval(() => {
          for (const end = performance.now() + 6; performance.now() < end;);
        }, 12)
        const open = await Promise.all(Array.from({ length: 20 }, async () => {
          const child = await sh(spawn, ":")
          const isOpen = !child.stderr.destroyed && child.stdout?.destroyed === false
          child.stdout?.resume()
          child.stderr.resume()
          await child.closed
          return isOpen
        }))
        clearInterval(busy)
        assert.deepStrictEqual(open, open.map(() => true))
      })

      rule("has the environment and the folder that it was given, and nothing more of ours", async (spawn) => {
        const { stdout } = await said(spawn("/usr/bin/env", [], { cwd: "/usr", env: { A: "1", B: "two words" } }))
        assert.deepStrictEqual(stdout.trim().split("\n").sort(), ["A=1", "B=two words"])
        assert.strictEqual((await said(spawn("/bin/pwd", [], { cwd: "/usr", env: {} }))).stdout, "/usr\n")
      })

      rule("has no stream of ours but its three", async (spawn) => {
        const { stdout } = await said(spawn("/bin/ls", ["-l", "/proc/self/fd"], { cwd: "/", env: {} }))
        assert.lengthOf(stdout.match(/socket:/gu) ?? [], 3)
      })

      rule("leads a group and a session of its own", async (spawn) => {
        const { stdout } = await said(sh(spawn, "ps -o pid=,pgid=,sid= -p $$"))
        const [pid, group, session] = stdout.trim().split(/ +/u)
        assert.deepStrictEqual([group, session], [pid, pid])
      })

      rule("ends with all of its group", async (spawn) => {
        const child = await sh(spawn, "sleep 1000 & echo $!; wait")
        const sleeping = await new Promise<number>((resolve) => child.stdout?.once("data", (line: Buffer) => resolve(Number(line))))
        assert.isNull(child.ended())
        killGroup(child.pid)
        child.stderr.resume()
        assert.deepStrictEqual(await child.closed, { code: null, signal: "SIGKILL" })
        assert.deepStrictEqual(child.ended(), { code: null, signal: "SIGKILL" })
        // The kernel ends each process of a group in its own time.
        await Effect.runPromise(eventually(Effect.sync(() => stateOf(sleeping)), (state) => state === "gone" || state === "Z"))
      })

      rule("is told to have ended before what it left behind lets go of its output", async (spawn) => {
        const child = await sh(spawn, "sleep 1000 & exit 3")
        assert.strictEqual((await child.exited).code, 3)
        assert.isFalse(child.stderr.destroyed)
        killGroup(child.pid)
      })

      rule("reads one file and writes another, each from its start", async (spawn) => {
        const folder = execFileSync("mktemp", ["-d"]).toString().trim()
        writeFileSync(path.join(folder, "in"), "of a file")
        const [inputFile, outputFile] = [openSync(path.join(folder, "in"), "r"), openSync(path.join(folder, "out"), "wx+", 0o600)]
        const { stdout } = await said(sh(spawn, "cat; echo .", { inputFile, outputFile }))
        assert.strictEqual(stdout, "")
        assert.strictEqual(readFileSync(path.join(folder, "out"), "utf8"), "of a file.\n")
      })

      rule("cannot be started where it is not, or where its folder is not, and the code says so", async (spawn) => {
        for (const [command, cwd] of [["/no/such/program", "/"], ["/bin/true", "/no/such/folder"]] as const) {
          const refusal = await spawn(command, [], { cwd, env: {} }).then(() => null, (error: Error & { code?: string }) => error.code)
          assert.strictEqual(refusal, "ENOENT")
        }
      })
    })
  })

suite("this process", Layer.succeed(Spawn, direct))
suite("the spawner", Spawner.layer)

const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith("slipway-spawner-"))
const withSpawner = Effect.gen(function*() {
  const before = new Set(childrenOf(process.pid))
  const foldersBefore = new Set(folders())
  const scope = yield* Scope.make()
  const spawn = yield* Effect.provide(Spawn, yield* Layer.buildWithScope(Spawner.layer, scope))
  const pid = childrenOf(process.pid).find((child) => !before.has(child)) ?? 0
  const folder = folders().find((name) => !foldersBefore.has(name)) ?? ""
  return { spawn, scope, pid, folder: path.join(tmpdir(), folder) }
})

describe("the spawner", () => {
  it.live("is the parent of what it starts", () =>
    Effect.gen(function*() {
      const { pid, scope, spawn } = yield* withSpawner
      const child = yield* Effect.promise(() => sh(spawn, "cat"))
      assert.deepStrictEqual(childrenOf(pid), [child.pid])
      child.stdin?.end()
      yield* Scope.close(scope, Exit.void)
    }))

  it.live("leaves nothing behind when it is let go of", () =>
    Effect.gen(function*() {
      const { folder, pid, scope } = yield* withSpawner
      assert.isTrue(existsSync(folder))
      yield* Scope.close(scope, Exit.void)
      assert.isFalse(existsSync(folder))
      assert.strictEqual(stateOf(pid), "gone")
    }))

  it.live("starts no program for a caller that still asks after the release", () =>
    Effect.gen(function*() {
      const { scope, spawn } = yield* withSpawner
      yield* Scope.close(scope, Exit.void)
      const before = childrenOf(process.pid)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(Effect.tryPromise(() => sh(spawn, "true")))))
      assert.deepStrictEqual(childrenOf(process.pid), before)
    }))

  it.live("that is killed takes its children along, and the next program gets another one", () =>
    Effect.gen(function*() {
      const { pid, scope, spawn } = yield* withSpawner
      const child = yield* Effect.promise(() => sh(spawn, "sleep 1000"))
      process.kill(pid, "SIGKILL")
      assert.deepStrictEqual(yield* Effect.promise(() => child.exited), { code: null, signal: "SIGKILL" })
      yield* eventually(Effect.sync(() => stateOf(child.pid)), (state) => state === "gone" || state === "Z")
      assert.strictEqual((yield* Effect.promise(() => said(sh(spawn, "echo again")))).stdout, "again\n")
      yield* Scope.close(scope, Exit.void)
    }))

  it.live("gives a stream only to a client that knows its key", () =>
    Effect.gen(function*() {
      const { folder, scope } = yield* withSpawner
      const { connect } = yield* Effect.promise(() => import("node:net"))
      const stranger = connect(path.join(folder, "socket"))
      stranger.on("error", () => {})
      stranger.write(`${"0".repeat(32)}1`)
      yield* Effect.promise(() => new Promise((resolve) => stranger.once("close", resolve)))
      yield* Scope.close(scope, Exit.void)
    }))
})
