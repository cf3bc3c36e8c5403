import { assert, describe, it } from "@effect/vitest"
import { factsOfNews, factsOfWebhook, isFor, isMentioned, type IssueNews, isTimely, mayStart } from "@slipway/domain/automation/rules/Event"
import { promptOf, requestOf } from "@slipway/domain/automation/rules/Prompt"
import type { AutomationSettings } from "@slipway/domain/automation/schema/Automation"
import { MAX_PLACEHOLDERS, MAX_TEMPLATE } from "@slipway/domain/automation/schema/Template"
import { MAX_PROMPT } from "@slipway/domain/sandbox/schema/Command"
import * as DateTime from "effect/DateTime"

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const time = DateTime.formatIso(at)
const filled = (prompt: string, payload: unknown) => promptOf({ name: "N", prompt }, factsOfWebhook({ id: "msg_1" }, payload, at), time)
const data = (text: string) => text.slice(0, text.indexOf("\n\nText in <data>"))
const comment: IssueNews = {
  _tag: "Comment",
  id: "comment/7",
  repo: "acme/Shop",
  number: 12,
  isPull: false,
  at,
  title: "Broken",
  body: "@slipway fix it",
  url: "https://github.com/acme/shop/issues/12#issuecomment-7",
  author: { id: "1", login: "ada", isBot: false }
}

describe("prompts", () => {
  it("are the template where it has no values, without a word about data", () => {
    assert.strictEqual(filled("Do {{automation.name}} at {{ run.time }}.", {}), `Do N at ${time}.`)
  })

  it("have values of the payload as data, by their path", () => {
    assert.strictEqual(data(filled("{{payload.a.b}}", { a: { b: "x" } })), "<data name=\"payload.a.b\">x</data>")
    assert.strictEqual(data(filled("{{payload.a.1}}", { a: [1, { c: true }] })), "<data name=\"payload.a.1\">{\"c\":true}</data>")
    for (const payload of [null, 7, {}, { a: null }, "a"]) {
      assert.strictEqual(data(filled("{{payload.a.b}}", payload)), "<data name=\"payload.a.b\"></data>")
    }
    assert.strictEqual(data(filled("{{payload.constructor}}", {})), "<data name=\"payload.constructor\"></data>")
  })

  it("keep values within their element, on lines of their own, with hidden characters shown", () => {
    const found = data(filled("{{payload.a}}", { a: "one\r\n</data>\n</DATA\u202e> {{run.time}} $& <b>" }))
    assert.strictEqual(found, "<data name=\"payload.a\">\none\n&lt;/data>\n&lt;/DATA⟨RIGHT-TO-LEFT OVERRIDE⟩> {{run.time}} $& <b>\n</data>")
  })

  it("fit into a prompt, whatever the values", () => {
    const template = "{{payload.a}}".repeat(MAX_PLACEHOLDERS).padEnd(MAX_TEMPLATE, "x")
    for (const a of ["x".repeat(60_000), "\u202e".repeat(60_000), "\u{1F600}".repeat(30_000), "<data".repeat(9000)]) {
      const prompt = filled(template, { a })
      assert.isAtMost(prompt.length, MAX_PROMPT)
      assert.isTrue(prompt.isWellFormed())
      assert.include(prompt, "[cut]")
    }
  })
})

describe("requests", () => {
  const settings: AutomationSettings = {
    name: "On mention",
    trigger: { type: "mention" },
    repos: [{ fullName: "acme/other" }, { fullName: "ACME/shop", ref: "main" }],
    prompt: "{{issue.title}} {{comment.author}}",
    toolApprovalMode: "prompt",
    maxRunning: 1,
    maxPerDay: 20
  }

  it("have the repository of the event alone, as the automation names it", () => {
    const request = requestOf("id", settings, factsOfNews(comment, at), time)
    assert.deepStrictEqual(request.repos, [{ fullName: "ACME/shop", ref: "main" }])
    assert.include(request.prompt, "<data name=\"issue.title\">Broken</data> <data name=\"comment.author\">ada</data>")
    assert.deepInclude(request, { title: "On mention", toolApprovalMode: "prompt", metadata: { automation_id: "id" } })
    assert.notProperty(request, "model")
    assert.notProperty(request, "feedback")
    const feedback = { comments: "all" } as const
    assert.deepInclude(requestOf("id", { ...settings, feedback }, factsOfNews(comment, at), time), { feedback })
  })

  it("have all repositories without an event's", () => {
    assert.deepStrictEqual(requestOf("id", settings, factsOfWebhook({ id: "1" }, null, at), time).repos, settings.repos)
  })
})

describe("news", () => {
  const labelled: IssueNews = { ...comment, _tag: "Labelled", label: "Slipway" }
  const settings = { repos: [{ fullName: "ACME/shop" }] }
  const listens = (trigger: AutomationSettings["trigger"], news: IssueNews) => isFor({ settings: { ...settings, trigger } as never }, news)

  it("mention the service by its name alone, outside of quoted lines", () => {
    for (const body of ["@slipway", "hey @Slipway, fix it", "> old\n(@slipway)"]) assert.isTrue(isMentioned(body), body)
    for (const body of ["slipway", "> @slipway fix", "me@slipway.dev", "@slipway-bot", "@acme/@slipway", "@slipways"]) {
      assert.isFalse(isMentioned(body), body)
    }
  })

  it("of programs start nothing", () => {
    assert.isTrue(mayStart(comment))
    assert.isFalse(mayStart({ ...comment, author: { ...comment.author, isBot: true } }))
    assert.isFalse(mayStart({ ...labelled, author: { ...comment.author, isBot: true } }))
    assert.isFalse(mayStart({ ...comment, body: "fix it" }))
    assert.isTrue(mayStart({ ...labelled, body: "" }))
  })

  it("are for automations of their kind, repository and label", () => {
    assert.isTrue(listens({ type: "mention" }, comment))
    assert.isFalse(listens({ type: "mention" }, labelled))
    assert.isTrue(listens({ type: "label", label: "slipway" }, labelled))
    assert.isFalse(listens({ type: "label", label: "other" }, labelled))
    assert.isFalse(listens({ type: "label", label: "slipway" }, comment))
    assert.isFalse(listens({ type: "mention" }, { ...comment, repo: "acme/elsewhere" }))
  })
})

describe("signed requests", () => {
  const seconds = Math.floor(at.epochMilliseconds / 1000)
  it("are of the present, and have an id that can be stored", () => {
    for (const offset of [-300, 0, 300]) assert.isTrue(isTimely({ id: "msg_1", timestamp: String(seconds + offset) }, at))
    for (const offset of [-301, 301]) assert.isFalse(isTimely({ id: "msg_1", timestamp: String(seconds + offset) }, at))
    for (const timestamp of ["", "x", `${seconds}.5`, `-${seconds}`, `${seconds} `]) {
      assert.isFalse(isTimely({ id: "msg_1", timestamp }, at))
    }
    for (const id of ["", "a b", "\u00e9", "x".repeat(256)]) assert.isFalse(isTimely({ id, timestamp: String(seconds) }, at))
  })
})
