/** MCP servers that owners give to the agents of a repository (docs/decisions/23), as they are sent and stored. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { VariableName } from "../../environment/schema/VariableName.ts"
import { text } from "../../text/Text.ts"

/** Tools of one server with a permission of their own (our choice). */
const MAX_TOOLS = 200

/** Characters of an address, as of webhooks. */
const MAX_URL = 2000

/** It is part of an address and of the names of its tools, so it has no underscore. */
export const McpServerName = Schema.String.check(
  Schema.isPattern(/^[a-z](?:[a-z0-9-]{0,30}[a-z0-9])?$/u, { expected: "1 to 32 small letters, digits and inner hyphens, a letter first" })
)
export type McpServerName = typeof McpServerName.Type

/** The name of a tool, as a server lists it. */
export const McpToolName = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_./-]{1,128}$/u, { expected: "the name of a tool" }))

/** Whether the agent may call a tool: at once, after a person approved the call, or never. */
export const McpPermission = Schema.Literals(["allow", "ask", "deny"])
export type McpPermission = typeof McpPermission.Type

/** Headers that belong to the connection or to the protocol. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  "accept",
  "accept-encoding",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "last-event-id",
  "mcp-protocol-version",
  "mcp-session-id",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade"
])

const HeaderName = Schema.String.check(
  Schema.isPattern(/^[A-Za-z][A-Za-z0-9-]{0,63}$/u, { expected: "the name of a header" }),
  Schema.makeFilter((name: string) => !OWN_HEADERS.has(name.toLowerCase()) && !/^proxy-/iu.test(name), {
    expected: "a header that is not the protocol's own",
    toJsonSchema: () => [{}, true]
  })
)

/** A client id (RFC 6749, appendix A.1), of a client that an owner registered. */
const ClientId = Schema.String.check(
  Schema.isPattern(/^[\x20-\x7e]{1,512}$/u, { expected: "1 to 512 visible characters of ASCII on one line" })
)

/** Scopes (RFC 6749, section 3.3), separated by spaces. */
const OAuthScope = Schema.String.check(
  Schema.isPattern(/^[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*$/u, { expected: "scopes, separated by spaces" }),
  Schema.isMaxLength(1000)
)

/**
 * How the service identifies itself to the server. Secrets are stored encrypted, beside the settings: the value of a header, the secret
 * of a client, and the tokens of a connection.
 */
export const McpAuthentication = Schema.Union([
  Schema.Struct({ type: Schema.Literal("none") }),
  Schema.Struct({
    type: Schema.Literal("header"),
    name: HeaderName.annotateKey({ description: "The header with the credential, such as `Authorization`." })
  }),
  Schema.Struct({
    type: Schema.Literal("oauth"),
    clientId: Schema.optionalKey(ClientId).annotateKey({
      description: "A client that an owner registered. Left out: the service registers itself when an owner connects the server."
    }),
    scope: Schema.optionalKey(OAuthScope).annotateKey({ description: "Scopes to ask for. Left out: those that the server names." })
  })
])
export type McpAuthentication = typeof McpAuthentication.Type

/** Whether it is an address that a server may have. */
const isAddress = (given: string): boolean => {
  if (given.length > MAX_URL || !URL.canParse(given)) return false
  const { hash, hostname, password, protocol, username } = new URL(given)
  return (protocol === "https:" || protocol === "http:") && hostname !== "" && username === "" && password === "" && hash === "" &&
    !given.includes("#")
}

/** An address with `http` or `https`, without a user, a password and a fragment. */
export const McpUrl = Schema.String.check(
  Schema.makeFilter(isAddress, {
    expected: `an https address of at most ${MAX_URL} characters without user, password and fragment`,
    toJsonSchema: () => [{}, true],
    arbitraryConstraint: { patterns: [{ source: "^https://[a-z]{1,8}\\.example\\.com/mcp$", flags: "" }] }
  })
)

const Tools = Schema.Record(McpToolName, McpPermission).check(
  Schema.makeFilter((tools: Readonly<Record<string, McpPermission>>) => Object.keys(tools).length <= MAX_TOOLS, {
    expected: `at most ${MAX_TOOLS} tools`,
    toJsonSchema: () => [{}, true]
  })
)

/** The settings that all servers have. */
const shared = {
  onByDefault: Schema.Boolean.annotateKey({
    description: "Whether sandboxes have it that do not choose their servers.",
    default: true
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(true))),
  tools: Tools.annotateKey({
    description: "Permissions by the name of a tool. Other tools: `ask` with `toolApprovalMode` `prompt`, else `allow`.",
    default: {}
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))
}

/** The settings of a server with an address, without its credential. */
export const McpRemoteSettings = Schema.Struct({
  url: McpUrl.annotateKey({ description: "The server's address (Streamable HTTP)." }),
  authentication: McpAuthentication.annotateKey({
    description: "How the service identifies itself to the server.",
    default: { type: "none" }
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed({ type: "none" as const }))),
  ...shared
}).annotate({ identifier: "McpRemoteSettings" })
export type McpRemoteSettings = typeof McpRemoteSettings.Type

/** Arguments of one command, and characters of all of them (our choice). */
export const MAX_ARGUMENTS = 64
const MAX_ARGUMENTS_LENGTH = 16_384

/** Variables of one command, and characters of all values (our choice). */
export const MAX_VARIABLES = 32
const MAX_VARIABLES_LENGTH = 65_536

const ofOneLine = Schema.makeFilter((value: string) => value.isWellFormed() && !/[\p{Cc}\p{Zl}\p{Zp}]/u.test(value), {
  expected: "one line without control characters",
  toJsonSchema: () => [{}, true]
})

/** A program: a name on the PATH of the box, or a path, which may be relative to the repository. */
export const McpProgram = text(1, 1024).check(
  ofOneLine,
  Schema.makeFilter((value: string) => !value.startsWith("-"), { expected: "a program", toJsonSchema: () => [{}, true] })
)

/** The arguments of a program. */
export const McpArguments = Schema.Array(Schema.String.check(ofOneLine)).check(
  Schema.isMaxLength(MAX_ARGUMENTS),
  Schema.makeFilter((all: ReadonlyArray<string>) => all.reduce((sum, one) => sum + one.length, 0) <= MAX_ARGUMENTS_LENGTH, {
    expected: `at most ${MAX_ARGUMENTS_LENGTH} characters`,
    toJsonSchema: () => [{}, true]
  })
)

const VariableNames = Schema.Array(VariableName).check(
  Schema.isMaxLength(MAX_VARIABLES),
  Schema.makeFilter((names: ReadonlyArray<string>) => new Set(names).size === names.length, {
    expected: "no name twice",
    toJsonSchema: () => [{}, true]
  })
)

const VariableValue = Schema.String.check(
  Schema.makeFilter((value: string) => value.length <= 8192 && value.isWellFormed() && !value.includes("\0"), {
    expected: "at most 8192 characters without NUL",
    toJsonSchema: () => [{}, true]
  })
)

/** The values of the variables of a command, by name. They are stored encrypted. The command has them, so an agent can read them. */
export const McpVariables = Schema.Record(VariableName, VariableValue).check(
  Schema.makeFilter(
    (values: Readonly<Record<string, string>>) =>
      Object.keys(values).length <= MAX_VARIABLES &&
      Object.values(values).reduce((sum, value) => sum + value.length, 0) <= MAX_VARIABLES_LENGTH,
    { expected: `at most ${MAX_VARIABLES} variables of ${MAX_VARIABLES_LENGTH} characters`, toJsonSchema: () => [{}, true] }
  )
)
export type McpVariables = typeof McpVariables.Type

/** The settings of a server that is a command in the sandbox's box ("stdio"), without the values of its variables. */
export const McpCommandSettings = Schema.Struct({
  command: McpProgram.annotateKey({
    description: "The program, which runs in the sandbox's box: a name on its PATH, or a path, which may be relative to the repository."
  }),
  arguments: McpArguments.annotateKey({ description: "The program's arguments.", default: [] }).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed([]))
  ),
  variables: VariableNames.annotateKey({ description: "Names of the variables that the program gets.", default: [] }).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed([]))
  ),
  ...shared
}).annotate({ identifier: "McpCommandSettings" })
export type McpCommandSettings = typeof McpCommandSettings.Type

/** The settings of a server, without its credential or the values of its variables. */
export const McpServerSettings = Schema.Union([McpRemoteSettings, McpCommandSettings]).annotate({ identifier: "McpServerSettings" })
export type McpServerSettings = typeof McpServerSettings.Type

const isCredential = Schema.makeFilter(
  (value: string) => value.length <= 8192 && /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/u.test(value),
  {
    expected: "1 to 8192 visible characters of ASCII on one line",
    toJsonSchema: () => [{}, true]
  }
)

/** The value of the header with the credential. */
export const McpCredential = Schema.String.check(isCredential)

/** The servers that a creation chooses. */
export const McpServerNames = Schema.Array(McpServerName).check(
  Schema.isMaxLength(20),
  Schema.makeFilter((names: ReadonlyArray<string>) => new Set(names).size === names.length, {
    expected: "no name twice",
    toJsonSchema: () => [{}, true]
  })
)
