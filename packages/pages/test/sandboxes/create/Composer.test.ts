/** The form of a new sandbox: what it makes, and what comes back when something is wrong with it. */
import { assert, layer } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { offlineDemo } from "@slipway/domain/models/schema/ModelCatalogue"
import { BeforeCreate, CreationDenied } from "@slipway/domain/sandbox/ports/BeforeCreate"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { RepoNotAccessible } from "@slipway/domain/source/ports/SourceHost"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { MachineRepositories } from "@slipway/pages/repositories/MachineRepositories"
import { DateTime, Effect, Layer } from "effect"
import { type Fields, owner, visitor } from "../../../testing/Browser.ts"
import { create, layer as http, type Reply, running } from "../../../testing/Harness.ts"

const HOSTILE = `</textarea><script>alert("1")</script>'&`
const ESCAPED = "&lt;/textarea&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&#39;&amp;"

const form = (more: Fields = {}, repos: ReadonlyArray<readonly [name: string, ref: string]> = [["acme/shop", ""]]): Fields => ({
  key: "key-1",
  prompt: "Do it\r\nnow",
  model: "offline/demo",
  effort: "",
  approvals: "auto",
  ...more,
  repo: repos.map(([name]) => name),
  ref: repos.map(([, ref]) => ref)
})

const idOf = ({ headers, status, text }: Reply) => {
  assert.strictEqual(status, 303, text)
  return SandboxId.make(String(headers["location"]).replace("/sandboxes/", ""))
}

const listed = ["Acme/shop", "Acme/shelf", "other/secret"].map((name) => RepoName.make(name))

layer(
  http({
    host: {
      refusal: (repos) =>
        Effect.succeed(
          repos.includes(RepoName.make("gone/away")) ? new RepoNotAccessible({ repo: "gone/away", advice: "Install it." }) : null
        ),
      repositories: ({ owners, search }) =>
        Effect.succeed(listed.filter((name) => owners.includes(name.split("/")[0]?.toLowerCase() ?? "") && name.includes(search)))
    },
    catalogue: {
      default: "offline/demo",
      models: [offlineDemo, { ...offlineDemo, id: "offline/plain", efforts: ["low"], approvals: false }]
    },
    maxActiveSandboxes: 3
  }).pipe(
    Layer.provide(
      Layer.succeed(
        BeforeCreate,
        ({ title }) =>
          title === "Sell it" ? Effect.fail(new CreationDenied({ code: "not_allowed", reason: "Nothing is sold." })) : Effect.void
      )
    )
  ),
  { excludeTestServices: true }
)("the form of a new sandbox", (it) => {
  it.effect("makes the sandbox that it says, and leads to its page", () =>
    Effect.gen(function*() {
      const { get, grantId, post } = yield* visitor("maker")
      const page = yield* get("/new")
      assert.include(page.text, "<option value=\"offline/demo\" selected")
      const id = idOf(
        yield* post("/new", form({ effort: "high", approvals: "prompt" }, [["acme/shop", "main"], ["", ""], [" acme/docs ", ""], ["", ""]]))
      )
      const store = yield* SandboxStore
      const sandbox = yield* store.find({ grantId, id })
      assert.deepInclude(sandbox, {
        prompt: "Do it\nnow",
        model: "offline/demo",
        reasoningEffort: "high",
        toolApprovalMode: "prompt",
        repos: [{ fullName: RepoName.make("acme/shop"), ref: "main" }, { fullName: RepoName.make("acme/docs") }]
      })
    }))

  it.effect("sent twice makes one sandbox, and what is changed between needs another sending", () =>
    Effect.gen(function*() {
      const { post } = yield* visitor("twice")
      const [first, second] = yield* Effect.all([post("/new", form()), post("/new", form())], { concurrency: 2 })
      assert.strictEqual(idOf(first), idOf(second))
      const changed = yield* post("/new", form({ prompt: "Something else" }))
      assert.strictEqual(changed.status, 409)
      assert.include(changed.text, "You already started a sandbox from this form")
      const [, key = ""] = /name="key" value="([^"]+)"/u.exec(changed.text) ?? []
      assert.notStrictEqual(key, "key-1")
      assert.notStrictEqual(idOf(yield* post("/new", form({ prompt: "Something else", key }))), idOf(first))
    }))

  it.effect("takes a budget in dollars and a variable a line, and says which is wrong without repeating values", () =>
    Effect.gen(function*() {
      const { get, grantId, post } = yield* visitor("inputs")
      assert.include((yield* get("/new")).text, "<summary>Budget and variables</summary>")
      const variables = "REGION=eu\r\n\r\n WORD =a=b \r\nREGION=us"
      const id = idOf(yield* post("/new", form({ budget: "2.50", variables })))
      const sandbox = yield* SandboxStore.use((store) => store.find({ grantId, id }))
      assert.deepInclude(sandbox, { budgetMicroUsd: 2_500_000, environment: { REGION: "us", WORD: "a=b " } })
      const wrong: ReadonlyArray<readonly [Fields, field: string, text: string]> = [
        [{ budget: "two" }, "Budget", "Enter an amount in US dollars"],
        [{ budget: "0" }, "Budget", "Enter an amount in US dollars"],
        [{ variables: "A=1\nhidden-value" }, "Variables", "Write each variable as NAME=value (line 2)."],
        [{ variables: "PATH=hidden-value" }, "Variables", "PATH: "],
        [{ variables: Array.from({ length: 51 }, (_, i) => `V${i}=1`).join("\n") }, "Variables", "At most 50 variables"]
      ]
      for (const [fields, field, said] of wrong) {
        const { status, text } = yield* post("/new", form({ ...fields, key: `wrong ${said}` }))
        assert.strictEqual(status, 400, text)
        const [, alert = ""] = /<p class="problem"[^>]*>(.*?)<\/p>/su.exec(text) ?? []
        assert.include(alert, `<strong>${field}:</strong> ${said}`)
        assert.notInclude(alert, "hidden-value")
        assert.match(text, /<details open><summary>Budget and variables/u)
      }
    }))

  it.effect("tells which field is wrong, and has what was typed", () =>
    Effect.gen(function*() {
      const { post } = yield* visitor("wrong")
      const refused = Effect.fnUntraced(function*(fields: ReturnType<typeof form>, field: string, status = 400) {
        const { status: found, text } = yield* post("/new", fields)
        assert.strictEqual(found, status, text)
        assert.include(text, `<p class="problem" role="alert" id="compose-problem"><strong>${field}:</strong> `)
        const [, marked] =
          /<(?:input|select|textarea)[^>]* id="([\w-]+)"[^>]* aria-invalid="true" aria-describedby="compose-problem"/u.exec(
            text.replaceAll("\n", " ")
          ) ?? []
        return { marked, text }
      })
      const repo = yield* refused(form({ prompt: HOSTILE }, [["acme/shop", ""], ["", ""], [HOSTILE, "main"], ["", ""]]), "Repository")
      assert.strictEqual(repo.marked, "repo-2")
      assert.include(repo.text, `>\n${ESCAPED}</textarea>`)
      assert.include(repo.text, `value="${ESCAPED}"`)
      assert.notInclude(repo.text, HOSTILE)
      assert.strictEqual((yield* refused(form({}, [["acme/shop", "a..b"]]), "Repository")).marked, "repo-0")
      assert.strictEqual((yield* refused(form({}, [["", ""]]), "Repository")).marked, "repo-0")
      assert.strictEqual((yield* refused(form({}, [["a/b", ""], ["A/B", ""]]), "Repository")).marked, "repo-0")
      assert.strictEqual((yield* refused(form({ prompt: "" }), "Task")).marked, "compose-prompt")
      assert.strictEqual((yield* refused(form({ model: "no/such" }), "Model")).marked, "compose-model")
      assert.strictEqual((yield* refused(form({ model: "offline/plain", effort: "high" }), "Effort")).marked, "compose-effort")
      assert.strictEqual((yield* refused(form({ effort: "odd" }), "Effort")).marked, "compose-effort")
      assert.strictEqual((yield* refused(form({ model: "offline/plain", approvals: "prompt" }), "Approvals")).marked, "compose-approvals")
      yield* refused(form({ approvals: "odd" }), "Approvals")
      const away = yield* refused(form({}, [["acme/shop", ""], ["gone/away", ""]]), "Repository", 403)
      assert.strictEqual(away.marked, "repo-1")
      assert.include(away.text, "repository gone/away is not accessible. Install it.")
      assert.strictEqual((yield* post("/new", form({ prompt: [] }))).status, 400)
      assert.strictEqual((yield* post("/new", form({ key: "" }))).status, 400)
    }))

  it.effect("says that the limit of active sandboxes is reached, and keeps what was typed", () =>
    Effect.gen(function*() {
      const { key, post } = yield* visitor("full")
      for (const _ of [1, 2, 3]) yield* create(key)
      const full = yield* post("/new", form({ prompt: "One more" }))
      assert.strictEqual(full.status, 409)
      assert.include(full.text, "The limit of 3 active sandboxes is reached.")
      assert.include(full.text, "One more</textarea>")
    }))

  it.effect("says why the server that embeds it refuses the sandbox, and keeps what was typed", () =>
    Effect.gen(function*() {
      const { post } = yield* visitor("denied")
      const denied = yield* post("/new", form({ prompt: "Sell it" }))
      assert.strictEqual(denied.status, 403)
      assert.include(denied.text, "Nothing is sold.")
      assert.include(denied.text, "Sell it</textarea>")
    }))

  it.effect("starts with what this person chose last, and not with what others did", () =>
    Effect.gen(function*() {
      const { get, key, post } = yield* visitor("again")
      yield* post("/new", form({ effort: "low", approvals: "prompt" }, [["acme/site", "dev"]]))
      yield* create(key, { repos: [{ fullName: "acme/theirs" }] })
      const { text } = yield* get("/new")
      assert.match(text.replaceAll("\n", " "), /id="repo-0" name="repo" list="repositories" value="acme\/site"/u)
      assert.include(text, "name=\"ref\" value=\"dev\"")
      assert.include(text, "<option value=\"low\" selected>")
      assert.include(text, "value=\"prompt\" selected")
    }))

  it.effect("suggests what the grant worked with, and of the host what accounts have of which it could have a repository", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("chooser")
      const options = (reply: Reply) => [...reply.text.matchAll(/<option value="([^"/]+\/[^"]+)"><\/option>/gu)].map(([, name]) => name)
      assert.deepStrictEqual(options(yield* get("/new")), [])
      yield* create(key, { repos: [{ fullName: "other/guessed" }] })
      assert.deepStrictEqual(options(yield* get("/new")), ["other/guessed"])
      yield* running(key, { repos: [{ fullName: "ACME/shop" }] })
      assert.deepStrictEqual(options(yield* get("/new")), ["ACME/shop", "other/guessed", "Acme/shelf"])
      assert.deepStrictEqual(options(yield* get("/new/repositories?search=shel")), ["Acme/shelf"])
    }))
})

const theirs = {
  id: 7,
  nodeId: "PR_7",
  number: 7,
  url: "https://host.test/acme/shop/pull/7",
  title: "<b>Theirs</b>\u202e",
  state: "open",
  draft: false,
  merged: false,
  baseRef: "main",
  headRef: "slipway/theirs",
  headSha: "a".repeat(40),
  createdAt: DateTime.makeUnsafe(0),
  updatedAt: DateTime.makeUnsafe(0),
  additions: 1,
  deletions: 0,
  changedFiles: 1
} as const

layer(
  http({
    host: {
      repository: (fullName) => Effect.succeed({ fullName, defaultBranch: "main" }),
      branch: (_repo, name) =>
        Effect.succeed(name === "main" || name === theirs.headRef ? { headSha: theirs.headSha, isProtected: false } : null),
      pullRequestSource: (repo, number) => Effect.succeed(number === 7 ? { pullRequest: theirs, headRepo: repo } : null),
      findOpenPullRequest: () => Effect.succeed(theirs),
      openPullRequests: (repo) => repo === "acme/slow" ? Effect.never : Effect.succeed([theirs])
    }
  }),
  { excludeTestServices: true }
)("a pull request or branch in the form", (it) => {
  it.effect("is what the sandbox continues, in the first repository", () =>
    Effect.gen(function*() {
      const { get, grantId, post } = yield* visitor("continuing")
      assert.include((yield* get("/new")).text, "<details><summary>Continue a pull request or branch</summary>")
      const store = yield* SandboxStore
      const made = Effect.fnUntraced(function*(fields: ReturnType<typeof form>) {
        return yield* store.find({ grantId, id: idOf(yield* post("/new", fields)) })
      })
      const two = [["acme/shop", ""], ["acme/docs", "next"]] as const
      const byNumber = yield* made(form({ pull: " #7 ", continue: "", key: "key-2" }, two))
      assert.deepInclude(byNumber.continues, { repo: "acme/shop", branch: "slipway/theirs", pullRequest: 7 })
      assert.deepStrictEqual(byNumber.repos.map(({ ref }) => ref), ["slipway/theirs", "next"])
      const byBranch = yield* made(form({ pull: "", continue: "slipway/theirs", key: "key-3" }))
      assert.deepInclude(byBranch.continues, { branch: "slipway/theirs", pullRequest: 7 })
      assert.isNull((yield* made(form({ pull: "", continue: " ", key: "key-4" }))).continues)
    }))

  it.effect("that cannot be continued comes back with the reason at its field", () =>
    Effect.gen(function*() {
      const { post } = yield* visitor("refused")
      const rows: ReadonlyArray<readonly [pull: string, branch: string, ref: string, status: number, id: string, text: RegExp]> = [
        ["twelve", "", "", 400, "continue-pull", /Enter the number of a pull request/u],
        ["0", "", "", 400, "continue-pull", /Enter the number of a pull request/u],
        ["#1234567890123456", "", "", 400, "continue-pull", /Enter the number of a pull request/u],
        ["", "a..b", "", 400, "continue-branch", /Enter the name of a branch/u],
        ["7", "slipway/theirs", "", 400, "continue-branch", /not both/u],
        ["7", "", "main", 400, "continue-pull", /Clear the branch of the repository/u],
        ["8", "", "", 409, "continue-pull", /has no pull request #8/u],
        ["", "main", "", 409, "continue-branch", /main is the default branch/u],
        ["", "feature/x", "", 409, "continue-branch", /may not push to feature\/x/u]
      ]
      for (const [pull, branch, ref, status, id, text] of rows) {
        const reply = yield* post("/new", form({ pull, continue: branch }, [["acme/shop", ref]]))
        assert.strictEqual(reply.status, status, `${pull} ${branch}`)
        const page = reply.text.replaceAll("\n", " ")
        assert.match(page, text)
        assert.match(page, new RegExp(`id="${id}"[^>]* aria-invalid="true" aria-describedby="compose-problem continue-hint"`, "u"))
        assert.include(page, "<details open><summary>Continue a pull request or branch</summary>")
      }
    }))

  it.effect("is chosen from the open ones, of repositories that the form suggests alone", () =>
    Effect.gen(function*() {
      const { get, key } = yield* visitor("picker")
      assert.strictEqual((yield* get("/new/pulls?repo=acme/shop")).text.trim(), "")
      yield* create(key)
      const { text } = yield* get("/new/pulls?repo=ACME/shop")
      assert.match(text, /^<option value="#7">&lt;b&gt;Theirs&lt;\/b&gt;.* \(slipway\/theirs\)<\/option>\n$/u)
      assert.notInclude(text, "\u202e")
      yield* create(key, { repos: [{ fullName: "acme/slow" }] })
      for (const repo of ["acme/slow", "", "nonsense", "a/b/c"]) {
        const { status, text } = yield* get(`/new/pulls?repo=${encodeURIComponent(repo)}`)
        assert.deepStrictEqual([status, text.trim()], [200, ""], repo)
      }
    }))
})

const DEMO = "The demo model follows scripts"

layer(http(), { excludeTestServices: true })("the form of a service with the demo model alone", (it) => {
  it.effect("says that it follows scripts, and leads owners to the page of models", () =>
    Effect.gen(function*() {
      const [mine, theirs] = [yield* (yield* owner).get("/new"), yield* (yield* visitor("member")).get("/new")]
      for (const { text } of [mine, theirs]) assert.include(text, DEMO)
      assert.include(mine.text, `<a href="/models">Connect a real model</a>`)
      assert.notInclude(theirs.text, `<a href="/models"`)
    }))
})

const real = { ...offlineDemo, id: "anthropic/opus", offline: false }

layer(http({ catalogue: { default: real.id, models: [offlineDemo, real] } }), { excludeTestServices: true })(
  "the form of a service with a real model",
  (it) => {
    it.effect("offers it first, without the hint", () =>
      Effect.gen(function*() {
        const { text } = yield* (yield* owner).get("/new")
        assert.include(text, `<option value="${real.id}" selected`)
        assert.notInclude(text, DEMO)
      }))
  }
)

const onMachine: Array<RepoName> = []

layer(
  http({ host: { repositories: () => Effect.succeed(onMachine) } }).pipe(
    Layer.provide(Layer.mock(MachineRepositories, {
      addSample: Effect.sync(() => void onMachine.push(RepoName.make("sample/shop"))),
      names: (repo, ref, folder) => Effect.succeed([{ name: `${repo.replace("/", "-")}-${ref ?? "default"}-${folder}`, isFolder: true }])
    }))
  ),
  { excludeTestServices: true }
)("the form of a service without repositories", (it) => {
  it.effect("offers its owners the sample, which it then has in its field; others cannot add it", () =>
    Effect.gen(function*() {
      const [mine, theirs] = [yield* owner, yield* visitor("guest")]
      const offer = `<form method="post" action="/new/sample">`
      for (const person of [mine, theirs]) assert.include((yield* person.get("/new")).text, "No repositories yet")
      assert.notInclude((yield* theirs.get("/new")).text, offer)
      assert.strictEqual((yield* theirs.post("/new/sample", {})).status, 403)
      assert.deepStrictEqual(onMachine, [])
      const starters = (yield* mine.get("/sandboxes")).text
      assert.include(starters, offer)
      assert.include(starters, `<a class="button quiet" href="/repositories">Add a repository</a>`)
      assert.strictEqual((yield* mine.post("/new/sample", {})).headers["location"], "/sandboxes")
      const { text } = yield* mine.get("/sandboxes")
      assert.notInclude(text, "No repositories yet")
      assert.match(text, /name="repo"[^>]*value="sample\/shop"|value="sample\/shop"[^>]*name="repo"/u)
    }))

  it.effect("completes paths in the task by the files of the chosen repository and branch", () =>
    Effect.gen(function*() {
      const { get } = yield* visitor("completer")
      const names = (query: Record<string, string>) =>
        Effect.map(get(`/new/files?${new URLSearchParams(query)}`), ({ status, text }) => [status, /data-text="([^"]*)"/u.exec(text)?.[1]])
      assert.deepStrictEqual(yield* names({ repo: "acme/shop", ref: "", path: "src/acme" }), [200, "src/acme-shop-default-src/"])
      assert.deepStrictEqual(yield* names({ repo: "acme/shop", ref: "dev", path: "" }), [200, "acme-shop-dev-/"])
      for (
        const [repo, ref] of [["", ""], ["--all", ""], ["acme/..", ""], ["acme/shop", "--all"], ["acme/shop", ":/text"], ["acme/shop",
          "a..b"]]
      ) {
        assert.deepStrictEqual(yield* names({ repo: repo ?? "", ref: ref ?? "", path: "" }), [200, undefined], `${repo} ${ref}`)
      }
    }))
})
