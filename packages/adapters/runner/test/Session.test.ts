import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { Session } from "../src/wire/Session.ts"
import { decode, Violation } from "../src/wire/Wire.ts"

/** Two sides and what is under way between them. Commands without a connection do nothing. */
const Command = Schema.TaggedUnion({
  Offer: { from: Schema.Literals([0, 1]) },
  Send: { from: Schema.Literals([0, 1]) },
  Deliver: { to: Schema.Literals([0, 1]) },
  Acknowledge: { from: Schema.Literals([0, 1]) },
  /** All that is under way is lost, and each side learns where the other stands. */
  Cut: {}
})

const other = (side: 0 | 1) => side === 0 ? 1 : 0

type Flying = { readonly frame: Uint8Array } | { readonly received: number }

const pair = () => {
  const sides = [new Session(), new Session()] as const
  const offered: readonly [Array<string>, Array<string>] = [[], []]
  const taken: readonly [Array<string>, Array<string>] = [[], []]
  const flying: [Array<Flying>, Array<Flying>] = [[], []]
  const send = (from: 0 | 1) => {
    const frame = sides[from].next()
    if (frame !== undefined) flying[other(from)].push({ frame })
    return frame !== undefined
  }
  const deliver = (to: 0 | 1) => {
    const one = flying[to].shift()
    if (one === undefined) return false
    if ("received" in one) sides[to].acknowledge(one.received)
    else {
      const message = decode(one.frame)
      assert.strictEqual(message.type, "frame")
      if (message.type !== "frame") return true
      sides[to].take(message.number)
      taken[to].push(Buffer.from(message.payload).toString())
    }
    return true
  }
  const cut = () => {
    flying[0] = []
    flying[1] = []
    sides[0].resume(sides[1].received)
    sides[1].resume(sides[0].received)
  }
  const run = (command: typeof Command.Type) => {
    switch (command._tag) {
      case "Offer": {
        const text = `${command.from}:${offered[command.from].length}`
        sides[command.from].offer(Buffer.from(text))
        offered[command.from].push(text)
        return
      }
      case "Send":
        send(command.from)
        return
      case "Deliver":
        deliver(command.to)
        return
      case "Acknowledge":
        flying[other(command.from)].push({ received: sides[command.from].received })
        return
      case "Cut":
        cut()
    }
  }
  const settle = () => {
    cut()
    for (const side of [0, 1] as const) {
      while (send(side) || deliver(side) || deliver(other(side)));
    }
    for (const side of [0, 1] as const) sides[side].acknowledge(sides[other(side)].received)
  }
  return { offered, taken, sides, run, settle }
}

describe("a session with a runner", () => {
  it.prop("whatever is cut, each side takes what the other offered, once and in order", [Schema.Array(Command)], ([commands]) => {
    const { offered, run, settle, sides, taken } = pair()
    for (const command of commands) {
      run(command)
      for (const side of [0, 1] as const) assert.deepStrictEqual(taken[side], offered[other(side)].slice(0, taken[side].length))
    }
    settle()
    assert.deepStrictEqual(taken, [offered[1], offered[0]])
    assert.deepStrictEqual(sides.map(({ keptBytes }) => keptBytes), [0, 0])
  }, { arbitrary: { runs: 500 } })

  it("has no room while too much waits to be acknowledged, and has it again then", () => {
    const session = new Session()
    const payload = new Uint8Array(1024 * 1024)
    while (session.hasRoom) session.offer(payload)
    assert.isBelow(session.keptBytes, 6 * 1024 * 1024)
    session.resume(0)
    while (session.next() !== undefined);
    session.acknowledge(1)
    assert.isTrue(session.hasRoom)
  })

  it("keeps no more than 8 MiB and 16,384 frames, whatever is offered", () => {
    const large = new Session()
    assert.throws(() => {
      for (let i = 0; i < 10; i++) large.offer(new Uint8Array(1024 * 1024))
    }, Violation)
    assert.isAtMost(large.keptBytes, 8 * 1024 * 1024)
    const small = new Session()
    assert.throws(() => {
      for (let i = 0; i <= 16_384; i++) small.offer(Buffer.of(1))
    }, Violation)
  })

  const started = () => {
    const session = new Session()
    for (let i = 0; i < 3; i++) session.offer(Buffer.of(i))
    session.resume(0)
    session.next()
    session.next()
    session.acknowledge(1)
    return session
  }
  for (
    const [name, act] of Object.entries<(session: Session) => void>({
      "a frame that leaves one out": (session) => session.take(2),
      "a frame again": (session) => {
        session.take(1)
        session.take(1)
      },
      "an acknowledgement of what was not sent": (session) => session.acknowledge(3),
      "a place before what was acknowledged": (session) => session.resume(0),
      "a place after what there is": (session) => session.resume(4)
    })
  ) it(`refuses ${name}`, () => assert.throws(() => act(started()), Violation))

  it("takes an acknowledgement that it had before", () => {
    const session = started()
    session.acknowledge(0)
    session.acknowledge(2)
    assert.isAbove(session.keptBytes, 0)
  })
})
