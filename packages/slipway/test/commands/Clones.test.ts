/** The settings of clones, from the environment to the tree and to what people are told. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { folder, run, serve, until } from "./SlipwayProcess.ts"

// In a box the tree belongs to the agent.
const git = (at: string, ...args: ReadonlyArray<string>) =>
  execFileSync("git", ["-C", at, "-c", "safe.directory=*", "-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", ...args], {
    encoding: "utf8"
  }).trim()

/** A commit for each file. */
const repository = (at: string, files: ReadonlyArray<string>) => {
  mkdirSync(at)
  git(at, "init", "--quiet", "--initial-branch=main")
  for (const file of files) {
    writeFileSync(path.join(at, file), `${file}\n`)
    git(at, "add", "--all")
    git(at, "commit", "--quiet", "--message", file)
  }
  return at
}

it.live(
  "clones are as deep as it is set, and what is larger than it may be is refused with the name of the setting",
  () =>
    Effect.gen(function*() {
      const data = yield* folder
      yield* run(data, ["repos", "add", "acme/shop", repository(path.join(data, "shop"), ["a", "b", "c"])])
      const heavy = repository(path.join(data, "large"), ["a"])
      writeFileSync(path.join(heavy, "b"), Buffer.alloc(2 ** 20, "b"))
      git(heavy, "add", "--all")
      git(heavy, "commit", "--quiet", "--message", "b")
      yield* run(data, ["repos", "add", "acme/large", heavy])
      const server = yield* serve(data, { SLIPWAY_CLONE_DEPTH: "2", SLIPWAY_CHECKOUT_MIB: "1" })
      const call = (method: string, address: string, body?: unknown) =>
        Effect.promise(async () => {
          const response = await fetch(`${server.url}/api/public/v1${address}`, {
            method,
            headers: { authorization: `Bearer ${server.key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
            ...(body === undefined ? {} : { body: JSON.stringify(body) })
          })
          return await response.json()
        })
      const ended = (repo: string) =>
        Effect.gen(function*() {
          const { id } = yield* call("POST", "/sandboxes", { repos: [{ fullName: repo }], prompt: "[[recall]]" })
          return yield* until(call("GET", `/sandboxes/${id}`), ({ status }) => status === "running" || status === "failed")
        })

      const shop = yield* ended("acme/shop")
      assert.strictEqual(shop.status, "running")
      const tree = path.join(data, "trees", "sandboxes", shop.id, "workspace", "shop")
      assert.strictEqual(git(tree, "rev-list", "--count", "HEAD"), "2")

      const large = yield* ended("acme/large")
      assert.strictEqual(large.status, "failed")
      assert.include(
        JSON.stringify(large),
        "The files of the commit have more than 1 MiB together. This limit is raised with SLIPWAY_CHECKOUT_MIB."
      )
      assert.strictEqual((yield* server.stop("SIGTERM")).code, 0)
    }).pipe(Effect.scoped)
)
