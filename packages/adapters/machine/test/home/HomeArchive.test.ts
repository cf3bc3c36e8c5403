import { assert, describe, it } from "@effect/vitest"
import { FrameError, Reader } from "@slipway/domain/files/rules/Frames"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type HomeRecord, records } from "../../src/home/HomeArchive.ts"
import * as ReadHome from "../../src/home/ReadHome.ts"

/** Written by a version before this one, of the files in {@link FILES}. */
const stored = readFileSync(new URL("stored/home.bin", import.meta.url))
const FILES = {
  ".agent.json": "{\"größe\":1}",
  ".agent/sessions/1.jsonl": "{\"role\":\"user\",\"text\":\"hi\"}\n",
  ".agent/sessions/empty": ""
}
const PATHS = [".agent.json", ".agent/sessions", ".missing"]

const recordsIn = (bytes: Uint8Array, size = bytes.length) => {
  const reader = new Reader(records())
  const found: Array<HomeRecord> = []
  for (let at = 0; at < bytes.length; at += size) found.push(...reader.take(bytes.subarray(at, at + size)))
  reader.finish()
  return found
}

const filesIn = (found: ReadonlyArray<HomeRecord>) => {
  const files: Record<string, string> = {}
  let last = ""
  for (const record of found) {
    if (record.tag === "file") files[last = record.path] = ""
    if (record.tag === "piece") files[last] += Buffer.from(record.bytes).toString()
  }
  return files
}

describe("the archive of a home", () => {
  it("of an earlier version is read, in pieces of any size", () => {
    for (const size of [1, 7, stored.length]) {
      const found = recordsIn(stored, size)
      assert.deepStrictEqual(found.flatMap((record) => record.tag === "area" ? [record.path] : []), PATHS)
      assert.deepStrictEqual(filesIn(found), FILES)
    }
  })

  it("has the same bytes as in an earlier version", async () => {
    const home = mkdtempSync(join(tmpdir(), "slipway-home-"))
    try {
      mkdirSync(join(home, ".agent/sessions"), { recursive: true })
      for (const [name, text] of Object.entries(FILES)) writeFileSync(join(home, name), text)
      const written: Array<Uint8Array> = []
      for await (const bytes of ReadHome.read(home, PATHS, { maximumBytes: 1_000 })) written.push(bytes)
      assert.deepStrictEqual(Buffer.concat(written), stored)
    } finally {
      rmSync(home, { recursive: true })
    }
  })

  it("is refused where it is cut, has another byte, or goes on", () => {
    for (let at = 0; at < stored.length; at++) {
      assert.throws(() => recordsIn(stored.subarray(0, at)), FrameError)
      const changed = Buffer.from(stored)
      changed[at] = (changed[at] ?? 0) ^ 0x41
      assert.throws(() => recordsIn(changed, 100), FrameError, undefined, `byte ${at}`)
    }
    assert.throws(() => recordsIn(Buffer.concat([stored, Buffer.of(0)])), FrameError)
  })
})
