/** The list of a grant's pull requests: whose they are, how they are chosen, and what is shown of each. */
import { assert, layer } from "@effect/vitest"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { type SourceHost, SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { type Checks, noChecks, type PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { DateTime, Effect, Result } from "effect"
import { visitor } from "../../testing/Browser.ts"
import { ask, create, layer as http, type Reply } from "../../testing/Harness.ts"

interface Told {
  readonly number: number
  readonly state?: "open" | "closed"
  readonly draft?: boolean
  readonly merged?: boolean
  readonly url?: string
}

const publish = Effect.fnUntraced(function*(id: SandboxId, repo: string, data: Told) {
  const told = { type: "pull_request.updated", data: { repo, action_state: "idle", ...data } } as const
  yield* (yield* SandboxStore).change(id, "policy", () => Result.succeed([told]), yield* DateTime.now)
})

const shown = ({ text }: Reply) => [...text.matchAll(/<th scope="row">(.*?)<\/th>/gsu)].map(([, cell]) => cell?.replaceAll(/<[^>]*>/gu, ""))

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")
const pull = (number: number): PullRequest => ({
  id: number,
  nodeId: `PR_${number}`,
  number,
  url: `https://host.test/acme/shop/pull/${number}`,
  title: "Say hello.",
  state: "open",
  draft: true,
  merged: false,
  baseRef: "main",
  headRef: "slipway/x",
  headSha: "0".repeat(40),
  createdAt: at,
  updatedAt: at,
  additions: 1,
  deletions: 0,
  changedFiles: 1
})

/** By number; of others the host knows of no checks. */
const CHECKS: Readonly<Record<number, Partial<Checks>>> = {
  111: { state: "success", label: "2 of 2 checks passed" },
  112: { state: "failure", label: "1 of 2 checks passed" },
  113: { state: "pending", label: "0 of 2 checks passed" },
  115: { state: "error", label: "Checks unknown" }
}
/** By number, how often the host was asked. */
const asked = new Map<number, number>()
const host: Partial<SourceHost["Service"]> = {
  pullRequestDetails: (_, number) =>
    Effect.suspend(() => {
      asked.set(number, (asked.get(number) ?? 0) + 1)
      if (number === 116) return Effect.never
      // Pull requests of the other tests stay as they were.
      if (number === 117 || number < 100) return new SourceHostError({ operation: "read", detail: "No.", retryable: true })
      return Effect.succeed({ pullRequest: pull(number), checks: { ...noChecks, ...CHECKS[number] }, comments: [], pending: false })
    })
}

/** By number, what the column says. */
const checksShown = ({ text }: Reply) =>
  new Map(
    [...text.matchAll(/<th scope="row">.*?#(\d+).*?data-label="Checks">(.*?)<\/td>/gsu)].map(([, number, cell]) => [
      Number(number),
      cell?.replaceAll(/<[^>]*>/gu, "")
    ])
  )

layer(http({ host }), { excludeTestServices: true })("the list of pull requests", (it) => {
  it.effect("tells what the checks of each came to, without waiting for a host that takes its time, and asks once for all", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("checks")
      for (const number of [111, 112, 113, 114, 115, 116, 117]) {
        yield* publish(yield* create(key), "acme/shop", { number, state: "open", draft: true, url: `https://host.test/${number}` })
      }
      const all = new Map([[117, "Unknown"], [116, "Loading"], [115, "Checks unknown"], [114, "None"], [113, "Running"], [112, "Failing"], [
        111,
        "Passing"
      ]])
      const pages = yield* Effect.all([get("/pulls"), get("/pulls"), get("/pulls/rows")], { concurrency: "unbounded" })
      // Those that were made in one millisecond stand in any order.
      for (const page of pages) assert.deepStrictEqual([...checksShown(page)].toSorted(([a], [b]) => b - a), [...all])
      assert.deepStrictEqual([...asked.values()], [1, 1, 1, 1, 1, 1, 1])
    }))

  it.effect("shows those with the requested checks, and says how many are unknown", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("chosen-checks")
      const first = yield* create(key, { title: "first" })
      yield* publish(first, "acme/shop", { number: 112, state: "open" })
      for (let n = 0; n < 60; n++) yield* publish(yield* create(key), "acme/shop", { number: 114, state: "open" })
      yield* publish(yield* create(key), "acme/shop", { number: 115, state: "open" })
      // Behind a page of others.
      const failing = yield* get("/pulls?checks=failing")
      assert.deepStrictEqual(shown(failing), ["#112 first"])
      assert.include(failing.text, `<option value="failing" selected>`)
      assert.include(failing.text, "1 not loaded.")
      assert.deepStrictEqual(shown(yield* get("/pulls?checks=failing&state=merged")), [])
      assert.deepStrictEqual(shown(yield* get("/pulls?checks=passing")), [])
      const none = yield* get("/pulls?checks=none")
      const [, older = ""] = /<a href="(\/pulls\?checks=none[^"]*)" rel="next">/u.exec(none.text) ?? []
      const numbers = [...shown(none), ...(older === "" ? [] : shown(yield* get(older.replaceAll("&amp;", "&"))))]
      assert.deepStrictEqual([numbers.length, new Set(numbers.map((cell) => cell?.slice(0, 4)))], [60, new Set(["#114"])])
      assert.strictEqual((yield* get("/pulls?checks=x")).status, 400)
    }))

  it.effect("tells people without pull requests where they come from, and needs a session", () =>
    Effect.gen(function*() {
      const { get } = yield* visitor("none")
      const page = yield* get("/pulls")
      assert.strictEqual(page.status, 200)
      assert.include(page.text, "No pull requests yet.")
      assert.match(page.text, /<a href="\/pulls" aria-current="page">Pull requests<\/a>/u)
      const { headers, status } = yield* ask("/pulls?state=open")
      assert.deepStrictEqual([status, headers["location"]], [303, `/sign-in?next=${encodeURIComponent("/pulls?state=open")}`])
      assert.strictEqual((yield* ask("/pulls/rows")).status, 303)
    }))

  it.effect("shows those of its grant by state and repository, and keeps the choice in the address", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("many")
      const other = yield* visitor("others")
      const repos = [{ fullName: "acme/shop" }, { fullName: "acme/docs" }]
      const title = `<b>"hostile"</b>\u202e`
      const id = yield* create(key, { title, repos })
      yield* publish(id, "acme/shop", { number: 1, state: "open", draft: true, url: "https://example.com/1" })
      yield* publish(id, "acme/docs", { number: 2, state: "closed", merged: true, url: "javascript:alert(1)" })
      yield* publish(yield* create(key, { title: "second" }), "acme/shop", { number: 3, state: "closed" })
      yield* create(key, { title: "unpublished" })
      yield* publish(yield* create(other.key, { title: "theirs" }), "acme/shop", { number: 4, state: "open" })
      const first = `#1 &lt;b&gt;&quot;hostile&quot;&lt;/b&gt;`
      const all = yield* get("/pulls")
      assert.strictEqual(shown(all).length, 3)
      assert.strictEqual(shown(all)[0], "#3 second")
      assert.isTrue(shown(all)[1]?.startsWith(first))
      assert.include(all.text, `<a href="https://example.com/1" rel="noreferrer">${first}`)
      assert.notMatch(all.text, /javascript:|\u202e|theirs/u)
      assert.notInclude(all.text.split("<main")[1], "unpublished")
      const chips = [...all.text.matchAll(/<li><a href="(\/pulls[^"]*)"[^>]*>([^<]* \d+)<\/a><\/li>/gu)].map((
        [, href, name]
      ) => [name, href])
      assert.deepStrictEqual(chips, [["All 3", "/pulls"], ["Draft 1", "/pulls?state=draft"], ["Merged 1", "/pulls?state=merged"], [
        "Closed 1",
        "/pulls?state=closed"
      ]])
      const numbers = (query: string) => Effect.map(get(`/pulls?${query}`), (page) => shown(page).map((cell) => cell?.slice(0, 2)))
      assert.deepStrictEqual(yield* numbers("state=draft&repo="), ["#1"])
      assert.deepStrictEqual(yield* numbers("state=merged"), ["#2"])
      assert.deepStrictEqual(yield* numbers("state=closed"), ["#3"])
      assert.deepStrictEqual(yield* numbers("repo=ACME/shop"), ["#3", "#1"])
      assert.deepStrictEqual(yield* numbers("state=open"), [])
      const chosen = yield* get("/pulls?state=merged&repo=acme%2Fdocs")
      assert.include(chosen.text, `aria-current="page">Merged 1</a>`)
      assert.include(chosen.text, `<input type="hidden" name="state" value="merged">`)
      assert.include(chosen.text, `value="acme/docs"`)
      const statuses = ["state=x", "after=x", "repo=nothing"].map((query) => Effect.map(get(`/pulls?${query}`), ({ status }) => status))
      assert.deepStrictEqual(yield* Effect.all(statuses), [400, 400, 400])
    }))

  it.effect("goes on where a page ended, and sends nothing while nothing changed", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("pages")
      for (let n = 1; n <= 51; n++) yield* publish(yield* create(key), "acme/shop", { number: n, state: "open" })
      const first = yield* get("/pulls?state=open")
      assert.strictEqual(shown(first).length, 50)
      const [, older = ""] = /<a href="(\/pulls\?[^"]*)" rel="next">/u.exec(first.text) ?? []
      const last = yield* get(older.replaceAll("&amp;", "&"))
      assert.deepStrictEqual(shown(last).map((cell) => cell?.slice(0, 3)), ["#1 "])
      assert.include(last.text, `<a href="/pulls?state=open">Newest</a>`)
      const rows = yield* get("/pulls/rows?state=open")
      assert.isTrue(rows.text.startsWith(`<nav aria-label="States" id="chips" data-piece="chips">`))
      assert.include(rows.text, `aria-current="page">Open 51</a>`)
      assert.strictEqual((yield* get("/pulls/rows?state=open", { "if-none-match": rows.headers["etag"] ?? "" })).status, 304)
    }))
})
