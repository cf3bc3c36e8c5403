/** The server of a command that uses HTTP: its address, the key for it, and the errors of its refusals. */
import { type CommandResult, type Sandbox, SlipwayClient, SlipwayError } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as Argument from "effect/cli/Argument"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as RunningServices from "../../service/RunningServices.ts"
import { settings as listening } from "../../settings/Listening.ts"
import * as Settings from "../../settings/Settings.ts"
import * as EventText from "../terminal/EventText.ts"
import { ExitCode, exitCodesText } from "../terminal/ExitCodes.ts"
import * as Credentials from "./Credentials.ts"

export { ExitCode, exitCodesText }

/** The request failed. The message is one line that says what to do, and is safe for a terminal. */
export class CommandFailed extends Schema.TaggedError<CommandFailed>()("CommandFailed", {
  detail: Schema.String,
  exitCode: Schema.Int,
  /** The server's code of a refusal. */
  code: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    return visible(this.detail)
  }
}

export const url = Flag.String("url").pipe(
  Flag.withDescription("Server address; default: SLIPWAY_URL, or the local service"),
  Flag.withFallbackConfig(Config.String("SLIPWAY_URL")),
  Flag.optional
)

/** For commands that follow a sandbox. */
export const giveUp = Flag.Int("give-up").pipe(
  Flag.withDescription(
    "Seconds of silence before the command gives up; default: 300, or never at a terminal"
  ),
  Flag.filter((seconds) => seconds >= 0 && seconds <= 86_400, () => "--give-up is 0 to 86400 seconds"),
  Flag.optional
)

const GIVE_UP_SECONDS = 300

export const giveUpMillis = (given: Option.Option<number>): number =>
  1000 * Option.getOrElse(given, () => process.stdout.isTTY ? Infinity : GIVE_UP_SECONDS)

/** Adds the advice to continue later, because the sandbox runs without the command. */
export const resumable = <A, R>(command: string, work: Effect.Effect<A, CommandFailed, R>) =>
  Effect.mapError(work, (failed) =>
    failed.exitCode === ExitCode.unreachable
      ? new CommandFailed({ ...failed, detail: `${failed.detail} The sandbox continues; follow it again with: ${command}` })
      : failed)

const DEFAULT_URL = `http://127.0.0.1:${listening.port.default}`

/** The only service that this user runs, otherwise the configured address. */
const local = Settings.load.pipe(
  Effect.flatMap(RunningServices.addressOf),
  Effect.orElseSucceed(() => null),
  Effect.map((found) => found ?? DEFAULT_URL)
)

/** The server's address in the form of stored keys. */
export const find = Effect.fnUntraced(function*(given: Option.Option<string>) {
  const address = Option.isSome(given) && given.value !== "" ? given.value : yield* local
  return yield* Option.match(Credentials.serverOf(address), {
    onNone: () =>
      new CommandFailed({ detail: `${address} is not the address of a server, such as ${DEFAULT_URL} (--url, SLIPWAY_URL).`, exitCode: 2 }),
    onSome: Effect.succeed
  })
})

const codeOf = ({ code, status }: SlipwayError): number => {
  if (status === 401 || code === "insufficient_scope" || code === "forbidden") return ExitCode.unauthorized
  if (status === 404) return ExitCode.notFound
  if (status < 400 || status === 429 || status >= 500) return ExitCode.unreachable
  return ExitCode.refused
}

export const unanswered = (server: string): CommandFailed =>
  new CommandFailed({
    detail: `nothing answers at ${server}. Does it run (slipway serve), and is the address right (--url, SLIPWAY_URL)?`,
    exitCode: ExitCode.unreachable
  })

/** The command that gets a valid key for the server. */
export const signInHint = (server: string): string => `slipway auth login --url ${server}, or set SLIPWAY_API_KEY.`

/** The failure with advice. `keyFrom`: the source of the key. */
const failureOf = (server: string, keyFrom: string, error: SlipwayError): CommandFailed => {
  const exitCode = codeOf(error)
  const { code, message, requestId, retryAfter } = error
  if (code === "unreachable" || code === "timeout") return unanswered(server)
  if (error.status === 401) {
    const detail = `${server} does not accept the key ${keyFrom}. Sign in again: ${signInHint(server)}`
    return new CommandFailed({ detail, exitCode })
  }
  const later = retryAfter === undefined ? "" : ` Try again in ${retryAfter} s.`
  return new CommandFailed({
    detail: `${server} says: ${message} (${code}${requestId === undefined ? "" : `, ${requestId}`})${later}`,
    exitCode,
    code
  })
}

/** A rejected command is a failure. */
export const applied = Effect.fnUntraced(
  function*<R extends CommandResult>(result: R, isFine: (rejection: CommandResult["rejection"]) => boolean = () => false) {
    if (result.outcome !== "rejected" || isFine(result.rejection)) return result
    return yield* new CommandFailed({ detail: EventText.rejection(result.rejection), exitCode: ExitCode.refused })
  }
)

/** An interrupted command counts as failed, because it may not have done its work. */
export const interruptible = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.onInterrupt(work, () =>
    Effect.sync(() => {
      process.exitCode = ExitCode.detached
    }))

/** A server answers within ten seconds, whatever the state of its database (docs/decisions/4). */
const PATIENCE = Duration.seconds(20)

export interface Server {
  readonly url: string
  readonly client: SlipwayClient
  /** Runs a request of the client and maps its failures. It times out after 20 seconds, including retries. */
  readonly call: <A>(request: (signal: AbortSignal) => Promise<A>) => Effect.Effect<A, CommandFailed>
  /** The next event of a stream, without a time limit. */
  readonly next: <A>(events: AsyncIterator<A>) => Effect.Effect<IteratorResult<A>, CommandFailed>
}

/** The page of a sandbox. */
export const pageOf = ({ url }: Pick<Server, "url">, id: string): string => `${url}/sandboxes/${id}`

/** The server of the command, with its key. Sends no request. */
export const connect = Effect.fnUntraced(function*(given: Option.Option<string>) {
  const server = yield* find(given)
  const fromEnvironment = yield* Config.option(Config.Redacted("SLIPWAY_API_KEY")).pipe(Effect.orElseSucceed(Option.none))
  const key = Option.filter(fromEnvironment, (key) => Redacted.value(key) !== "")
  const kept = Option.isSome(key) ? key : yield* Credentials.find(server)
  if (Option.isNone(kept)) {
    return yield* new CommandFailed({
      detail: `there is no key for ${server}. Sign in: ${signInHint(server)}`,
      exitCode: ExitCode.unauthorized
    })
  }
  const keyFrom = Option.isSome(key) ? "in SLIPWAY_API_KEY" : `kept in ${Credentials.file()}`
  const client = yield* Effect.try({
    try: () => new SlipwayClient({ baseUrl: server, apiKey: Redacted.value(kept.value) }),
    catch: () => new CommandFailed({ detail: `what stands ${keyFrom} cannot be a key.`, exitCode: ExitCode.unauthorized })
  })
  const asked: Server["call"] = (request) =>
    Effect.tryPromise({ try: request, catch: (error) => error }).pipe(
      Effect.catch((error) => error instanceof SlipwayError ? Effect.fail(failureOf(server, keyFrom, error)) : Effect.die(error))
    )
  const call: Server["call"] = (request) =>
    Effect.timeoutOrElse(asked(request), { duration: PATIENCE, orElse: () => Effect.fail(unanswered(server)) })
  return { url: server, client, call, next: (events) => asked(() => events.next()) } satisfies Server
})

// Ids -------------------------------------------------------------------------------------------------------------

const WHOLE = /^c_[a-z2-9]{12}$/u
const BEGINNING = /^c_[a-z2-9]{1,11}$/u
/** Pages of 100 sandboxes that are searched for an abbreviated id. A longer search would use up the key's rate limit. */
const MAX_PAGES = 10

export const id = Argument.String("id").pipe(
  Argument.withDescription("Sandbox id or a unique prefix"),
  Argument.filter(
    (value) => WHOLE.test(value) || BEGINNING.test(value),
    (value) => `${value} is not a sandbox id (example: c_abcdefgh2345)`
  )
)

/** The full id. An abbreviation is accepted only if all sandboxes of the grant could be compared. */
export const resolve = Effect.fnUntraced(function*({ call, client, url: server }: Server, given: string) {
  if (WHOLE.test(given)) return given
  const found: Array<Sandbox> = []
  let after: string | null | undefined
  for (let page = 0; page < MAX_PAGES && after !== null; page++) {
    const cursor = after
    const { data, nextCursor } = yield* call((signal) => client.listSandboxes(cursor === undefined ? {} : { after: cursor }, { signal }))
    found.push(...data.filter((sandbox) => sandbox.id.startsWith(given)))
    after = nextCursor
  }
  const [first, second] = found
  if (first === undefined && after === null) {
    return yield* new CommandFailed({
      detail: `no sandbox at ${server} begins with ${given}. See: slipway ps --all`,
      exitCode: ExitCode.notFound
    })
  }
  if (first === undefined || second !== undefined || after !== null) {
    const detail = second === undefined
      ? `there are too many sandboxes for an abbreviated id: give the whole id.`
      : `${given} is the beginning of several: ${found.slice(0, 5).map(({ id }) => id).join(", ")}. Give more of it.`
    return yield* new CommandFailed({ detail, exitCode: ExitCode.unclear })
  }
  return first.id
})
