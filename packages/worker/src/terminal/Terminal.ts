/** One pseudo-terminal in a box, with its scrollback and its attachments. */
import type { BoxCommand, BoxProcess, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import { type TerminalAttachment, type TerminalEnd, type TerminalSize, TerminalUnavailable } from "@slipway/domain/sandbox/ports/Terminals"
import { Deferred, Effect, Exit, Option, Scope, Semaphore, Stream } from "effect"
import { Scrollback } from "./Scrollback.ts"
import * as TerminalScript from "./TerminalScript.ts"
import { Viewer } from "./Viewer.ts"

/** Attachments of one terminal at once. */
export const MAX_ATTACHMENTS = 4
/** How long a terminal without attachments runs on. */
const UNATTACHED = "30 minutes"
/** How long the terminal waits for room at one of several readers, and for any progress of the only one. */
const PATIENCE = { several: "5 seconds", only: "30 seconds" } as const
/** The most time until the box has made a terminal. */
const START = "30 seconds"
const MAX_GREETING = 200

const failed = (detail: string) => new TerminalUnavailable({ reason: "failed", detail })

const noProgram = new TerminalUnavailable({
  reason: "no_program",
  detail: "The sandbox's box has no `script` of util-linux, which makes the terminal. Install the package bsdutils (Debian, Ubuntu) or " +
    "util-linux (others) in its image or on its machine."
})

/** Starts a program in the box, as the sandbox's agent would. */
export type Spawn = (command: BoxCommand) => Effect.Effect<BoxProcess, HostError, Scope.Scope>

export interface Terminal {
  readonly number: number
  /** `null`: it has as many attachments as it may have, or has ended. */
  readonly attach: Effect.Effect<TerminalAttachment | null, never, Scope.Scope>
  resize(size: TerminalSize): Effect.Effect<void>
  /** Ends it with everything that was started in it. */
  end(reason: TerminalEnd): Effect.Effect<void>
}

/** Splits the greeting off. Fails the deferred if it does not come. */
const greeted = (greeting: Deferred.Deferred<string, TerminalUnavailable>) => {
  let line = ""
  let isOver = false
  return (bytes: Uint8Array): Uint8Array => {
    if (isOver) return bytes
    const end = bytes.indexOf(0x0a)
    line += Buffer.from(end < 0 ? bytes : bytes.subarray(0, end)).toString("latin1")
    if (end < 0 && line.length <= MAX_GREETING) return new Uint8Array()
    isOver = true
    const read = TerminalScript.readGreeting(line)
    Deferred.doneUnsafe(
      greeting,
      read === null
        ? Exit.fail(failed("The shell did not start. The sandbox's box answered something else."))
        : read.device === null
        ? Exit.fail(noProgram)
        : Exit.succeed(read.device)
    )
    return end < 0 ? new Uint8Array() : bytes.subarray(end + 1)
  }
}

/** Waits until each reader has room, and skips those that take too long. */
const letCatchUp = Effect.fnUntraced(function*(viewers: ReadonlySet<Viewer>) {
  for (const viewer of viewers) {
    while (viewers.has(viewer) && viewer.isFull) {
      const { taken } = viewer
      const patience = viewers.size === 1 ? PATIENCE.only : PATIENCE.several
      const hasRoom = yield* Effect.timeoutOption(viewer.room, patience)
      if (Option.isNone(hasRoom) && viewer.taken === taken) viewer.skip()
    }
  }
})

/**
 * Starts a shell in a terminal of this size. It lives until its shell exits, it is ended, or the scope closes. `onEnd` runs once, before
 * the attachments are told.
 */
export const start = Effect.fn("Terminal.start")(function*(
  number: number,
  spawn: Spawn,
  size: TerminalSize,
  onEnd: () => void
): Effect.fn.Return<Terminal, TerminalUnavailable, Scope.Scope> {
  const scope = yield* Scope.fork(yield* Effect.scope)
  const viewers = new Set<Viewer>()
  const scrollback = new Scrollback()
  const greeting = Deferred.makeUnsafe<string, TerminalUnavailable>()
  const writing = yield* Semaphore.make(1)
  let isOver = false

  const over = (reason: TerminalEnd, code: number | null) => {
    if (isOver) return
    isOver = true
    onEnd()
    for (const viewer of viewers) viewer.end(reason, code)
  }
  const end = (reason: TerminalEnd) =>
    Effect.suspend(() => {
      over(reason, null)
      return Scope.close(scope, Exit.void)
    })

  const process = yield* spawn({ command: "/bin/sh", args: TerminalScript.argumentsOf(size), env: {} }).pipe(
    Scope.provide(scope),
    Effect.mapError(({ detail }) => failed(`The shell did not start: ${detail}`)),
    Effect.onError(() => Scope.close(scope, Exit.void))
  )
  const afterGreeting = greeted(greeting)
  yield* Stream.runForEach(process.stdout, (chunk) => {
    const bytes = afterGreeting(chunk)
    if (bytes.length === 0) return Effect.void
    scrollback.push(bytes)
    for (const viewer of viewers) viewer.push(bytes)
    return letCatchUp(viewers)
  }).pipe(
    Effect.andThen(process.exited),
    Effect.tap(({ code }) =>
      Effect.sync(() => {
        Deferred.doneUnsafe(greeting, Exit.fail(failed("The shell did not start. It ended at once.")))
        over("exited", code)
      })
    ),
    // Closing the scope of the fiber that runs this would wait for itself.
    Effect.andThen(Effect.forkIn(Scope.close(scope, Exit.void), yield* Effect.scope)),
    Effect.forkIn(scope)
  )
  const device = yield* Deferred.await(greeting).pipe(
    Effect.timeoutOrElse({ duration: START, orElse: () => Effect.fail(failed("The shell did not start in time.")) }),
    Effect.onError(() => end("closed"))
  )

  const write = (line: string) => Effect.suspend(() => isOver ? Effect.void : writing.withPermits(1)(process.write(line)))
  const resize = (next: TerminalSize) => write(TerminalScript.resize(device, next))

  /** Ends the terminal if no attachment comes for a while. */
  let waits = 0
  const awaitAttachment = Effect.suspend(() => {
    const waiting = ++waits
    return Effect.sleep(UNATTACHED).pipe(
      Effect.andThen(Effect.suspend(() => viewers.size === 0 && waiting === waits && !isOver ? end("unattached") : Effect.void)),
      Effect.forkIn(scope),
      Effect.asVoid
    )
  })
  yield* awaitAttachment

  const attach = Effect.suspend(() => {
    if (isOver || viewers.size >= MAX_ATTACHMENTS) return Effect.succeed(null)
    return Effect.acquireRelease(
      Effect.sync(() => {
        waits++
        const viewer = new Viewer(scrollback.bytes)
        viewers.add(viewer)
        return viewer
      }),
      (viewer) =>
        Effect.suspend(() => {
          viewers.delete(viewer)
          // The terminal may wait for it.
          viewer.end("closed", null)
          return viewers.size === 0 && !isOver ? awaitAttachment : Effect.void
        })
    ).pipe(Effect.map((viewer): TerminalAttachment => ({
      terminal: number,
      output: viewer.output,
      write: (bytes) => bytes.length === 0 ? Effect.void : write(TerminalScript.keys(bytes)),
      resize,
      end: end("closed")
    })))
  })
  return { number, attach, resize, end }
})
