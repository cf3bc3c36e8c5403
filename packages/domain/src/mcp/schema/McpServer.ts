/** MCP servers that owners give to the agents of a repository (docs/decisions/23), as they are sent and stored. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

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

/** How the service identifies itself to the server. The value of a header is stored encrypted, beside the settings. */
export const McpAuthentication = Schema.Union([
  Schema.Struct({ type: Schema.Literal("none") }),
  Schema.Struct({
    type: Schema.Literal("header"),
    name: HeaderName.annotateKey({ description: "The header with the credential, such as `Authorization`." })
  })
])
export type McpAuthentication = typeof McpAuthentication.Type

/** Whether it is an address that a server may have. */
const isAddress = (text: string): boolean => {
  if (text.length > MAX_URL || !URL.canParse(text)) return false
  const { hash, hostname, password, protocol, username } = new URL(text)
  return (protocol === "https:" || protocol === "http:") && hostname !== "" && username === "" && password === "" && hash === "" &&
    !text.includes("#")
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

/** The settings of a server, without its credential. */
export const McpServerSettings = Schema.Struct({
  url: McpUrl.annotateKey({ description: "The server's address (Streamable HTTP)." }),
  authentication: McpAuthentication.annotateKey({
    description: "How the service identifies itself to the server.",
    default: { type: "none" }
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed({ type: "none" as const }))),
  onByDefault: Schema.Boolean.annotateKey({
    description: "Whether sandboxes have it that do not choose their servers.",
    default: true
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(true))),
  tools: Tools.annotateKey({
    description: "Permissions by the name of a tool. Other tools: `ask` with `toolApprovalMode` `prompt`, else `allow`.",
    default: {}
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed({})))
}).annotate({ identifier: "McpServerSettings" })
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
