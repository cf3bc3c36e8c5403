/** The file in which a repository describes its sandboxes: `.slipway/environment.json` (docs/decisions/17). */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { isGitPath, normalizePath } from "../../source/rules/FileRules.ts"
import { nearest } from "../../text/EditDistance.ts"
import { visible } from "../../text/EscapeInvisible.ts"
import { text } from "../../text/Text.ts"
import { cut, utf8Length } from "../../text/Utf8.ts"
import { isFree, isReserved, VariableName } from "../schema/VariableName.ts"
import * as CachePath from "./CachePath.ts"
import { destination } from "./Destination.ts"

/** The name of a secret is the environment variable of setup: upper case, at most 64 characters. */
export const SecretName = Schema.String.check(
  Schema.isPattern(/^[A-Z_][A-Z0-9_]{0,63}$/u, {
    expected: "a name of capital letters, digits and _, not a digit first, at most 64 characters"
  }),
  isFree
)
export type SecretName = typeof SecretName.Type

/** Bytes of the file. For comparison: the package.json of a repository has a few KiB. */
export const MAX_FILE_BYTES = 64 * 1024
/** The error text for a larger file. */
export const TOO_LARGE = `is larger than ${MAX_FILE_BYTES / 1024} KiB`
/** Characters of a command: at most 32 KiB in UTF-8, a quarter of what Linux takes as one argument (`MAX_ARG_STRLEN`). */
export const MAX_COMMAND = 8_192
/** Commands of a setup, caches, and files of a cache key: far more than a person writes by hand. */
export const MAX_COMMANDS = 64
/** Folders that are cached. */
export const MAX_CACHES = 32
/** Files of a cache key. */
export const MAX_KEY_FILES = 64
/** Characters of a path: at most `PATH_MAX` of Linux, 4,096 bytes, in UTF-8. */
export const MAX_PATH = 1_023
/** Variables, and characters of a value. With the file's 64 KiB they stay below a quarter of `ARG_MAX`. */
export const MAX_VARIABLES = 100
/** Characters of the value of a variable. */
export const MAX_VALUE = 8_192
/** The limit of secrets of a repository. */
export const MAX_SECRETS = 100
/** Network destinations. */
export const MAX_DESTINATIONS = 100
/** Ports with a preview. */
export const MAX_PORTS = 10
/** Characters of a port's label. */
export const MAX_LABEL = 40
/** Minutes that a setup may take by default. */
export const DEFAULT_TIMEOUT = 10

const About = (description: string) => ({ description })

/** Accepts values without a problem by `problemOf`. `pattern` is a weaker test for JSON Schema. */
const rule = (pattern: string, problemOf: (value: string) => string | undefined) =>
  Schema.makeFilter(problemOf, { toJsonSchema: () => ({ pattern }) })

/** Neither a pattern nor an absolute path. */
const RELATIVE = "^[^/*][^*]*$"

/** The end of a failed setup: the boot fails, or the agent starts anyway. */
export const OnFailure = Schema.Literals(["fail", "continue"])
export type OnFailure = typeof OnFailure.Type

const Command = text(1, MAX_COMMAND).check(rule("\\S", (command) => command.trim() === "" ? "is empty" : undefined))

const Cache = text(1, MAX_PATH).check(rule(RELATIVE, (path) => {
  const parsed = CachePath.parse(path)
  return Result.isFailure(parsed) ? parsed.failure : undefined
}))

const KeyFile = text(1, MAX_PATH).check(rule(RELATIVE, (path) => {
  const normalized = normalizePath(path)
  if (path.startsWith("/")) return "starts with /: name a file in the tree"
  if (Result.isFailure(normalized)) return "climbs out of the tree"
  if (path.includes("*")) return "is a pattern: name each file"
  if (normalized.success === "") return "is the whole of the tree"
  return isGitPath(path) ? "is git's own" : undefined
}))

const Destination = Schema.String.check(
  rule(
    "^[A-Za-z0-9.-]{1,253}:[0-9]{1,5}$",
    (entry) => destination(entry) === undefined ? "is no name with a port, such as registry.npmjs.org:443" : undefined
  )
)

/** Ports below are for servers with rights that sandboxes do not have. */
const Port = Schema.Int.check(Schema.isBetween({ minimum: 1024, maximum: 65_535 }))

const DeclaredPort = Schema.Union([Port, Schema.Struct({ port: Port, label: text(1, MAX_LABEL) })])

const portOf = (declared: typeof DeclaredPort.Type): number => typeof declared === "number" ? declared : declared.port

/** Refuses a list with two equal items. `problem` gets the position of the first. */
const once = <T>(same: (a: T, b: T) => boolean, problem: (first: number) => string) =>
  Schema.makeFilter((all: ReadonlyArray<T>) => {
    for (const [i, one] of all.entries()) {
      const first = all.findIndex((other) => same(one, other))
      if (first < i) return { path: [i], issue: problem(first) }
    }
    return undefined
  }, { toJsonSchema: () => [{}, true] })

const cachesOverlap = (a: string, b: string): boolean => {
  const [one, other] = [CachePath.parse(a), CachePath.parse(b)]
  return Result.isSuccess(one) && Result.isSuccess(other) && CachePath.overlap(one.success, other.success)
}

/** The schema of the file. */
export const EnvironmentFile = Schema.Struct({
  $schema: Schema.optionalKey(text(0, MAX_PATH)).annotateKey(About("Where editors find this schema.")),
  setup: Schema.optionalKey(Schema.Array(Command).check(Schema.isMaxLength(MAX_COMMANDS))).annotateKey(
    About("Commands, each run once by /bin/sh in the repository's folder before the agent starts, in this order.")
  ),
  cache: Schema.optionalKey(
    Schema.Array(Cache).check(
      Schema.isMaxLength(MAX_CACHES),
      once(cachesOverlap, (first) => `is, holds or lies in cache[${first}]`)
    )
  ).annotateKey(About("Folders that setup fills, kept for the next sandbox: ignored ones of the tree, or ~/... below the home.")),
  cacheKey: Schema.optionalKey(Schema.Array(KeyFile).check(Schema.isMaxLength(MAX_KEY_FILES))).annotateKey(
    About("Files whose content names the cache, with setup and the machine's image. Without it, the lock files found in the tree.")
  ),
  env: Schema.optionalKey(Schema.Record(VariableName, text(0, MAX_VALUE)).check(Schema.isMaxProperties(MAX_VARIABLES))).annotateKey(
    About("Plain variables for setup and the agent.")
  ),
  secrets: Schema.optionalKey(
    Schema.Array(SecretName).check(
      Schema.isMaxLength(MAX_SECRETS),
      once<string>((a, b) => a === b, (first) => `is secrets[${first}] again`)
    )
  ).annotateKey(About("Names of secrets that setup gets as variables. The agent never does.")),
  egress: Schema.optionalKey(Schema.Array(Destination).check(Schema.isMaxLength(MAX_DESTINATIONS))).annotateKey(
    About("What the repository would like to reach, as name:port. The operator decides what of it can be.")
  ),
  ports: Schema.optionalKey(
    Schema.Array(DeclaredPort).check(
      Schema.isMaxLength(MAX_PORTS),
      once<typeof DeclaredPort.Type>((a, b) => portOf(a) === portOf(b), (first) => `is ports[${first}] again`)
    )
  ).annotateKey(About("Ports of the sandbox whose servers people may open in a browser, as 3000 or { port: 3000, label: \"App\" }.")),
  timeoutMinutes: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 60 }))).annotateKey(
    About(`Minutes that setup may take: 1 to 60, by default ${DEFAULT_TIMEOUT}.`)
  ),
  onFailure: Schema.optionalKey(OnFailure).annotateKey(
    About("When a command of setup fails: the sandbox fails, or the agent is told and goes on (the default).")
  )
}).check(
  Schema.makeFilter(({ env = {}, secrets = [] }: { readonly env?: object; readonly secrets?: ReadonlyArray<string> }) => {
    const i = secrets.findIndex((name) => Object.hasOwn(env, name))
    return i === -1 ? undefined : { path: ["secrets", i], issue: "is in env too" }
  }, { toJsonSchema: () => [{}, true] })
).annotate({ identifier: "EnvironmentFile" })
export type EnvironmentFile = typeof EnvironmentFile.Type

/**
 * JSON Schema (draft 2020-12) of `.slipway/environment.json`. Rules that a schema cannot express, such as paths with `..`, are checked
 * later.
 */
export const jsonSchema = () => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(EnvironmentFile, { onExcessProperty: "error" })
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "What the sandboxes of a repository need",
    ...schema,
    $defs: definitions
  }
}

/** One program with its arguments. It starts in the repository's folder. */
export interface SetupCommand {
  /** Its key in the file, such as `setup[2]`. */
  readonly key: string
  readonly argv: readonly [program: string, ...args: ReadonlyArray<string>]
}

/** A port of the box with a preview. */
export interface PreviewPort {
  readonly port: number
  /** For people; `null`: none. */
  readonly label: string | null
}

/** The requirements of a repository's sandboxes. */
export interface Environment {
  /** Steps in order. The commands of one step run in parallel. */
  readonly setup: ReadonlyArray<ReadonlyArray<SetupCommand>>
  readonly cache: ReadonlyArray<CachePath.CachePath>
  /** Normalised paths of the tree; `null`: the lock files of the tree. */
  readonly cacheKey: ReadonlyArray<string> | null
  readonly env: Readonly<Record<string, string>>
  readonly secrets: ReadonlyArray<SecretName>
  /** `name:port` in lower case. */
  readonly egress: ReadonlyArray<string>
  /** Ports that people may open in a browser. */
  readonly ports: ReadonlyArray<PreviewPort>
  readonly timeoutMinutes: number
  readonly onFailure: OnFailure
  /** The container image that the file asks for; `null`: no image. */
  readonly image: string | null
  /** Keys of the file without effect here. */
  readonly ignored: ReadonlyArray<string>
  readonly source: "slipway" | "devcontainer"
}

/** The file is invalid, and none of its settings is used. Retrying does not help. */
export class EnvironmentInvalid extends Schema.TaggedError<EnvironmentInvalid>()("EnvironmentInvalid", {
  /** The path of the file in the tree. */
  file: Schema.String,
  /** The invalid key, as `setup[2]` or `env.NAME`; "": the whole file. */
  key: Schema.String,
  problem: Schema.String
}) {
  override get message() {
    return [this.file, this.key, this.problem].filter((part) => part !== "").join(": ")
  }
}

/** Characters of a user's name in an error. */
const MAX_NAME = 64
/** Bytes of a parser's message in an error. */
const MAX_REASON = 200
/** A name from a file, made safe for display and cut to 64 bytes. */
export const shown = (name: string): string => cut(visible(name), MAX_NAME, "…")

/** Formats a path of the schema, such as `setup[2]` or `env.NODE_ENV`. */
export const keyOf = (path: ReadonlyArray<PropertyKey>): string =>
  path.map((part, i) => typeof part === "number" ? `[${part}]` : `${i === 0 ? "" : "."}${shown(String(part))}`).join("")

const format = SchemaIssue.makeFormatterStandardSchemaV1()
const EXCESS = "Expected no excess property"

/** The error for the first problem of the file. */
export const invalid = (file: string, issue: SchemaIssue.Issue, known: ReadonlyArray<string>): EnvironmentInvalid => {
  const first = format(issue).issues[0]!
  const path = (first.path ?? []).map((part) => typeof part === "object" ? part.key : part)
  const name = String(path.at(-1))
  const problem = () => {
    if (path.length === 0) return "is no JSON object"
    if (first.message !== EXCESS) return first.message.replace("Expected", "expected")
    if (path.length > 1) return isReserved(name) ? "is set by the service itself" : "is no name of a variable"
    const meant = nearest(shown(name), known)
    return `is not known.${meant === null ? "" : ` Did you mean ${meant}?`}`
  }
  return new EnvironmentInvalid({ file, key: keyOf(path), problem: problem() })
}

/** Parses the JSON of a file with limited size by `parse`. */
export const parseFile = (
  file: string,
  content: string,
  parse: (content: string) => unknown
): Result.Result<unknown, EnvironmentInvalid> => {
  const refuse = (problem: string) => new EnvironmentInvalid({ file, key: "", problem })
  if (utf8Length(content) > MAX_FILE_BYTES) return Result.fail(refuse(TOO_LARGE))
  return Result.try({
    try: () => parse(content.replace(/^\ufeff/u, "")),
    catch: (error) => refuse(`is no JSON: ${error instanceof Error ? cut(visible(error.message), MAX_REASON, "…") : "it cannot be read"}`)
  })
}

const decode = Schema.decodeUnknownResult(EnvironmentFile, { onExcessProperty: "error" })
const KEYS = Object.keys(EnvironmentFile.fields)

/** The arguments that run a command given as one line. */
export const shell = (command: string): SetupCommand["argv"] => ["/bin/sh", "-c", command]

const normalized = (path: string): string => Result.getOrElse(normalizePath(path), () => path)

const fromFile = (file: EnvironmentFile): Environment => ({
  setup: (file.setup ?? []).map((command, i) => [{ key: `setup[${i}]`, argv: shell(command) }]),
  cache: (file.cache ?? []).flatMap((path) => Result.match(CachePath.parse(path), { onFailure: () => [], onSuccess: (one) => [one] })),
  cacheKey: file.cacheKey === undefined ? null : Array.from(new Set(file.cacheKey.map(normalized))),
  env: file.env ?? {},
  secrets: file.secrets ?? [],
  egress: Array.from(new Set((file.egress ?? []).map((entry) => entry.toLowerCase()))),
  ports: (file.ports ?? []).map((one) => typeof one === "number" ? { port: one, label: null } : one),
  timeoutMinutes: file.timeoutMinutes ?? DEFAULT_TIMEOUT,
  onFailure: file.onFailure ?? "continue",
  image: null,
  ignored: [],
  source: "slipway"
})

/** Reads `.slipway/environment.json`. `file` is its name in errors. */
export const readEnvironment = (file: string, content: string): Result.Result<Environment, EnvironmentInvalid> =>
  Result.flatMap(
    parseFile(file, content, JSON.parse),
    (value) => Result.mapBoth(decode(value), { onFailure: ({ issue }) => invalid(file, issue, KEYS), onSuccess: fromFile })
  )
