/**
 * The frames of an editor and `slipway acp` with an approval, a question, and a restart of the server. They are compared with
 * `transcript.jsonl`; after a wanted change `vitest -u` writes it again.
 */
import { assert, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync } from "node:fs"
import path from "node:path"
import { environment, folder, freePort, repository, run, serve } from "../SlipwayProcess.ts"
import { choosing, editor, type EditorProcess, type Frame } from "./EditorProcess.ts"

const LONG = 300_000

/** Values that differ between runs, by names in the order of their appearance. */
const VALUES: ReadonlyArray<readonly [string, RegExp]> = [
  ["sandbox", /c_[a-z2-9]{12}/gu],
  ["uuid", /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gu],
  ["time", /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/gu]
]

const normalized = (text: string, fixed: ReadonlyArray<readonly [string, string]>): string => {
  let named = text
  for (const [value, name] of fixed) named = named.replaceAll(value, name)
  named = named.replaceAll(/\d+(?:\.\d+)? s\b/gu, "<seconds> s").replaceAll(/slipway:\d+/gu, "slipway:<event>")
  for (const [name, pattern] of VALUES) {
    const seen = new Map<string, string>()
    named = named.replaceAll(pattern, (value) => {
      if (!seen.has(value)) seen.set(value, name === "time" ? "<time>" : `<${name} ${seen.size + 1}>`)
      return seen.get(value) ?? value
    })
  }
  return named
}

interface Chunk {
  readonly params?: {
    readonly update?: { readonly sessionUpdate: string; readonly messageId?: string; readonly content?: { text?: string } }
  }
}

/** One line for each frame. Chunks of one message are one, because the network cuts them. */
const linesOf = (frames: ReadonlyArray<Frame>): ReadonlyArray<string> => {
  const joined: Array<Frame> = []
  for (const frame of structuredClone(frames)) {
    const { update } = (frame.message as Chunk).params ?? {}
    const { update: last } = (joined.at(-1)?.message as Chunk | undefined)?.params ?? {}
    const isNext = update?.sessionUpdate.endsWith("_chunk") === true && update.sessionUpdate === last?.sessionUpdate &&
      update.messageId !== undefined && update.messageId === last.messageId
    if (isNext && last.content !== undefined) last.content.text = `${last.content.text}${update.content?.text}`
    else joined.push(frame)
  }
  return joined.map(({ from, message }) => `${from === "editor" ? "→" : "←"} ${JSON.stringify(message)}`)
}

const said = (one: EditorProcess) => one.text("agent_message_chunk")

it.live("an editor's frames are the recorded ones, with nothing lost or twice over a restart of the server", () =>
  Effect.gen(function*() {
    const data = yield* folder
    const settings = { SLIPWAY_ISOLATION: "none", SLIPWAY_PORT: String(yield* freePort) }
    const first = yield* serve(data, settings)
    yield* run(data, ["repos", "add", "acme/shop", repository(data)])
    const checkout = path.join(data, "checkout")
    mkdirSync(checkout)
    execFileSync("git", ["init", "--quiet"], { cwd: checkout })
    execFileSync("git", ["remote", "add", "origin", "git@git.example:acme/shop.git"], { cwd: checkout })
    const one = yield* editor({
      cwd: checkout,
      args: ["--approvals", "prompt"],
      env: { ...environment(data, {}), SLIPWAY_URL: first.url, SLIPWAY_API_KEY: first.key },
      capabilities: { elicitation: { form: {} } },
      onPermission: choosing("approve"),
      onForm: () => Promise.resolve({ action: "accept", content: { question_1: "Small", question_1_text: "Small, but not tiny" } })
    })
    const ask = <A>(request: () => Promise<A>) => Effect.promise(request)
    const id = yield* ask(() => one.open(checkout))
    yield* ask(() => one.prompt(id, "[[plan > Write; - Ask]][[write path=src/a.ts content=export const a = 1]][[say Written]]"))
    yield* ask(() => one.prompt(id, "[[ask Which size? | Small | Large]]"))
    yield* first.stop("SIGTERM")
    yield* ask(() => one.program.says((output) => output.includes("the connection to") ? true : null))
    const second = yield* serve(data, settings)
    assert.strictEqual(second.url, first.url)
    const { stopReason } = yield* ask(() => one.prompt(id, "[[say After the restart]][[recall]]"))
    assert.strictEqual(stopReason, "end_turn")
    for (const text of ["Written", "but not tiny", "After the restart"]) assert.include(said(one), text)
    assert.strictEqual(said(one).split("After the restart").length, 2)
    assert.deepStrictEqual([one.permissions.length, one.forms.length, one.strange], [1, 1, []])
    assert.notInclude(one.program.output(), first.key ?? "no key")
    const fixed = [[checkout, "<cwd>"], [first.url, "<url>"]] as const
    yield* ask(() => expect(`${normalized(linesOf(one.frames).join("\n"), fixed)}\n`).toMatchFileSnapshot("./transcript.jsonl"))
  }), LONG)
