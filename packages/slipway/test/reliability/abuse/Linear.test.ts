/**
 * Functions that take texts of strangers, agents, repositories and providers, on hostile shapes of 64 and of 128 KiB: twice the text
 * may not take more than three times the processor time. Time that others had the processor does not count. What has no
 * time to speak of is not compared.
 */
import { assert, it } from "@effect/vitest"
import * as CodexCalls from "@slipway/agents/codex/Codex"
import * as Script from "@slipway/agents/offline/Script"
import * as ApiKey from "@slipway/domain/access/rules/ApiKey"
import { userCodeOf } from "@slipway/domain/access/rules/DeviceLogin"
import { handleOf } from "@slipway/domain/access/rules/User"
import { OutputRedactor } from "@slipway/domain/environment/redaction/OutputRedactor"
import { Redactor } from "@slipway/domain/environment/redaction/Redaction"
import * as CachePath from "@slipway/domain/environment/rules/CachePath"
import { destination } from "@slipway/domain/environment/rules/Destination"
import { readDevContainer } from "@slipway/domain/environment/rules/DevContainer"
import { readEnvironment } from "@slipway/domain/environment/rules/Environment"
import { fromTraceparent } from "@slipway/domain/observability/RootSpan"
import { recordable } from "@slipway/domain/sandbox/rules/OutputLimit"
import * as ToolCall from "@slipway/domain/sandbox/rules/ToolCall"
import { titleOf } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import * as FileRules from "@slipway/domain/source/rules/FileRules"
import { isRefName } from "@slipway/domain/source/schema/Naming"
import { sandboxOf } from "@slipway/domain/source/schema/PullRequest"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as Shortstat from "@slipway/git/save/Shortstat"
import { tokenOf } from "@slipway/http/server/access/SessionCookie"
import * as ClientAddress from "@slipway/http/server/ClientAddress"
import { attachment } from "@slipway/http/server/reply/ContentDisposition"
import { atOnce, html } from "@slipway/pages/html/Html"
import * as Form from "@slipway/pages/layout/Form"
import { localPath } from "@slipway/pages/layout/Page"
import * as ApprovalDiff from "@slipway/pages/sandboxes/changes/ApprovalDiff"
import { compare } from "@slipway/pages/sandboxes/changes/ChangedWords"
import * as Patch from "@slipway/pages/sandboxes/changes/Patch"
import { Conversation } from "@slipway/pages/sandboxes/conversation/Conversation"
import * as Code from "@slipway/pages/text/Code"
import * as Languages from "@slipway/pages/text/Languages"
import * as Markdown from "@slipway/pages/text/Markdown"
import { DateTime, Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import * as Answer from "../../../src/commands/terminal/Answer.ts"
import * as EventText from "../../../src/commands/terminal/EventText.ts"

const CHARACTERS = 128 * 1024
const MOST_TIMES = 3
/** Quadratic work on these texts takes a second and more; below this the clock, the compiler and the collector decide. */
const LEAST_MILLIS = 100
/** The counts of a function that seems too slow: the fastest of them is free of the other work of the machine. */
const TRIES = 8

/** Repeated, and followed by something that does not fit. */
const shapes: Readonly<Record<string, string>> = {
  letters: "a",
  blanks: " ",
  "line feeds": "\n",
  "blanks and line feeds": " \n",
  dots: ". ",
  slashes: "/",
  digits: "1",
  quotes: "\"",
  backslashes: "\\",
  commas: ", ",
  brackets: "[[",
  braces: "{\"a\":",
  colons: ":",
  equals: "a=b;",
  directives: "[[say ",
  tags: "<a ",
  backticks: "`*_",
  "hidden characters": "\u202e",
  "combining marks": "\u0315\u0316",
  emoji: "\u{1f468}\u200d",
  percent: "%41",
  "patch lines": "@@ -1 +1 @@\n-a\n+b\n"
}

const request = (headers: Record<string, string>) =>
  ({ headers, cookies: {}, text: Effect.succeed("") }) as unknown as HttpServerRequest.HttpServerRequest

const at = DateTime.makeUnsafe(0)
const conversation = (output: string) => {
  const told = new Conversation()
  told.add(
    {
      seq: 1,
      at,
      event: { type: "tool.updated", data: { call_id: "1", tool: output, status: "completed", detail: { output, command: output } } }
    } as unknown as Parameters<Conversation["add"]>[0]
  )
  return told.items
}
const redactor = new Redactor()
redactor.learn("correct horse battery staple")
const output = new OutputRedactor(["correct horse battery staple"])
const codex = (command: string) => ({ id: "1", type: "commandExecution", command }) as unknown as Parameters<typeof CodexCalls.titleOf>[0]

const functions: Readonly<Record<string, (text: string) => unknown>> = {
  "a form's content-type": (text) =>
    Effect.runSync(Effect.result(Form.read(request({ "content-type": `application/x-www-form-urlencoded${text}` })))),
  "a form": (text) =>
    Effect.runSync(Effect.result(Form.read(
      { ...request({ "content-type": "application/x-www-form-urlencoded" }), text: Effect.succeed(text) } as unknown as Parameters<
        typeof Form.read
      >[0]
    ))),
  "a key": (text) => ApiKey.fromHeader(`Bearer ${text}`),
  "a scheme": (text) => ApiKey.fromHeader(text),
  "a cookie": (text) => tokenOf(request({ cookie: text }), ""),
  "addresses of proxies": (text) => ClientAddress.clientOf("127.0.0.1", text, () => true),
  "a traceparent": (text) => fromTraceparent(text),
  "a local path": localPath,
  "a file's name in a header": attachment,
  "a code": userCodeOf,
  "a handle": handleOf,
  "a title of a prompt": (text) => titleOf(`a${text}`),
  "a script": Script.parse,
  "a directive": (text) => Script.parse(`[[shell true${text}; true]]`),
  "options of a directive": (text) => Script.parse(`[[write path="${text}" content=x]]`),
  "a tool's title": (text) => ToolCall.shownTitle(`a${text}`),
  "a tool's paths": (text) => ToolCall.shownPaths([text]),
  "a tool's preview": (command) => ToolCall.preview({ kind: "command", command } as ToolCall.ToolCall),
  "a tool's detail": (text) => ToolCall.detail({ command: text, output: text, paths: [text] } as unknown as ToolCall.ToolCall),
  "an edit": (text) => ToolCall.unifiedDiff("a", text, text.slice(1)),
  "a write": (text) => ToolCall.unifiedDiff("a", null, text),
  "a part": recordable,
  "what is hidden": visible,
  "a protected path": FileRules.isProtected,
  "a path for git": FileRules.isGitPath,
  "a path": FileRules.normalizePath,
  "a ref": isRefName,
  "a branch": sandboxOf,
  "a path of a cache": CachePath.parse,
  "a destination": destination,
  "an environment": (text) => readEnvironment("environment.json", text),
  "a devcontainer": (text) => readDevContainer("devcontainer.json", `{"a": [1${text}`, { workspaceFolder: "/w", env: new Map() }),
  "a command of codex": (text) => CodexCalls.titleOf(codex(`/bin/bash -lc '${text}`)),
  "a summary of git": Shortstat.parse,
  "a secret's shapes": (text) => redactor.redact(text),
  "a secret's shapes behind a beginning": (text) => redactor.redact(`sk-${text}`),
  "a setup's output": (text) => output.redact(text),
  "a conversation": conversation,
  "a text on a page": (text) => String(html`${Markdown.render(text, { bytes: 2 ** 20 }, (shown) => shown)}`),
  "code on a page": (text) => String(Code.block(text, Languages.named("ts"))),
  "an approval's diff": (text) => ApprovalDiff.parse(`--- a\n+++ b\n${text}`),
  "a patch on a page": (text) =>
    atOnce(Patch.read(Buffer.from(`diff --git a/a b/a\n--- a/a\n+++ b/a\n${text}`), { lines: 1000, whole: null })),
  "a changed line": (text) => compare(text, `${text}b`),
  "a language": Languages.ofFile,
  "an event in a terminal": (text) => EventText.line(`a${text}`),
  "an answer in a terminal": (text) => Answer.read(`no${text}`)
}

/** Milliseconds of the processor. */
const cost = (run: () => unknown): number => {
  const before = process.cpuUsage()
  run()
  const { system, user } = process.cpuUsage(before)
  return (system + user) / 1000
}

/** The fastest counts of a text and of its half, until they are near enough to each other. */
const growth = (run: (text: string) => unknown, whole: string, half: string): { readonly long: number; readonly short: number } => {
  let long = Infinity
  let short = Infinity
  for (let i = 0; i < TRIES; i++) {
    long = Math.min(long, cost(() => run(whole)))
    if (long < LEAST_MILLIS) break
    short = Math.min(short, cost(() => run(half)))
    if (long < MOST_TIMES * short) break
  }
  return { long, short }
}

for (const [name, run] of Object.entries(functions)) {
  it(`${name} is read in a time that grows with its length alone`, () => {
    const tooSlow: Array<string> = []
    for (const [shape, unit] of Object.entries(shapes)) {
      const text = (characters: number) => `${unit.repeat(Math.floor(characters / unit.length))}x`
      const { long, short } = growth(run, text(CHARACTERS), text(CHARACTERS / 2))
      if (long < LEAST_MILLIS || long < MOST_TIMES * short) continue
      tooSlow.push(`${shape}: ${short.toFixed(0)} ms, twice as long ${long.toFixed(0)} ms`)
    }
    assert.deepStrictEqual(tooSlow, [])
  })
}
