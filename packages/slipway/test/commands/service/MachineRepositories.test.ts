/** The repositories that owners of the service add on its pages. */
import { assert, it } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import { MachineRepositories } from "@slipway/pages/repositories/MachineRepositories"
import * as AuditLogPostgres from "@slipway/postgres/audit-log/AuditLogPostgres"
import * as Migrations from "@slipway/postgres/Migrations"
import { Effect, Layer } from "effect"
import { mkdirSync, symlinkSync } from "node:fs"
import path from "node:path"
import * as Here from "../../../src/service/MachineRepositories.ts"
import { folder, repository } from "../SlipwayProcess.ts"

const SHOP = RepoName.make("acme/shop")

it.live("are folders outside the data folder, and each change is in the audit log", () =>
  Effect.gen(function*() {
    const parent = yield* folder
    const dataDir = path.join(parent, "data")
    mkdirSync(dataDir)
    const [outside, inside] = [repository(parent, "shop"), repository(dataDir, "mirror")]
    const link = path.join(parent, "link")
    symlinkSync(inside, link)
    yield* Effect.gen(function*() {
      const { add, addSample, list, names, remove } = yield* MachineRepositories
      const refusal = (folder: string) => Effect.map(Effect.flip(add(SHOP, folder)), (error) => "text" in error ? error.text : error)
      for (const one of [inside, link, `${outside}/../data/mirror`, dataDir]) {
        assert.strictEqual(yield* refusal(one), `${one} is in the data folder of the service. Choose another folder.`)
      }
      assert.strictEqual(yield* refusal(`${parent}/none`), `${parent}/none does not exist, or is no folder.`)
      assert.include(yield* refusal(parent), "is no git repository.")
      assert.deepStrictEqual(yield* list, [])

      yield* add(SHOP, `${outside}/`)
      yield* addSample
      assert.deepStrictEqual(yield* list, [
        { fullName: SHOP, path: outside },
        { fullName: RepoName.make("sample/shop"), path: path.join(dataDir, "sample/shop") }
      ])
      const sample = RepoName.make("sample/shop")
      const top = [{ name: ".gitignore", isFolder: false }, { name: "README.md", isFolder: false }, { name: "docs", isFolder: true }, {
        name: "src",
        isFolder: true
      }]
      assert.deepStrictEqual(yield* names(sample, null, ""), top)
      assert.deepStrictEqual(yield* names(sample, "main", "docs"), [{ name: "running.md", isFolder: false }])
      for (const folder of ["none", "README.md", "../..", ".git", "a\0b"]) assert.deepStrictEqual(yield* names(sample, null, folder), [])
      assert.deepStrictEqual(yield* names(sample, "no-such-branch", ""), [])
      assert.deepStrictEqual(yield* names(RepoName.make("acme/other"), null, ""), [])
      assert.deepStrictEqual([yield* remove(SHOP), yield* remove(SHOP)], [true, false])
      const entries = yield* (yield* AuditLog).list({ since: null, limit: 10 })
      assert.deepStrictEqual(entries.map(({ action, subjects }) => [action, subjects]), [
        ["repository.added", { repository: "acme/shop" }],
        ["repository.added", { repository: "sample/shop" }],
        ["repository.removed", { repository: "acme/shop" }]
      ])
    }).pipe(Effect.provide(
      Here.layerOutside(dataDir).pipe(
        Layer.provideMerge(Layer.merge(AuditLogPostgres.layer, LocalRepositories.layer)),
        Layer.provideMerge(TestPostgres.layer(Migrations.layer))
      )
    ))
  }))
