/** `slipway conformance`: checks the rules of the interface on any server, over HTTP alone. */
import { errorOf, scoreCard, totals, type Verdict } from "@slipway/conformance/ScoreCard"
import * as Suite from "@slipway/conformance/Suite"
import { Session, World } from "@slipway/conformance/World"
import { RepoName } from "@slipway/domain/source/RepoRef"
import { Clock, Config, Console, Effect, Option, Redacted, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { styleText } from "node:util"
import * as Credentials from "./Credentials.ts"
import { find, signInHint } from "./Server.ts"

/** The server does not follow every rule. */
class NotConformant extends Schema.TaggedError<NotConformant>()("NotConformant", { missed: Schema.Int }) {
  override get message() {
    return `the server misses ${this.missed} ${this.missed === 1 ? "rule" : "rules"}.`
  }
}
/** The suite cannot begin. */
class CannotCheck extends Schema.TaggedError<CannotCheck>()("CannotCheck", { reason: Schema.String }) {
  override get message() {
    return this.reason
  }
}

/** What shells make of a SIGINT: 128 and its number. */
const INTERRUPTED = 130

/** A run that was cut short says nothing about the server. By the exit code: an interrupted fiber's failures are dropped. */
const interrupted = Effect.andThen(
  Effect.sync(() => {
    process.exitCode = INTERRUPTED
  }),
  Console.error("slipway: interrupted, so there is no score card.")
)

/** Progress goes to standard error, where it does not mix with the result. */
const say = (text: string) => {
  process.stderr.write(process.stderr.isTTY ? `\r\u001b[2K${text}` : "")
}

const Address = Schema.String.check(
  Schema.makeFilter((value: string) => URL.canParse(value) && /^https?:\/\//u.test(value), {
    expected: "an http or https address"
  })
)

const key = (flag: string, variable: string, about: string) =>
  Flag.Redacted(flag).pipe(
    Flag.withDescription(`${about}. Better set ${variable}: arguments show in lists of processes`),
    Flag.withFallbackConfig(Config.Redacted(variable)),
    Flag.optional
  )

const shown = Option.match({ onNone: () => null, onSome: (value: Redacted.Redacted) => Redacted.value(value) })

/** Asks once before all, so that a wrong address or key is one line and not a long score card. */
const reach = ({ setup }: Session, url: string) =>
  Effect.gen(function*() {
    const reply = yield* Effect.tryPromise({
      try: () => setup.ask("/api/public/v1/sandboxes?limit=1"),
      catch: (error) => new CannotCheck({ reason: `nothing answers at ${url}: ${errorOf(error)}.` })
    })
    if (reply.status === 401) {
      return yield* new CannotCheck({ reason: `the server does not accept the key. Sign in again: ${signInHint(url)}` })
    }
  })

const check = Effect.fnUntraced(function*(session: Session, url: string, only: string | null) {
  const rules = Suite.select(only)
  if (rules.length === 0) return yield* new CannotCheck({ reason: `there is no area or rule ${only}.` })
  yield* reach(session, url)
  const world = new World(session)
  const verdicts: Array<Verdict> = []
  for (const [i, rule] of rules.entries()) {
    say(`${i + 1}/${rules.length}  ${rule.id}`)
    verdicts.push(yield* Effect.promise(() => Suite.judge(rule, world)))
  }
  world.http.close()
  return verdicts
})

export const conformance = Command.make("conformance", {
  url: Argument.String("url").pipe(
    Argument.withDescription("Address of the server, as http://127.0.0.1:4000"),
    Argument.withSchema(Address)
  ),
  key: key("key", "SLIPWAY_API_KEY", "API key to check with"),
  otherKey: key(
    "other-key",
    "SLIPWAY_OTHER_API_KEY",
    "API key of another grant: without it, what concerns two grants is skipped"
  ),
  noScopeKey: key(
    "no-scope-key",
    "SLIPWAY_NO_SCOPE_API_KEY",
    "API key without the scope sandboxes: without it, what concerns scopes is skipped"
  ),
  repos: Flag.String("repo").pipe(
    Flag.withDescription(
      "Repository to work and publish in, owner/name, with a file in its top folder; give two for all rules"
    ),
    Flag.withSchema(RepoName),
    Flag.atMost(2)
  ),
  only: Flag.String("only").pipe(Flag.withDescription("Areas or rules to check, by comma"), Flag.optional),
  slow: Flag.Boolean("slow").pipe(
    Flag.withDescription("Also rules that take long: heartbeats"),
    Flag.withDefault(false)
  ),
  json: Flag.Boolean("json").pipe(
    Flag.withDescription("Print one JSON value instead of a score card"),
    Flag.withDefault(false)
  )
}, ({ json, key: givenKey, noScopeKey, only, otherKey, repos, slow, url: given }) =>
  Effect.gen(function*() {
    const url = given.replace(/(?<!\/)\/+$/u, "")
    const key = Option.isSome(givenKey) ? givenKey : yield* Credentials.find(yield* find(Option.some(url)))
    if (Option.isNone(key)) return yield* new CannotCheck({ reason: `there is no key for ${url}. Sign in: ${signInHint(url)}` })
    const started = yield* Clock.currentTimeMillis
    const session = new Session({
      url,
      key: Redacted.value(key.value),
      otherKey: shown(otherKey),
      noScopeKey: shown(noScopeKey),
      repos,
      slow,
      heartbeatMillis: 20_000,
      onWait: (seconds) => say(`waiting ${seconds} s for the server's rate limit`)
    })
    const verdicts = yield* Effect.acquireUseRelease(
      Effect.succeed(session),
      () => check(session, url, Option.getOrNull(only)),
      () => {
        say("ending what was made")
        return Effect.andThen(Effect.ignore(Effect.tryPromise(() => session.end())), Effect.sync(() => say("")))
      }
    ).pipe(Effect.onInterrupt(() => interrupted))
    const seconds = ((yield* Clock.currentTimeMillis) - started) / 1000
    const counted = totals(verdicts)
    yield* Console.log(
      json
        ? JSON.stringify({ url, seconds, ...counted, rules: verdicts })
        : scoreCard(verdicts, seconds, (style, text) => styleText(style, text, { stream: process.stdout }))
    )
    if (counted.missed > 0) return yield* new NotConformant({ missed: counted.missed })
  })).pipe(
    Command.withDescription(
      "Check the rules of the interface on a server, whoever wrote it, over HTTP alone.\n\n" +
        "Makes some 60 sandboxes with the model offline/demo and terminates them. Sends some 800 requests and waits " +
        "when the server says that there were too many: minutes with the default limit of 120 a minute, seconds " +
        "with a higher one."
    ),
    Command.withShortDescription("Check the rules of the interface on a server"),
    Command.withExamples([{
      command: "SLIPWAY_API_KEY=… SLIPWAY_OTHER_API_KEY=… slipway conformance http://127.0.0.1:4000 --repo acme/shop",
      description: "Most of it; without the other key and the repository less"
    }])
  )
