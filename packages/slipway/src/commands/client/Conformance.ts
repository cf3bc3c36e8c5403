/** `slipway conformance`: checks a server against the rules of the interface, over HTTP only. */
import { errorOf } from "@slipway/conformance/client/ErrorText"
import * as Names from "@slipway/conformance/client/Names"
import type { Rule } from "@slipway/conformance/rules/Rule"
import { scoreCard, totals, type Verdict } from "@slipway/conformance/ScoreCard"
import * as Suite from "@slipway/conformance/Suite"
import { Session, World } from "@slipway/conformance/world/World"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Clock, Config, Console, Effect, Option, Redacted, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { readFileSync } from "node:fs"
import { styleText } from "node:util"
import * as Credentials from "./Credentials.ts"
import { find, signInHint } from "./server/Server.ts"

/** The server breaks a rule. */
class NotConformant extends Schema.TaggedError<NotConformant>()("NotConformant", { missed: Schema.Int }) {
  override get message() {
    return `the server misses ${this.missed} ${this.missed === 1 ? "rule" : "rules"}.`
  }
}
/** Some rules could not be checked, because their preconditions were not met. */
class NotChecked extends Schema.TaggedError<NotChecked>()("NotChecked", { unmade: Schema.Array(Schema.String) }) {
  override get message() {
    return `not all could be checked: these sandboxes did not come up: ${this.unmade.join(", ")}. A slow server needs a higher --timeout.`
  }
}
/** The checks cannot start. */
class CannotCheck extends Schema.TaggedError<CannotCheck>()("CannotCheck", { reason: Schema.String }) {
  override get message() {
    return this.reason
  }
}

/** The exit code that shells use for SIGINT: 128 plus its number. */
const INTERRUPTED = 130

/** Sets the exit code directly, because failures of an interrupted fiber are dropped. */
const interrupted = (checked: number, all: number) =>
  Effect.andThen(
    Effect.sync(() => {
      process.exitCode = INTERRUPTED
    }),
    Console.error(`slipway: interrupted after ${checked} of ${all} rules.`)
  )

/** Reads the names that the interface leaves open from a file. */
const namesIn = (file: Option.Option<string>, anyCode: boolean) =>
  Effect.gen(function*() {
    if (Option.isNone(file)) return { ...Names.OURS, anyCode }
    const text = yield* Effect.try({
      try: () => readFileSync(file.value, "utf8"),
      catch: (error) => new CannotCheck({ reason: `${file.value} cannot be read: ${errorOf(error)}.` })
    })
    const names = Names.parse(text)
    if (typeof names === "string") return yield* new CannotCheck({ reason: `${file.value} has no names: ${names}.` })
    return { ...names, anyCode }
  })

/** Writes progress to standard error, apart from the result. */
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

/** Sends one request first, so that a wrong address or key gives one line instead of a long report. */
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

/** Adds results to `verdicts`, so that they can be reported however the run ends. */
const check = Effect.fnUntraced(function*(session: Session, url: string, rules: ReadonlyArray<Rule>, verdicts: Array<Verdict>) {
  yield* reach(session, url)
  const world = new World(session)
  for (const [i, rule] of rules.entries()) {
    say(`${i + 1}/${rules.length}  ${rule.id}`)
    verdicts.push(yield* Effect.promise(() => Suite.judge(rule, world)))
  }
  world.http.close()
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
    "API key of another grant: without it, rules about two grants are skipped"
  ),
  noScopeKey: key(
    "no-scope-key",
    "SLIPWAY_NO_SCOPE_API_KEY",
    "API key without the scope sandboxes: without it, rules about scopes are skipped"
  ),
  repos: Flag.String("repo").pipe(
    Flag.withDescription(
      "Repository to work and publish in, owner/name, with a file in its top folder; two are needed for all rules"
    ),
    Flag.withSchema(RepoName),
    Flag.atMost(2)
  ),
  only: Flag.String("only").pipe(
    Flag.withDescription("Areas or rules to check, by comma; contract: only docs/interface.md"),
    Flag.optional
  ),
  model: Flag.String("model").pipe(
    Flag.withDescription("Model whose agent follows the directives in its prompts"),
    Flag.withDefault("offline/demo")
  ),
  timeout: Flag.Int("timeout").pipe(
    Flag.withDescription("Seconds for an answer of the server or its agent"),
    Flag.filter((seconds) => seconds >= 1 && seconds <= 3600, () => "--timeout is 1 to 3600 seconds"),
    Flag.withDefault(30)
  ),
  names: Flag.String("names").pipe(
    Flag.withDescription("File with what the interface leaves open, as this server has it: parameters, decision, codes, directives (JSON)"),
    Flag.optional
  ),
  slow: Flag.Boolean("slow").pipe(
    Flag.withDescription("Also slow rules (heartbeats)"),
    Flag.withDefault(false)
  ),
  json: Flag.Boolean("json").pipe(
    Flag.withDescription("Print one JSON value instead of a score card"),
    Flag.withDefault(false)
  )
}, ({ json, key: givenKey, model, names: file, noScopeKey, only, otherKey, repos, slow, timeout, url: given }) =>
  Effect.gen(function*() {
    const url = given.replace(/(?<!\/)\/+$/u, "")
    const key = Option.isSome(givenKey) ? givenKey : yield* Credentials.find(yield* find(Option.some(url)))
    if (Option.isNone(key)) return yield* new CannotCheck({ reason: `there is no key for ${url}. Sign in: ${signInHint(url)}` })
    const wanted = Option.getOrNull(only)
    const rules = Suite.select(wanted)
    if (rules.length === 0) return yield* new CannotCheck({ reason: `there is no area or rule ${wanted}.` })
    const contract = wanted === Suite.CONTRACT
    const names = yield* namesIn(file, contract)
    const started = yield* Clock.currentTimeMillis
    const session = new Session({
      url,
      key: Redacted.value(key.value),
      otherKey: shown(otherKey),
      noScopeKey: shown(noScopeKey),
      repos,
      slow,
      model,
      names,
      contract,
      timeoutMillis: timeout * 1000,
      heartbeatMillis: 20_000,
      onWait: (seconds) => say(`waiting ${seconds} s for the server's rate limit`)
    })
    const verdicts: Array<Verdict> = []
    const tell = Effect.gen(function*() {
      const seconds = ((yield* Clock.currentTimeMillis) - started) / 1000
      yield* Console.log(
        json
          ? JSON.stringify({ url, seconds, ...totals(verdicts), rules: verdicts })
          : scoreCard(verdicts, seconds, (style, text) => styleText(style, text, { stream: process.stdout }))
      )
    })
    yield* Effect.acquireUseRelease(
      Effect.succeed(session),
      () => check(session, url, rules, verdicts),
      () => {
        say("ending what was made")
        return Effect.andThen(Effect.ignore(Effect.tryPromise(() => session.end())), Effect.sync(() => say("")))
      }
    ).pipe(
      Effect.onInterrupt(() => Effect.andThen(tell, interrupted(verdicts.length, rules.length)))
    )
    yield* tell
    const { missed } = totals(verdicts)
    if (missed > 0) return yield* new NotConformant({ missed })
    if (session.unmade.size > 0) return yield* new NotChecked({ unmade: [...session.unmade] })
  })).pipe(
    Command.withDescription(
      "Check the rules of the interface on any server, over HTTP alone.\n\n" +
        "Makes and terminates some 60 sandboxes. Sends some 800 requests and obeys the server's rate limit: " +
        "minutes at the default of 120 a minute, seconds at a higher one."
    ),
    Command.withExamples([{
      command: "SLIPWAY_API_KEY=… SLIPWAY_OTHER_API_KEY=… slipway conformance http://127.0.0.1:4000 --repo acme/shop",
      description: "Most of it; without the other key and the repository less"
    }])
  )
