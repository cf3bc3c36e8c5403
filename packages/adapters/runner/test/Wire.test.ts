import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import * as ChannelWire from "../src/wire/ChannelWire.ts"
import { EntryReader, encodeEntry } from "../src/wire/DirectoryListing.ts"
import * as Wire from "../src/wire/Wire.ts"

const Byte = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 255 }))
const Bytes = Schema.Array(Byte)
const Count = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 40 }))

/** Bytes of a hostile peer: any first byte, then anything. */
const isReadOrRefused = (read: () => unknown) => {
  try {
    read()
  } catch (error) {
    assert.instanceOf(error, Wire.Violation)
  }
}

const hello = (change: object) =>
  Buffer.concat([
    Buffer.of(1),
    Buffer.from(
      JSON.stringify({ protocol: Wire.PROTOCOL, session: "0".repeat(32), fence: 1, attempt: 1, resumes: false, received: 0, ...change })
    )
  ])

describe("the wire of a runner", () => {
  it.prop("any bytes are a message or a violation", [Byte, Bytes], ([type, bytes]) => {
    const message = Uint8Array.from([type % 8, ...bytes])
    isReadOrRefused(() => Wire.decode(message))
    isReadOrRefused(() => ChannelWire.decode(message))
    isReadOrRefused(() => new EntryReader(3).add(message))
  }, { arbitrary: { runs: 500 } })

  it.prop("a frame is read as it was written", [Count, Bytes], ([number, bytes]) => {
    const payload = Uint8Array.from([1, ...bytes])
    const read = Wire.decode(Wire.encode({ type: "frame", number, payload }))
    assert.strictEqual(read.type, "frame")
    if (read.type === "frame") assert.deepStrictEqual([read.number, ...read.payload], [number, ...payload])
  })

  for (
    const [name, bytes] of Object.entries({
      "an empty message": Buffer.of(),
      "a frame without content": Wire.encode({ type: "frame", number: 1, payload: new Uint8Array() }),
      "a hello that is no JSON": Buffer.from([1, 0x7b]),
      "a hello that is a list": Buffer.from([1, 0x5b, 0x5d]),
      "a fence below zero": hello({ fence: -1 }),
      "a fence that is no whole number": hello({ fence: 1.5 }),
      "a fence beyond what is exact": hello({ fence: 2 ** 53 }),
      "a session of another form": hello({ session: "0".repeat(31) }),
      "a place beyond all numbers": hello({ received: 2 ** 48 }),
      "a hello of more than a kilobyte": hello({ more: "x".repeat(1024) }),
      "a goodbye with something in it": Buffer.of(6, 1)
    })
  ) it(`refuses ${name}`, () => assert.throws(() => Wire.decode(bytes), Wire.Violation))

  it("reads of a hello in another protocol that alone", () => {
    const read = Wire.decode(hello({ protocol: Wire.PROTOCOL + 1, fence: "as they like" }))
    assert.strictEqual(read.type === "hello" && read.hello.protocol, Wire.PROTOCOL + 1)
  })

  const chunk = (length: number) => ChannelWire.encode({ type: "bytes", channel: 1, bytes: new Uint8Array(length) })
  const open = (kind: string, header: unknown) => Buffer.concat([Buffer.of(1, 0, 0, 0, 1), Buffer.from(JSON.stringify({ kind, header }))])
  for (
    const [name, bytes] of Object.entries({
      "a chunk without bytes": chunk(0),
      "a chunk of more than 64 KiB": chunk(Wire.CHUNK_BYTES + 1),
      "a note of more than 16 KiB": ChannelWire.encode({ type: "note", channel: 1, note: { text: "x".repeat(Wire.NOTE_BYTES) } }),
      "a way of more than 16 KiB": open("dial", { way: "x".repeat(Wire.NOTE_BYTES) }),
      "a channel of no kind": open("shell", {}),
      "a channel without a header": open("dial", null),
      "a message of no type": Buffer.of(9, 0, 0, 0, 1),
      "a message without a channel": Buffer.of(2, 0, 0, 0)
    })
  ) it(`refuses ${name}`, () => assert.throws(() => ChannelWire.decode(bytes), Wire.Violation))

  it("names of a folder are read in any pieces", () => {
    const entries = [
      { name: Buffer.from("a"), kind: "file", size: 2 ** 40, mtimeMs: 1_700_000_000_123 },
      { name: Buffer.from([0xff, 0xfe]), kind: "link", size: 0, mtimeMs: -1.5 }
    ] as const
    const reader = new EntryReader(2)
    for (const byte of Buffer.concat(entries.map(encodeEntry))) reader.add(Buffer.of(byte))
    assert.deepStrictEqual(reader.end().map(({ kind, mtimeMs, name, size }) => [kind, size, mtimeMs, ...name]), [
      ["file", 2 ** 40, 1_700_000_000_123, 97],
      // Before the epoch nothing is.
      ["link", 0, 0, 0xff, 0xfe]
    ])
  })

  for (const name of ["", ".", "..", "a/b", "a\0"]) {
    it(`no folder has the name ${JSON.stringify(name)}`, () =>
      assert.throws(
        () => new EntryReader(9).add(encodeEntry({ name: Buffer.from(name), kind: "file", size: 0, mtimeMs: 0 })),
        Wire.Violation
      ))
  }

  it("takes no more names than were asked for, and none that was cut short", () => {
    const entry = encodeEntry({ name: Buffer.from("ab"), kind: "file", size: 0, mtimeMs: 0 })
    assert.throws(() => new EntryReader(1).add(Buffer.concat([entry, entry])), Wire.Violation)
    const reader = new EntryReader(1)
    reader.add(entry.subarray(0, -1))
    assert.throws(() => reader.end(), Wire.Violation)
  })
})
