/** `slipway archive` and `slipway delete` with a running service, the same by the client, and readers of the sandbox meanwhile. */
import { assert, describe, it } from "@effect/vitest"
import { SlipwayClient } from "@slipway/client"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import path from "node:path"
import { folder, repository, run, serve, until } from "../SlipwayProcess.ts"

const LONG = 180_000
/** Bytes of a file: more than sockets hold. */
const LARGE = 32 * 1024 * 1024

describe("archived and deleted sandboxes", () => {
  it.live("leave lists, and are deleted for good while others read them; a fork goes on from its checkpoint", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const shop = repository(data)
      writeFileSync(path.join(shop, "large.bin"), Buffer.alloc(LARGE, "large"))
      const git = (...args: ReadonlyArray<string>) =>
        execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=a@b.invalid", ...args], { cwd: shop })
      git("add", "--all")
      git("commit", "--quiet", "--message", "A large file")
      const { key: plain, url } = yield* serve(data)
      yield* run(data, ["repos", "add", "acme/shop", shop])
      const minted = yield* run(data, ["keys", "create", "--grant", "default", "--scopes", "sandboxes,sandboxes:delete", "--json"])
      const key: string = JSON.parse(minted.stdout).key
      const slipway = (...args: ReadonlyArray<string>) => run(data, args, { SLIPWAY_URL: url, SLIPWAY_API_KEY: key })
      const client = new SlipwayClient({ baseUrl: url, apiKey: key })
      const ask = (address: string) =>
        Effect.promise(() => fetch(`${url}/api/public/v1/sandboxes${address}`, { headers: { authorization: `Bearer ${key}` } }))
      const create = { repos: [{ fullName: "acme/shop" }], prompt: "[[write path=a.txt content=first]]" }
      const { id } = yield* Effect.promise(() => client.createSandbox(create))
      const sandbox = Effect.promise(() => client.getSandbox(id))
      yield* until(sandbox, ({ status, turn }) => status === "running" && !turn.active)
      yield* until(Effect.promise(() => client.listCheckpoints(id)), ({ data }) => data.length > 0)

      // Archived: left out of the list until it is asked for.
      const listed = Effect.map(slipway("ps", "--json"), ({ stdout }) => stdout.includes(id))
      assert.isTrue(yield* listed)
      const archived = yield* slipway("archive", id)
      assert.deepStrictEqual(archived, { code: 0, stdout: `${id} is archived. Undo: slipway unarchive\n`, stderr: "" })
      assert.isFalse(yield* listed)
      assert.deepStrictEqual(yield* Effect.promise(() => client.archivedSandboxes([id])), [id])
      assert.strictEqual((yield* slipway("unarchive", id)).stdout, `${id} is in lists again.\n`)
      assert.isTrue(yield* listed)
      yield* Effect.promise(() => client.archiveSandbox(id))
      yield* Effect.promise(() => client.archiveSandbox(id, false))
      assert.deepStrictEqual(yield* Effect.promise(() => client.archivedSandboxes([id])), [])

      // Refused: it runs, there is no terminal to ask at, the key may not.
      const early = yield* slipway("delete", "--yes", id)
      assert.deepStrictEqual([early.code, early.stdout], [4, ""])
      const asking = yield* slipway("delete", id)
      assert.deepStrictEqual([asking.code, asking.stdout], [2, ""])
      assert.include(asking.stderr, "Repeat with --yes")
      const weak = yield* run(data, ["delete", "--yes", id], { SLIPWAY_URL: url, SLIPWAY_API_KEY: plain ?? "" })
      assert.deepStrictEqual([weak.code, weak.stdout], [6, ""])

      // Readers that are in the middle of it.
      const { id: fork } = yield* Effect.promise(() => client.forkSandbox(id, { prompt: "[[say Hello]]" }))
      const download = yield* ask(`/${id}/files/download?path=large.bin`)
      const stream = yield* ask(`/${id}/events/stream?since=0`)
      assert.deepStrictEqual([download.status, stream.status], [200, 200])
      yield* Effect.promise(() => client.terminateSandbox(id))
      yield* until(sandbox, ({ status }) => status === "terminated")
      assert.deepStrictEqual(yield* slipway("delete", "--yes", id), { code: 0, stdout: `${id} is deleted.\n`, stderr: "" })
      const events = yield* Effect.promise(() => stream.text())
      assert.match(events, /"type":"sandbox.status"/u)
      // It has all bytes, or it broke off.
      const bytes = yield* Effect.promise(() => download.arrayBuffer().then(({ byteLength }) => byteLength, () => 0))
      assert.include([0, LARGE], bytes)

      for (const address of ["", "/events", "/events/stream", "/files/download?path=large.bin", "/checkpoints"]) {
        assert.strictEqual((yield* ask(`/${id}${address}`)).status, 404, address)
      }
      const again = yield* slipway("delete", "--yes", id)
      assert.deepStrictEqual([again.code, again.stdout], [5, ""])
      const { code } = yield* Effect.promise(() =>
        client.deleteSandbox(id).then(() => assert.fail("it is deleted twice"), (error) => error)
      )
      assert.strictEqual(code, "not_found")

      yield* until(Effect.promise(() => client.getSandbox(fork)), ({ status, turn }) => status === "running" && !turn.active)
      const content = yield* Effect.promise(async () => (await client.getFileContent(fork, "a.txt")).working)
      assert.include(JSON.stringify(content), "first")
      yield* Effect.promise(() => client.terminateSandbox(fork))
    }), LONG)
})
