import { assert, layer } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { Effect } from "effect"
import * as IdsNode from "../../src/node/IdsNode.ts"

// Ids of turns, commands and conversions are derived, so these values must never change. Computed with Python:
// uuid.uuid5(uuid.UUID("9ca5d5ad-254d-48f1-8385-9aae8e1bda6d"), name) and hashlib.sha256(text.encode()).hexdigest().
const derived: ReadonlyArray<readonly [name: string, id: string]> = [
  ["c_k3v9p2m7x4qa/turn/1", "76bac50d-a0de-5810-9b68-ab3163338ba0"],
  ["c_k3v9p2m7x4qa/terminate", "21174602-5b1d-5299-9d4f-ad8ecbf7a35d"],
  ["", "219aabf7-8690-56c1-9a5c-74ab82a67bb7"],
  ["ü\u{1F680}", "d193481f-60e4-5bd2-af56-1a2563e79909"]
]
const digests: ReadonlyArray<readonly [text: string, digest: string]> = [
  ["", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
  ["abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"],
  ["ü\u{1F680}", "4a45a6b946004d996152c6e4675da970b74020ba744e8f08d4055271e3625ddd"]
]

layer(IdsNode.layer)("ids on Node", (it) => {
  it.effect("derives the UUIDv5 of a name under Slipway's namespace", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      for (const [name, id] of derived) assert.strictEqual(ids.derive(name), id, name)
    }))

  it.effect("digests the UTF-8 of a text with SHA-256, in lower-case hex", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      for (const [text, digest] of digests) assert.strictEqual(ids.digest(text), digest, text)
    }))

  it.effect("draws new ids in their standard forms", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      const uuids = yield* Effect.all(Array.from({ length: 100 }, () => ids.uuid7))
      const ulids = yield* Effect.all(Array.from({ length: 100 }, () => ids.ulid))
      assert.ok(uuids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u.test(id)))
      assert.ok(ulids.every((id) => /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/u.test(id)))
      assert.strictEqual(new Set([...uuids, ...ulids]).size, 200)
    }))

  it.effect("draws from every character of an alphabet and no other, as many as asked for", () =>
    Effect.gen(function*() {
      const drawn = yield* (yield* Ids).random("abc2", 1000)
      assert.match(drawn, /^[abc2]{1000}$/u)
      assert.strictEqual(new Set(drawn).size, 4)
    }))
})
