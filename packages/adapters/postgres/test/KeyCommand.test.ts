import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Layer, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { existsSync } from "node:fs"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import os from "node:os"
import path from "node:path"
import { count, SecretsKey } from "../src/secret-store/SecretsKey.ts"
import { database } from "./Stores.ts"

const folder = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(path.join(os.tmpdir(), "slipway-key-command-"))),
  (made) => Effect.promise(() => rm(made, { recursive: true, force: true }))
)
const newKey = () => randomBytes(32).toString("base64")
const CANARY = newKey()

/** A program of this script; `key` is in its environment, as a secret manager has it elsewhere. */
const commandOf = (script: string, { key = CANARY, timeout }: { readonly key?: string; readonly timeout?: Duration.Duration } = {}) => ({
  command: {
    program: "/bin/sh",
    args: ["-c", script],
    env: { PATH: process.env["PATH"], KEY: key },
    ...(timeout === undefined ? {} : { timeout })
  }
})
const processWith = (from: ReturnType<typeof commandOf>) =>
  Effect.map(Layer.build(Layer.fresh(SecretsKey.layer({ ...from, shared: true }))), (context) => Context.get(context, SecretsKey))
const fresh = <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.scoped(Effect.provide(self, database()))

/** The message, which never has the key. */
const problemOf = (script: string, timeout?: Duration.Duration) =>
  Effect.map(Effect.flip(count(commandOf(script, timeout === undefined ? {} : { timeout }))), ({ message }) => {
    assert.notInclude(message, CANARY.slice(0, 20))
    assert.notInclude(message, "\n")
    assert.match(message, /^The key of the stored secrets from the program \/bin\/sh cannot be used: /u)
    return message
  })

describe("the key from a program", () => {
  it.live("is known to the database as that of a file, and the program runs once in a process", () =>
    fresh(Effect.gen(function*() {
      const runs = path.join(yield* folder, "runs")
      const first = yield* processWith(commandOf(`echo run >> '${runs}'; printf '%s\\n' "$KEY"`))
      assert.isNull(yield* first.check)
      yield* Effect.all([first.get, first.given, first.get], { concurrency: "unbounded" })
      // A given key: it may encrypt the first secret of a shared database.
      const key = yield* first.given
      yield* first.get
      assert.isNotNull(yield* first.check)
      assert.strictEqual(yield* Effect.promise(() => readFile(runs, "utf8")), "run\n")
      const sealed = Redacted.make(key.seal(Redacted.make("whsec_canary"), "one"))
      const other = yield* (yield* processWith(commandOf(`printf %s "$KEY"`))).get
      assert.strictEqual(Redacted.value(other.unseal(sealed, "one")), "whsec_canary")
      const wrong = yield* processWith(commandOf(`echo "$KEY"`, { key: newKey() }))
      assert.match((yield* Effect.flip(wrong.check)).message, /another key\..*the option secretsKeyCommand/u)
    })))

  it.live("may be several lines", () => Effect.map(count(commandOf(`echo "$KEY"; echo "$KEY"`)), (keys) => assert.strictEqual(keys, 2)))

  it.live("of a program that fails is refused with its last line of standard error, and never with a key", () =>
    Effect.gen(function*() {
      const failed = yield* problemOf(`echo "$KEY"; echo first >&2; printf 'denied for %s\\033[1m\\n\\n' "$KEY" >&2; exit 3`)
      assert.match(failed, /ended with exit code 3\. It printed: denied for \(a key\)/u)
      assert.match(failed, /Run the command of the option secretsKeyCommand/u)
      assert.notInclude(failed, "first")
      assert.notInclude(failed, "\u001B")
      const long = yield* problemOf("head -c 100000 /dev/zero | tr '\\0' x >&2; exit 1")
      assert.isBelow(long.length, 500)
      assert.match(yield* problemOf("kill -9 $$"), /the signal SIGKILL/u)
    }))

  it.live("of a missing program is refused", () =>
    Effect.gen(function*() {
      const at = path.join(yield* folder, "missing")
      const { message } = yield* Effect.flip(count({ command: { program: at, args: ["secret-argument"], env: {} } }))
      assert.match(message, /cannot be started: .*ENOENT/u)
      assert.notInclude(message, "secret-argument")
    }).pipe(Effect.scoped))

  it.live("of a program that hangs is refused, and the program ends with its children", () =>
    Effect.gen(function*() {
      const pid = path.join(yield* folder, "pid")
      // The child holds the output open.
      const script = `sleep 600 & echo $! > '${pid}'; echo "$KEY"; wait`
      assert.match(yield* problemOf(script, Duration.seconds(1)), /did not end within 1s/u)
      const child = Number(yield* Effect.promise(() => readFile(pid, "utf8")))
      yield* Effect.suspend(() => existsSync(`/proc/${child}`) ? Effect.fail("alive") : Effect.void).pipe(Effect.eventually)
    }).pipe(Effect.scoped))

  it.live("of a program that prints too much, nothing, or another text is refused without what it prints", () =>
    Effect.gen(function*() {
      assert.match(yield* problemOf(`while :; do echo "$KEY"; done`), /prints more than 4096 bytes/u)
      for (const script of [":", "echo too-short-canary", `echo "$KEY" canary`, `for i in 1 2 3 4 5 6 7 8 9; do echo "$KEY"; done`]) {
        const problem = yield* problemOf(script)
        assert.match(problem, /the program must print 32 bytes in base64/u)
        assert.notInclude(problem, "canary")
      }
    }))
})
