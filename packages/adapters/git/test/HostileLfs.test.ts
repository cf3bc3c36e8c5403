/** Servers of Git LFS that lie, hang and lead elsewhere, and repositories made to hurt. A boot goes on without contents. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { workspacesIn } from "@slipway/machine/files/TreesLayout"
import { Cause, Effect } from "effect"
import { once } from "node:events"
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { createServer, type IncomingMessage } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import type { Destinations } from "../src/lfs/LfsHttp.ts"
import * as LfsServer from "../testing/LfsServer.ts"
import { hosted } from "../testing/LfsSuite.ts"
import { temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const key = { sandboxId: SandboxId.make("c_aaaaaaaaaaaa"), repo: RepoName.make("acme/app") }
const author = { name: "Slipway", email: "slipway@example.com" }
const TEN = "ten bytes\n"
const POINTER = LfsServer.pointerOf(TEN)

/** Trees of a repository with one pointer, and the reason for which it stayed one; `null`: it got its content. */
const boot = Effect.fnUntraced(function*(
  server: LfsServer.Options,
  lfs: Partial<Destinations> & { readonly maximumCheckoutBytes?: number } = {},
  files: Readonly<Record<string, string>> = { "a.bin": POINTER }
) {
  const { maximumCheckoutBytes, ...destinations } = lfs
  const found = yield* hosted(files, [TEN], server)
  const directory = yield* temporaryFolder
  const trees = yield* Trees.make({
    directory,
    lfs: { privates: new Set(), ...destinations },
    ...maximumCheckoutBytes === undefined ? {} : { maximumCheckoutBytes }
  })
  const { remote } = found.server
  const base = yield* trees.prepare(key, { remote, ref: undefined, defaultBranch: "main", repos: [key.repo] })
  const at = (name: string) => join(workspacesIn(directory)(key.sandboxId), "app", name)
  const stored = readdirSync(join(directory, "mirrors")).flatMap((name) => {
    const folder = join(directory, "mirrors", name, "objects", "lfs")
    return existsSync(folder) ? readdirSync(folder) : []
  })
  const reason = base.lfsMissing?.[0]?.reason ?? null
  if (reason !== null && files["a.bin"] !== undefined) assert.strictEqual(readFileSync(at("a.bin"), "utf8"), files["a.bin"])
  assert.deepStrictEqual(readdirSync(join(directory, "mirrors", "incoming")), [])
  return { ...found, trees, base, at, reason, stored }
})

/** Another server on this machine. Notes what it was asked. */
const elsewhere = Effect.fnUntraced(function*(content = TEN) {
  const seen: Array<IncomingMessage["headers"]> = []
  const server = createServer((request, response) => {
    seen.push(request.headers)
    request.resume()
    response.end(content)
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
    () =>
      Effect.promise(() => {
        server.closeAllConnections()
        return once(server.close(), "close")
      })
  )
  return { seen, port: (server.address() as AddressInfo).port }
})

const downloadFrom = (href: string, header: unknown = {}): LfsServer.Options => ({
  actions: (operation) => operation === "download" ? { actions: { download: { href, header } } } : {}
})

describe("a hostile server of Git LFS", () => {
  it.live("that sends another content, more bytes or fewer leaves a pointer, and nothing of it is kept", () =>
    Effect.gen(function*() {
      let sent = 0
      const answering = (write: (response: Parameters<NonNullable<LfsServer.Options["answer"]>>[1]) => void): LfsServer.Options => ({
        answer: (_request, response, path) => {
          if (!path.startsWith("/objects/")) return false
          write(response)
          return true
        }
      })
      const endless = answering((response) => {
        const more = () => {
          if (response.destroyed) return
          sent += 65_536
          response.write(Buffer.alloc(65_536), more)
        }
        more()
      })
      for (
        const [server, expected] of [
          [answering((response) => response.end("TEN BYTES\n")), /another content/u],
          [answering((response) => response.end("few")), /fewer bytes/u],
          [endless, /more bytes/u]
        ] as const
      ) {
        const { reason, stored } = yield* Effect.scoped(boot(server))
        assert.match(reason ?? "", expected)
        assert.deepStrictEqual(stored, [])
      }
      assert.isBelow(sent, 100 * 2 ** 20)
    }))

  it.live("that hangs, at any point, leaves a pointer", () =>
    Effect.gen(function*() {
      const times = { connectMillis: 10_000, idleMillis: 200 }
      const hangs = (at: string, begin: boolean): LfsServer.Options => ({
        answer: (_request, response, path) => {
          if (!path.includes(at)) return false
          if (begin) response.writeHead(200, { "content-length": 10 }).write("t")
          return true
        }
      })
      for (const server of [hangs("/batch", false), hangs("/batch", true), hangs("/objects/", false), hangs("/objects/", true)]) {
        const { reason } = yield* Effect.scoped(boot(server, { times }))
        assert.match(reason ?? "", /stopped/u)
      }
    }))

  it.live("that leads to private addresses, by its words or by a redirect, is not followed", () =>
    Effect.gen(function*() {
      const other = yield* elsewhere()
      for (
        const [href, expected] of [
          ["https://169.254.169.254/latest/meta-data", /not public/u],
          [`https://127.0.0.1:${other.port}/x`, /not public/u],
          [`https://[::1]:${other.port}/x`, /not public/u],
          [`https://localhost:${other.port}/x`, /not public/u],
          [`http://127.0.0.1:${other.port}/x`, /not https/u],
          ["file:///etc/passwd", /not https/u],
          ["https://user:password@example.com/x", /with a user/u],
          ["no address", /invalid address/u],
          [`https://example.com/${"x".repeat(20_000)}`, /invalid address/u]
        ] as const
      ) {
        const { reason } = yield* Effect.scoped(boot(downloadFrom(href)))
        assert.match(reason ?? "", expected, href)
      }
      const redirects: LfsServer.Options = {
        answer: (_request, response, path) => {
          if (!path.startsWith("/objects/")) return false
          response.writeHead(302, { location: `http://127.0.0.1:${other.port}/x` }).end()
          return true
        }
      }
      assert.match((yield* Effect.scoped(boot(redirects))).reason ?? "", /redirects/u)
      assert.deepStrictEqual(other.seen, [])
    }))

  it.live("gets our credential at the source host alone, and other hosts get what it says", () =>
    Effect.gen(function*() {
      const other = yield* elsewhere()
      const href = `http://127.0.0.1:${other.port}/x`
      const privates = new Set([`127.0.0.1:${other.port}`])
      const { reason } = yield* Effect.scoped(
        boot(downloadFrom(href, { "X-Signed": "yes", Host: "evil", "Content-Length": "5" }), { privates })
      )
      assert.isNull(reason)
      assert.strictEqual(other.seen.length, 1)
      assert.deepStrictEqual(
        ["authorization", "x-signed", "host", "content-length"].map((name) => other.seen[0]?.[name]),
        [undefined, "yes", `127.0.0.1:${other.port}`, undefined]
      )
    }))

  it.live("injects no headers", () =>
    Effect.gen(function*() {
      const other = yield* elsewhere()
      const privates = new Set([`127.0.0.1:${other.port}`])
      for (
        const header of [
          { "X-A": "a\r\nX-B: b" },
          { "X-A\r\nX-B": "a" },
          { "X-A": "a".repeat(20_000) },
          Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`x-${i}`, ""]))
        ]
      ) {
        const { reason } = yield* Effect.scoped(boot(downloadFrom(`http://127.0.0.1:${other.port}/x`, header), { privates }))
        assert.strictEqual(reason, "The server names invalid headers.")
      }
      assert.deepStrictEqual(other.seen, [])
    }))

  it.live("that says something of other objects, or nothing that can be read, leaves a pointer", () =>
    Effect.gen(function*() {
      const other = { oid: "b".repeat(64), size: 3, actions: { download: { href: "https://example.com/x" } } }
      for (
        const [batch, expected] of [
          [() => ({ objects: [other] }), /says nothing of it/u],
          [() => ({ objects: "x" }), /invalid answer/u],
          [() => "x".repeat(5_000_000), /more than 4194304 bytes/u],
          [() => ({ transfer: "tus", objects: [] }), /another transfer/u]
        ] as const
      ) {
        const { reason, stored } = yield* Effect.scoped(boot({ batch }))
        assert.match(reason ?? "", expected)
        assert.deepStrictEqual(stored, [])
      }
    }))

  it.live("gets no content elsewhere: uploads to private addresses are refused, and a hanging one fails so that a retry helps", () =>
    Effect.gen(function*() {
      const other = yield* elsewhere()
      const publishing = (options: LfsServer.Options) =>
        Effect.scoped(Effect.gen(function*() {
          const { at, server, trees } = yield* boot(options, { times: { connectMillis: 10_000, idleMillis: 200 } })
          writeFileSync(at("new.bin"), "new")
          writeFileSync(at("v"), "1")
          const since = { head: null, merges: [], remote: server.remote }
          return yield* Effect.exit(trees.snapshot(key, { message: "Title", author, since }))
        }))
      const uploadTo = (href: string, header: unknown = {}): LfsServer.Options => ({
        actions: (operation) => operation === "upload" ? { actions: { upload: { href, header } } } : {}
      })
      for (
        const [options, expected] of [
          [uploadTo(`https://127.0.0.1:${other.port}/x`), "The server names an address that is not public."],
          [uploadTo("https://169.254.169.254/x"), "The server names an address that is not public."],
          [uploadTo(`http://127.0.0.1:${other.port}/x`), "The server names an address that is not https."],
          [uploadTo("https://example.com/x", { "X-A": "a\r\nX-B: b" }), "The server names invalid headers."],
          [{ batch: ({ operation }, usual) => operation === "upload" ? { objects: [] } : usual }, "The Git LFS server says nothing of it."]
        ] satisfies ReadonlyArray<readonly [LfsServer.Options, string]>
      ) {
        const made = yield* publishing(options)
        if (made._tag === "Failure") return assert.fail(String(made.cause))
        assert.deepStrictEqual([made.value.lfs, made.value.lfsReason], [["new.bin"], expected])
      }
      assert.deepStrictEqual(other.seen, [])
      const hanging = yield* publishing({ answer: (request) => request.method === "PUT" })
      if (hanging._tag === "Success") return assert.fail("it was published")
      const error = Cause.squash(hanging.cause)
      assert.deepInclude(error, {
        _tag: "PushFailed",
        retryable: true,
        detail: "Files could not be brought to Git LFS. A server stopped answering."
      })
    }))
})

describe("a hostile repository of Git LFS", () => {
  it.live("names no server by .lfsconfig", () =>
    Effect.gen(function*() {
      const other = yield* elsewhere()
      const files = { "a.bin": POINTER, ".lfsconfig": `[lfs]\n\turl = http://127.0.0.1:${other.port}/lfs\n` }
      const { reason } = yield* Effect.scoped(boot({}, { privates: new Set([`127.0.0.1:${other.port}`]) }, files))
      assert.isNull(reason)
      assert.deepStrictEqual(other.seen, [])
    }))

  it.live("with sizes beyond a checkout is not asked for, and other files get their contents", () =>
    Effect.gen(function*() {
      const huge = POINTER.replace("size 10\n", `size ${10n ** 18n}\n`)
      const { base, reason, server } = yield* Effect.scoped(boot({}, {}, { "a.bin": huge, "b.bin": POINTER }))
      assert.strictEqual(base.lfsPointers, 1)
      assert.strictEqual(reason, "The files of the tree would be larger than a checkout may be.")
      assert.strictEqual(server.asked.flatMap(({ objects }) => objects).length, 1)
      const small = yield* Effect.scoped(boot({}, { maximumCheckoutBytes: 170 }))
      assert.strictEqual(small.reason, "The files of the tree would be larger than a checkout may be.")
    }))

  it.live("with 10,000 pointers gets the contents of the first 5,000", () =>
    Effect.gen(function*() {
      const files = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`d${i % 100}/${i}.bin`, POINTER]))
      const { base, server } = yield* Effect.scoped(boot({}, {}, files))
      assert.strictEqual(base.lfsPointers, 5_000)
      assert.strictEqual(base.lfsMissing?.length, 32)
      assert.strictEqual(base.lfsMissing?.[0]?.reason, "More than 5000 files do not get their contents.")
      assert.strictEqual(server.asked.length, 1)
    }), 120_000)

  it.live("with .gitattributes of 10 MB boots without contents", () =>
    Effect.gen(function*() {
      const attributes = "*.bin filter=lfs\n" + "*.x filter=lfs\n".repeat(700_000)
      const { base } = yield* Effect.scoped(boot({}, {}, { "v.bin": POINTER, ".gitattributes": attributes }))
      assert.isUndefined(base.lfsPointers)
    }), 120_000)

  it.live("puts no content behind a link, and uploads nothing that its agent's git only claims to keep", () =>
    Effect.gen(function*() {
      const { at, server, trees } = yield* boot({}, {}, { "a.bin": POINTER })
      const secret = join(yield* temporaryFolder, "secret")
      writeFileSync(secret, "secret content")
      const oid = LfsServer.oidOf("secret content")
      mkdirSync(at(`.git/lfs/objects/${oid.slice(0, 2)}/${oid.slice(2, 4)}`), { recursive: true })
      symlinkSync(secret, at(`.git/lfs/objects/${oid.slice(0, 2)}/${oid.slice(2, 4)}/${oid}`))
      writeFileSync(at("b.bin"), LfsServer.pointerOf("secret content"))
      const since = { head: null, merges: [], remote: server.remote }
      const { sha } = yield* trees.snapshot(key, { message: "Title", author, since })
      assert.isString(sha)
      assert.isFalse(server.contents.has(oid))
    }).pipe(Effect.scoped))
})
