/** Foreign text makes no markup beyond that of Markdown and hides nothing, wherever a page shows it: texts times places. */
import { assert, layer } from "@effect/vitest"
import { FileNotFound, NotADirectory, type WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { MemoryRepositories, type MemoryRepository } from "@slipway/domain/memory/files/MemoryRepositories"
import * as SourceHostMemory from "@slipway/domain/memory/source/SourceHostMemory"
import { PartnerStore } from "@slipway/domain/partner/ports/PartnerStore"
import { WebhookStore } from "@slipway/domain/partner/ports/WebhookStore"
import { EVENT_TYPES } from "@slipway/domain/partner/rules/Webhook"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import { headRef } from "@slipway/domain/source/schema/Naming"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { HIDDEN, visible } from "@slipway/domain/text/EscapeInvisible"
import { MachineRepositories, UnusableFolder } from "@slipway/pages/repositories/MachineRepositories"
import { DateTime, Effect, Layer, Result } from "effect"
import { type Fields, type Visitor, visitorIn } from "../testing/Browser.ts"
import { drive, layer as http, running } from "../testing/Harness.ts"

/** Everything that Markdown may make of a text. */
const MARKDOWN = `# Heading\n\n*a* **b** \`c\` [d](https://e.test) ![f](https://g.test/h.png)\n\n> quoted\n\n- one\n\n1. two\n\n---\n
| a | b |\n|:--|--:|\n| 1 | 2 |\n\n\`\`\`ts\nconst i = "j" // k\nnew Date(1)\nclass L {}\n\`\`\`\n\nline  \nbreak`

const STAIRS = Array.from({ length: 300 }, (_, i) => `${" ".repeat(i)}- x`).join("\n")

const TEXTS: Readonly<Record<string, string>> = {
  HTML: `</pre></td></li></h1></title></textarea>--><script>alert(1)</script><img src=x onerror=alert(1)><svg/onload=alert(1)>`,
  "attributes and entities":
    `" onmouseover="alert(1)" style="x" y='z' \`z\` autofocus &lt;script&gt;alert(1)&lt;/script&gt; &#x202e; &#0; &colon;`,
  "Markdown links":
    "[a](javascript:alert(1)) [b](JaVaScRiPt&colon;alert(1)) [c](data:text/html,<script>alert(1)</script>) <javascript:alert(1)> " +
    "![d](data:image/svg+xml,<svg/onload=alert(1)>) [e]: vbscript:x [e] [f](//evil.test) [g](\u0001javascript:alert(1)) " +
    "**<b onclick=alert(1)>x</b>** <iframe srcdoc='<script>alert(1)</script>'></iframe> <a href=javascript:alert(1)>y</a>",
  nesting: `${"> ".repeat(400)}${"[".repeat(2_000)}${"*".repeat(2_000)}deep\n${STAIRS}`,
  "what is hidden":
    "safe \u202egnp.exe\u202c \u2066x\u2069 \u200fy \u061c a\u200bb\u200cc\u2060d\ufeffe\u00adf\u3164g\u2800h \u001b[31mred " +
    "\u001b]0;title\u0007 \u001b[2K\r\b\u009b1m",
  "a long line": "w".repeat(1_000_000)
}

let text = ""
/** The text as a name of a file or a branch may be. */
const named = () => `${text.replaceAll(/[/\0\n]/gu, "").slice(0, 200)}.txt`
/** The text as git lets a branch be named, with no special character but those of markup. */
const branch = () => ["b-", text.replaceAll(/[\0-\x20\x7f~^:?*[\\/.@{]/gu, "").slice(0, 200)].join("")
/** The text as a part of one line. */
const line = (length: number) => text.replaceAll("\n", " ").slice(0, length).trim()
const picture = () => `${named()}.png`
const octal = (name: string) => Array.from(Buffer.from(name), (byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("")
const patch = () =>
  Buffer.from(`diff --git "a/${octal(named())}" "b/${octal(named())}"
--- "a/${octal(named())}"
+++ "b/${octal(named())}"
@@ -1,1 +1,2 @@ ${line(200)}
-${line(900)}
+${line(900)} more
+${line(1_000_000)}
`)

const file = () => ({ path: named(), status: "modified" as const, additions: 2, deletions: 1, previousPath: null })
const trees: Partial<WorkingTrees["Service"]> = {
  has: () => Effect.succeed(true),
  changes: () => Effect.sync(() => ({ files: [file()], partialWarnings: [] })),
  diff: () => Effect.sync(patch),
  list: (_, path) =>
    Effect.suspend(() =>
      path === ""
        ? Effect.succeed({
          directory: "",
          entries: [{ ...file(), name: named(), depth: 0, kind: "file" as const, size: 1, mtimeMs: 0 }],
          partialWarnings: [],
          scope: "all" as const
        })
        : Effect.fail(new NotADirectory())
    ),
  search: () =>
    Effect.sync(() => ({
      files: [{ path: named(), lines: [{ number: 1, text: line(200) }], lineCount: 2 }],
      isComplete: false
    })),
  compare: (_, path) =>
    Effect.suspend(() => {
      const content = path === named() ? text : null
      const working = { content, hash: "0", ref: "working", size: text.length, binary: content === null }
      return content !== null || path === picture()
        ? Effect.succeed({ base: null, head: null, working })
        : Effect.fail(new FileNotFound())
    })
}

/** Repositories in folders that are named so. */
const folders = Layer.effect(
  MachineRepositories,
  Effect.map(MemoryRepositories, (repositories) => ({
    list: Effect.sync(() => repositories.names().map((fullName) => ({ fullName, path: `/srv/${line(200)}` }))),
    add: () => Effect.suspend(() => Effect.fail(new UnusableFolder({ text: line(200) }))),
    addSample: Effect.die("no sample here"),
    remove: () => Effect.die("none is removed here"),
    names: () => Effect.sync(() => [{ name: named(), isFolder: false }])
  }))
)

const served = Layer.unwrap(Effect.gen(function*() {
  return http({ trees, host: yield* SourceHost, pulls: yield* PullRequests })
})).pipe(Layer.provide(folders), Layer.provideMerge(SourceHostMemory.layer), Layer.provideMerge(MemoryRepositories.layer))

/** Records what the agent does and asks for in its turn. */
const work = Effect.fnUntraced(function*(id: SandboxId, turn: string) {
  const part = { message_id: "m" }
  const tool = { ...part, part_id: "tool:c", call_id: "c", tool: line(200) }
  yield* drive(id, [
    {
      _tag: "RecordWork",
      turnId: turn,
      events: [
        { type: "message.updated", data: { ...part, part_id: "m:text", kind: "text", text: text.slice(0, 60_000) } },
        { type: "message.updated", data: { message_id: "n", part_id: "n:text", kind: "text", text: `needle ${text.slice(0, 4_000)}` } },
        { type: "message.completed", data: { message_id: "n", finish: "end_turn" } },
        { type: "message.updated", data: { ...part, part_id: "m:reasoning", kind: "reasoning", text: text.slice(0, 60_000) } },
        {
          type: "tool.updated",
          data: { ...tool, status: "completed", detail: { command: line(2_000), paths: [named()], output: text.slice(0, 60_000) } }
        },
        { type: "tool.updated", data: { ...tool, part_id: "tool:d", call_id: "d", status: "error", error: line(2_000) } }
      ]
    },
    {
      _tag: "RequestApproval",
      turnId: turn,
      approval: { approval_id: "run", tool: line(200), kind: "command", preview: { command: text.slice(0, 2_000), cwd: line(200) } }
    },
    {
      _tag: "RequestApproval",
      turnId: turn,
      approval: { approval_id: "edit", tool: line(200), kind: "edit", paths: [named()], preview: { diff: patch().toString() } }
    }
  ])
})

/** Opens the sandbox's pull request into the branch; its head. */
const publish = Effect.fnUntraced(function*(id: SandboxId, repository: MemoryRepository) {
  const { fullName } = repository
  const author = { name: line(100), email: "a@b.test" }
  const headSha = repository.commit(headRef(id), { [named()]: `${text}\n` }, { message: text, author, seconds: 0 })
  yield* (yield* SourceHost).openDraftPullRequest(fullName, {
    title: line(120),
    body: text.slice(0, 60_000),
    baseRef: branch(),
    headRef: headRef(id),
    headSha,
    at: yield* DateTime.now
  })
  const published = {
    type: "pull_request.updated",
    data: {
      repo: fullName,
      action_state: "idle",
      number: 1,
      state: "open",
      draft: true,
      merged: false,
      head_sha: headSha,
      title: line(200)
    }
  } as const
  yield* (yield* SandboxStore).change(id, "policy", () => Result.succeed([published]), yield* DateTime.now)
  return headSha
})

/** Registers an endpoint of the grant, and records an attempt that it answered with the text. */
const deliver = Effect.fnUntraced(function*({ grantId, post }: Visitor) {
  yield* post("/webhooks", { url: `https://hooks.test/x${line(200).replaceAll("#", "")}`, type: EVENT_TYPES })
  yield* (yield* PartnerStore).createClaim({ claimId: crypto.randomUUID(), grantId, leadId: "lead", variant: "b", creditAmount: 1 })
  const store = yield* WebhookStore
  const at = DateTime.add(yield* DateTime.now, { seconds: 1 })
  const [endpoint] = yield* store.list(grantId)
  const claimed = (yield* store.take(at, 1_000)).find(({ endpointId }) => endpointId === endpoint?.id)
  assert(claimed !== undefined)
  const outcome = { _tag: "Answered", status: 200, retryAfter: null, body: text.replaceAll("\0", "").slice(0, 1_000) } as const
  yield* store.record(claimed, { at, durationMillis: 1, outcome }, { _tag: "Delivered" }, at)
  return claimed.endpointId
})

/** The pages that show a text, and the answers to forms with it, each by the place where it does. */
const pagesOf = Effect.fnUntraced(function*(grant: string) {
  const person = yield* visitorIn(grant, "owner")
  const { get, key, post } = person
  const fullName = RepoName.make(`acme/${grant}`)
  const repository = (yield* MemoryRepositories).add(fullName, { a: "one\n" }, branch())
  const { id, turn } = yield* running(key, {
    title: line(120),
    prompt: text.slice(0, 60_000),
    repos: [{ fullName, ref: branch() }],
    metadata: { "a": line(500) },
    toolApprovalMode: "prompt"
  })
  yield* work(id, turn)
  const headSha = yield* publish(id, repository)
  const endpoint = yield* deliver(person)
  yield* post("/keys", { name: line(60), scope: "sandboxes", expires: "never" })
  yield* post("/secrets", { repo: fullName, name: "NPM_TOKEN", value: "7Qm2 is a secret" })
  yield* post("/secrets/refs", { repo: fullName, ref: branch() })
  const path = encodeURIComponent(named())
  const typed = encodeURIComponent(line(100))
  const addresses = [
    "/sandboxes",
    "/sandboxes/rows",
    "/sandboxes/waiting",
    `/sandboxes/titles?search=${typed}`,
    "/sandboxes/titles?search=needle",
    `/sandboxes?search=${typed}`,
    "/sandboxes?search=needle",
    `/new/repositories?search=${typed}`,
    `/new/pulls?repo=${typed}`,
    `/new/files?repo=${fullName}&path=`,
    `/sandboxes/${id}`,
    `/sandboxes/${id}?view=log`,
    `/sandboxes/${id}?view=changes`,
    `/sandboxes/${id}?view=pull`,
    `/sandboxes/${id}/read`,
    `/sandboxes/${id}/changes`,
    `/sandboxes/${id}/changes?path=${path}`,
    `/sandboxes/${id}/changes?layout=split`,
    `/sandboxes/${id}/changes?path=${path}&layout=split`,
    `/sandboxes/${id}/files`,
    `/sandboxes/${id}/files?path=${path}`,
    `/sandboxes/${id}/files?path=${encodeURIComponent(picture())}`,
    `/sandboxes/${id}/files?find=${encodeURIComponent(`${line(60)}~`)}`,
    `/sandboxes/${id}/files?search=${typed}`,
    `/sandboxes/${id}/files/names?path=`,
    `/sandboxes/${id}/approvals/run`,
    `/sandboxes/${id}/approvals/edit`,
    `/sandboxes/${id}/terminate`,
    `/sandboxes/terminate?id=${id}`,
    `/sandboxes/${id}/text?item=${encodeURIComponent("prompt:first")}`,
    `/sandboxes/${id}/send-back?repo=${fullName}`,
    "/pulls",
    `/local/${fullName}/pulls/1`,
    `/local/${fullName}/pulls/1?path=${path}`,
    `/local/${fullName}/pulls/1?layout=split`,
    `/local/${fullName}/pulls/1/merge?sha=${headSha}`,
    "/keys",
    "/audit",
    "/usage",
    `/secrets?repo=${typed}`,
    `/secrets/remove?repo=${fullName}&name=NPM_TOKEN`,
    "/webhooks",
    `/webhooks/${endpoint}`,
    `/webhooks/${endpoint}/remove`,
    "/repositories",
    `/repositories?search=${typed}`,
    `/repositories/remove?name=${fullName}`
  ]
  const forms: ReadonlyArray<readonly [address: string, fields: Fields]> = [
    ["/secrets", { repo: fullName, name: line(60), value: "7Qm2 is a secret" }],
    ["/secrets/refs", { repo: line(60), ref: line(60) }],
    ["/webhooks", { url: line(200), type: EVENT_TYPES }],
    ["/repositories", { name: "acme/other", folder: "/srv/other" }],
    ["/repositories", { name: line(60), folder: "/srv" }],
    [`/sandboxes/${id}/rename`, { title: `renamed ${line(100)}`, live: "yes" }]
  ]
  const read = yield* Effect.forEach(addresses, (address) => Effect.map(get(address), (reply) => ({ address, ...reply })))
  const sent = yield* Effect.forEach(
    forms,
    ([address, fields]) => Effect.map(post(address, fields), (reply) => ({ address: `form ${address}`, ...reply }))
  )
  return [...read, ...sent]
})

const TAG = /<(?:!doctype html|\/[a-z][a-z0-9]*|([a-z][a-z0-9]*)((?:\s+[a-zA-Z][a-zA-Z0-9-]*(?:="[^"]*")?)*)\s*)>/gu
const ATTRIBUTE = /([a-zA-Z][a-zA-Z0-9-]*)(?:="([^"]*)")?/gu

/** Each element with each of its attributes; addresses by where they lead. Fails for `<` and `>` that are of no element. */
const markupOf = (html: string, where: string): ReadonlySet<string> => {
  const rest = html.replaceAll(TAG, "")
  assert.notMatch(rest, /[<>]/u, where)
  return new Set([...html.matchAll(TAG)].flatMap(([, name, attributes = ""]) =>
    name === undefined ? [] : [
      name,
      ...[...attributes.matchAll(ATTRIBUTE)].map(([, attribute = "", value = ""]) => {
        const leads = ["href", "src", "action"].includes(attribute) ? ` to ${/^[a-z][\w+.-]*:|^\/\/|^/iu.exec(value)?.[0]}` : ""
        return `${name} ${attribute}${leads}`
      })
    ]
  ))
}

/** Pages that show the text in fields alone, in addresses, or not at all. */
const WITHOUT = /usage|audit|repositories\?|^\/new|names|terminate\?|\/keys|text\?|remove|^\/webhooks$|^form/u

/** Places of a page that show a text, by what comes before it. */
const PLACES: ReadonlyArray<readonly [address: RegExp, ...places: ReadonlyArray<string>]> = [
  [/^\/sandboxes\?search=needle/u, `class="excerpt">`, `aria-label="Select `],
  [/^\/sandboxes\/titles\?search=needle/u, `class="excerpt">`],
  [/^\/sandboxes\/c_\w+$/u, `id="rail"`, `<h1 id="title"`, `<h1 id="title" data-piece="title" title="`, `id="facts"`],
  [/files\?search=/u, `class="found"><h2>`, `<ul>\n<li><a href`],
  [/files\?path=.*png$/u, `alt="The picture `],
  [/^\/sandboxes.*changes\?layout=split/u, `split"><caption`, `class="line`],
  [/pulls\/1$/u, `<h1 title="`, `id="description-title"`, `<ol class="commits"`, `</code> name `, ` into <code>`, `>Merge into `],
  [/pulls\/1\?layout=split/u, `split"><caption`],
  [/^\/secrets\?/u, `<th scope="row"><code>b-`],
  [/^\/webhooks\/[\w-]{36}$/u, `<summary>Response</summary>`],
  [/^\/repositories$/u, `<span class="fine">/srv/`, `data-label="Default branch">b-name`],
  [/^form \/repositories$/u, `role="alert"`],
  [/rename$/u, `<h1 id="title"`]
]

const hidden = new RegExp(HIDDEN, "u")

layer(served, { excludeTestServices: true })("foreign text", (it) => {
  it.effect("makes no element, attribute or link beyond those of Markdown, and hides nothing, on any page", () =>
    Effect.gen(function*() {
      text = MARKDOWN
      // With one grant the header and the list have less.
      yield* pagesOf("before")
      const allowed = new Map((yield* pagesOf("harmless")).map(({ text: page }, i) => [i, markupOf(page, "harmless")]))
      let i = 0
      for (const [name, hostile] of Object.entries(TEXTS)) {
        text = hostile
        for (const [at, { address, status, text: page }] of (yield* pagesOf(`hostile-${i++}`)).entries()) {
          const where = `${name} at ${address.slice(0, 60)}`
          assert.isBelow(status, 500, where)
          // Some texts are refused as an address, which a paragraph of ours says.
          const more = [...markupOf(page, where)].filter((one) => !allowed.get(at)?.has(one) && one !== "p role")
          assert.deepStrictEqual(more, [], where)
          // Values of fields are sent as they are.
          const read = page.replaceAll(
            / (?:value|href|id|for|data-[a-z]+|action|formaction|aria-describedby|aria-labelledby)="[^"]*"/gu,
            ""
          )
          const found = hidden.exec(read.replaceAll(/<textarea[^]*?<\/textarea>/gu, ""))
          assert.isNull(found, `${where}: ${JSON.stringify(read.slice(Math.max(0, (found?.index ?? 0) - 80), (found?.index ?? 0) + 40))}`)
        }
      }
    }), 300_000)

  it.effect("is shown with the names of what is hidden in it", () =>
    Effect.gen(function*() {
      text = `name \u202egnp.exe \u200b\u001b[31m`
      const pages = yield* pagesOf("named")
      for (const { address, text: page } of pages) {
        if (!WITHOUT.test(address)) assert.include(page, visible("\u202egnp"), address)
      }
      for (const [address, ...places] of PLACES) {
        const page = pages.find((one) => address.test(one.address))?.text ?? assert.fail(`no page of ${address}`)
        for (const place of places) {
          const from = page.indexOf(place)
          assert.include(
            page.slice(from, from + (place.startsWith("id=") ? 1_500 : 250)),
            visible("\u202egnp"),
            `${address} after ${place}`
          )
          assert.isAtLeast(from, 0, `${address} has no ${place}`)
        }
      }
    }), 120_000)
})
