import { assert, describe, it } from "@effect/vitest"
import * as RateLimiter from "@slipway/domain/time/RateLimiter"
import { Effect, Schema } from "effect"
import { BUDGET, MOST_CHANNELS } from "../src/wire/Channels.ts"
import { type ChannelMessage, CHUNK_COST, encode as encodeChannel, WINDOW } from "../src/wire/ChannelWire.ts"
import { type Channel, ChannelReset, OpenChannel } from "../src/wire/OpenChannel.ts"
import { type Carrier, Peer } from "../src/wire/Peer.ts"
import { decode, encode, type Message, type Violation } from "../src/wire/Wire.ts"

const immediate = () => new Promise<void>((resolve) => setImmediate(resolve))

/** The most that a session keeps beside the content of its room. */
const MOST_KEPT = 4.5 * 1024 * 1024

/** A worker's and a runner's side, and messages that are under way between them until somebody delivers them. */
const pair = () => {
  const accepted: Array<Channel> = []
  const violations: Array<Violation> = []
  const make = (side: "worker" | "runner"): Peer =>
    new Peer({
      side,
      accept: {
        process: (channel) => void accepted.push(channel),
        ...side === "worker" ? { dial: (channel: Channel) => void accepted.push(channel) } : {}
      },
      ...side === "worker" ? { budget: RateLimiter.allowance(BUDGET) } : {},
      onViolation: (violation) => void violations.push(violation)
    })
  const sides = { worker: make("worker"), runner: make("runner") }
  const other = { worker: "runner", runner: "worker" } as const
  type Side = keyof typeof sides
  let under: Record<Side, Array<{ readonly message: Uint8Array; readonly taken: () => void }>> = { worker: [], runner: [] }
  let carriers: Partial<Record<Side, Carrier>> = {}
  const carrier = (side: Side, flying: typeof under): Carrier => ({
    send: (message, taken) => void flying[other[side]].push({ message, taken }),
    waitingBytes: () => flying[other[side]].reduce((sum, { message }) => sum + message.length, 0),
    close: () => {}
  })
  const cut = () => {
    for (const side of ["worker", "runner"] as const) {
      const lost = carriers[side]
      if (lost !== undefined) sides[side].lost(lost)
    }
    carriers = {}
    under = { worker: [], runner: [] }
  }
  const connect = () => {
    cut()
    const here = carriers = { worker: carrier("worker", under), runner: carrier("runner", under) }
    const [worker, runner] = [sides.worker.received, sides.runner.received]
    sides.worker.attach(here.worker, runner)
    sides.runner.attach(here.runner, worker)
  }
  const deliver = (to: Side) => {
    const one = under[to].shift()
    const there = carriers[to]
    if (one === undefined || there === undefined) return false
    one.taken()
    sides[to].receive(there, decode(one.message))
    return true
  }
  const settle = async () => {
    for (let quiet = 0; quiet < 3;) {
      let any = false
      while (deliver("worker") || deliver("runner")) any = true
      quiet = any ? 0 : quiet + 1
      await immediate()
    }
  }
  /** As if `from` had said it: of a side that keeps no rule. */
  const say = (from: Side, message: Message) => {
    const there = carriers[other[from]]
    if (there !== undefined) sides[other[from]].receive(there, message)
  }
  return { ...sides, accepted, violations, connect, cut, deliver, settle, say }
}

const opened = async () => {
  const net = pair()
  net.connect()
  const there = await net.worker.channels.open("process", {})
  await net.settle()
  const here = net.accepted[0]
  if (here === undefined) throw new Error("nothing was opened")
  return { net, there, here }
}

const readAll = async (channel: Channel) => {
  const read: Array<Uint8Array> = []
  for (let bytes = await channel.read(); bytes !== null; bytes = await channel.read()) read.push(bytes)
  return Buffer.concat(read)
}

const patterned = (from: number, length: number) => Uint8Array.from({ length }, (_, i) => (from + i) * 31 % 251)

const Direction = Schema.Literals(["worker", "runner"])
const Command = Schema.Union([
  Schema.TaggedStruct("Write", {
    from: Direction,
    channel: Schema.Literals([0, 1]),
    bytes: Schema.Literals([1, 700, 70_000, 300_000])
  }),
  Schema.TaggedStruct("Read", { at: Direction, channel: Schema.Literals([0, 1]) }),
  Schema.TaggedStruct("Deliver", { to: Direction, messages: Schema.Literals([1, 2, 5]) }),
  Schema.TaggedStruct("Cut", {}),
  Schema.TaggedStruct("Connect", {})
])

describe("the two sides of a session", () => {
  it.effect.prop(
    "whatever is cut, written and read, each channel brings what was written, once and in order, in bounded memory",
    [Schema.Array(Command).check(Schema.isMinLength(10), Schema.isMaxLength(60))],
    ([commands]) =>
      Effect.promise(async () => {
        const net = pair()
        net.connect()
        const worker = [await net.worker.channels.open("process", {}), await net.worker.channels.open("process", {})]
        await net.settle()
        const ends = { worker, runner: net.accepted }
        const written = { worker: [0, 0], runner: [0, 0] }
        const read: Record<"worker" | "runner", [Array<Uint8Array>, Array<Uint8Array>]> = { worker: [[], []], runner: [[], []] }
        const writes: Array<Promise<void>> = []
        const take = (at: "worker" | "runner", channel: 0 | 1) => {
          const bytes = ends[at][channel]?.take()
          if (bytes !== undefined && bytes !== null) read[at][channel].push(bytes)
          return bytes
        }
        for (const command of commands) {
          switch (command._tag) {
            case "Write": {
              const { bytes, channel, from } = command
              const end = ends[from][channel]
              if (end !== undefined) writes.push(end.write(patterned(written[from][channel] ?? 0, bytes)))
              written[from][channel] = (written[from][channel] ?? 0) + bytes
              break
            }
            case "Read":
              take(command.at, command.channel)
              break
            case "Deliver":
              for (let i = 0; i < command.messages; i++) net.deliver(command.to)
              break
            case "Cut":
              net.cut()
              break
            case "Connect":
              net.connect()
          }
          await immediate()
          assert.isBelow(net.worker.keptBytes, MOST_KEPT)
          assert.isBelow(net.runner.keptBytes, MOST_KEPT)
        }
        net.connect()
        const all = Promise.all(writes).then(() => {
          for (const end of [...ends.worker, ...ends.runner]) end.end()
        })
        let isOver = false
        void all.then(() => {
          isOver = true
        })
        const open = new Set([["worker", 0], ["worker", 1], ["runner", 0], ["runner", 1]] as const)
        while (open.size > 0) {
          await net.settle()
          for (const one of open) {
            const [at, channel] = one
            for (let bytes = take(at, channel); bytes !== undefined; bytes = take(at, channel)) {
              if (bytes !== null) continue
              open.delete(one)
              break
            }
          }
        }
        assert.isTrue(isOver)
        await net.settle()
        for (const [side, from] of [["worker", "runner"], ["runner", "worker"]] as const) {
          for (const channel of [0, 1] as const) {
            assert.isTrue(Buffer.concat(read[side][channel]).equals(patterned(0, written[from][channel] ?? 0)))
          }
        }
        assert.deepStrictEqual(net.violations, [])
        assert.deepStrictEqual([net.worker.channels.size, net.runner.channels.size], [0, 0])
        assert.deepStrictEqual([net.worker.keptBytes, net.runner.keptBytes], [0, 0])
      }),
    { arbitrary: { runs: 60 } }
  )

  it("a reader that is slow stops its own channel alone", async () => {
    const { here, net, there } = await opened()
    const second = await net.worker.channels.open("process", {})
    let isWritten = false
    void there.write(new Uint8Array(2 * WINDOW)).then(() => {
      isWritten = true
    })
    await net.settle()
    const quick = second.write(patterned(0, 3 * WINDOW)).then(() => second.end())
    await net.settle()
    const beside = net.accepted[1]
    if (beside === undefined) throw new Error("nothing was opened")
    const reading = readAll(beside)
    for (let i = 0; i < 10; i++) await net.settle()
    await quick
    assert.strictEqual((await reading).length, 3 * WINDOW)
    assert.isFalse(isWritten)
    assert.isAtMost((await here.read())?.length ?? 0, WINDOW)
  })

  it("what is written while there is no connection waits outside of the session once it has no room, and goes on after it", async () => {
    const net = pair()
    net.connect()
    const open = await Promise.all(Array.from({ length: 40 }, () => net.worker.channels.open("process", {})))
    await net.settle()
    net.cut()
    const written = open.map((channel) => channel.write(patterned(0, WINDOW - 2000)).then(() => channel.end()))
    await immediate()
    assert.isBelow(net.worker.keptBytes, MOST_KEPT)
    net.connect()
    await net.settle()
    await Promise.all(written)
    await net.settle()
    assert.strictEqual(net.accepted.length, 40)
    for (const channel of net.accepted) assert.isTrue((await readAll(channel)).equals(patterned(0, WINDOW - 2000)))
  })

  it("each half has its own end", async () => {
    const { here, net, there } = await opened()
    there.end()
    await net.settle()
    assert.isNull(await here.read())
    await here.write(Buffer.from("afterwards"))
    here.end()
    await net.settle()
    assert.strictEqual((await readAll(there)).toString(), "afterwards")
    assert.deepStrictEqual([net.worker.channels.size, net.runner.channels.size], [0, 0])
  })

  it("a reset ends what is read and written on both sides, and says why", async () => {
    const { here, net, there } = await opened()
    const reading = here.read().catch((error: unknown) => error)
    const writing = there.write(new Uint8Array(2 * WINDOW)).catch((error: unknown) => error)
    there.reset({ code: "enough", message: "of it" })
    await net.settle()
    for (const error of [await reading, await writing]) {
      assert.instanceOf(error, ChannelReset)
      assert.deepStrictEqual((error as ChannelReset).reason, { code: "enough", message: "of it" })
    }
    assert.deepStrictEqual([net.worker.channels.size, net.runner.channels.size], [0, 0])
  })

  it.each([["home", "part"], ["process", null]] as const)(
    "a reset leaves unread bytes of a home, and of nothing else: %s",
    (kind, left) => {
      const sent: Array<Uint8Array> = []
      const channel = new OpenChannel({ channel: 1, kind, send: (bytes) => void sent.push(bytes), hasRoom: () => true, onClose: () => {} })
      channel.receive({ type: "bytes", channel: 1, bytes: Buffer.from("part") })
      channel.receive({ type: "bytes", channel: 1, bytes: new Uint8Array(WINDOW / 2) })
      channel.receive({ type: "reset", channel: 1, reason: { code: "too_large", message: "" } })
      if (left !== null) {
        assert.strictEqual(Buffer.from(channel.take() ?? []).toString(), left)
        assert.lengthOf(channel.take() ?? [], WINDOW / 2)
      }
      assert.throws(() => channel.take(), ChannelReset)
      // No credit for a channel that is over.
      assert.deepStrictEqual(sent, [])
    }
  )

  it("notes are heard without a reader of the stream", async () => {
    const { here, net, there } = await opened()
    await there.write(new Uint8Array(1000))
    there.note({ signal: "SIGTERM" })
    await net.settle()
    const heard: Array<unknown> = []
    here.onNote((note) => void heard.push(note))
    assert.deepStrictEqual(heard, [{ signal: "SIGTERM" }])
  })

  it("opens no more channels at once than there may be: the next waits", async () => {
    const net = pair()
    net.connect()
    const open = await Promise.all(Array.from({ length: MOST_CHANNELS }, () => net.worker.channels.open("process", {})))
    let isOpen = false
    void net.worker.channels.open("process", {}).then(() => {
      isOpen = true
    })
    await net.settle()
    assert.isFalse(isOpen)
    open[0]?.reset({ code: "done", message: "" })
    await net.settle()
    assert.isTrue(isOpen)
    assert.deepStrictEqual(net.violations, [])
  })

  it("ends all channels with the session, and opens none after it", async () => {
    const { net, there } = await opened()
    net.worker.finish({ code: "over", message: "" })
    assert.strictEqual((await there.wasReset).code, "over")
    const error = await net.worker.channels.open("process", {}).catch((error: unknown) => error)
    assert.instanceOf(error, ChannelReset)
  })
})

/** Messages of a runner that its sandbox's agent took over, against a worker that has opened channel 1. */
const hostile: Readonly<Record<string, ReadonlyArray<ChannelMessage> | Message>> = {
  "bytes for an unopened channel": [{ type: "bytes", channel: 3, bytes: Buffer.of(1) }],
  "a channel with a number of the worker's": [{ type: "open", channel: 3, kind: "dial", header: { way: "model" } }],
  "a channel with a number it had": [2, 2].map((channel) => ({ type: "open", channel, kind: "dial", header: {} })),
  "a file, which only a worker reads": [{ type: "open", channel: 2, kind: "file", header: { read: "a", maximumBytes: 1 } }],
  "more bytes than its credit": Array.from({ length: 5 }, () => ({ type: "bytes", channel: 1, bytes: new Uint8Array(65_536) })),
  "a byte at a time until memory is full": Array.from(
    { length: Math.ceil(WINDOW / CHUNK_COST) },
    () => ({ type: "bytes", channel: 1, bytes: Buffer.of(1) })
  ),
  "bytes after its end": [{ type: "end", channel: 1 }, { type: "bytes", channel: 1, bytes: Buffer.of(1) }],
  "two ends": [{ type: "end", channel: 1 }, { type: "end", channel: 1 }],
  "credit beyond a window": [{ type: "credit", channel: 1, credit: 1 }],
  "no credit": [{ type: "credit", channel: 1, credit: 0 }],
  "notes without end": Array.from({ length: 17 }, () => ({ type: "note", channel: 1, note: {} })),
  "an acknowledgement of what was never sent": { type: "beat", received: 2 },
  "a second welcome": { type: "welcome", received: 1 },
  "a goodbye": { type: "bye" }
}

describe("a worker whose runner was taken over", () => {
  for (const [name, said] of Object.entries(hostile)) {
    it(`ends the session at ${name}`, async () => {
      const { net, there } = await opened()
      if ("type" in said) net.say("runner", said)
      else {
        for (const [i, message] of said.entries()) net.say("runner", { type: "frame", number: i + 1, payload: encodeChannel(message) })
      }
      assert.strictEqual(net.violations.length, 1)
      assert.isTrue(net.worker.isOver)
      assert.strictEqual((await there.wasReset).code, "violation")
    })
  }

  it("keeps at most a window of what it does not read, in chunks as in bytes", async () => {
    const { net } = await opened()
    const most = Math.floor(WINDOW / (CHUNK_COST + 1))
    for (let i = 1; i <= most; i++) {
      net.say("runner", { type: "frame", number: i, payload: encodeChannel({ type: "bytes", channel: 1, bytes: Buffer.of(1) }) })
    }
    assert.deepStrictEqual(net.violations, [])
  })

  it("refuses a channel more than there may be, and goes on", async () => {
    const { net } = await opened()
    for (let i = 0; i <= MOST_CHANNELS; i++) {
      const payload = encodeChannel({ type: "open", channel: 2 + 2 * i, kind: "dial", header: { way: "model" } })
      net.say("runner", { type: "frame", number: i + 1, payload })
    }
    assert.deepStrictEqual(net.violations, [])
    assert.strictEqual(net.worker.channels.size, 1 + MOST_CHANNELS)
  })

  it("counts what it has not read as open, however often the other side comes to an end", async () => {
    const { net } = await opened()
    let number = 0
    for (let i = 0; i <= MOST_CHANNELS; i++) {
      const channel = 2 + 2 * i
      for (
        const message of [
          { type: "open", channel, kind: "dial", header: { way: "model" } },
          { type: "bytes", channel, bytes: new Uint8Array(65_536) },
          { type: "end", channel }
        ] as const
      ) net.say("runner", { type: "frame", number: ++number, payload: encodeChannel(message) })
      net.accepted.at(-1)?.end()
    }
    assert.deepStrictEqual(net.violations, [])
    assert.strictEqual(net.worker.channels.size, 1 + MOST_CHANNELS)
  })

  it("hears nothing of a channel that it has reset", async () => {
    const { net, there } = await opened()
    there.reset({ code: "done", message: "" })
    net.say("runner", { type: "frame", number: 1, payload: encodeChannel({ type: "bytes", channel: 1, bytes: Buffer.of(1) }) })
    assert.deepStrictEqual(net.violations, [])
  })

  it("stops sending beats to a peer that reads nothing", async () => {
    const { net, there } = await opened()
    there.onNote(() => {})
    let sent = 0
    const carrier: Carrier = { send: (message) => void (sent += message.length), waitingBytes: () => sent, close: () => {} }
    net.worker.attach(carrier, net.runner.received)
    for (let number = 1; number < 20_000; number++) {
      net.worker.receive(carrier, { type: "frame", number, payload: encodeChannel({ type: "note", channel: 1, note: {} }) })
      for (let i = 0; i < 5; i++) net.worker.beat()
    }
    assert.isFalse(net.worker.isOver)
    assert.isBelow(sent, 600 * 1024)
  })

  it("reads nothing of a message for a closed channel", async () => {
    const { here, net, there } = await opened()
    there.reset({ code: "released", message: "no reader waits for it" })
    await net.settle()
    const note = Buffer.from(encodeChannel({ type: "note", channel: 1, note: {} }))
    note.write("{", note.length - 1)
    net.say("runner", { type: "frame", number: net.worker.received + 1, payload: note })
    assert.deepStrictEqual(net.violations, [])
    assert.strictEqual((await here.wasReset).code, "released")
  })

  it("ends with a peer that opens and resets, or notes to closed channels, without end, and not with a busy peer", async () => {
    const opening = (net: ReturnType<typeof pair>, channel: number) => {
      const frame = (message: ChannelMessage) =>
        net.say("runner", { type: "frame", number: net.worker.received + 1, payload: encodeChannel(message) })
      frame({ type: "open", channel, kind: "dial", header: { way: "model" } })
      frame({ type: "reset", channel, reason: { code: "closed", message: "" } })
    }
    const busy = pair()
    busy.connect()
    for (let i = 1; i <= 1000; i++) opening(busy, 2 * i)
    assert.deepStrictEqual(busy.violations, [])
    const hostile = pair()
    hostile.connect()
    for (let i = 1; i <= 20_000 && hostile.violations.length === 0; i++) opening(hostile, 2 * i)
    assert.deepStrictEqual(hostile.violations.map(({ message }) => message), ["more messages than one side may send in a second"])
    assert.isTrue(hostile.worker.isOver)

    const { net, there } = await opened()
    there.reset({ code: "released", message: "no reader waits for it" })
    await net.settle()
    const payload = encodeChannel({ type: "note", channel: 1, note: { text: "x".repeat(10_000) } })
    for (let i = 0; i < 20_000 && net.violations.length === 0; i++) {
      net.say("runner", { type: "frame", number: net.worker.received + 1, payload })
    }
    assert.strictEqual(net.violations.length, 1)
  })
})

it("what both sides say fits into a message", () => {
  assert.isAtMost(encode({ type: "frame", number: 1, payload: new Uint8Array(256 * 1024 + 5) }).length, 256 * 1024 + 64)
})
