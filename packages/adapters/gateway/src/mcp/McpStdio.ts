/**
 * A server that is a command in the box ("stdio"): one process for the session of an agent, with a JSON-RPC message on each line. All
 * clients in the box share it, so it is initialized once, and ids of requests are our own. When it has ended, it is not started again.
 */
import { type McpCommandTarget, McpNotConnected, type McpProcess } from "@slipway/domain/mcp/ports/McpGateway"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as RateLimiter from "@slipway/domain/time/RateLimiter"
import { Deferred, Effect, Exit, Fiber, Scope, Semaphore, Stream } from "effect"
import { isObject } from "../protocols/JsonFields.ts"
import { LineReader } from "./LineReader.ts"
import * as Messages from "./McpMessages.ts"
import type { McpLimits } from "./McpUpstream.ts"

type Fields = Messages.Fields

/** A command waits when it writes more: reading takes time of the service. */
const BYTES_PER_SECOND = 8 * 1024 * 1024
const LINES_PER_SECOND = 1000

/** Bytes that a command may write between two answers: log messages and notifications, which are not passed on. */
const MAX_UNASKED_BYTES = 64 * 1024 * 1024

/** Bytes of messages that wait until the command reads them. */
const MAX_QUEUED_BYTES = 16 * 1024 * 1024

/** Answers to requests of the command that wait until it reads them. */
const MAX_QUEUED_ANSWERS = 100

/** Enough to read the rest of the output of a command that has ended. A child process may keep the pipe open. */
const DRAIN = "1 second"

/** Lines and characters of standard error in a reason. */
const SHOWN_LINES = 12
const SHOWN_LENGTH = 1000

const notConnected = (detail: string) => new McpNotConnected({ detail })

export interface McpStdio {
  /** The result of `initialize`. Starts the command the first time. */
  readonly initialized: Effect.Effect<Fields, McpNotConnected>
  /** The command's answer, with the id of the request. */
  readonly request: (message: Fields) => Effect.Effect<Fields, McpNotConnected>
  /** Cancels the request with the id that the agent gave it. Nothing is cancelled if several clients use this id. */
  readonly cancel: (id: unknown) => Effect.Effect<void>
}

interface Pending {
  readonly id: unknown
  readonly answer: Deferred.Deferred<Fields, McpNotConnected>
}

class Stdio {
  readonly #limits: McpLimits
  /** The command's own scope: closing it kills the command. */
  readonly #scope: Scope.Closeable
  readonly #pending = new Map<number, Pending>()
  readonly #writing = Semaphore.makeUnsafe(1)
  readonly #pace = { bytes: RateLimiter.make(BYTES_PER_SECOND), lines: RateLimiter.make(LINES_PER_SECOND) }
  #process: McpProcess | null = null
  /** The reason why the command has ended. */
  #ended: string | null = null
  #lastId = 0
  #queuedBytes = 0
  #queuedAnswers = 0
  #unasked = 0

  constructor(limits: McpLimits, scope: Scope.Closeable) {
    this.#limits = limits
    this.#scope = scope
  }

  /** Starts the command. The result of `initialize`. */
  begin({ start }: McpCommandTarget): Effect.Effect<Fields, McpNotConnected> {
    return Effect.gen({ self: this }, function*() {
      const process = yield* Scope.provide(start, this.#scope)
      this.#process = process
      yield* Effect.forkIn(this.#watch(process), this.#scope)
      const { result } = yield* this.ask(Messages.INITIALIZE)
      if (!isObject(result)) return yield* Effect.fail(notConnected("Its answer is invalid."))
      yield* this.#send({ jsonrpc: "2.0", method: "notifications/initialized" })
      return result
    }).pipe(
      Effect.timeoutOrElse({
        duration: this.#limits.startMillis,
        orElse: () => Effect.flatMap(this.#withStderr("It does not answer in time."), (reason) => Effect.fail(notConnected(reason)))
      }),
      Effect.tapError(({ message }) => this.#end(message))
    )
  }

  get ended(): Effect.Effect<void, McpNotConnected> {
    return Effect.suspend(() => this.#ended === null ? Effect.void : Effect.fail(notConnected(this.#ended)))
  }

  ask(message: Fields): Effect.Effect<Fields, McpNotConnected> {
    return Effect.suspend(() => {
      const id = ++this.#lastId
      const answer = Deferred.makeUnsafe<Fields, McpNotConnected>()
      this.#pending.set(id, { id: message["id"], answer })
      return Effect.andThen(this.ended, this.#send({ ...message, id })).pipe(
        Effect.andThen(Deferred.await(answer)),
        Effect.map((answered) => ({ ...answered, id: message["id"] })),
        Effect.timeoutOrElse({
          duration: this.#limits.firstByteMillis,
          orElse: () => Effect.fail(notConnected("It does not answer in time."))
        }),
        Effect.onExit(() =>
          Effect.suspend(() =>
            this.#pending.delete(id)
              ? this.#later(this.#send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } }))
              : Effect.void
          )
        )
      )
    })
  }

  cancel(id: unknown): Effect.Effect<void> {
    return Effect.suspend(() => {
      const [found, another] = [...this.#pending.values()].filter((pending) => pending.id === id)
      if (found === undefined || another !== undefined) return Effect.void
      return Effect.asVoid(Deferred.fail(found.answer, notConnected("The request was cancelled.")))
    })
  }

  /** Writes a message. A caller that goes away leaves no half of one. */
  #send(message: Fields): Effect.Effect<void, McpNotConnected> {
    return Effect.suspend(() => {
      const text = `${JSON.stringify(message)}\n`
      const bytes = Buffer.byteLength(text)
      if (this.#queuedBytes + bytes > MAX_QUEUED_BYTES) return Effect.fail(notConnected("It does not read its requests."))
      this.#queuedBytes += bytes
      return (this.#process?.write(text) ?? Effect.void).pipe(
        this.#writing.withPermits(1),
        Effect.ensuring(Effect.sync(() => {
          this.#queuedBytes -= bytes
        })),
        Effect.forkIn(this.#scope, { startImmediately: true }),
        Effect.flatMap(Fiber.await),
        Effect.asVoid
      )
    })
  }

  #later(work: Effect.Effect<void, McpNotConnected>): Effect.Effect<void> {
    return Effect.asVoid(Effect.forkIn(Effect.ignore(work), this.#scope, { startImmediately: true }))
  }

  #end(reason: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.#ended ??= reason
      for (const { answer } of this.#pending.values()) Deferred.doneUnsafe(answer, Exit.fail(notConnected(this.#ended)))
      this.#pending.clear()
      // Not here: the caller may be a fiber of the scope, which closing it ends.
      return Effect.asVoid(Effect.forkDetach(Scope.close(this.#scope, Exit.void), { startImmediately: true }))
    })
  }

  #withStderr(reason: string): Effect.Effect<string> {
    return Effect.map(this.#process?.stderrTail ?? Effect.succeed(""), (tail) => {
      const lines = tail.split("\n").map((line) => line.trim()).filter((line) => line !== "").slice(-SHOWN_LINES)
      const said = visible(lines.join(" | ").slice(-SHOWN_LENGTH))
      return said === "" ? reason : `${reason} It said: ${said}`
    })
  }

  /** Reads until the command has ended. */
  #watch(process: McpProcess): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      const reading = yield* Effect.forkIn(this.#read(process), this.#scope)
      const first = yield* Effect.raceFirst(process.exited, Effect.as(Fiber.await(reading), null))
      const late = Effect.as(Effect.sleep(DRAIN), null)
      if (first !== null) yield* Effect.raceFirst(Effect.asVoid(Fiber.await(reading)), late)
      const exit = first ?? (yield* Effect.raceFirst(process.exited, late))
      yield* this.#end(
        yield* this.#withStderr(
          exit === null
            ? "It closed its output."
            : exit.signal === null
            ? `It ended with exit code ${exit.code}.`
            : `It was ended by ${exit.signal}.`
        )
      )
    })
  }

  #read(process: McpProcess): Effect.Effect<void> {
    const { answerBytes } = this.#limits
    const reader = new LineReader(answerBytes)
    return Stream.runForEach(process.stdout, (chunk) =>
      Effect.gen({ self: this }, function*() {
        yield* this.#pace.bytes(chunk.length)
        const lines = reader.read(chunk)
        if (lines === null) return yield* this.#end(`It sends a message of more than ${answerBytes} bytes.`)
        for (const line of lines) {
          yield* this.#pace.lines(1)
          yield* this.#receive(line)
        }
      }))
  }

  #receive(line: string): Effect.Effect<void> {
    const read = Messages.fromServer(line)
    if (read._tag === "Pass" && typeof read.message["id"] === "number") {
      const { error, id, result } = read.message
      const pending = this.#pending.get(read.message["id"])
      if (pending !== undefined && (error !== undefined || result !== undefined)) {
        this.#pending.delete(read.message["id"])
        this.#unasked = 0
        const answer = { jsonrpc: "2.0", id, ...(error === undefined ? { result } : { error }) }
        return Effect.asVoid(Deferred.succeed(pending.answer, answer))
      }
    }
    this.#unasked += line.length
    if (this.#unasked > MAX_UNASKED_BYTES) return this.#end("It sends too much that no request asked for.")
    return read._tag === "Request" ? this.#answer(read) : Effect.void
  }

  #answer({ id, isPing }: Extract<Messages.FromServer, { readonly _tag: "Request" }>): Effect.Effect<void> {
    if (id === null) return Effect.void
    if (this.#queuedAnswers >= MAX_QUEUED_ANSWERS) return this.#end("It sends too many requests of its own.")
    this.#queuedAnswers++
    return this.#later(Effect.ensuring(
      this.#send(Messages.answerTo(id, isPing)),
      Effect.sync(() => {
        this.#queuedAnswers--
      })
    ))
  }
}

/** The command is started by the first use, and ends with the scope. */
export const make = Effect.fnUntraced(function*(target: McpCommandTarget, limits: McpLimits) {
  const server = new Stdio(limits, yield* Scope.fork(yield* Effect.scope))
  const begun = yield* Effect.cached(server.begin(target))
  const initialized = Effect.tap(begun, () => server.ended)
  const stdio: McpStdio = {
    initialized,
    request: (message) => Effect.andThen(initialized, server.ask(message)),
    cancel: (id) => server.cancel(id)
  }
  return stdio
})
