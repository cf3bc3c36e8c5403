/**
 * A terminal in a real box as an attacker (docs/decisions/32): its shell sees no more than the agent does, and what it writes comes out as
 * bytes that nothing in the service obeys or answers.
 */
import { assert, describe, it } from "@effect/vitest"
import { LocalTerminals, type TerminalAttachment } from "@slipway/domain/sandbox/ports/Terminals"
import { Deferred, Effect, Exit, Layer, Stream } from "effect"
import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { OfferedTerminals } from "../../src/terminal/TerminalsOfBoxes.ts"
import * as TerminalsOfBoxes from "../../src/terminal/TerminalsOfBoxes.ts"
import { layer, look, Place, sandbox, SECRET, type Sandbox } from "./Service.ts"

/** Machines under load take long; a hanging test ends all the same. */
const PATIENCE = 600_000

/** Begins and ends the output of a script, because the terminal also shows what is typed. */
const [BEGIN, END] = ["<<<", ">>>"]

/** The output of a script that is typed into a terminal of the sandbox. */
const typed = Effect.fnUntraced(function*({ box, id }: Sandbox, script: string) {
  yield* OfferedTerminals.use((offered) => offered.offer(id, (command) => box.spawn(command), Effect.succeed("rested")))
  const local = yield* LocalTerminals
  const terminal: TerminalAttachment = yield* local.attach(id, { terminal: 1, size: { columns: 200, rows: 50 } })
  const done = Deferred.makeUnsafe<string>()
  let text = ""
  yield* Effect.forkScoped(Stream.runForEach(terminal.output, (output) =>
    Effect.sync(() => {
      if (output._tag === "Bytes") text += Buffer.from(output.bytes).toString("latin1")
      const begin = text.indexOf(`${BEGIN}\r\n`)
      const end = text.indexOf(`${END}\r\n`, begin)
      if (begin >= 0 && end >= 0) Deferred.doneUnsafe(done, Exit.succeed(text.slice(begin + BEGIN.length + 2, end)))
    })))
  yield* terminal.write(Buffer.from(`printf '%s\\n' '<<''<'; ${script}; printf '%s\\n' '>>''>'\r`))
  return yield* Deferred.await(done)
}, Effect.scoped)

const services = () => Layer.merge(layer(), TerminalsOfBoxes.layer)

describe("a terminal in a box", () => {
  it.live("sees the files, programs and processes of its own box alone", () =>
    Effect.gen(function*() {
      const { outside } = yield* Place
      const secret = join(outside, "key")
      writeFileSync(secret, "canary-7Qm2-key", { mode: 0o644 })
      process.env["TERMINAL_CANARY"] = "canary-7Qm2-env"
      const [other, own] = [yield* sandbox({}), yield* sandbox({})]
      writeFileSync(join(other.tree, "theirs"), "canary-7Qm2-other")
      const seen = yield* typed(
        own,
        `cat ${secret} ${other.tree}/theirs /proc/1/environ 2>&1; env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; ls -la /dev/pts ` +
          "/ ~ ~/..; echo pids $(ls -d /proc/[0-9]* | wc -l)"
      )
      delete process.env["TERMINAL_CANARY"]
      assert.notInclude(seen, "canary-7Qm2")
      assert.notInclude(seen, SECRET)
      // A handful: the reader of lines, script, the shell.
      assert.isBelow(Number(/pids (\d+)/u.exec(seen)?.[1]), 15)
      // As the agent: the same user, and no more rights.
      const rights = "id -u; grep -E 'Cap|NoNewPrivs|Seccomp:' /proc/self/status"
      assert.strictEqual((yield* typed(own, rights)).replaceAll("\r", "").trimEnd(), yield* look(own, rights))
    }).pipe(Effect.scoped, Effect.provide(services())), PATIENCE)

  it.live("gets no answer to what it writes, and nothing of it is obeyed", () =>
    Effect.gen(function*() {
      const { outside } = yield* Place
      const loot = join(outside, "loot")
      const box = yield* sandbox({})
      // Title, clipboard (set and asked for), device status and attributes, answerback; HTML; a second greeting; a line of sizes.
      const hostile = String.raw`\033]0;owned\007\033]52;c;b3duZWQ=\007\033]52;c;?\007\033[6n\033[c\033[>c\033[21t\005` +
        String.raw`<script>alert(1)</script>\nslipway-terminal /dev/pts/9;touch ${loot}\nr /dev/pts/0 7 7\ni touch ${loot}\r`
      const seen = yield* typed(box, `printf '${hostile}'; read -t 1 -n 1 back; echo "[$back]"; stty size`)
      // The bytes themselves, and no key.
      assert.include(seen, "\x1b]52;c;b3duZWQ=\x07\x1b]52;c;?\x07\x1b[6n\x1b[c")
      assert.include(seen, "<script>alert(1)</script>")
      assert.match(seen, /\[\]\r\n50 200\r\n$/u)
      assert.isFalse(existsSync(loot))
    }).pipe(Effect.scoped, Effect.provide(services())), PATIENCE)

  it.live("ends with everything that was started in it", () =>
    Effect.gen(function*() {
      const box = yield* sandbox({})
      yield* typed(
        box,
        "setsid nohup sh -c 'while :; do date +%s%N > ~/beat; sleep 0.1; done' >/dev/null 2>&1 & until [ -s ~/beat ]; do :; done"
      )
      const first = yield* look(box, "cat ~/beat")
      assert.strictEqual(yield* look(box, "sleep 1; cat ~/beat"), first)
    }).pipe(Effect.scoped, Effect.provide(services())), PATIENCE)
})
