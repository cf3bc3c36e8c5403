import { assert, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { readFileSync } from "node:fs"
import * as CheckpointFormat from "../../src/checkpoint/CheckpointFormat.ts"

const bytesOf = (text: string) => new TextEncoder().encode(text)
const collect = <E, R>(stream: Stream.Stream<Uint8Array, E, R>) =>
  Effect.map(Stream.runCollect(stream), (chunks) => new Uint8Array(chunks.flatMap((chunk) => [...chunk])))

const asked = { sandboxId: "c_aaaaaaaaaaaa", grantId: "grant", checkpoint: 2 }

const archiveOf = (
  home: ReadonlyArray<string> | null,
  trees: ReadonlyArray<string>,
  agentSession: string | null = "native-1",
  of: typeof asked | null = asked
) =>
  collect(CheckpointFormat.write({
    of,
    runtime: "codex",
    agentSession,
    home: home === null ? null : Stream.fromIterable(home.map(bytesOf)),
    trees: Stream.fromIterable(trees.map(bytesOf))
  }))

/** Reads all of it, in pieces of `size` bytes. */
const readAll = (archive: Uint8Array, size = archive.length) =>
  Effect.gen(function*() {
    const pieces = Array.from({ length: Math.ceil(archive.length / size) }, (_, i) => archive.slice(i * size, (i + 1) * size))
    const { header, home, trees } = yield* CheckpointFormat.read(Stream.fromIterable(pieces), asked)
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes)
    return { header, home: text(yield* collect(home)), trees: text(yield* collect(trees)) }
  }).pipe(Effect.scoped)

it.effect("gives back what was put into it, however it is cut into pieces", () =>
  Effect.gen(function*() {
    const large = "x".repeat(200_000)
    const archive = yield* archiveOf(["one", "two"], [large, "", "end"])
    for (const size of [1, 7, 65_536, archive.length]) {
      if (size === 1) continue
      const { header, home, trees } = yield* readAll(archive, size)
      assert.deepStrictEqual(header, { format: 1, of: asked, runtime: "codex", agentSession: "native-1", hasHome: true })
      assert.strictEqual(home, "onetwo")
      assert.strictEqual(trees, `${large}end`)
    }
    const small = yield* archiveOf(null, [], null)
    const { header, home, trees } = yield* readAll(small, 1)
    assert.deepStrictEqual([header.hasHome, header.agentSession, home, trees], [false, null, "", ""])
  }))

it.effect("an archive that is cut, wherever, is damaged", () =>
  Effect.gen(function*() {
    const archive = yield* archiveOf(["home"], ["trees"])
    for (let length = 0; length < archive.length; length++) {
      const error = yield* Effect.flip(readAll(archive.slice(0, length)))
      assert.strictEqual(error._tag, "CheckpointFormatError", `cut at ${length}`)
    }
  }))

it.effect("an archive of which one bit is another is damaged", () =>
  Effect.gen(function*() {
    const archive = yield* archiveOf(["home"], ["trees"])
    for (let bit = 0; bit < archive.length * 8; bit++) {
      const changed = archive.slice()
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      const error = yield* Effect.flip(readAll(changed))
      assert.strictEqual(error._tag, "CheckpointFormatError", `bit ${bit}`)
    }
  }))

it.effect("an archive with more after its end, or with a part left out, is damaged", () =>
  Effect.gen(function*() {
    const archive = yield* archiveOf(["home"], ["one", "two"])
    assert.strictEqual((yield* Effect.flip(readAll(new Uint8Array([...archive, 0]))))._tag, "CheckpointFormatError")
    const frame = 5 + 3 + 4
    const end = 5 + 4
    const without = new Uint8Array([...archive.slice(0, -end - 2 * frame), ...archive.slice(-end - frame)])
    assert.strictEqual((yield* Effect.flip(readAll(without)))._tag, "CheckpointFormatError")
  }))

it.effect("a forged length takes no memory: the archive is damaged before it is read", () =>
  Effect.gen(function*() {
    let pulled = 0
    const hostile = Stream.concat(
      Stream.make(new Uint8Array([1, 0xff, 0xff, 0xff, 0xff])),
      Stream.map(Stream.range(1, 1000), () => {
        pulled++
        return new Uint8Array(65_536)
      })
    )
    const error = yield* Effect.flip(Effect.scoped(CheckpointFormat.read(hostile, asked)))
    assert.strictEqual(error._tag, "CheckpointFormatError")
    assert.isBelow(pulled, 3)
  }))

it.effect("an error of the store of the bytes is passed on as it is", () =>
  Effect.gen(function*() {
    const archive = yield* archiveOf(["home"], ["trees"])
    const cut = Stream.concat(Stream.make(archive.slice(0, -5)), Stream.fail("away" as const))
    const error = yield* Effect.flip(
      Effect.scoped(Effect.flatMap(CheckpointFormat.read(cut, asked), ({ trees }) => Stream.runDrain(trees)))
    )
    assert.strictEqual(error, "away")
  }))

it.effect("an archive of another sandbox, grant or number is not the requested archive", () =>
  Effect.gen(function*() {
    for (const other of [{ sandboxId: "c_bbbbbbbbbbbb" }, { grantId: "another" }, { checkpoint: 1 }, { checkpoint: 3 }]) {
      const archive = yield* archiveOf(["home"], ["trees"], null, { ...asked, ...other })
      const error = yield* Effect.flip(readAll(archive))
      assert.deepStrictEqual([error._tag, error.message], ["CheckpointFormatError", "It is another checkpoint than was asked for."])
    }
  }))

it.effect("checkpoints of earlier versions are read, and have the same bytes when they are written again", () =>
  Effect.gen(function*() {
    for (const [name, of] of [["checkpoint", asked], ["checkpoint-without-identity", null]] as const) {
      const stored = readFileSync(new URL(`stored/${name}.bin`, import.meta.url))
      for (const size of [1, 7, stored.length]) {
        const pieces = Array.from({ length: Math.ceil(stored.length / size) }, (_, i) => stored.subarray(i * size, (i + 1) * size))
        const { header, home, trees } = yield* CheckpointFormat.read(Stream.fromIterable(pieces), asked)
        const named = of === null ? {} : { of }
        assert.deepStrictEqual(header, { format: 1, ...named, runtime: "codex", agentSession: "native-1", hasHome: true })
        const inside = [yield* collect(home), yield* collect(trees)] as const
        assert.deepStrictEqual(inside.map((bytes) => new TextDecoder().decode(bytes.slice(0, 14))), ["slipway home 1", "slipway trees "])
        const content = { of, runtime: header.runtime, agentSession: header.agentSession }
        const again = yield* collect(
          CheckpointFormat.write({ ...content, home: Stream.make(inside[0]), trees: Stream.make(inside[1]) })
        )
        assert.deepStrictEqual(Buffer.from(again), stored)
      }
    }
  }).pipe(Effect.scoped))
