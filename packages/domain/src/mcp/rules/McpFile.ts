/**
 * A repository's own `.mcp.json` (docs/decisions/23), which anyone who may push to the repository can write. Only its commands count, and
 * they get nothing but what the file and the environment of the repository say. Pure.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type InvalidRequest, reader } from "../../text/InvalidRequest.ts"
import { McpArguments, type McpCommandSettings, McpProgram, McpServerName, McpVariables } from "../schema/McpServer.ts"

/** The path in the repository. */
export const MCP_FILE = ".mcp.json"

/** Bytes of the file. */
export const MAX_MCP_FILE_BYTES = 64 * 1024

/** Servers of one file, as owners may set for one repository. */
const MAX_FILE_SERVERS = 20

/** Characters that the variables of one server may add. Without a limit a file could name a long value thousands of times. */
const MAX_EXPANDED = 64 * 1024

/** Characters of a name that is not allowed, where it is shown. */
const MAX_SHOWN = 40

type Fields = Readonly<Record<string, unknown>>

/** A command of the file. */
export interface FileServer {
  readonly name: McpServerName
  readonly settings: McpCommandSettings
  readonly variables: McpVariables
}

/** A server of the file that agents do not have. */
export interface RefusedFileServer {
  /** Up to 41 characters of any kind. */
  readonly name: string
  /** For people and agents. */
  readonly reason: string
}

/** The servers of a readable file. */
export interface McpFile {
  readonly servers: ReadonlyArray<FileServer>
  readonly refused: ReadonlyArray<RefusedFileServer>
}

const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value)

const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/gu

/** Replaces `${NAME}` and `${NAME:-default}` in the texts of one server. */
class Expansion {
  /** A variable without a value and a default. */
  missing: string | null = null
  /** Characters that variables may still add; negative: they add too many. */
  left = MAX_EXPANDED
  readonly #env: Fields

  constructor(env: Fields) {
    this.#env = env
  }

  of(value: unknown): unknown {
    if (typeof value !== "string") return value
    return value.replace(VARIABLE, (_whole, name: string, otherwise: string | undefined) => {
      const found = Object.hasOwn(this.#env, name) ? this.#env[name] : otherwise
      if (typeof found !== "string") this.missing ??= name
      this.left -= typeof found === "string" ? found.length : 0
      return typeof found === "string" && this.left >= 0 ? found : ""
    })
  }
}

const readServer = reader(Schema.Struct({ command: McpProgram, args: McpArguments, env: McpVariables }), "server")

const reasonOf = ({ field, reason }: InvalidRequest): string => `Its ${field} cannot be used: ${reason}.`

const serverOf = (name: McpServerName, given: Fields, env: Fields): Result.Result<FileServer, string> => {
  const { args = [], command, env: variables = {}, type = "stdio" } = given
  if (type !== "stdio" || command === undefined) {
    return Result.fail("Only commands of the file count. An owner can set a server with an address at /mcp-servers.")
  }
  const expansion = new Expansion(env)
  const server = {
    command: expansion.of(command),
    args: Array.isArray(args) ? args.map((one) => expansion.of(one)) : args,
    env: isObject(variables)
      ? Object.fromEntries(Object.entries(variables).map(([name, value]) => [name, expansion.of(value)]))
      : variables
  }
  const { left, missing } = expansion
  if (missing !== null) {
    return Result.fail(`It needs the variable ${missing.slice(0, MAX_SHOWN)}, which the repository's environment does not have.`)
  }
  if (left < 0) return Result.fail("Its variables make it too large.")
  return Result.mapBoth(readServer(server), {
    onFailure: reasonOf,
    onSuccess: ({ args, command, env }) => ({
      name,
      variables: env,
      settings: { command, arguments: args, variables: Object.keys(env), onByDefault: true, tools: {} }
    })
  })
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/**
 * Reads the file. `env`: plain variables, without secrets, for `${NAME}`. Fails with the reason why the file is unusable, a sentence for
 * people and agents.
 */
export const readMcpFile = (text: string, env: Readonly<Record<string, string>>): Result.Result<McpFile, string> => {
  const file = parsed(text)
  if (!isObject(file)) return Result.fail("It is not a JSON object.")
  const { mcpServers = {} } = file
  if (!isObject(mcpServers)) return Result.fail("Its mcpServers are not an object.")
  const entries = Object.entries(mcpServers)
  if (entries.length > MAX_FILE_SERVERS) return Result.fail(`It has more than ${MAX_FILE_SERVERS} servers.`)
  const servers: Array<FileServer> = []
  const refused: Array<RefusedFileServer> = []
  for (const [name, given] of entries) {
    const server = !Schema.is(McpServerName)(name)
      ? Result.fail("Its name is not 1 to 32 small letters, digits and inner hyphens, a letter first.")
      : !isObject(given)
      ? Result.fail("It is not an object.")
      : serverOf(name, given, env)
    if (Result.isSuccess(server)) servers.push(server.success)
    else refused.push({ name: name.length > MAX_SHOWN ? `${name.slice(0, MAX_SHOWN)}…` : name, reason: server.failure })
  }
  return Result.succeed({ servers, refused })
}
