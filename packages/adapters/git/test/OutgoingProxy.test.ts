/** Git and Git LFS in a network whose proxy alone knows the source host. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import * as CompanyNetwork from "@slipway/machine/testing/CompanyNetwork"
import { Effect } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { request as send } from "node:http"
import { join } from "node:path"
import * as LfsServer from "../testing/LfsServer.ts"
import { hosted } from "../testing/LfsSuite.ts"
import { temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const author = { name: "Slipway", email: "slipway@example.com" }
const TEN = "ten bytes\n"
const HOST = "https://git.outside.test"

/** A repository at a source host of the outside; its contents come from there. */
const repository = Effect.gen(function*() {
  const network = yield* CompanyNetwork.joined
  const seen: Array<string> = []
  const { server } = yield* hosted({ "a.bin": LfsServer.pointerOf(TEN) }, [TEN], {
    actions: (_operation, oid) => ({
      actions: { download: { href: `${HOST}/objects/${oid}`, header: { Authorization: "Basic c29tZW9uZTpzZWNyZXQ=" } } }
    })
  })
  yield* network.https("git.outside.test", (request, response) => {
    const onwards = send(`${server.url}${request.url}`, { method: request.method, headers: request.headers, agent: false }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      seen.push(`${request.method} ${request.url}`)
      answer.pipe(response)
    })
    request.pipe(onwards)
  })
  const directory = yield* temporaryFolder
  const trees = yield* Trees.make({ directory, lfs: { privates: new Set() } })
  const remote = { ...server.remote, url: server.remote.url.replace(server.url, HOST) }
  return {
    network,
    seen,
    trees,
    remote,
    prepare: trees.prepare(key, { remote, ref: undefined, defaultBranch: "main", repos: [key.repo] }),
    at: (name: string) => join(workspacesIn(directory)(key.sandboxId), "app", name)
  }
})

describe("a repository of the outside", () => {
  it.live("is cloned and pushed through the proxy, and its contents of Git LFS come through it", () =>
    Effect.gen(function*() {
      const { at, network, prepare, remote, seen, trees } = yield* repository
      const base = yield* prepare
      assert.deepStrictEqual(base.lfsMissing ?? [], [])
      assert.strictEqual(readFileSync(at("a.bin"), "utf8"), TEN)
      writeFileSync(at("new.txt"), "new\n")
      const made = yield* trees.snapshot(key, { message: "Title", author, since: { head: null, merges: [], remote } })
      yield* trees.push(key, { sha: made.sha, headRef: `slipway/${made.sha}`, remote })
      const path = new URL(remote.url).pathname
      assert.includeMembers(seen, [
        `GET ${path}/info/refs?service=git-upload-pack`,
        `POST ${path}/git-upload-pack`,
        `POST ${path}/info/lfs/objects/batch`,
        `GET /objects/${LfsServer.oidOf(TEN)}`,
        `POST ${path}/git-receive-pack`
      ])
      assert.deepStrictEqual([...new Set(network.asked)], ["CONNECT git.outside.test:443"])
    }))

  it.live("is not there when the proxy refuses, and the password is in no text", () =>
    Effect.gen(function*() {
      const { network, prepare } = yield* repository
      for (const behaviour of [407, 502, "closes"] as const) {
        network.behave(behaviour)
        const error = yield* Effect.flip(prepare)
        const said = `${error.message} ${JSON.stringify(error)} ${"stack" in error ? error.stack : ""}`
        assert.notInclude(said, CompanyNetwork.CANARY)
        assert.notInclude(said, encodeURIComponent(CompanyNetwork.CANARY))
      }
    }))

  it.live("is reached directly where NO_PROXY names its host", () =>
    Effect.gen(function*() {
      const { network, prepare } = yield* repository
      process.env["NO_PROXY"] = "outside.test"
      yield* Effect.flip(prepare)
      assert.deepStrictEqual(network.asked, [])
    }))
})
