/**
 * `slipway env run`: runs the setup of a repository once in a box on this machine, as a sandbox does before its agent starts.
 */
import { FILES } from "@slipway/domain/environment/rules/FindEnvironment"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import { Clock, Console, Effect, Schema } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import path from "node:path"
import { stripVTControlCharacters } from "node:util"
import * as SetupTrial from "../../service/SetupTrial.ts"
import * as Isolation from "../../settings/Isolation.ts"
import { columns, json, print } from "../terminal/Output.ts"
import { type Found, look } from "./EnvironmentLook.ts"
import * as GivenSecrets from "./GivenSecrets.ts"

const NOTHING = `No environment file: the repository has no ${FILES.join(", ")}. Sandboxes run no setup.\n` +
  `To run one, write ${FILES[0]}, for example {"setup": ["npm ci"]}, and check it with: slipway env check --working`

/** The text for a repository without an environment file. */
export const nothing = ({ unread }: { readonly unread: ReadonlyArray<string> }): string =>
  unread.length === 0 ? NOTHING : `${NOTHING}\nNot read, because there is no way to choose among several: ${visible(unread.join(", "))}. ` +
    `Move one to ${FILES[1]}, or write ${FILES[0]}.`

export const folder = Argument.Directory("folder", { mustExist: true }).pipe(
  Argument.withDescription("The repository: the top folder of a checkout, or a bare one"),
  Argument.withDefault(".")
)
export const working = Flag.Boolean("working").pipe(
  Flag.withDescription("Read the files as they are, not as HEAD has them"),
  Flag.withDefault(false)
)

/** The file needs secrets that were not given. Nothing was run. */
class SecretsNotGiven extends Schema.TaggedError<SecretsNotGiven>()("SecretsNotGiven", { names: Schema.Array(Schema.String) }) {
  override get message() {
    return `the setup gets ${this.names.join(", ")}, which ${this.names.length === 1 ? "was" : "were"} not given: ` +
      "name each with --secret, or put them into a file for --secrets-file"
  }
}

/** The setup's output was shown before. */
class SetupFailed extends Schema.TaggedError<SetupFailed>()("SetupFailed", { reason: Schema.String }) {
  override get message() {
    return `the setup failed: ${this.reason}`
  }
}

/** The exit code that shells use for SIGINT: 128 plus its number. */
const INTERRUPTED = 130

const interrupted = Effect.andThen(
  Effect.sync(() => {
    process.exitCode = INTERRUPTED
  }),
  Console.error("slipway: interrupted. Nothing of the sandbox is left.")
)

/** Makes the output of a repository's commands safe for a terminal. A carriage return begins a new line. */
const shown = (text: string): string => visible(stripVTControlCharacters(text).replaceAll(/\r\n?/gu, "\n"))

const UNITS = ["KiB", "MiB", "GiB"]
const size = (bytes: number): string => {
  let [value, unit] = [bytes, "B"]
  for (const larger of UNITS) {
    if (value < 1024) break
    ;[value, unit] = [value / 1024, larger]
  }
  return `${unit === "B" ? value : value.toFixed(1)} ${unit}`
}
const seconds = (millis: number): string => `${(millis / 1000).toFixed(1)} s`

interface Report extends Pick<Found, "file" | "commit"> {
  readonly state: "succeeded" | "failed"
  readonly problem: string | null
  readonly exitCode: number | null
  readonly ms: number
  readonly cache: ReadonlyArray<{ readonly path: string; readonly bytes: number | null; readonly problem: string | null }>
  readonly changed: ReadonlyArray<{ readonly path: string; readonly status: string }>
  readonly removed: ReadonlyArray<string>
  readonly egressRefused: ReadonlyArray<string>
  readonly secretsUnused: ReadonlyArray<string>
}

/** The first row of a subject names it. */
const rows = (subject: string, cells: ReadonlyArray<ReadonlyArray<string>>): ReadonlyArray<ReadonlyArray<string>> =>
  cells.map((row, i) => [i === 0 ? subject : "", ...row])

const table = ({ cache, changed, egressRefused, file, ms, removed, secretsUnused, state }: Report): string =>
  columns([
    ["file", file],
    ["setup", `${state} after ${seconds(ms)}`],
    ...rows(
      state === "succeeded" ? "kept" : "not kept",
      cache.map(({ bytes, path, problem }) => [path, problem ?? (bytes === null ? "" : size(bytes))])
    ),
    ...rows("changed", changed.map(({ path, status }) => [path, status])),
    ...rows("removed", removed.map((one) => [one, "may hold credentials"])),
    ...rows("egress", egressRefused.map((one) => [one, `not on ${Isolation.settings.egressAllow.name}`])),
    ...rows("secrets", secretsUnused.map((one) => [one, "given, and the file does not name it"]))
  ])

export const environmentRun = Command.make(
  "run",
  { folder, working, ...GivenSecrets.flags, json },
  ({ folder, json, working, ...given }) =>
    Effect.gen(function*() {
      const at = path.resolve(folder)
      const which = working ? "working" : "commit"
      const secrets = yield* GivenSecrets.read(given)
      const found = yield* look(at, which)
      if (found.file === null) return yield* print(json, found, () => nothing(found))
      const missing = found.secrets.filter((name) => !secrets.has(name))
      if (missing.length > 0) return yield* new SecretsNotGiven({ names: missing })

      const stream = json ? process.stderr : process.stdout
      let last = "\n"
      const write = (text: string) => {
        if (text !== "") last = text
        stream.write(text)
      }
      const began = yield* Clock.currentTimeMillis
      const tried = yield* SetupTrial.run({
        folder: at,
        which,
        secrets,
        began: (kind) =>
          Effect.sync(() =>
            write(`${path.basename(at)}, ${found.commit ?? "as its files are"}, ${kind === "none" ? "in no box" : `in a box (${kind})`}\n`)
          ),
        output: (text) => write(shown(text))
      })
      if (tried === null) return yield* print(json, { file: null, commit: found.commit, unread: [] }, () => NOTHING)
      if (!last.endsWith("\n")) write("\n")
      const report: Report = {
        file: found.file,
        commit: found.commit,
        state: tried.problem === null ? "succeeded" : "failed",
        ...tried,
        egressRefused: found.egress.filter(({ allowed }) => !allowed).map(({ name }) => name),
        secretsUnused: Array.from(secrets.keys()).filter((name) => !found.secrets.includes(name))
      }
      const all = (yield* Clock.currentTimeMillis) - began
      yield* print(json, { ...report, totalMs: all }, () => `\n${table(report)}\ntotal ${seconds(all)}, with box and clone`)
      if (tried.problem !== null) return yield* new SetupFailed({ reason: tried.problem })
    }).pipe(Effect.onInterrupt(() => interrupted))
).pipe(
  Command.withDescription(
    "Run the setup of a repository once, in a box on this machine, as a sandbox would: a fresh clone, the commands of " +
      `${FILES[0]} or else its devcontainer.json, with the isolation, limits, egress and time limit of a sandbox.\n\n` +
      "Shows the output without secret values, then the time taken, the cached folders, changed files of the repository, and removed " +
      "files with credentials. Exits with 1 if a command fails. Uses the settings of the service (slipway serve --help), which need not " +
      "run; keeps nothing."
  ),
  Command.withShortDescription("Run the setup of a repository once, in a box on this machine"),
  Command.withExamples([
    { command: "slipway env run", description: "HEAD of the repository in this folder" },
    { command: "slipway env run ~/src/shop --working", description: "With uncommitted changes" },
    { command: "slipway env run --secret NPM_TOKEN", description: "With a secret that the variable NPM_TOKEN has here" }
  ])
)
