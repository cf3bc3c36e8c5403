/** The server of a command that uses HTTP: its address, the key for it, and the errors of its refusals. */
import type { CommandResult, Sandbox, SlipwayClient } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as Argument from "effect/cli/Argument"
import * as Flag from "effect/cli/Flag"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as EventText from "../../terminal/EventText.ts"
import { ExitCode, exitCodesText } from "../../terminal/ExitCodes.ts"
import * as ServerAccess from "./ServerAccess.ts"

export { ExitCode, exitCodesText }
export { signInHint } from "./ServerAccess.ts"

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

/** For commands that also work without a server. {@link askedOf} reads `SLIPWAY_URL`. */
export const asksServer = Flag.String("url").pipe(
  Flag.withDescription("Ask this server over its API; default: SLIPWAY_URL, or the service of this machine"),
  Flag.optional
)

/**
 * Asks the server of `--url`, otherwise the one of `SLIPWAY_URL`. Without either it runs `otherwise`; so it does, with a warning, if the
 * server of `SLIPWAY_URL` cannot be asked. A failure of the server of `--url` is the answer.
 */
export const askedOf = Effect.fnUntraced(function*<A, E, R, E2, R2>(
  given: Option.Option<string>,
  ask: (url: string) => Effect.Effect<A, E | CommandFailed, R>,
  otherwise: Effect.Effect<A, E2, R2>
) {
  if (Option.isSome(given)) return yield* ask(given.value)
  const url = Option.filter(yield* Effect.orDie(Config.option(Config.String("SLIPWAY_URL"))), (url) => url !== "")
  if (Option.isNone(url)) return yield* otherwise
  return yield* ask(url.value).pipe(
    Effect.catchIf(
      (error) => error instanceof CommandFailed,
      (error) => Effect.andThen(Console.error(`slipway: ${error.message} So this machine is checked, in place of SLIPWAY_URL.`), otherwise)
    )
  )
})

/** Sends a request to an address outside the public API; the JSON of its reply, as the schema describes it. */
export const send = Effect.fnUntraced(function*<A, I>(
  server: string,
  schema: Schema.Codec<A, I>,
  path: string,
  method: "GET" | "POST" | "DELETE" = "GET",
  body?: unknown
) {
  const found = yield* failing(async () => await (await ServerAccess.connect(server)).send(path, method, body))
  return yield* Effect.mapError(
    Schema.decodeUnknownEffect(schema)(found),
    () => new CommandFailed({ detail: `${server} does not answer as this version expects at ${path}.`, exitCode: ExitCode.unreachable })
  )
})

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

/** The failure as an Effect's error; anything else is a defect. */
export const failing = <A>(work: (signal: AbortSignal) => Promise<A>) =>
  Effect.tryPromise({ try: work, catch: (error) => error }).pipe(
    Effect.catch((error) => error instanceof ServerAccess.Failed ? Effect.fail(new CommandFailed(error.failure)) : Effect.die(error))
  )

/** The server's address in the form of stored keys. */
export const find = (given: Option.Option<string>) => failing(() => ServerAccess.addressOf(Option.getOrUndefined(given)))

export const unanswered = (server: string, error: unknown = null): CommandFailed =>
  new CommandFailed(ServerAccess.unanswered(server, error))

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

export interface Server {
  readonly url: string
  readonly client: SlipwayClient
  /** Runs a request of the client and maps its failures. It times out after 20 seconds, including retries. */
  readonly call: <A>(request: (signal: AbortSignal) => Promise<A>) => Effect.Effect<A, CommandFailed>
  /** As `call`, for a request with a file: only the time limit of the client holds. */
  readonly transfer: <A>(request: (signal: AbortSignal) => Promise<A>) => Effect.Effect<A, CommandFailed>
  /** The next event of a stream, without a time limit. */
  readonly next: <A>(events: AsyncIterator<A>) => Effect.Effect<IteratorResult<A>, CommandFailed>
}

/** The page of a sandbox. */
export const pageOf = ({ url }: Pick<Server, "url">, id: string): string => `${url}/sandboxes/${id}`

/** The server of the command, with its key. Sends no request. */
export const connect = Effect.fnUntraced(function*(given: Option.Option<string>) {
  const { client, failureOf, url } = yield* failing(() => ServerAccess.connect(Option.getOrUndefined(given)))
  const asked: Server["call"] = (request) =>
    Effect.tryPromise({ try: request, catch: (error) => error }).pipe(
      Effect.catch((error) => {
        const failure = failureOf(error)
        return failure === null ? Effect.die(error) : Effect.fail(new CommandFailed(failure))
      })
    )
  const call: Server["call"] = (request) =>
    Effect.timeoutOrElse(asked(request), {
      duration: ServerAccess.PATIENCE_MILLIS,
      orElse: () => Effect.fail(unanswered(url))
    })
  return { url, client, call, transfer: asked, next: (events) => asked(() => events.next()) } satisfies Server
})

// Ids -------------------------------------------------------------------------------------------------------------

const WHOLE = /^c_[a-z2-9]{12}$/u
const BEGINNING = /^c_[a-z2-9]{1,11}$/u
/** Pages of 100 sandboxes that are searched for an abbreviated id. A longer search would use up the key's rate limit. */
const MAX_PAGES = 10

const givenId = Argument.String("id").pipe(
  Argument.withDescription("Sandbox id or a unique prefix; default, in a terminal: choose from a list"),
  Argument.filter(
    (value) => WHOLE.test(value) || BEGINNING.test(value),
    (value) => `${value} is not a sandbox id (example: c_abcdefgh2345)`
  )
)

/** For {@link sandboxOf}. */
export const id = Argument.optional(givenId)
/** For {@link sandboxesOf}. */
export const ids = Argument.variadic(givenId)

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

const missing = new CommandFailed({ detail: "no sandbox: give its id. See: slipway ps", exitCode: ExitCode.unclear })

const chosen = (server: Server) =>
  Effect.flatMap(Effect.promise(() => import("./ChooseArgument.ts")), ({ sandbox }) => sandbox(server, missing))

/** The full id of the sandbox that the command line names, or that a person chooses in the terminal. */
export const sandboxOf = (server: Server, given: Option.Option<string>) =>
  Option.match(given, { onNone: () => chosen(server), onSome: (beginning) => resolve(server, beginning) })

/** As {@link sandboxOf}, for several sandboxes. A person chooses one. */
export const sandboxesOf = (server: Server, given: ReadonlyArray<string>) =>
  given.length === 0
    ? Effect.map(chosen(server), (id) => [id])
    : Effect.forEach(given, (beginning) => resolve(server, beginning))
