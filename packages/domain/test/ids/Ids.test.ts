import { assert, describe, it } from "@effect/vitest"
import { Ids } from "@slipway/domain/ids/Ids"
import { ID_ALPHABET, SandboxId } from "@slipway/domain/ids/SandboxId"
import * as IdsMemory from "@slipway/domain/memory/ids/IdsMemory"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { digest, sha1, sha256, uuid5 } from "../../src/ids/Digest.ts"

const utf8 = new TextEncoder()

describe("digests", () => {
  it("are those of the standards", () => {
    assert.strictEqual(sha1(utf8.encode("abc")), "a9993e364706816aba3e25717850c26c9cd0d89d")
    assert.strictEqual(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    assert.strictEqual(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    // RFC 9562, appendix A.4.
    assert.strictEqual(uuid5("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com"), "2ed6657d-e927-568b-95e1-2665a8aea6a2")
  })

  it("agree with the platform at every length of the last block", () => {
    for (let length = 0; length <= 200; length++) {
      const bytes = Uint8Array.from({ length }, (_, i) => i * 37 + length)
      assert.strictEqual(sha1(bytes), createHash("sha1").update(bytes).digest("hex"))
      assert.strictEqual(sha256(bytes), createHash("sha256").update(bytes).digest("hex"))
    }
    const namespace = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    for (const name of Array.from({ length: 64 }, (_, i) => `name-${i}`)) {
      const bytes = createHash("sha1").update(Buffer.from(namespace.replaceAll("-", ""), "hex")).update(name).digest()
      bytes[6] = bytes[6]! & 0x0f | 0x50
      bytes[8] = bytes[8]! & 0x3f | 0x80
      assert.strictEqual(uuid5(namespace, name).replaceAll("-", ""), bytes.toString("hex", 0, 16))
    }
    assert.strictEqual(digest("\ud800 zwölf \u{1F680}"), createHash("sha256").update("\ud800 zwölf \u{1F680}", "utf8").digest("hex"))
  })
})

it("the id of a sandbox is c_ and twelve characters, nothing before and nothing after", () => {
  const isId = Schema.is(SandboxId)
  assert.isTrue(isId("c_k3v9p2m7x4qa"))
  for (const text of ["xc_k3v9p2m7x4qa", "c_k3v9p2m7x4qab", "c_k3v9p2m7x4q", "c_k3v9p2m7x4q1"]) assert.isFalse(isId(text), text)
  assert.strictEqual(ID_ALPHABET, "abcdefghijklmnopqrstuvwxyz23456789")
  for (const character of ID_ALPHABET) assert.isTrue(isId(`c_${character.repeat(12)}`), character)
})

describe("seeded ids", () => {
  const drawn = Effect.gen(function*() {
    const ids = yield* Ids
    return [yield* ids.uuid7, yield* ids.ulid, yield* ids.random("abc", 20), yield* ids.uuid7]
  })

  it.effect("are the same for the same seed, and others for another", () =>
    Effect.gen(function*() {
      const one = yield* Effect.provide(drawn, IdsMemory.layerSeeded(1))
      assert.deepStrictEqual(yield* Effect.provide(drawn, IdsMemory.layerSeeded(1)), one)
      assert.notDeepEqual(yield* Effect.provide(drawn, IdsMemory.layerSeeded(2)), one)
      assert.strictEqual(new Set(one).size, 4)
    }))

  it.effect("have the forms of their standards and follow the clock", () =>
    Effect.gen(function*() {
      const ids = yield* Ids
      yield* TestClock.setTime(1_700_000_000_000)
      const [uuid, ulid] = [yield* ids.uuid7, yield* ids.ulid]
      assert.match(uuid, /^018bcfe5-6800-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/u)
      assert.match(ulid, /^01HF7YAT00[0-9A-HJKMNP-TV-Z]{16}$/u)
      yield* TestClock.adjust(1)
      assert.isAbove((yield* ids.uuid7).localeCompare(uuid), 0)
      assert.isAbove((yield* ids.ulid).localeCompare(ulid), 0)
    }).pipe(Effect.provide(IdsMemory.layer)))
})
