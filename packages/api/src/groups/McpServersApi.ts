/** The MCP servers of a grant's repositories (docs/decisions/23). Not part of the public interface and its document. */
import {
  McpCommandSettings,
  McpCredential,
  McpRemoteSettings,
  McpServerName,
  McpServerSettings,
  McpVariables
} from "@slipway/domain/mcp/schema/McpServer"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { Timestamp } from "@slipway/domain/time/Timestamp"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { GrantNotFound, McpServerNotFound, McpServerRefused, Misfitting } from "../shared/Errors.ts"
import { Authenticated, JsonBody } from "../shared/Middleware.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

/** A server without its credential. */
export const McpServerResource = Schema.Struct({
  repo: RepoName,
  name: McpServerName,
  settings: McpServerSettings,
  hasCredential: Schema.Boolean.annotateKey({
    description: "Whether a credential, or values of variables, are stored. They are never sent."
  }),
  connection: Schema.NullOr(Schema.Struct({
    connectedAt: Timestamp,
    problem: Schema.NullOr(Schema.String).annotateKey({ description: "Why an owner has to connect the server again; `null`: in use." })
  })).annotateKey({
    description: "The connection by OAuth, which an owner makes on the page or with `slipway mcp connect`; `null`: there is none."
  }),
  createdAt: Timestamp,
  setAt: Timestamp
}).annotate({ identifier: "McpServer" })

const Key = { repo: RepoName, name: McpServerName }

const SetRemote = Schema.Struct({
  ...McpRemoteSettings.fields,
  credential: Schema.optionalKey(McpCredential).annotateKey({
    description: "The value of the header, such as `Bearer …`, or the secret of the client id. Left out: the stored one, if " +
      "address and header or client id are the same."
  })
}).annotate({ identifier: "SetRemoteMcpServer" })

const SetCommand = Schema.Struct({
  ...McpCommandSettings.fields,
  values: Schema.optionalKey(McpVariables).annotateKey({
    description: "The values of all variables, by name. Agents can read them. Left out: the stored ones, if the names are the same."
  })
}).annotate({ identifier: "SetCommandMcpServer" })

/** The settings of a server of either kind, with the secrets that go with them. */
export const SetMcpServer = Schema.Union([SetRemote, SetCommand]).annotate({ identifier: "SetMcpServer" })

/** Lists, sets and removes servers. Needs the scope `secrets`, which only owners may use. */
export class McpServersApi extends HttpApiGroup.make("mcpServers", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listMcpServers", "/", {
      success: Schema.Struct({ data: Schema.Array(McpServerResource) }).annotate({ identifier: "McpServerList" })
    }).annotateMerge(OpenApi.annotations({
      summary: "List MCP servers",
      description: "The servers that agents of the grant's repositories get, in order of repository and name, without credentials."
    })),
    HttpApiEndpoint.put("setMcpServer", "/", {
      query: Key,
      payload: SetMcpServer,
      success: McpServerResource,
      error: [GrantNotFound, McpServerRefused, Misfitting]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Set an MCP server",
      description: "Adds the server or replaces all of its settings. Agents that start from now on have it."
    })),
    HttpApiEndpoint.delete("removeMcpServer", "/", {
      query: Key,
      success: HttpApiSchema.NoContent,
      error: McpServerNotFound
    }).annotateMerge(OpenApi.annotations({
      summary: "Remove an MCP server",
      description: "Deletes its settings and its credential. Agents that start from now on do not have it."
    }))
  )
  .prefix("/api/internal/v1/mcp-servers")
  .middleware(Authenticated)
  .annotate(NeededScope, "secrets")
  .annotate(Area, "internal")
  .annotateMerge(
    OpenApi.annotations({ title: "MCP servers", description: "The MCP servers of agents. Need the scope `secrets`." })
  )
{}
