/** A sync as agents see it: a service as it is served, on a repository of its own; the offline agent merges in its box with its own git. */
import { assert, describe, it } from "@effect/vitest"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { folder, repository, run, serve, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"

const LONG = 600_000

/** A branch of a person. Grants may push to such branches if nothing else was set. */
const BRANCH = "slipway/theirs"

const AGENT = "git -c user.name=Agent -c user.email=agent@shop.invalid"

const isHere = (program: string) => {
  try {
    execFileSync(program, ["--version"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
}

describe("a sync of a sandbox that continues a branch", () => {
  it.live.skipIf(!isHere("bwrap"))(
    "gives the agent the newest commits of base and branch, which it merges; then the branch takes its work (needs bubblewrap)",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const settings = { DATABASE_URL: yield* TestPostgres.database(Migrations.layer), SLIPWAY_ISOLATION: "bubblewrap" }
        const server = yield* serve(data, settings)
        const shop = repository(data)
        const git = (...args: ReadonlyArray<string>) =>
          execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", ...args], { cwd: shop, encoding: "utf8" }).trim()
        const commit = (branch: string, file: string) => {
          git("checkout", "--quiet", branch)
          writeFileSync(path.join(shop, file), `${file}\n`)
          git("add", file)
          git("commit", "--quiet", "--message", file)
          const sha = git("rev-parse", "HEAD")
          git("checkout", "--quiet", "main")
          return sha
        }
        git("branch", BRANCH)
        commit(BRANCH, "theirs")
        yield* run(data, ["repos", "add", "acme/shop", shop], settings)
        const { stdout } = yield* run(data, ["keys", "create", "--grant", "one", "--json"], settings)
        const key = String(JSON.parse(stdout).key)
        const api = Api.make({ ...server, key })

        const id = yield* api.create({ continue: { branch: BRANCH }, prompt: "[[write path=ours content=ours]]" })
        yield* api.event(id, "turn.completed")
        assert.strictEqual(yield* api.file(id, "theirs"), "theirs\n")
        const [base, moved] = [commit("main", "of-main"), commit(BRANCH, "later")]
        /** The last word on a publication: a busy machine answers the request before it is over. */
        const publish = Effect.gen(function*() {
          yield* Effect.promise(() =>
            fetch(`${server.url}/api/public/v1/sandboxes/${id}/pull-request`, {
              method: "POST",
              headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
              body: "{}"
            })
          )
          const last = Effect.map(api.log(id), (log) => log.findLast(({ type }) => type === "pull_request.updated")?.data ?? {})
          return yield* until(last, (data) => data["action_state"] === "idle" || data["action_state"] === "failed")
        })
        assert.nestedPropertyVal(yield* publish, "error.code", "branch_moved")
        assert.strictEqual(git("rev-parse", BRANCH), moved)

        const synced = yield* run(data, ["sync", id], { ...settings, SLIPWAY_URL: server.url, SLIPWAY_API_KEY: key })
        assert.strictEqual(synced.code, 0, synced.stderr)
        yield* api.event(id, "sandbox.synced")
        const told = (yield* api.log(id)).find(({ type }) => type === "sandbox.synced")
        assert.sameDeepMembers(told?.data["branches"] as Array<object>, [
          { repo: "acme/shop", branch: "main", sha: base },
          { repo: "acme/shop", branch: BRANCH, sha: moved }
        ])
        // The tree does not change before the agent does it.
        assert.strictEqual(yield* api.file(id, "ours"), "ours\n")
        const merges = ["main", BRANCH].map((branch) => `${AGENT} merge --no-edit origin/${branch}`).join(" && ")
        yield* api.send(id, `[[shell git add ours && ${AGENT} commit -m ours && ${merges}]]`)
        yield* api.event(id, "turn.completed", 2)

        assert.deepInclude(yield* publish, { action_state: "idle", head_ref: BRANCH, state: "open" })
        for (const sha of [base, moved]) git("merge-base", "--is-ancestor", sha, BRANCH)
        assert.deepStrictEqual(git("ls-tree", "--name-only", BRANCH).split("\n"), ["README.md", "later", "of-main", "ours", "theirs"])
      }).pipe(Effect.scoped),
    LONG
  )
})
