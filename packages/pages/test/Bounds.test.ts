/** No page is larger than a megabyte, and none is made in one go, whatever agents wrote; what is left out is one link away. */
import { assert, describe, it, layer } from "@effect/vitest"
import { FileNotFound, NotADirectory, type WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { ChangedFile, FileEntry } from "@slipway/domain/files/schema/FileTree"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Leases } from "@slipway/domain/sandbox/ports/Leases"
import { Setups } from "@slipway/domain/sandbox/ports/Setups"
import type { SandboxEvent } from "@slipway/domain/sandbox/rules/SandboxEvent"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { DateTime, Deferred, Effect } from "effect"
import { html, type Later, type Steps, written } from "../src/html/Html.ts"
import * as Render from "../src/html/Render.ts"
import * as ChangesList from "../src/sandboxes/changes/ChangesList.ts"
import * as Diff from "../src/sandboxes/changes/Diff.ts"
import * as DiffTable from "../src/sandboxes/changes/DiffTable.ts"
import * as Patch from "../src/sandboxes/changes/Patch.ts"
import type * as Conversation from "../src/sandboxes/conversation/Conversation.ts"
import * as Items from "../src/sandboxes/conversation/Items.ts"
import * as Markdown from "../src/text/Markdown.ts"
import * as Browser from "../testing/Browser.ts"
import { ask, drive, layer as http, type Reply, running, saved } from "../testing/Harness.ts"

const MIB = 2 ** 20

/** The character that takes most room on a page: shown by its name, it is 32 bytes. */
const WIDEST = "\u202c"

/** Names as long as a file system takes them, which links and words make longer. */
const nameOf = (i: number) => `${WIDEST.repeat(80)}/${WIDEST.repeat(80)}/${WIDEST.repeat(80)}/${i}.ts`

const FILES = 100
const files = Array.from({ length: FILES }, (_, i): ChangedFile => ({
  path: nameOf(i),
  status: "modified",
  additions: 2,
  deletions: 1,
  previousPath: null
}))

const quoted = (name: string) => `"${Array.from(Buffer.from(name), (byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("")}"`
const sectionOf = (name: string) =>
  `diff --git ${quoted(`a/${name}`)} ${quoted(`b/${name}`)}
--- ${quoted(`a/${name}`)}
+++ ${quoted(`b/${name}`)}
@@ -1,1 +1,2 @@
-${WIDEST.repeat(900)}
+${"'".repeat(900)}
+${WIDEST.repeat(900)}
`

const patchOf = (lines: string) => `diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,9 @@\n${lines}`

/** Every other line is on both sides. */
const alternating = (name: string, count: number) =>
  Array.from({ length: count }, (_, i) => i % 2 === 0 ? "same\n" : `${name}${i}\n`).join("")

/** By path. */
const LONG: Record<string, string> = {
  "long.ts": `${WIDEST.repeat(390)}\n`.repeat(800),
  "lines.ts": "\n".repeat(900_000),
  "line.ts": "x".repeat(1_000_000)
}

const entries = Array.from({ length: 200 }, (_, i): FileEntry => ({
  name: nameOf(i).replaceAll("/", "-"),
  path: nameOf(i).replaceAll("/", "-"),
  depth: 0,
  kind: "file",
  status: "untracked",
  additions: 0,
  deletions: 0,
  size: 1,
  mtimeMs: 0,
  previousPath: null
}))

/** How often git compared a tree, and what it waits for; and how often it told a patch. */
let reads = 0
let patches = 0
let held = Deferred.makeUnsafe<void>()
Deferred.doneUnsafe(held, Effect.void)

const trees: Partial<WorkingTrees["Service"]> = {
  has: () => Effect.succeed(true),
  changes: () =>
    Effect.suspend(() => {
      reads++
      return Effect.as(Deferred.await(held), { files, partialWarnings: [] })
    }),
  diff: (_, { path }) =>
    Effect.suspend(() => {
      patches++
      const patch = Buffer.from(path === undefined ? files.map((file) => sectionOf(file.path)).join("") : sectionOf(path))
      return Effect.as(Deferred.await(held), patch)
    }),
  list: (_, path) =>
    path === "" ? Effect.succeed({ directory: "", entries, partialWarnings: [], scope: "all" as const }) : new NotADirectory(),
  compare: (_, path) => {
    const content = LONG[path]
    return content === undefined
      ? Effect.fail(new FileNotFound())
      : Effect.succeed({
        base: null,
        head: null,
        working: { content, hash: "0", ref: "working" as const, size: content.length, binary: false }
      })
  }
}

/** A visitor for whom every page is there, and not too large. */
const visitor = Effect.fnUntraced(function*(grant: string) {
  const browser = yield* Browser.visitor(grant)
  const get = Effect.fnUntraced(function*(path: string) {
    const page = yield* browser.get(path)
    assert.strictEqual(page.status, 200, page.text.slice(0, 2_000))
    assert.isAtMost(page.bytes.length, MIB, path)
    return page
  })
  return { ...browser, get }
})

const linkOf = ({ text }: Reply, name: string): string | undefined =>
  [...text.matchAll(/<a href="([^"]+)">([^<]*)/gu)].find(([, , text]) => text === name)?.[1]?.replaceAll("&amp;", "&")

const unescaped = (html: string) =>
  html.replaceAll("&quot;", "\"").replaceAll("&#39;", "'").replaceAll("&lt;", "<").replaceAll("&amp;", "&")

/** The text of a part. */
const textOf = ({ text }: Reply) => /<div class="as-written code">([^<]*)<\/div>/u.exec(text)?.[1] ?? ""

type Said = Extract<SandboxEvent, { readonly type: "message.updated" | "tool.updated" }>
const said = (i: number, text: string): Said => ({
  type: "message.updated",
  data: { part_id: `m${i}:text`, message_id: `m${i}`, kind: "text", text }
})

const work = (id: SandboxId, turnId: string, events: ReadonlyArray<Said>) => drive(id, [{ _tag: "RecordWork", turnId, events }])

layer(http({ trees }), { excludeTestServices: true })("a page", (it) => {
  it.effect("has as much of a conversation as there is room for, and leads to the rest of it", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("talker")
      const { id, turn } = yield* running(key)
      const texts = Array.from({ length: 40 }, (_, i) => `${i}.${[WIDEST, "\"", "[", "- a\n", "`` ", "<b>"][i % 6]!.repeat(8_000)}`)
      yield* work(id, turn, texts.map((text, i) => said(i, text)))
      const keys = new Set<string>()
      let page = yield* get(`/sandboxes/${id}`)
      for (;;) {
        for (const [, key = ""] of page.text.matchAll(/<li class="item text" data-key="([^"]+)"/gu)) keys.add(key)
        const earlier = linkOf(page, "Earlier")
        if (earlier === undefined) break
        page = yield* get(earlier)
      }
      assert.strictEqual(keys.size, texts.length)
    }))

  it.effect("shows all of a long text one part after the other", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("reader")
      const { id, turn } = yield* running(key)
      const text = `begin ${`${WIDEST}"\u{1f680}`.repeat(20_000)} end`
      yield* work(id, turn, [said(0, text)])
      const page = yield* get(`/sandboxes/${id}`)
      const shown = /<div class="as-written">([^<]*)<\/div>/u.exec(page.text)?.[1] ?? ""
      let whole = unescaped(shown)
      assert.isAbove(whole.length, 10_000)
      for (let link = linkOf(page, "Show the rest"); link !== undefined;) {
        const part = yield* get(link)
        whole += unescaped(textOf(part))
        link = linkOf(part, "Next")
      }
      assert.isTrue(whole === visible(text), "something is missing, or there twice")
    }))

  it.effect("leads to a prompt and the output of a setup that it has no room for", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("setter")
      const prompt = WIDEST.repeat(60_000)
      const { id } = yield* running(key, { prompt })
      const output = `${WIDEST.repeat(1_000)}\n`.repeat(300)
      const taken = yield* (yield* Leases).take({ worker: "w", machine: "m" }, { slots: 999, boots: 999, errands: 999 })
      const lease = taken.find(({ sandbox }) => sandbox.id === id)?.lease
      assert(lease !== undefined)
      const startedAt = yield* DateTime.now
      yield* (yield* Setups).save(lease, { state: "failed", startedAt, ms: 1, exitCode: 1, cache: "miss", output, told: null })
      const page = yield* get(`/sandboxes/${id}?view=log`)
      const setup = linkOf(page, "Show all")
      assert(setup !== undefined)
      let [length, link]: [number, string | undefined] = [0, setup]
      while (link !== undefined) {
        const part: Reply = yield* get(link)
        length += textOf(part).split("⟨POP DIRECTIONAL FORMATTING⟩").length - 1
        link = linkOf(part, "Next")
      }
      assert.strictEqual(length, 300_000)
      const rest = linkOf(page, "Show the rest")
      assert(rest !== undefined)
      assert.include((yield* get(rest)).text, "⟨POP DIRECTIONAL FORMATTING⟩")
      assert.strictEqual((yield* ask(`/sandboxes/${id}/text?item=setup`)).status, 303)
      assert.strictEqual((yield* Effect.exit((yield* visitor("other")).get(setup)))._tag, "Failure")
    }))

  it.effect("lists as many changed files as there is room for, and leads to the others", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("changer")
      const { id } = yield* running(key)
      let page = yield* get(`/sandboxes/${id}?view=changes`)
      const seen = new Set<string>()
      for (;;) {
        for (const [list] of page.text.matchAll(/<ul class="changes">[\s\S]*?<\/ul>/gu)) {
          for (const [, name = ""] of list.matchAll(/\/(\d+)\.ts<\/a>/gu)) seen.add(name)
        }
        assert.isAbove(seen.size, 0)
        const next = linkOf(page, "Show more")
        if (next === undefined) break
        page = yield* get(next)
      }
      assert.strictEqual(seen.size, FILES)
    }))

  it.effect("shows as much of what changed as there is room for, and leads to each file alone", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("differ")
      const { id } = yield* running(key)
      for (const layout of ["unified", "split"]) {
        const page = yield* get(`/sandboxes/${id}/changes?layout=${layout}`)
        const sections = [...page.text.matchAll(/<details class="changed-file"/gu)].length
        assert.isAbove(sections, 1)
        assert.include(page.text, `${FILES - sections} more files are hidden: `)
        const next = yield* get(linkOf(page, "show the next") ?? "")
        assert.notInclude(
          [...next.text.matchAll(/<details class="changed-file" id="(file-\d+)"/gu)].map(([, id]) => id),
          `file-${sections}`
        )
        assert.include(next.text, `<details class="changed-file" id="file-${sections + 1}"`)
      }
      const alone = yield* get(
        `/sandboxes/${id}/changes?${new URLSearchParams({ from: "base", to: "base", path: "quotes.txt" }).toString()}`
      )
      assert.include(alone.text, `${"&#39;".repeat(400)}<span class="aside"> … 500 more characters</span>`)
    }))

  it.effect("shows one file as far as there is room, and leads on from there", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("filer")
      const { id } = yield* running(key)
      for (const place of ["changes?layout=unified&", "changes?layout=split&", "files?"]) {
        const lines = new Set<number>()
        let page = yield* get(`/sandboxes/${id}/${place}path=long.ts`)
        for (;;) {
          const numbers = [...page.text.matchAll(/<td class="number(?: now added)?">(\d+)<\/td><td class="(?:sign|line)/gu)].map((
            [, number]
          ) => Number(number))
          assert.isAbove(numbers.length, 10)
          for (const number of numbers) lines.add(number)
          const next = [...page.text.matchAll(/<a href="([^"]+path=long\.ts[^"]*)">Show more/gu)].at(-1)?.[1]
          if (next === undefined) break
          page = yield* get(next.replaceAll("&amp;", "&"))
        }
        assert.strictEqual(lines.size, 800, place)
        for (const path of ["lines.ts", "line.ts"]) yield* get(`/sandboxes/${id}/${place}path=${path}`)
      }
    }))

  it.effect("lists as many entries of a folder as there is room for, and leads to the others", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("lister")
      const { id } = yield* running(key)
      let count = 0
      for (let link: string | undefined = `/sandboxes/${id}/files`; link !== undefined;) {
        const page = yield* get(link)
        count += [...page.text.matchAll(/<tr><th scope="row"><a /gu)].length
        link = linkOf(page, "Show more")
      }
      assert.strictEqual(count, entries.length)
    }))

  it.effect("lets people decide on what it has no room for on a page of its own", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("approver")
      const { id, turn } = yield* running(key)
      const approvals = Array.from({ length: 14 }, (_, i) => ({
        approval_id: `a${i}`,
        tool: `run ${i}`,
        kind: "command" as const,
        preview: { command: `${i} ${"'".repeat(64_000)}` }
      }))
      yield* drive(id, approvals.map((approval) => ({ _tag: "RequestApproval" as const, turnId: turn, approval })))
      const page = yield* get(`/sandboxes/${id}`)
      const links = [...page.text.matchAll(/<a href="([^"]+)">Review…/gu)].map(([, link = ""]) => link)
      assert.strictEqual(links.length, 10)
      assert.include(page.text, "4 more after these.")
      // An unseen approval cannot be decided.
      assert.notInclude(page.text, "name=\"decision\"")
      const alone = yield* get(links[3] ?? "")
      assert.include(alone.text, `3 ${"&#39;".repeat(64_000)}`)
      assert.include(alone.text, `<button name="decision" value="approve">`)
      assert.strictEqual((yield* post(links[3] ?? "", { decision: "approve" })).headers["location"], `/sandboxes/${id}?done=approved`)
      yield* get("/sandboxes")
      const stranger = yield* visitor("stranger")
      assert.strictEqual((yield* Effect.exit(stranger.get(links[4] ?? "")))._tag, "Failure")
    }))

  it.effect("waits for no reading of what changed, and has it once it was read", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("waiter")
      const id = yield* saved(key)
      held = yield* Deferred.make<void>()
      reads = 0
      const view = `/sandboxes/${id}?view=changes`
      const pages = yield* Effect.all(Array.from({ length: 20 }, () => get(view)), { concurrency: "unbounded" })
      for (const page of pages) {
        assert.include(page.text, "Loading changes…")
        assert.strictEqual(linkOf(page, "Load the page again"), view)
      }
      // One reading is for all of them.
      assert.strictEqual(reads, 1)
      yield* Deferred.succeed(held, undefined)
      while ((yield* get(view)).text.includes("Loading changes…")) yield* Render.pause
      assert.include((yield* get(view)).text, `<p>${FILES} files:`)
      // At rest nothing changes.
      assert.strictEqual(reads, 1)
    }))

  it.effect("has a patch that git tells once for all who wait, and not again while nothing changes", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("reader")
      const id = yield* saved(key)
      patches = 0
      const all = `/sandboxes/${id}/changes`
      const pages = yield* Effect.all(Array.from({ length: 4 }, () => get(all)), { concurrency: "unbounded" })
      assert.strictEqual(patches, 1)
      // A page may begin before the patch is there, also one whose patch is kept: it is rendered before it is shown.
      const whole = (page: Reply | undefined) => page?.text.replace(/<p class="loading" role="status">[^<]*<\/p>/u, "")
      assert.strictEqual(whole(yield* get(all)), whole(pages[0]))
      assert.strictEqual(patches, 1)
      // Other versions are other patches, and a visitor without access to the sandbox sees none.
      yield* get(`${all}?from=base&to=base`)
      assert.strictEqual(patches, 2)
      const stranger = yield* visitor("outsider")
      assert.strictEqual((yield* Effect.exit(stranger.get(all)))._tag, "Failure")
      // Files that an agent may change at any moment are asked for each time.
      const { key: other, get: look } = yield* visitor("hurried")
      const { id: busy } = yield* running(other)
      yield* look(`/sandboxes/${busy}/changes`)
      yield* look(`/sandboxes/${busy}/changes`)
      assert.strictEqual(patches, 4)
    }))

  it.effect("has what changed as it was read last while an agent is at work", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("looker")
      const { id, turn } = yield* running(key)
      const view = `/sandboxes/${id}?view=changes`
      while (!(yield* get(view)).text.includes(`<p>${FILES} files:`)) yield* Render.pause
      yield* work(id, turn, [said(0, "Something else.")])
      held = yield* Deferred.make<void>()
      const page = yield* get(view)
      assert.include(page.text, `<p>${FILES} files:`)
      assert.match(page.text, /As of \d\d:\d\d:\d\d UTC\. Refreshing…/u)
      yield* Deferred.succeed(held, undefined)
    }))
})

/** How often the work can pause. */
const pauses = (steps: Steps<unknown>): number => {
  let count = 0
  while (steps.next().done !== true) count++
  return count
}

describe("what a page is made of", () => {
  const at = DateTime.makeUnsafe(0)
  const item = (kind: Conversation.Item["kind"], text: string): Conversation.Item => ({ key: "k", kind, text, at, seq: 1 })
  const conversation = (items: ReadonlyArray<Conversation.Item>) => Items.render(items, "", endless(), (shown) => html`${shown}`)
  const endless = () => ({ bytes: Infinity })
  const table = (path: string, lines: ReadonlyArray<Diff.Line>, layout: DiffTable.Layout = "unified") =>
    DiffTable.render(path, [lines], { lines: 2_000, budget: endless() }, ({ content }) => content, { layout })
  const lines = (text: string, count: number): ReadonlyArray<Diff.Line> =>
    Array.from({ length: count }, (_, i) => ({ kind: i % 2 === 0 ? "removed" : "added", before: i, after: i, text: `${text}${i}\n` }))

  it("can pause again and again while it is made, more often the longer it is", () => {
    const cases: Readonly<Record<string, readonly [least: number, part: Later]>> = {
      "a conversation": [1_000, conversation(
        Array.from({ length: 100 }, (_, i) => item(i % 2 === 0 ? "text" : "tool", `[a](b) **c** ${i} `.repeat(1_000)))
      )],
      "a long message": [500, conversation([item("text", "- a\n".repeat(4_000)), item("tool", "\"".repeat(500_000))])],
      "a changed file": [2_000, table("a.ts", lines("const a = \"b\" /* ", 2_000))],
      "a changed file of long lines": [2_000, table("a.ts", lines("a b ".repeat(99), 2_000))],
      "a changed text": [2_000, table("a.txt", lines("x".repeat(300), 2_000).map((line) => ({ ...line, kind: "added" as const })))],
      "a list": [FILES, ChangesList.render({ files, partialWarnings: [] }, (path) => path, endless(), String)]
    }
    for (const [name, [least, part]] of Object.entries(cases)) assert.isAtLeast(pauses(written(part)), least, name)
    const computed: Readonly<Record<string, readonly [least: number, steps: Steps<unknown>]>> = {
      "two texts that are compared": [3, Diff.compare(alternating("a", 20_000), alternating("b", 20_000))],
      "a patch of lines without text": [500, Patch.read(Buffer.from(patchOf("+\n".repeat(200_000))), { lines: Infinity })],
      "a patch of names": [FILES, Patch.read(Buffer.from(files.map((file) => sectionOf(file.path)).join("")), { lines: 10 })]
    }
    for (const [name, [least, steps]] of Object.entries(computed)) assert.isAtLeast(pauses(steps), least, name)
    for (const text of ["- b\n", "b\n\n", "```ts\nconst a = 1\n```\n", "> a\n\n"]) {
      const whole = text.repeat(Math.floor(16_000 / text.length))
      const [short, long] = [whole.slice(0, 1_000), whole].map((one) => pauses(written(Markdown.render(one, endless(), (shown) => shown))))
      assert.isAbove(long ?? 0, short ?? 0, text)
    }
  })

  it.effect("gives way to others each time that it took a slice of time", () =>
    Effect.gen(function*() {
      let turns = 0
      let isOver = false
      const count = () => {
        turns++
        if (!isOver) setImmediate(count)
      }
      setImmediate(count)
      /** As long as any slice may take. */
      const steps = function*(): Steps<string> {
        for (let i = 0; i < 3; i++) {
          const end = performance.now() + 11
          while (performance.now() < end);
          yield
        }
        return "done"
      }
      const all = yield* Effect.all(Array.from({ length: 20 }, () => Render.run(steps())), { concurrency: "unbounded" })
      isOver = true
      assert.deepStrictEqual([...new Set(all)], ["done"])
      // Each of those slices has a turn of its own, but for the first one.
      assert.isAtLeast(turns, 50)
    }))
})
