/**
 * What counts of a devcontainer.json (https://containers.dev/implementors/json_reference, read 2026-11-23): the commands
 * that make a container ready, its variables and its image. The rest is named as ignored.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import {
  DEFAULT_TIMEOUT,
  type Environment,
  EnvironmentInvalid,
  invalid,
  MAX_COMMAND,
  MAX_COMMANDS,
  MAX_VALUE,
  MAX_VARIABLES,
  parseFile,
  type SetupCommand,
  shell,
  shown
} from "./Environment.ts"
import * as JsonWithComments from "./JsonWithComments.ts"
import { VariableName } from "./VariableName.ts"

/** What a box is, for the variables that a file may name. */
export interface Surroundings {
  /** Where the repository lies in the box. */
  readonly workspaceFolder: string
  /** What the box sets itself: its HOME and PATH. */
  readonly env: ReadonlyMap<string, string>
}

/** Arguments of a command that is written as a list. */
const MAX_ARGUMENTS = 256

const Line = text(0, MAX_COMMAND)
const Command = Schema.Union([Line, Schema.Array(Line).check(Schema.isMaxLength(MAX_ARGUMENTS))])
type Command = typeof Command.Type

/** One command, or several by name that run side by side. */
const Lifecycle = Schema.Union([Command, Schema.Record(Schema.String, Command).check(Schema.isMaxProperties(MAX_COMMANDS))])
type Lifecycle = typeof Lifecycle.Type

const variables = <S extends Schema.Codec<string | null>>(value: S) =>
  Schema.Record(Schema.String, value).check(Schema.isMaxProperties(MAX_VARIABLES))

export const DevContainerFile = Schema.Struct({
  onCreateCommand: Schema.optionalKey(Lifecycle),
  updateContentCommand: Schema.optionalKey(Lifecycle),
  postCreateCommand: Schema.optionalKey(Lifecycle),
  containerEnv: Schema.optionalKey(variables(text(0, MAX_VALUE))),
  remoteEnv: Schema.optionalKey(variables(Schema.NullOr(text(0, MAX_VALUE)))),
  image: Schema.optionalKey(text(1, 255))
}).annotate({ identifier: "DevContainerFile" })
export type DevContainerFile = typeof DevContainerFile.Type

/** In the order in which they run. */
const LIFECYCLE = ["onCreateCommand", "updateContentCommand", "postCreateCommand"] as const

/** Says nothing of what a container needs. */
const SILENT: ReadonlySet<string> = new Set(["$schema", "name"])
/** Ignored keys that are named: more than the reference has. */
const MAX_IGNORED = 100

/** `${name}` and `${name:variable:fallback}`; what else stands between such braces is left to the shell. */
const FOLDERS = "(?:containerWorkspaceFolder|localWorkspaceFolder)(?:Basename)?"
const VARIABLES = "(?:localEnv|env|containerEnv):([^:}]*)(?::([^}]*))?"
const VARIABLE = new RegExp("\\$\\{(" + FOLDERS + "|" + VARIABLES + ")\\}", "gu")

interface Replaced {
  readonly text: string
  /** What the text needs and nobody has here, such as `${localEnv:TOKEN}`. */
  readonly missing: ReadonlyArray<string>
}

/** There is no local machine: its variables are not set, its folder is the repository. */
const replace = (given: string, { env, workspaceFolder }: Surroundings): Replaced => {
  const missing: Array<string> = []
  let added = 0
  const text = given.replace(VARIABLE, (whole: string, name: string, variable: string | undefined, fallback: string | undefined) => {
    if (name.endsWith("WorkspaceFolder")) return workspaceFolder
    if (name.endsWith("WorkspaceFolderBasename")) return workspaceFolder.split("/").at(-1) ?? ""
    const value = (name.startsWith("containerEnv:") ? env.get(variable ?? "") : undefined) ?? fallback
    added += value?.length ?? 0
    // Variables of variables would otherwise grow without end.
    if (value !== undefined && added <= MAX_VALUE) return value
    missing.push(shown(whole))
    return ""
  })
  return { text, missing }
}

type Variables = DevContainerFile["remoteEnv"]

/** Adds the variables that can be set to `env`; the keys of the others, with what they lack. */
const set = (
  env: Map<string, string>,
  key: "containerEnv" | "remoteEnv",
  given: Variables,
  surroundings: Surroundings
): ReadonlyArray<string> =>
  Object.entries(given ?? {}).flatMap(([name, value]) => {
    if (!Schema.is(VariableName)(name)) return [`${key}.${shown(name)}`]
    if (value === null) {
      env.delete(name)
      return []
    }
    const { missing, text } = replace(value, { ...surroundings, env: new Map([...surroundings.env, ...env]) })
    if (missing.length === 0) env.set(name, text)
    return missing.length === 0 ? [] : [`${key}.${name} (${missing[0]})`]
  })

const isList = (lifecycle: Lifecycle): lifecycle is ReadonlyArray<string> => Array.isArray(lifecycle)

const argvOf = (command: Command, surroundings: Surroundings): SetupCommand["argv"] | null => {
  if (typeof command === "string") return command.trim() === "" ? null : shell(replace(command, surroundings).text)
  const [program, ...args] = command.map((argument) => replace(argument, surroundings).text)
  return program === undefined || program === "" ? null : [program, ...args]
}

const stepOf = (key: string, lifecycle: Lifecycle, surroundings: Surroundings): ReadonlyArray<SetupCommand> => {
  const commands: ReadonlyArray<readonly [string, Command]> = typeof lifecycle === "string" || isList(lifecycle)
    ? [[key, lifecycle]]
    : Object.entries(lifecycle).map(([name, command]) => [`${key}.${shown(name)}`, command])
  return commands.flatMap(([key, command]) => {
    const argv = argvOf(command, surroundings)
    return argv === null ? [] : [{ key, argv }]
  })
}

const fromFile = (file: DevContainerFile, keys: ReadonlyArray<string>, surroundings: Surroundings): Environment => {
  const env = new Map<string, string>()
  const unset = [...set(env, "containerEnv", file.containerEnv, surroundings), ...set(env, "remoteEnv", file.remoteEnv, surroundings)]
  const ignored = keys.filter((key) => !SILENT.has(key) && !Object.hasOwn(DevContainerFile.fields, key)).map(shown)
  return {
    setup: LIFECYCLE.map((key) => stepOf(key, file[key] ?? "", { ...surroundings, env: new Map([...surroundings.env, ...env]) }))
      .filter((step) => step.length > 0),
    cache: [],
    cacheKey: null,
    env: Object.fromEntries(env),
    secrets: [],
    egress: [],
    timeoutMinutes: DEFAULT_TIMEOUT,
    onFailure: "continue",
    image: file.image ?? null,
    ignored: [...ignored, ...unset].slice(0, MAX_IGNORED),
    source: "devcontainer"
  }
}

const decode = Schema.decodeUnknownResult(DevContainerFile)

/** No machine but a box knows an id of its container. */
const idIn = (file: DevContainerFile): string | undefined =>
  LIFECYCLE.find((key) => JSON.stringify(file[key] ?? "").includes("${devcontainerId}"))

/** Reads a devcontainer.json; `file` is what errors call it. */
export const readDevContainer = (
  file: string,
  content: string,
  surroundings: Surroundings
): Result.Result<Environment, EnvironmentInvalid> =>
  Result.flatMap(
    parseFile(file, content, JsonWithComments.parse),
    (value) =>
      Result.flatMap(Result.mapError(decode(value), ({ issue }) => invalid(file, issue, [])), (decoded) => {
        const key = idIn(decoded)
        if (key !== undefined) return Result.fail(new EnvironmentInvalid({ file, key, problem: "${devcontainerId} is not known here" }))
        return Result.succeed(fromFile(decoded, Object.keys(value as object), surroundings))
      })
  )
