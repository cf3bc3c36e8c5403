import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { get } from "node:https"
import { tmpdir } from "node:os"
import path from "node:path"
import * as DemoRegistry from "../../../src/commands/demo/DemoRegistry.ts"
import { folder, processesOf, run } from "../SlipwayProcess.ts"

/** Boxes have no others. */
const npm = spawnSync("/bin/sh", ["-c", "command -v npm"], { env: { PATH: "/usr/local/bin:/usr/bin:/bin" } }).status === 0

describe("slipway demo --environment", () => {
  it.live.skipIf(!npm)(
    "installs packages, tests with them, finds them in the cache the second time, leaves nothing behind (needs npm in /usr/bin)",
    () =>
      Effect.gen(function*() {
        const place = yield* folder
        const { code, stderr, stdout } = yield* run(place, ["demo", "--environment"], { TMPDIR: place })
        assert.strictEqual(code, 0, stdout + stderr)
        assert.strictEqual(stderr, "")
        const said = stdout.split("\n").map((line) => line.trim())
        const at = (pattern: RegExp, from = 0) => said.findIndex((line, i) => i >= from && pattern.test(line))
        const order = [/^\$ npm ci$/u, /^added 2 packages/u, /^a table costs 1,200 EUR$/u, /cache: hit$/u, /^a table costs 1,200 EUR$/u,
          /^Done in /u]
        let from = 0
        for (const pattern of order) {
          const found = at(pattern, from)
          assert.isAtLeast(found, from, `${pattern} in:\n${stdout}`)
          from = found + 1
        }
        assert.strictEqual(said.filter((line) => line === "$ npm ci").length, 1)
        assert.deepStrictEqual(yield* processesOf(place), [])
        assert.deepStrictEqual(readdirSync(place), [])
      }).pipe(Effect.scoped)
  )

  it.live("its registry gives archives that tar reads to those who trust its certificate alone", () =>
    Effect.gen(function*() {
      const registry = yield* DemoRegistry.serve
      const url = `https://${DemoRegistry.ADDRESS}:${registry.port}`
      const { packages } = JSON.parse(registry.lockFile("shop", url))
      const { resolved } = packages["node_modules/shop-money"]
      const fetched = (ca?: string) =>
        Effect.callback<Buffer | string>((resume) => {
          get(resolved, { ...(ca === undefined ? {} : { ca }) }, (response) => {
            const chunks: Array<Buffer> = []
            response.on("data", (chunk: Buffer) => chunks.push(chunk)).once("end", () => resume(Effect.succeed(Buffer.concat(chunks))))
          }).once("error", (error) => resume(Effect.succeed("code" in error ? String(error.code) : error.message)))
        })
      assert.strictEqual(yield* fetched(), "DEPTH_ZERO_SELF_SIGNED_CERT")
      assert.strictEqual(yield* registry.downloads, 0)
      const archive = yield* fetched(registry.cert)
      assert.strictEqual(yield* registry.downloads, 1)
      const into = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-demo-"))),
        (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
      )
      writeFileSync(path.join(into, "archive.tgz"), archive)
      assert.strictEqual(spawnSync("tar", ["-xzf", "archive.tgz"], { cwd: into }).status, 0)
      assert.deepInclude(JSON.parse(readFileSync(path.join(into, "package/package.json"), "utf8")), {
        name: "shop-money",
        version: "1.2.0"
      })
    }).pipe(Effect.scoped))
})
