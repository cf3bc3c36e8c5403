/** Changes are requested over HTTP: a service as it is served, with the offline agent, git and Postgres, on a repository of its own. */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { folder, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"

const LONG = 600_000

/** A published sandbox. */
const published = Effect.gen(function*() {
  const data = yield* folder
  const settings = { DATABASE_URL: yield* TestPostgres.database(Migrations.layer), SLIPWAY_ISOLATION: "none" }
  const server = yield* serve(data, settings)
  const shop = repository(data)
  yield* run(data, ["repos", "add", "acme/shop", shop], settings)
  const { stdout } = yield* run(data, ["keys", "create", "--grant", "one", "--json"], settings)
  const key = String(JSON.parse(stdout).key)
  const api = Api.make({ ...server, key })
  const git = (...args: ReadonlyArray<string>) => execFileSync("git", args, { cwd: shop, encoding: "utf8" }).trim()
  const id = yield* api.create({ prompt: "[[write path=cart.txt content=one]]" })
  yield* api.event(id, "turn.completed")
  yield* api.publish(id)
  const pull = yield* until(api.pull(id), ({ actionState, pullRequest }) => actionState === "idle" && pullRequest !== null)
  const feedback = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
    const ended = yield* run(data, ["feedback", ...args, "--json"], { SLIPWAY_URL: server.url, SLIPWAY_API_KEY: key })
    assert.deepStrictEqual([ended.code, ended.stderr], [0, ""])
    return JSON.parse(ended.stdout)
  })
  const request = (...args: ReadonlyArray<string>): Effect.Effect<{ readonly sandboxId: string; readonly turnId: string }> =>
    feedback(id, ...args)
  const branch = `slipway/${id}`
  const commits = () => git("rev-list", "--count", branch)
  const comments = Effect.map(api.pull(id), (shown) => (shown as unknown as { readonly comments: ReadonlyArray<object> }).comments.length)
  return { api, branch, comments, commits, feedback, git, id, number: pull.pullRequest?.number, request }
})

const of = (log: ReadonlyArray<Api.Told>, type: string) => log.filter((event) => event.type === type)

describe("a request for changes", () => {
  it.live("becomes one turn, one push to the pull request and one reply", () =>
    Effect.gen(function*() {
      const { api, branch, comments, commits, feedback, git, id, number, request } = yield* published
      const before = Number(commits())
      assert.deepInclude(yield* feedback(id), { messages: 0, isUnderWay: false, isPaused: false })
      const { sandboxId, turnId } = yield* request("[[write path=cart.txt content=two]]", "--on", "cart.txt:1: Two, please.")
      assert.strictEqual(sandboxId, id)
      yield* api.event(id, "feedback.replied")
      assert.strictEqual(git("show", `${branch}:cart.txt`), "two")
      assert.strictEqual(Number(commits()), before + 1)
      const log = yield* api.log(id)
      assert.deepStrictEqual(of(log, "turn.started").slice(1).map(({ data }) => data["prompt_id"]), [turnId])
      assert.lengthOf(of(log, "feedback.received"), 1)
      assert.lengthOf(of(log, "feedback.replied"), 1)
      const updates = of(log, "pull_request.updated").map(({ data }) => [data["action_state"], data["number"]])
      assert.deepStrictEqual(updates.filter(([state]) => state === "updating").length, 1)
      assert.deepStrictEqual(updates.at(-1), ["idle", number])
      // The review, its comment on a line, and the reply.
      assert.strictEqual(yield* comments, 3)
      assert.deepInclude(yield* feedback(id), { messages: 1, items: 2, replies: 1, isUnderWay: false, isPaused: false })
    }).pipe(Effect.scoped), LONG)

  it.live("to a finished sandbox is done by a new one, which updates the same pull request", () =>
    Effect.gen(function*() {
      const { api, branch, commits, feedback, git, id, number, request } = yield* published
      yield* api.terminate(id)
      yield* until(api.status(id), (status) => status === "terminated")
      const before = Number(commits())
      const { sandboxId } = yield* request("[[write path=cart.txt content=three]]")
      assert.notStrictEqual(sandboxId, id)
      yield* api.event(sandboxId, "feedback.replied")
      assert.strictEqual(git("show", `${branch}:cart.txt`), "three")
      assert.strictEqual(Number(commits()), before + 1)
      const log = yield* api.log(sandboxId)
      assert.deepInclude(of(log, "sandbox.continued")[0]?.data, { branch, pull_request: number, sandbox_id: id })
      assert.lengthOf(of(log, "turn.started"), 1)
      assert.strictEqual((yield* api.pull(sandboxId)).pullRequest?.number, number)
      assert.deepInclude(yield* feedback(id), { continuedBy: sandboxId })
      assert.deepStrictEqual(of(yield* api.log(id), "feedback.received").map(({ data }) => data["sandbox_id"]), [sandboxId])
    }).pipe(Effect.scoped), LONG)
})
