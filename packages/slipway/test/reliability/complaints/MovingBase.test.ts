/** A branch that somebody pushes to all the time, while sandboxes start from it. */
import { assert, it } from "@effect/vitest"
import * as GitHubServer from "@slipway/github/testing/GitHubServer"
import { Effect, Fiber } from "effect"
import { folder, gitHubApp, serve, until } from "../../commands/SlipwayProcess.ts"
import * as Api from "../failover/Api.ts"

const SANDBOXES = 4

it.live("a base branch pushed during boot: a sandbox has one base, and what it changed and publishes is against that", () =>
  Effect.gen(function*() {
    const github = yield* GitHubServer.start()
    github.app.install("Acme")
    const shop = yield* github.repository("acme/shop", { "README.md": "0\n", "other.txt": "0\n" })
    const data = yield* folder
    const server = yield* serve(data, gitHubApp(data, github))
    const api = Api.make(server)
    const get = (address: string) =>
      Effect.promise(async () => {
        const reply = await fetch(`${server.url}/api/public/v1/sandboxes${address}`, { headers: { authorization: `Bearer ${server.key}` } })
        return await reply.text()
      })

    /** Each has its number in two files: a tree of two commits shows. */
    let pushed = 0
    const pushing = yield* Effect.forkChild(
      Effect.forever(Effect.promise(() => {
        pushed++
        return shop.commit("trunk", { "README.md": `${pushed}\n`, "other.txt": `${pushed}\n` })
      }))
    )
    const ids = yield* Effect.forEach(
      Array.from({ length: SANDBOXES }),
      () => api.create({ prompt: "[[shell cp README.md seen.txt; echo mine >> README.md]]" }),
      { concurrency: "unbounded" }
    )
    for (const id of ids) yield* api.event(id, "sandbox.checkpoint")
    // It goes on meanwhile, so that each base is behind its branch by now.
    const before = pushed
    yield* until(Effect.sync(() => pushed), (now) => now > before)
    for (const id of ids) {
      const seen = (yield* api.file(id, "seen.txt")).trim()
      assert.strictEqual((yield* api.file(id, "other.txt")).trim(), seen)
      assert.isBelow(Number(seen), pushed)
      // The comparison is with the commit that it started from.
      assert.strictEqual(JSON.parse(yield* get(`/${id}/files/content?path=README.md`)).base.content, `${seen}\n`)
      const diff = yield* get(`/${id}/files/diff`)
      assert.deepStrictEqual([...diff.matchAll(/^diff --git a\/(\S+)/gmu)].map(([, name]) => name), ["README.md", "seen.txt"])
      assert.deepStrictEqual(diff.match(/^[+-](?![+-]).*$/gmu), ["+mine", `+${seen}`])

      yield* api.publish(id)
      const { pullRequest } = yield* until(api.pull(id), ({ actionState }) => actionState === "idle")
      const pull = shop.pulls.find(({ number }) => number === pullRequest?.number)
      const head = `slipway/${id}`
      const git = (...args: ReadonlyArray<string>) => Effect.map(Effect.promise(() => shop.bare.git([...args])), (said) => said.trim())
      const base = yield* git("rev-parse", `${head}^`)
      assert.strictEqual(yield* git("show", `${base}:README.md`), seen)
      assert.strictEqual(yield* git("merge-base", head, "trunk"), base)
      assert.deepStrictEqual((yield* git("diff", "--name-only", `${base}..${head}`)).split("\n"), ["README.md", "seen.txt"])
      assert.isDefined(pull)
    }
    yield* Fiber.interrupt(pushing)
    process.stdout.write(`${SANDBOXES} sandboxes started while ${before} commits were pushed\n`)
  }).pipe(Effect.scoped))
