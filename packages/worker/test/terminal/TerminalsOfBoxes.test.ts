/** Terminals in real boxes without isolation, as a session of a sandbox offers them. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { LocalTerminals, type TerminalAttachment, type TerminalOutput } from "@slipway/domain/sandbox/ports/Terminals"
import * as SandboxHostNone from "@slipway/machine/none/SandboxHostNone"
import { Deferred, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { OfferedTerminals } from "../../src/terminal/TerminalsOfBoxes.ts"
import * as TerminalsOfBoxes from "../../src/terminal/TerminalsOfBoxes.ts"

const hasScript = spawnSync("script", ["--version"]).stdout?.toString().includes("util-linux") === true
const real = hasScript ? it.live : it.live.skip
const NEEDS = "(needs script: util-linux)"

const ID = SandboxId.make("c_aaaaaaaaaaaa")
const size = { columns: 80, rows: 24 }

const Live = Layer.unwrap(Effect.gen(function*() {
  const path = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "slipway-terminal-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }))
  )
  mkdirSync(join(path, "work"))
  return SandboxHostNone.layer({ directory: join(path, "boxes"), workspaceOf: () => join(path, "work") })
})).pipe(Layer.provideMerge(TerminalsOfBoxes.layer))

/** A box whose terminals are offered until `rest`. */
const boxed = Effect.gen(function*() {
  const host = yield* SandboxHost
  const offered = yield* OfferedTerminals
  const box = yield* host.provision({ sandboxId: ID, fence: 1 })
  const session = yield* Scope.fork(yield* Effect.scope)
  yield* offered.offer(ID, (command) => box.spawn({ ...command, env: { ...command.env, GREETING: "hello" } }), Effect.succeed("rested"))
    .pipe(Scope.provide(session))
  return { rest: Scope.close(session, Exit.void) }
})

const text = (outputs: ReadonlyArray<TerminalOutput>) =>
  Buffer.concat(outputs.flatMap((output) => output._tag === "Bytes" ? [output.bytes] : [])).toString("utf8")

/** Reads an attachment: `until` waits for text, `all` for the end. */
const reading = Effect.fnUntraced(function*({ output }: TerminalAttachment) {
  const seen: Array<TerminalOutput> = []
  const waiting: Array<{ readonly wanted: RegExp; readonly done: Deferred.Deferred<string> }> = []
  const fiber = yield* Effect.forkScoped(Stream.runForEach(output, (one) =>
    Effect.sync(() => {
      seen.push(one)
      const now = text(seen)
      for (const { done, wanted } of waiting) if (wanted.test(now)) Deferred.doneUnsafe(done, Exit.succeed(now))
    })))
  return {
    until: (wanted: RegExp) =>
      Effect.suspend(() => {
        const done = Deferred.makeUnsafe<string>()
        waiting.push({ wanted, done })
        const now = text(seen)
        return wanted.test(now) ? Effect.succeed(now) : Deferred.await(done)
      }),
    all: Effect.as(Fiber.join(fiber), seen)
  }
})

const attach = (terminal: number | "new" = 1, wanted = size) => LocalTerminals.use((local) => local.attach(ID, { terminal, size: wanted }))
const type = ({ write }: TerminalAttachment, keys: string) => write(Buffer.from(keys))

describe.concurrent("terminals", { timeout: 60_000 }, () => {
  real(`the shell has a terminal of the size that was asked for, and the sandbox's variables ${NEEDS}`, () =>
    Effect.gen(function*() {
      yield* boxed
      const terminal = yield* attach(1, { columns: 101, rows: 33 })
      const { all } = yield* reading(terminal)
      yield* type(terminal, "stty size; echo \"$TERM|$GREETING|é\"; test -t 0 && exit 7\r")
      const seen = yield* all
      assert.match(text(seen), /33 101\r\n/u)
      assert.match(text(seen), /xterm-256color\|hello\|é\r\n/u)
      assert.deepStrictEqual(seen.at(-1), { _tag: "Ended", reason: "exited", code: 7 })
    }).pipe(Effect.scoped, Effect.provide(Live)))

  real(`10 MB of output arrive byte for byte ${NEEDS}`, () =>
    Effect.gen(function*() {
      yield* boxed
      const terminal = yield* attach()
      const { all } = yield* reading(terminal)
      // Without the echo, and without the carriage returns that the terminal adds.
      yield* type(terminal, "stty -echo -onlcr; PS1=; echo ready; head -c 10485760 /dev/zero | tr '\\0' x; echo; echo done; exit\r")
      const output = text(yield* all)
      const begin = output.lastIndexOf("ready\n") + "ready\n".length
      const body = output.slice(begin, output.indexOf("\ndone", begin))
      const sha = (content: string) => createHash("sha256").update(content).digest("hex")
      assert.strictEqual(body.length, 10_485_760)
      assert.strictEqual(sha(body), sha("x".repeat(10_485_760)))
    }).pipe(Effect.scoped, Effect.provide(Live)))

  real(`a new size reaches the program in the foreground ${NEEDS}`, () =>
    Effect.gen(function*() {
      yield* boxed
      const terminal = yield* attach()
      const { until } = yield* reading(terminal)
      yield* type(terminal, "sh -c 'trap \"echo now \\$(stty size); exit\" WINCH; echo wait''ing; while :; do read -r x; done'\r")
      yield* until(/waiting\r\n/u)
      yield* terminal.resize({ columns: 132, rows: 40 })
      yield* until(/now 40 132/u)
    }).pipe(Effect.scoped, Effect.provide(Live)))

  real(`Ctrl-C interrupts the program in the foreground, and the shell goes on ${NEEDS}`, () =>
    Effect.gen(function*() {
      yield* boxed
      const terminal = yield* attach()
      const { all, until } = yield* reading(terminal)
      yield* type(terminal, "echo begin''ning; sleep 1000\r")
      yield* until(/beginning\r\n/u)
      yield* type(terminal, "\x03")
      yield* until(/\^C/u)
      yield* type(terminal, "echo status $?; exit\r")
      assert.match(text(yield* all), /status 130/u)
    }).pipe(Effect.scoped, Effect.provide(Live)))

  real(`a terminal runs on without attachments; the next one sees its scrollback and the program ${NEEDS}`, () =>
    Effect.gen(function*() {
      yield* boxed
      const first = yield* Scope.fork(yield* Effect.scope)
      const one = yield* Scope.provide(attach(), first)
      const seen = yield* Scope.provide(reading(one), first)
      yield* type(one, "cat; echo over\r")
      yield* seen.until(/cat; echo over\r\n/u)
      yield* type(one, "before\r")
      yield* seen.until(/before\r\nbefore\r\n/u)
      yield* Scope.close(first, Exit.void)

      const two = yield* attach()
      const { all, until } = yield* reading(two)
      yield* until(/before\r\nbefore\r\n/u)
      yield* type(two, "after\r")
      yield* until(/after\r\nafter\r\n/u)
      yield* type(two, "\x04")
      yield* until(/over\r\n/u)
      yield* two.end
      assert.deepStrictEqual((yield* all).at(-1), { _tag: "Ended", reason: "closed", code: null })
    }).pipe(Effect.scoped, Effect.provide(Live)))

  real(`a sandbox that goes to rest ends its terminals, and has none until it runs again ${NEEDS}`, () =>
    Effect.gen(function*() {
      const { rest } = yield* boxed
      const terminal = yield* attach()
      const { all } = yield* reading(terminal)
      yield* rest
      assert.deepStrictEqual((yield* all).at(-1), { _tag: "Ended", reason: "rested", code: null })
      assert.strictEqual((yield* Effect.flip(attach())).reason, "not_running")
      yield* boxed
      yield* reading(yield* attach())
    }).pipe(Effect.scoped, Effect.provide(Live)))

  real(`a sandbox has at most four terminals, each with at most four attachments ${NEEDS}`, () =>
    Effect.gen(function*() {
      yield* boxed
      const numbers: Array<number> = []
      for (let i = 0; i < 4; i++) numbers.push((yield* attach("new")).terminal)
      assert.deepStrictEqual(numbers, [1, 2, 3, 4])
      assert.strictEqual((yield* Effect.flip(attach("new"))).reason, "too_many")
      for (let i = 0; i < 3; i++) yield* attach(2)
      assert.strictEqual((yield* Effect.flip(attach(2))).reason, "too_many")
      const third = yield* attach(3)
      yield* third.end
      assert.strictEqual((yield* attach("new")).terminal, 3)
    }).pipe(Effect.scoped, Effect.provide(Live)))
})
