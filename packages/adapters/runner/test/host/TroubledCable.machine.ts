/** That the cable is as bad as it says: what the two ends see of it, and what it counts. */
import { assert, describe, it } from "@effect/vitest"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { createSocket } from "node:dgram"
import { once } from "node:events"
import { connect } from "node:net"
import { createInterface } from "node:readline"
import * as TroubledCable from "../../testing/TroubledCable.ts"
import { type Counts, noTrouble, troubledCable, type TroubledCable as Cable } from "../../testing/TroubledCable.ts"

const { eventually } = SandboxHostContract

const because = noTrouble === undefined ? "" : ` (${noTrouble.trim()})`

/** Sends back all that comes, over UDP and TCP, and says which datagrams came. */
const ECHO = `
const udp = require("node:dgram").createSocket("udp4")
udp.on("message", (message, { address, port }) => {
  console.log(String(message))
  udp.send(message, port, address)
})
const tcp = require("node:net").createServer((socket) => socket.on("error", () => {}).pipe(socket))
udp.bind(0, process.argv[1], () => tcp.listen(0, process.argv[1], () => console.log(udp.address().port + " " + tcp.address().port)))
`

/** The ports of one at the other end, and the numbers of the datagrams that it got. */
const echo = Effect.fnUntraced(function*({ address, name }: Cable) {
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn("ip", ["netns", "exec", name, process.execPath, "-e", ECHO, address], { stdio: ["ignore", "pipe", "inherit"] })
    ),
    (child) => Effect.sync(() => child.kill("SIGKILL"))
  )
  const lines = createInterface({ input: child.stdout })
  const [ports]: ReadonlyArray<string> = yield* Effect.promise(() => once(lines, "line"))
  const [udp = 0, tcp = 0] = (ports ?? "").split(" ").map(Number)
  const got: Array<number> = []
  lines.on("line", (line) => got.push(Number(line)))
  return { udp, tcp, got }
})

/** Sends datagrams, each with its number, and tells which came back. */
const sender = ({ address }: Cable, port: number) =>
  Effect.gen(function*() {
    const back: Array<number> = []
    const socket = yield* Effect.acquireRelease(
      Effect.sync(() => createSocket("udp4")),
      (socket) => Effect.sync(() => socket.close())
    )
    socket.on("message", (message) => back.push(Number(message)))
    let sent = 0
    const send = (count: number) =>
      Effect.promise(() =>
        Promise.all(Array.from({ length: count }, () =>
          new Promise<void>((resolve, reject) =>
            socket.send(`${sent++}`, port, address, (error) =>
              error === null ? resolve() : reject(error))
          )))
      )
    return { send, back }
  })

/** The state of both ends, once nothing is on its way any more. */
const settled = ({ tell }: Cable, sent: number, got: ReadonlyArray<number>, back: ReadonlyArray<number>) =>
  eventually(
    tell,
    ({ toHere, toThere }) =>
      toThere.took === sent && toThere.waiting === 0 && got.length === toThere.gave && toHere.took === got.length &&
      toHere.waiting === 0 && back.length === toHere.gave
  )

const inOrder = (numbers: ReadonlyArray<number>) => numbers.every((number, i) => i === 0 || number > (numbers[i - 1] ?? Infinity))

const repeated = (numbers: ReadonlyArray<number>) => numbers.length - new Set(numbers).size

const BATCHES = 20
const BATCH = 50
const SENT = BATCHES * BATCH

/** 1,000 datagrams there and what is left of them back. */
const talk = Effect.fnUntraced(function*(trouble: TroubledCable.Trouble) {
  const cable = yield* troubledCable(trouble)
  const { got, udp } = yield* echo(cable)
  const { back, send } = yield* sender(cable, udp)
  for (let batch = 1; batch <= BATCHES; batch++) {
    yield* send(BATCH)
    // So that no socket has more than its buffer takes: what is lost, the cable lost.
    yield* settled(cable, batch * BATCH, got, back)
  }
  return { ...yield* cable.tell, got, back }
}, Effect.scoped)

describe(`a cable with trouble${because}`, () => {
  it.live.skipIf(noTrouble !== undefined)("carries all packets in order where it has none", () =>
    Effect.gen(function*() {
      const { back, got, toHere, toThere } = yield* talk(TroubledCable.NONE)
      const all = Array.from({ length: SENT }, (_, i) => i)
      assert.deepStrictEqual(got, all)
      assert.deepStrictEqual(back, all)
      const honest: Counts = { took: SENT, lost: 0, doubled: 0, overtook: 0, gave: SENT, waiting: 0 }
      assert.deepStrictEqual([toThere, toHere], [honest, honest])
    }))

  it.live.skipIf(noTrouble !== undefined)("loses, doubles and reorders as many as it says, both ways", () =>
    Effect.gen(function*() {
      const { back, got, toHere, toThere } = yield* talk(TroubledCable.BAD)
      for (
        const [numbers, before, { doubled, gave, lost, overtook, took }] of [[got, SENT, toThere], [back, got.length, toHere]] as const
      ) {
        assert.strictEqual(took, before)
        assert.strictEqual(numbers.length, gave)
        assert.strictEqual(gave, took - lost + doubled)
        // 2 of 100, of a thousand: fewer than 3 or more than 60 are no chance.
        assert.isTrue(lost > 2 && lost < 60, `${lost} lost`)
        assert.isTrue(doubled > 2 && doubled < 60, `${doubled} doubled`)
        assert.isAbove(overtook, 50)
        assert.isFalse(inOrder(numbers))
      }
      assert.strictEqual(repeated(got), toThere.doubled)
      assert.isAbove(repeated(back), 0)
      assert.isBelow(new Set(back).size, SENT)
    }))

  it.live.skipIf(noTrouble !== undefined)("delays packets without reordering them", () =>
    Effect.gen(function*() {
      const { back, got, toHere, toThere } = yield* talk({ ...TroubledCable.NONE, delayMillis: 5 })
      const all = Array.from({ length: SENT }, (_, i) => i)
      assert.deepStrictEqual(got, all)
      assert.deepStrictEqual(back, all)
      assert.deepStrictEqual([toThere.overtook, toHere.overtook], [0, 0])
    }))

  it.live.skipIf(noTrouble !== undefined)(
    "does the same to the same packets by the same seed, and something else by another",
    () =>
      Effect.gen(function*() {
        const luck = Effect.fnUntraced(function*(seed: number) {
          const cable = yield* troubledCable({ ...TroubledCable.NONE, lost: 0.2, doubled: 0.2 }, seed)
          const { got, udp } = yield* echo(cable)
          const { back, send } = yield* sender(cable, udp)
          yield* send(BATCH)
          yield* settled(cable, BATCH, got, back)
          return { got: got.toSorted((one, other) => one - other), toThere: (yield* cable.tell).toThere }
        }, Effect.scoped)
        const first = yield* luck(23)
        assert.deepStrictEqual(yield* luck(23), first)
        assert.notDeepEqual(yield* luck(24), first)
      })
  )

  it.live.skipIf(noTrouble !== undefined)(
    "carries nothing while it is cut, and everything once it is mended",
    () =>
      Effect.gen(function*() {
        const cable = yield* troubledCable(TroubledCable.NONE)
        const { got, udp } = yield* echo(cable)
        const { back, send } = yield* sender(cable, udp)
        yield* send(3)
        yield* settled(cable, 3, got, back)
        assert.isTrue((yield* cable.cut).isCut)
        yield* send(5)
        const { toThere } = yield* settled(cable, 8, got, back)
        assert.deepStrictEqual([toThere.lost, toThere.gave], [5, 3])
        assert.isFalse((yield* cable.mend).isCut)
        yield* send(2)
        yield* settled(cable, 10, got, back)
        assert.deepStrictEqual(got, [0, 1, 2, 8, 9])
        assert.deepStrictEqual(back, got)
      }).pipe(Effect.scoped)
  )

  it.live.skipIf(noTrouble !== undefined)(
    "breaks at a packet with data without a word to either end, until somebody dials again",
    () =>
      Effect.gen(function*() {
        const cable = yield* troubledCable(TroubledCable.NONE)
        const { tcp } = yield* echo(cable)
        const dial = Effect.gen(function*() {
          const socket = yield* Effect.acquireRelease(
            Effect.sync(() => connect(tcp, cable.address)),
            (socket) => Effect.sync(() => socket.destroy())
          )
          yield* Effect.promise(() => once(socket, "connect"))
          const heard: Array<string> = []
          socket.on("data", (bytes) => heard.push(String(bytes)))
          const word = () => Effect.promise(() => once(socket, "data"))
          return { socket, heard, word }
        })
        const old = yield* dial
        yield* cable.breakAt(3, 2)
        // Its word and the answer are the first and the second.
        old.socket.write("one")
        yield* old.word()
        old.socket.write("two")
        const { breaks } = yield* eventually(cable.tell, ({ isCut }) => isCut)
        assert.strictEqual(breaks, 1)
        assert.deepStrictEqual(old.heard, ["one"])
        assert.isFalse(old.socket.destroyed)
        const next = yield* dial
        assert.isFalse((yield* cable.tell).isCut)
        next.socket.write("three")
        yield* next.word()
        assert.deepStrictEqual(next.heard, ["three"])
        // It was lost unnoticed: TCP sends it once more.
        yield* eventually(Effect.sync(() => old.heard.join()), (heard) => heard === "one,two")
      }).pipe(Effect.scoped)
  )
})
