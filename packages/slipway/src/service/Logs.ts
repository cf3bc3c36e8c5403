/** Logs on standard error, as lines for people or JSON for machines. Secrets are always redacted. */
import { Redaction, type Redactor, SHOWN } from "@slipway/domain/environment/redaction/Redaction"
import * as RootSpan from "@slipway/domain/observability/RootSpan"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import type * as LogLevel from "effect/LogLevel"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import { inspect } from "node:util"
import * as Processes from "../settings/Processes.ts"

/** UTF-8 bytes of one JSON line: collectors cut or refuse longer ones. */
const MAXIMUM_BYTES = 16_384
/** The limits of characters per text, tried in order until the line is short enough. */
const TEXT_LENGTHS = [8000, 2000, 400, 80]
/** The levels of nested values that are shown. */
const DEPTH = 4
const ENTRIES = 40

const levels: Readonly<Record<LogLevel.LogLevel, string>> = {
  All: "all",
  None: "none",
  Fatal: "fatal",
  Error: "error",
  Warn: "warning",
  Info: "info",
  Debug: "debug",
  Trace: "trace"
}
const severities = { debug: "Debug", info: "Info", warning: "Warn", error: "Error" } as const

/** A field whose value is a secret, by its name. */
const SECRET_NAME = /passw(?:or)?d|secret|token|cookie|authorization|api[_-]?key/iu

type Fields = Record<string, unknown>

/** A log entry without secrets. */
interface Entry {
  readonly at: Date
  readonly level: LogLevel.LogLevel
  readonly message: string
  readonly fields: Fields
  readonly span: { readonly traceId: string; readonly spanId: string } | undefined
  readonly error: { readonly name: string; readonly message: string; readonly stack: string } | undefined
}

const isRecord = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value))

/** The value in a form that JSON can represent. */
const shown = (value: unknown, redactor: Redactor, depth = 0): unknown => {
  if (value === null || value === undefined || typeof value === "boolean" || Number.isFinite(value)) return value
  if (typeof value === "string") return redactor.redact(value)
  if (Redacted.isRedacted(value)) return SHOWN
  if (value instanceof Date && Number.isFinite(value.getTime())) return value.toISOString()
  if (DateTime.isDateTime(value)) return DateTime.formatIso(DateTime.toUtc(value))
  if (depth < DEPTH && Array.isArray(value)) return value.slice(0, ENTRIES).map((one) => shown(one, redactor, depth + 1))
  if (depth < DEPTH && isRecord(value)) {
    return Object.fromEntries(
      Object.entries(value).slice(0, ENTRIES).map((
        [name, one]
      ) => [redactor.redact(name), typeof one === "string" && SECRET_NAME.test(name) ? SHOWN : shown(one, redactor, depth + 1)])
    )
  }
  return redactor.redact(
    value instanceof Error ? String(value) : inspect(value, { depth: 1, breakLength: Infinity, maxArrayLength: ENTRIES })
  )
}

/** Texts form the message, objects become fields, and errors the error, in any order. */
const entryOf = ({ cause, date, fiber, logLevel, message }: Logger.Options<unknown>, redactor: Redactor): Entry => {
  const said: ReadonlyArray<unknown> = Array.isArray(message) ? message : [message]
  const errors = said.filter((part) => part instanceof Error)
  const all = Cause.fromReasons<unknown>([...cause.reasons, ...errors.map((error) => Cause.makeFailReason(error))])
  const [first] = Cause.prettyErrors(all)
  const texts = said.filter((part) => !(part instanceof Error) && !isRecord(part))
  const fields = Object.assign({}, fiber.getRef(References.CurrentLogAnnotations), ...said.filter(isRecord))
  const span = RootSpan.current(fiber.context)
  return {
    at: date,
    level: logLevel,
    message: texts.map((text) => String(shown(text, redactor))).join(" ") || redactor.redact(first?.message ?? ""),
    fields: Object.fromEntries(
      Object.entries(fields).map((
        [name, value]
      ) => [redactor.redact(name), typeof value === "string" && SECRET_NAME.test(name) ? SHOWN : shown(value, redactor)])
    ),
    span: span === undefined ? undefined : { traceId: redactor.redact(span.traceId), spanId: redactor.redact(span.spanId) },
    error: first === undefined
      ? undefined
      : { name: redactor.redact(first.name), message: redactor.redact(first.message), stack: redactor.redact(Cause.pretty(all)) }
  }
}

const cut = (text: string, length: number) => text.length <= length ? text : `${text.slice(0, length)}… (${text.length - length} more)`

/** One line. Its own fields come first, and logged fields cannot replace them. */
const jsonOf = ({ at, error, fields, level, message, span }: Entry): string => {
  const own = { time: at.toISOString(), level: levels[level], message }
  // `error` has one type, because collectors refuse a field with two types.
  const failure = error ?? (typeof fields["error"] === "string" ? { message: fields["error"] } : fields["error"])
  const whole = { ...own, ...fields, ...own, ...span, ...(failure === undefined ? {} : { error: failure }) }
  for (const length of TEXT_LENGTHS) {
    const line = JSON.stringify(whole, (_, value: unknown) => typeof value === "string" ? cut(value, length) : value)
    if (Buffer.byteLength(line) <= MAXIMUM_BYTES) return line
  }
  return JSON.stringify({ ...own, message: cut(message, 400), ...span })
}

/** For people: a line, with errors below it. */
const prettyOf = ({ at, error, fields, level, message, span }: Entry): string => {
  const told = Object.entries({ ...fields, ...span }).map(([name, value]) =>
    `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`
  )
  const time = at.toISOString().slice(11, 23)
  // Makes control characters and colours visible.
  return visible([[time, level.toUpperCase(), message, ...told].join(" "), ...(error === undefined ? [] : [error.stack])].join("\n"))
}

/** The logger. It never fails. */
const logger = (format: "pretty" | "json", redactor: Redactor) =>
  Logger.withConsoleError(Logger.make<unknown, string>((options) => {
    try {
      const entry = entryOf(options, redactor)
      return format === "json" ? jsonOf(entry) : prettyOf(entry)
    } catch {
      // For example, a getter that throws.
      const entry = {
        at: options.date,
        level: options.logLevel,
        message: "an entry could not be written",
        fields: {},
        span: undefined,
        error: undefined
      }
      return format === "json" ? jsonOf(entry) : prettyOf(entry)
    }
  }))

/** Runs with the minimum level of the settings, otherwise with `otherwise`. */
export const atLeast = (otherwise: LogLevel.Severity) => <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    Processes.loadLogging,
    ({ level }) => Effect.provideService(self, References.MinimumLogLevel, level === null ? otherwise : severities[level])
  )

/** Logs the messages that Node would print itself: warnings, and an uncaught error, which ends the process. */
const ofNode = Layer.effectDiscard(Effect.gen(function*() {
  const context = yield* Effect.context<never>()
  const log = (level: LogLevel.Severity, message: string, error: Error) =>
    Effect.runSyncWith(context)(Effect.logWithLevel(level)(message, error))
  const warned = (warning: Error) => log("Warn", "Node warns", warning)
  const broke = (error: Error) => {
    log("Fatal", "an uncaught error", error)
    process.exit(1)
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      const before = process.listeners("warning")
      process.removeAllListeners("warning").on("warning", warned).on("uncaughtException", broke)
      return before
    }),
    (before) =>
      Effect.sync(() => {
        process.off("uncaughtException", broke).off("warning", warned)
        for (const listener of before) process.on("warning", listener)
      })
  )
}))

/** The log of this process, on standard error. */
export const layer = Layer.unwrap(Effect.gen(function*() {
  const { format } = yield* Processes.loadLogging
  const redactor = yield* Redaction
  return ofNode.pipe(
    Layer.provideMerge(Logger.layer([logger(format === "auto" ? process.stderr.isTTY ? "pretty" : "json" : format, redactor)]))
  )
}))
