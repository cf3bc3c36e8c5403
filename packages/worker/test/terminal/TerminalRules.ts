/** The rules of terminals in real boxes, as a session of a sandbox offers them. Each kind of box runs them. */
import { assert, describe, it } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { LocalTerminals, type TerminalAttachment, type TerminalOutput } from "@slipway/domain/sandbox/ports/Terminals"
import { freshId } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import { eventually } from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { OfferedTerminals } from "../../src/terminal/TerminalsOfBoxes.ts"
import * as TerminalsOfBoxes from "../../src/terminal/TerminalsOfBoxes.ts"

/** Why this machine has no terminals; `undefined`: it has. Boxes have its programs. */
const noScript = spawnSync("script", ["--version"]).stdout?.toString().includes("util-linux") === true
  ? undefined
  : "needs script: util-linux"

const size = { columns: 80, rows: 24 }

/** The sandbox of a test. */
class Own extends Context.Service<Own, SandboxId>()("test/OwnSandbox") {}

/** How many processes in boxes have the text in their command line. */
class Running extends Context.Service<Running, (text: string) => Effect.Effect<number>>()("test/Running") {}

/** A box whose terminals are offered until `rest`. */
const boxed = Effect.gen(function*() {
  const host = yield* SandboxHost
  const offered = yield* OfferedTerminals
  const id = yield* Own
  const box = yield* Effect.acquireRelease(host.provision({ sandboxId: id, fence: 1 }), () => Effect.orDie(host.stop(id)))
  const session = yield* Scope.fork(yield* Effect.scope)
  yield* offered.offer(id, (command) => box.spawn({ ...command, env: { ...command.env, GREETING: "hello" } }), Effect.succeed("rested"))
    .pipe(Scope.provide(session))
  return { box, host, id, rest: Scope.close(session, Exit.void) }
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

const attach = (terminal: number | "new" = 1, wanted = size) =>
  Effect.flatMap(Own, (id) => LocalTerminals.use((local) => local.attach(id, { terminal, size: wanted })))
const type = ({ write }: TerminalAttachment, keys: string) => write(Buffer.from(keys))

type Rule = Effect.Effect<unknown, unknown, SandboxHost | LocalTerminals | OfferedTerminals | Own | Running | Scope.Scope>

const RULES: Readonly<Record<string, Rule>> = {
  "the shell has a terminal of the size that was asked for, and the sandbox's variables": Effect.gen(function*() {
    yield* boxed
    const terminal = yield* attach(1, { columns: 101, rows: 33 })
    const { all } = yield* reading(terminal)
    yield* type(terminal, "stty size; echo \"$TERM|$GREETING|é\"; test -t 0 && exit 7\r")
    const seen = yield* all
    assert.match(text(seen), /33 101\r\n/u)
    assert.match(text(seen), /xterm-256color\|hello\|é\r\n/u)
    assert.deepStrictEqual(seen.at(-1), { _tag: "Ended", reason: "exited", code: 7 })
  }),

  "10 MB of output arrive byte for byte": Effect.gen(function*() {
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
  }),

  "a new size reaches the program in the foreground": Effect.gen(function*() {
    yield* boxed
    const terminal = yield* attach()
    const { until } = yield* reading(terminal)
    yield* type(terminal, "sh -c 'trap \"echo now \\$(stty size); exit\" WINCH; echo wait''ing; while :; do read -r x; done'\r")
    yield* until(/waiting\r\n/u)
    yield* terminal.resize({ columns: 132, rows: 40 })
    yield* until(/now 40 132/u)
  }),

  "Ctrl-C interrupts the program in the foreground, and the shell goes on": Effect.gen(function*() {
    yield* boxed
    const terminal = yield* attach()
    const { all, until } = yield* reading(terminal)
    yield* type(terminal, "PS1='re''ady> '; echo begin''ning; sleep 1000\r")
    yield* until(/beginning\r\n/u)
    yield* type(terminal, "\x03")
    yield* until(/\^C[^]*ready> /u)
    yield* type(terminal, "echo status $?; exit\r")
    assert.match(text(yield* all), /status 130/u)
  }),

  "a terminal runs on without attachments; the next one sees its scrollback and the program": Effect.gen(function*() {
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
  }),

  "a sandbox that goes to rest ends its terminals, and has none until it runs again": Effect.gen(function*() {
    const { rest } = yield* boxed
    const terminal = yield* attach()
    const { all } = yield* reading(terminal)
    yield* rest
    assert.deepStrictEqual((yield* all).at(-1), { _tag: "Ended", reason: "rested", code: null })
    assert.strictEqual((yield* Effect.flip(attach())).reason, "not_running")
    yield* boxed
    yield* reading(yield* attach())
  }),

  "a sandbox has at most four terminals, each with at most four attachments": Effect.gen(function*() {
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
  }),

  "every byte that is typed arrives, also of a long text that is pasted": Effect.gen(function*() {
    yield* boxed
    const terminal = yield* attach()
    const { all, until } = yield* reading(terminal)
    const pasted = Buffer.from(Uint8Array.from({ length: 100_000 }, (_, i) => i * 7 + (i >> 8)))
    yield* type(terminal, "stty raw -echo; echo read''y; head -c 100000 | sha256sum; stty sane; exit\r")
    yield* until(/ready\r?\n/u)
    yield* terminal.write(pasted)
    assert.include(text(yield* all), createHash("sha256").update(pasted).digest("hex"))
  }),

  "a terminal that is ended takes with it all that was started in it": Effect.gen(function*() {
    yield* boxed
    const running = yield* Running
    const line = `31415.${Math.floor(Math.random() * 1e9)}1`
    const terminal = yield* attach()
    const { all, until } = yield* reading(terminal)
    yield* type(terminal, `trap '' HUP; setsid nohup sleep ${line} >/dev/null 2>&1 & echo start''ed; sleep ${line}\r`)
    yield* until(/started\r\n/u)
    yield* eventually(running(`sleep ${line}`), (count) => count >= 2)
    yield* terminal.end
    assert.deepStrictEqual((yield* all).at(-1), { _tag: "Ended", reason: "closed", code: null })
    yield* eventually(running(`sleep ${line}`), (count) => count === 0)
  }),

  "a terminal whose box ends is over": Effect.gen(function*() {
    const { host, id } = yield* boxed
    const terminal = yield* attach()
    const { all, until } = yield* reading(terminal)
    yield* type(terminal, "echo at''work; sleep 1000\r")
    yield* until(/atwork\r\n/u)
    yield* host.rest(id)
    const last = (yield* all).at(-1)
    assert.deepInclude(last, { _tag: "Ended", reason: "exited" })
    // Keys that come late are lost with it.
    yield* type(terminal, "echo late\r")
  })
}

/** A kind of boxes. */
export interface Boxes {
  readonly kind: string
  readonly layer: Layer.Layer<SandboxHost, unknown>
  /** Why this machine has none; `undefined`: it has. */
  readonly absent: string | undefined
  readonly running: (text: string) => Effect.Effect<number>
  /** Makes the folder of a sandbox's trees on this machine, if the box does not bring it. */
  readonly workspace: (id: SandboxId) => Effect.Effect<unknown, unknown, Scope.Scope>
}

/** Call it at the top of a test file. */
export const register = ({ absent, kind, layer, running, workspace }: Boxes) => {
  const reason = absent ?? noScript
  if (reason !== undefined) return it.skip(`terminals in boxes of ${kind} (${reason})`)
  describe.concurrent(`terminals in boxes of ${kind}`, { timeout: 120_000 }, () => {
    for (const [name, rule] of Object.entries(RULES)) {
      it.live(name, () =>
        Effect.gen(function*() {
          const id = freshId()
          yield* workspace(id)
          return yield* Effect.provide(rule, Layer.merge(Layer.succeed(Own, id), Layer.succeed(Running, running)))
        }).pipe(Effect.scoped, Effect.provide(Layer.merge(layer, TerminalsOfBoxes.layer))))
    }
  })
}
