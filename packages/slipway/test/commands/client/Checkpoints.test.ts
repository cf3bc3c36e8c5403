import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import path from "node:path"
import { folder, run, serve, until } from "../SlipwayProcess.ts"

const LONG = 300_000

describe("slipway checkpoints", () => {
  it.live("lists those of a sandbox, and takes it back to one, while the service runs", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const bare = path.join(data, "shop.git")
      const work = path.join(data, "shop")
      const git = (...args: ReadonlyArray<string>) =>
        execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@shop.invalid", ...args], { stdio: "pipe" })
      git("init", "--quiet", "--initial-branch=main", work)
      git("-C", work, "commit", "--quiet", "--allow-empty", "--message", "Start")
      git("clone", "--quiet", "--bare", work, bare)
      const server = yield* serve(data)
      yield* run(data, ["repos", "add", "acme/shop", bare])
      const call = (method: string, address: string, body?: unknown) =>
        Effect.promise(async () => {
          const response = await fetch(`${server.url}/api/public/v1${address}`, {
            method,
            headers: { authorization: `Bearer ${server.key}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
            ...(body === undefined ? {} : { body: JSON.stringify(body) })
          })
          return await response.json()
        })
      const slipway = (...args: ReadonlyArray<string>) =>
        run(data, ["checkpoints", ...args], { SLIPWAY_URL: server.url, SLIPWAY_API_KEY: server.key ?? "" })
      const { id } = yield* call("POST", "/sandboxes", {
        repos: [{ fullName: "acme/shop" }],
        prompt: "[[write path=a.txt content=first]]"
      })
      const taken = (n: number) => until(call("GET", `/sandboxes/${id}/checkpoints`), ({ data }) => data.length >= n)
      // While it goes back it has no files, and says to come again.
      const text = Effect.map(
        call("GET", `/sandboxes/${id}/files/content?path=a.txt`),
        (reply) => reply.working?.content ?? reply.error.code
      )
      yield* taken(1)
      yield* call("POST", `/sandboxes/${id}/messages`, { prompt: "[[write path=a.txt content=second]]" })
      yield* taken(2)
      assert.strictEqual(yield* text, "second\n")
      const listed = JSON.parse((yield* slipway("list", id, "--json")).stdout)
      assert.deepStrictEqual(listed.map(({ checkpoint }: { checkpoint: number }) => checkpoint), [1, 2])

      const unknown = yield* slipway("restore", id, "7")
      assert.deepStrictEqual([unknown.code, unknown.stdout], [5, ""])
      assert.include(unknown.stderr, "No such checkpoint.")
      const stranger = yield* slipway("restore", "c_zzzzzzzzzzzz", "1")
      assert.strictEqual(stranger.code, 5)

      const done = yield* slipway("restore", id, "1")
      assert.deepStrictEqual([done.code, done.stderr], [0, ""])
      assert.strictEqual(done.stdout, `Sandbox ${id} goes back to checkpoint 1. Its log shows when it is done: slipway logs ${id}\n`)
      assert.strictEqual(yield* until(text, (content) => content !== "second\n" && content !== "agent_disconnected"), "first\n")

      yield* call("POST", `/sandboxes/${id}/terminate`)
      const over = yield* slipway("restore", id, "1", "--json")
      assert.deepStrictEqual([over.code, over.stdout], [4, ""])
      assert.strictEqual(over.stderr, "slipway: The sandbox has ended, so nothing was changed.\n")
    }), LONG)
})
