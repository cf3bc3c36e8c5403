/**
 * The supported part of devcontainer.json (https://containers.dev/implementors/json_reference, read 2026-11-23): the commands that
 * prepare a container, its variables and its image. All other keys are reported as ignored.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { text } from "../../text/Text.ts"
import { VariableName } from "../schema/VariableName.ts"
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

/** The values of the box that a file may refer to. */
export interface Surroundings {
  /** The path of the repository in the box. */
  readonly workspaceFolder: string
  /** The variables that the box itself sets, such as HOME and PATH. */
  readonly env: ReadonlyMap<string, string>
}

/** Arguments of a command that is a list. */
const MAX_ARGUMENTS = 256

const Line = text(0, MAX_COMMAND)
const Command = Schema.Union([Line, Schema.Array(Line).check(Schema.isMaxLength(MAX_ARGUMENTS))])
type Command = typeof Command.Type

/** One command, or several commands by name that run in parallel. */
const Lifecycle = Schema.Union([Command, Schema.Record(Schema.String, Command).check(Schema.isMaxProperties(MAX_COMMANDS))])
type Lifecycle = typeof Lifecycle.Type

const variables = <S extends Schema.Codec<string | null>>(value: S) =>
  Schema.Record(Schema.String, value).check(Schema.isMaxProperties(MAX_VARIABLES))

/** The supported keys of devcontainer.json. Unknown keys are kept, to be reported as ignored. */
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

/** Keys without meaning for the container, which are not reported. */
const SILENT: ReadonlySet<string> = new Set(["$schema", "name"])
/** The ignored keys that are reported: more than the reference defines. */
const MAX_IGNORED = 100

/** Matches `${name}` and `${name:variable:fallback}`. Other texts in such braces are left to the shell. */
const FOLDERS = "(?:containerWorkspaceFolder|localWorkspaceFolder)(?:Basename)?"
const VARIABLES = "(?:localEnv|env|containerEnv):([^:}]*)(?::([^}]*))?"
const VARIABLE = new RegExp("\\$\\{(" + FOLDERS + "|" + VARIABLES + ")\\}", "gu")

interface Replaced {
  readonly text: string
  /** The unavailable variables that the text refers to, such as `${localEnv:TOKEN}`. */
  readonly missing: ReadonlyArray<string>
}

/** There is no local machine: its variables are unset, and its folder is the repository. */
const replace = (given: string, { env, workspaceFolder }: Surroundings): Replaced => {
  const missing: Array<string> = []
  let added = 0
  const text = given.replace(VARIABLE, (whole: string, name: string, variable: string | undefined, fallback: string | undefined) => {
    if (name.endsWith("WorkspaceFolder")) return workspaceFolder
    if (name.endsWith("WorkspaceFolderBasename")) return workspaceFolder.split("/").at(-1) ?? ""
    const value = (name.startsWith("containerEnv:") ? env.get(variable ?? "") : undefined) ?? fallback
    added += value?.length ?? 0
    // Limits the growth of variables that refer to variables.
    if (value !== undefined && added <= MAX_VALUE) return value
    missing.push(shown(whole))
    return ""
  })
  return { text, missing }
}

type Variables = DevContainerFile["remoteEnv"]

/** Adds the variables that can be resolved to `env`. Returns the keys of the others with their missing variables. */
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
    ports: [],
    timeoutMinutes: DEFAULT_TIMEOUT,
    onFailure: "continue",
    image: file.image ?? null,
    ignored: [...ignored, ...unset].slice(0, MAX_IGNORED),
    source: "devcontainer"
  }
}

const decode = Schema.decodeUnknownResult(DevContainerFile)

/** The id of the container is known only in a box. */
const idIn = (file: DevContainerFile): string | undefined =>
  LIFECYCLE.find((key) => JSON.stringify([file[key]]).includes("${devcontainerId}"))

/** Reads a devcontainer.json. `file` is its name in errors. */
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
