/** The session of the worker that is let in: begun by a hello, ended by a newer fence, a goodbye, silence or a violation. */
import { type Carrier, Peer } from "../wire/Peer.ts"
import type { Settings } from "../wire/RunnerSettings.ts"
import { encode, type Hello, PROTOCOL, type RefusalCode } from "../wire/Wire.ts"
import * as Fence from "./Fence.ts"
import * as Files from "./Files.ts"
import type * as Homes from "./Homes.ts"
import * as Ports from "./Ports.ts"
import * as Processes from "./Processes.ts"
import type { ProcessRecords } from "./ProcessRecords.ts"

export interface Held {
  readonly hello: Hello
  attempt: number
  heardAt: number
  /** Its worker said goodbye: nothing else is heard of it. */
  isLeaving: boolean
  /** It is held only until its processes have ended: no session begins beside them. */
  isOver: boolean
  readonly peer: Peer
  readonly processes: Processes.Processes
}

export interface RunnerState {
  readonly settings: Settings
  readonly records: ProcessRecords
  readonly homes: ReturnType<typeof Homes.accept>
  /** The highest fence so far. */
  highest: number
  held: Held | undefined
  /** The last hello or end under way. */
  turn: Promise<unknown>
}

/** Runs one hello or one end after the other. */
export const inTurn = (state: RunnerState, action: () => Promise<void>): Promise<void> => {
  const done = state.turn.then(action)
  state.turn = done.catch(() => {})
  return done
}

/** As `inTurn`. Where processes survive, the session stays held, and its end is tried again. */
export const later = (state: RunnerState, action: () => Promise<void>): void => {
  inTurn(state, action).catch((error: unknown) => {
    process.stderr.write(`runner: ${error instanceof Error ? error.message : String(error)}\n`)
  })
}

/** Rejects where processes survive: the session is held until a later call finds none. */
export const end = async (state: RunnerState, session: Held, code: string): Promise<void> => {
  session.isOver = true
  session.peer.finish({ code, message: "the session is over" })
  await session.processes.endAll()
  if (state.held === session) state.held = undefined
}

const begin = (state: RunnerState, hello: Hello): Held => {
  const { homes, records, settings: { tree, user } } = state
  const processes = Processes.make({ tree, user, records })
  const peer = new Peer({
    side: "runner",
    accept: { process: processes.accept, file: Files.accept(tree), home: homes, port: Ports.accept(user) },
    onViolation: () => later(state, () => end(state, session, "violation"))
  })
  const session: Held = { hello, attempt: 0, heardAt: performance.now(), isLeaving: false, isOver: false, peer, processes }
  return session
}

/** Closing the connection last tells the worker that all its processes have ended. */
export const leave = (state: RunnerState, session: Held): void => {
  session.isLeaving = true
  later(state, async () => {
    try {
      await session.processes.endAll()
      if (state.held === session) state.held = undefined
      session.peer.finish({ code: "bye", message: "the session is over" })
    } catch (error) {
      // The worker gets no answer, and stops waiting.
      session.isOver = true
      throw error
    }
  })
}

const refuse = ({ highest }: RunnerState, carrier: Carrier, code: RefusalCode) => {
  // Closed by the side that reads it: what is closed here may be lost on its way.
  carrier.send(encode({ type: "refused", code, fence: highest }), () => {})
}

export const greet = async (
  state: RunnerState,
  carrier: Carrier,
  hello: Hello,
  isThere: () => boolean
): Promise<Held | undefined> => {
  if (!isThere()) return undefined
  if (hello.protocol !== PROTOCOL) {
    refuse(state, carrier, "protocol")
    return undefined
  }
  if (hello.fence < state.highest) {
    refuse(state, carrier, "fence")
    return undefined
  }
  if (hello.fence > state.highest) {
    Fence.write(state.settings.state, hello.fence)
    state.highest = hello.fence
  }
  const before = state.held
  const isAnother = before !== undefined && (before.hello.fence < hello.fence || before.hello.session !== hello.session && !hello.resumes)
  if (before !== undefined && (isAnother || before.isOver)) await end(state, before, "fence")
  if (state.held?.hello.session === hello.session) {
    if (hello.attempt <= state.held.attempt) {
      refuse(state, carrier, "stale")
      return undefined
    }
  } else if (hello.resumes) {
    refuse(state, carrier, "session")
    return undefined
  } else state.held = begin(state, hello)
  const { held } = state
  held.attempt = hello.attempt
  held.heardAt = performance.now()
  carrier.send(encode({ type: "welcome", received: held.peer.received, ports: true }), () => {})
  held.peer.attach(carrier, hello.received)
  return held
}
