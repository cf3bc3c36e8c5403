/** The page of repositories: what it lists to whom, and what owners of the service can put on the list. */
import { assert, layer } from "@effect/vitest"
import { Access } from "@slipway/domain/access/usecases/Access"
import { RepoNotAccessible } from "@slipway/domain/source/ports/SourceHost"
import { BranchRule } from "@slipway/domain/source/schema/BranchRules"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { MachineRepositories, type MachineRepository, UnusableFolder } from "@slipway/pages/repositories/MachineRepositories"
import { Effect, Layer, Logger } from "effect"
import { owner, redirected, textOf, visitor, visitorIn } from "../testing/Browser.ts"
import { ask, layer as http, running } from "../testing/Harness.ts"

const HOSTILE = `"'><script>alert(1)</script>`
const SECRET = "hunter2secret"

const folders = new Map<string, MachineRepository>()
const logged: Array<string> = []

const named = (fullName: RepoName) => folders.get(fullName.toLowerCase())

const machine = Layer.succeed(MachineRepositories, {
  list: Effect.sync(() => [...folders.values()]),
  add: (fullName, path) =>
    path.startsWith("/missing")
      ? Effect.fail(new UnusableFolder({ text: `${path} does not exist, or is no folder.` }))
      : Effect.sync(() => void folders.set(fullName.toLowerCase(), { fullName, path })),
  addSample: Effect.die("no sample here"),
  names: () => Effect.die("no file is asked for here"),
  remove: (fullName) => Effect.sync(() => folders.delete(fullName.toLowerCase()))
})

const host = {
  names: ["local"],
  nameOf: () => Effect.succeed("local"),
  repositories: () => Effect.sync(() => Array.from(folders.values(), ({ fullName }) => fullName)),
  refusal: (repos: ReadonlyArray<RepoName>) =>
    Effect.sync(() => {
      const repo = repos.find((one) => named(one) === undefined)
      return repo === undefined ? null : new RepoNotAccessible({ repo })
    }),
  repository: (fullName: RepoName) => Effect.succeed({ fullName, defaultBranch: "trunk" })
}

layer(
  http({ host }).pipe(
    Layer.provide(machine),
    Layer.provideMerge(Logger.layer([Logger.make(({ message }) => void logged.push(JSON.stringify(message)))]))
  ),
  { excludeTestServices: true }
)("the repositories of a service whose source host is its machine", (it) => {
  it.effect("are added and removed by its owners, after a question", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      assert.include(textOf(yield* mine.get("/repositories")), "No repositories yet.")
      redirected(yield* mine.post("/repositories", { name: " acme/shop ", folder: " /srv/git/shop " }), "/repositories?done=added")
      assert.deepStrictEqual([...folders.values()], [{ fullName: RepoName.make("acme/shop"), path: "/srv/git/shop" }])
      const page = yield* mine.get("/repositories?done=added")
      assert.include(page.text, `<a href="/repositories" aria-current="page">`)
      assert.match(textOf(page), /Repository added\..*acme\/shop \/srv\/git\/shop Machine of the service trunk - 0 Settings Remove…/u)
      const again = yield* mine.post("/repositories", { name: "ACME/Shop", folder: "/srv/git/other" })
      assert.strictEqual(again.status, 400)
      assert.include(textOf(again), "ACME/Shop is on the list already. Remove it first to change its folder.")
      assert.strictEqual(named(RepoName.make("acme/shop"))?.path, "/srv/git/shop")
      const question = yield* mine.get("/repositories/remove?name=Acme%2Fshop")
      assert.include(textOf(question), "Remove acme/shop?")
      redirected(yield* mine.post("/repositories/remove", { name: "acme/shop" }), "/repositories?done=removed")
      assert.strictEqual(folders.size, 0)
      assert.strictEqual((yield* mine.post("/repositories/remove", { name: "acme/shop" })).status, 404)
      assert.strictEqual((yield* mine.get(`/repositories/remove?name=${encodeURIComponent(HOSTILE)}`)).status, 404)
    }))

  it.effect("have settings that owners of the grant change, as a whole or not at all", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const at = "/repositories/settings?name=acme%2Fshop"
      const form = { name: "acme/shop", comments: "mention", checks: "failing", rounds: "5", co_author: "on" }
      redirected(
        yield* mine.post("/repositories/settings", { ...form, labels: " agent \r\n\r\n<b>&", reviewers: "ada\nacme/payments" }),
        "/repositories/settings?name=acme%2Fshop&done=saved"
      )
      const { text } = yield* mine.get(at)
      assert.include(text, "agent\n&lt;b&gt;&amp;</textarea>")
      assert.include(text, "ada\nacme/payments</textarea>")
      assert.include(text, `<option value="mention" selected>`)
      assert.include(text, `value="on" checked> Name the sandbox`)
      assert.notInclude(text, `value="on" checked> Publish`)
      const wrong = yield* mine.post("/repositories/settings", { ...form, labels: "agent\nAGENT", reviewers: "" })
      assert.strictEqual(wrong.status, 400)
      assert.include(textOf(wrong), "Nothing changed.")
      assert.strictEqual((yield* mine.get(at)).text, text)
      assert.strictEqual((yield* mine.get(`/repositories/settings?name=${encodeURIComponent(HOSTILE)}`)).status, 404)
      const other = yield* visitorIn("settings-of-a-member", "member")
      assert.strictEqual((yield* other.get(at)).status, 403)
    }))

  it.effect("have settings that show which branches sandboxes of the grant may continue", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const shown = Effect.map(mine.get("/repositories/settings?name=acme%2Fshop"), textOf)
      const before = yield* shown
      assert.match(before, /push to these branches, but never to the default branch or a protected branch: slipway\/\* /u)
      const grant = /slipway grants branches ([\w-]+)/u.exec(before)?.[1] ?? ""
      yield* Access.use((access) => access.setBranches(grant, [BranchRule.make("feature/*"), BranchRule.make("fix-*")]))
      assert.match(yield* shown, / feature\/\* fix-\* /u)
      yield* Access.use((access) => access.setBranches(grant, []))
      assert.include(yield* shown, "Sandboxes can't continue branches")
    }))

  it.effect("show members how their grant used them, without folders and forms", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      yield* mine.post("/repositories", { name: "acme/site", folder: "/srv/git/private-place" })
      const theirs = yield* visitor("readers")
      yield* running(theirs.key, { repos: [{ fullName: "acme/site" }] })
      const page = yield* theirs.get("/repositories")
      assert.match(textOf(page), /acme\/site Machine of the service trunk \d{4}-\d\d-\d\d \d\d:\d\d UTC 1 with acme\/site /u)
      assert.include(page.text, `href="/sandboxes?search=&amp;repo=acme%2Fsite"`)
      for (const hidden of ["/srv/git/private-place", "action=\"/repositories\"", "Remove…"]) assert.notInclude(page.text, hidden)
      const elsewhere = yield* visitorIn("tenants", "owner", "Tenants")
      assert.notInclude((yield* elsewhere.get("/repositories")).text, "/srv/git/private-place")
      for (const person of [theirs, elsewhere]) {
        assert.strictEqual((yield* person.post("/repositories", { name: "acme/mine", folder: "/srv/git/mine" })).status, 403)
        assert.strictEqual((yield* person.get("/repositories/remove?name=acme/site")).status, 403)
        assert.strictEqual((yield* person.post("/repositories/remove", { name: "acme/site" })).status, 403)
      }
      assert.deepStrictEqual([...folders.keys()], ["acme/site"])
      yield* mine.post("/repositories/remove", { name: "acme/site" })
      assert.notInclude(textOf(yield* theirs.get("/repositories")), "acme/site")
      redirected(yield* ask("/repositories"), "/sign-in?next=%2Frepositories")
    }))

  it.effect("refuse everything but a folder, and show and log no secret of an address", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const ADDRESS = "not an address. Clone the repository there"
      const ABSOLUTE = "Enter an absolute path, such as /srv/git/shop."
      const refused: ReadonlyArray<readonly [folder: string, text: string]> = [
        [`https://me:${SECRET}@git.example/shop.git`, ADDRESS],
        [`/https://me:${SECRET}@git.example/shop.git`, ADDRESS],
        [`${SECRET}@git.example:shop.git`, ADDRESS],
        ["http://169.254.169.254/latest", ADDRESS],
        ["ssh://127.0.0.1/shop", ADDRESS],
        ["file:///etc", ADDRESS],
        [`ext::sh -c ${SECRET}`, ADDRESS],
        [`--upload-pack=${SECRET}`, ABSOLUTE],
        [`-${SECRET}`, ABSOLUTE],
        [`~/${SECRET}`, ABSOLUTE],
        [`../${SECRET}`, ABSOLUTE],
        [`/srv/${SECRET}\nx`, "A path has no line breaks and no control characters."],
        [`/${SECRET}${"x".repeat(1_000)}`, "A path can have up to 1,000 characters."],
        ["", "Enter the folder of the repository."],
        ["/missing/shop", "/missing/shop does not exist, or is no folder."]
      ]
      for (const [folder, text] of refused) {
        const reply = yield* mine.post("/repositories", { name: "acme/bad", folder })
        assert.strictEqual(reply.status, 400, folder)
        assert.include(reply.text, text, folder)
        assert.match(reply.text, /name="folder"[^>]*aria-invalid="true" aria-errormessage="problem"/u)
        assert.notInclude(reply.text, SECRET)
      }
      for (const name of [HOSTILE, `https://me:${SECRET}@git.example/shop`, "-c/x", "acme/..", "acme", "acme/shop.git", "a/b/c"]) {
        const reply = yield* mine.post("/repositories", { name, folder: "/srv/git/shop" })
        assert.strictEqual(reply.status, 400, name)
        assert.include(reply.text, "Write the name as owner/name.")
        assert.include(reply.text, `name="name" value=""`)
        for (const text of [SECRET, "<script>alert"]) assert.notInclude(reply.text, text)
      }
      const path = `/missing/${HOSTILE}`
      assert.notInclude((yield* mine.post("/repositories", { name: "acme/bad", folder: path })).text, "<script>alert")
      assert.strictEqual((yield* mine.post("/repositories", { name: "acme/bad", folder: "/srv", csrf: "guessed" })).status, 403)
      assert.strictEqual((yield* mine.post("/repositories", { name: "acme/bad" })).status, 400)
      assert.strictEqual(folders.size, 0)
      assert.notInclude(logged.join("\n"), SECRET)
    }))

  it.effect("are found by a part of the name, and listed in pages", () =>
    Effect.gen(function*() {
      const mine = yield* owner
      const names = Array.from({ length: 51 }, (_, i) => RepoName.make(`acme/r${String(i).padStart(2, "0")}`))
      for (const fullName of names) folders.set(fullName, { fullName, path: `/srv/${fullName}` })
      const first = yield* mine.get("/repositories")
      assert.include(textOf(first), "acme/r49")
      assert.notInclude(textOf(first), "acme/r50")
      const [, more = ""] = /<a href="([^"]+)">Show more/u.exec(first.text) ?? []
      const rest = textOf(yield* mine.get(more.replaceAll("&amp;", "&")))
      assert.include(rest, "acme/r50")
      assert.notInclude(rest, "acme/r49 ")
      const found = yield* mine.get("/repositories?search=R07")
      assert.include(textOf(found), "acme/r07")
      assert.notInclude(textOf(found), "acme/r08")
      const none = yield* mine.get(`/repositories?${new URLSearchParams({ search: HOSTILE, after: HOSTILE }).toString()}`)
      assert.include(textOf(none), "No repository found.")
      assert.notInclude(none.text, "<script>alert")
      folders.clear()
    }))
})

layer(http({ host: { ...host, names: ["github.com"], nameOf: () => Effect.succeed("github.com"), repositories: () => Effect.never } }), {
  excludeTestServices: true
})(
  "the repositories of another source host",
  (it) => {
    it.effect("are added there, and a host without an answer is told", () =>
      Effect.gen(function*() {
        const mine = yield* owner
        const page = textOf(yield* mine.get("/repositories"))
        assert.include(page, "The source host does not answer.")
        assert.include(page, "install the service's GitHub App")
        assert.notInclude(page, "Add a repository")
        assert.strictEqual((yield* mine.post("/repositories", { name: "acme/shop", folder: "/srv/git/shop" })).status, 409)
      }))
  }
)
