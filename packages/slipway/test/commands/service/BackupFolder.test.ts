/**
 * The resources that a changed backup can take of the machine that reads it: an attacker who can change its rows can change its digests.
 */
import { assert, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { zstdCompressSync } from "node:zlib"
import * as BackupFolder from "../../../src/service/storage/BackupFolder.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => {
    const made = mkdtempSync(path.join(tmpdir(), "slipway-backup-test-"))
    mkdirSync(path.join(made, "tables"))
    return made
  }),
  (made) => Effect.sync(() => rmSync(made, { recursive: true }))
)

/** The pieces that come of this table. */
const read = (text: Buffer | string, rows: number) =>
  Effect.gen(function*() {
    const at = yield* folder
    writeFileSync(BackupFolder.tableFile(at, "grants"), zstdCompressSync(text))
    return yield* Stream.runCollect(Stream.map(BackupFolder.rowsIn(at, { name: "grants", rows }), ({ length }) => length))
  }).pipe(Effect.scoped)

it.effect("a row without an end is refused before it is all in memory", () =>
  Effect.gen(function*() {
    const error = yield* Effect.flip(read(Buffer.alloc(64 * 2 ** 20, "x"), 1))
    assert.match(error.message, /grants: a row has more than 16777216 bytes/u)
  }))

it.effect("more rows than the backup has are refused", () =>
  Effect.gen(function*() {
    assert.match((yield* Effect.flip(read("\"\"\n".repeat(3), 2))).message, /more than the 2 rows/u)
    assert.deepStrictEqual(yield* read("\"\"\n".repeat(2), 2), [2])
  }))

it.effect("many empty rows come in pieces as others do", () =>
  Effect.gen(function*() {
    const pieces = yield* read("\"\"\n".repeat(200_000), 200_000)
    assert.isAtMost(Math.max(...pieces), 70_000)
    assert.strictEqual(pieces.reduce((sum, length) => sum + length, 0), 200_000)
  }))

it.effect("a manifest that is larger than any is not read", () =>
  Effect.gen(function*() {
    const at = yield* folder
    for (const name of ["manifest.json", "manifest.sha256"]) writeFileSync(path.join(at, name), "")
    truncateSync(path.join(at, "manifest.json"), 5 * 2 ** 30)
    assert.match((yield* Effect.flip(BackupFolder.manifestOf(at))).message, /more than the 4194304 that it may have/u)
  }).pipe(Effect.scoped))
