/** An MCP server that takes only tokens of an authorization server, and says where that is. */
import { Effect } from "effect"
import type { TestAuthorizationServer } from "./AuthorizationServer.ts"
import * as McpServer from "./McpServer.ts"

export const start = Effect.fnUntraced(function*(issuer: TestAuthorizationServer) {
  const server: McpServer.TestServer = yield* McpServer.start({
    misbehave: (message, request, response) => {
      const wellKnown = "/.well-known/oauth-protected-resource/mcp"
      if (request.url === wellKnown) {
        const metadata = { resource: server.url, authorization_servers: [issuer.issuer], scopes_supported: ["tools"] }
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(metadata))
        return true
      }
      const token = request.headers.authorization?.replace(/^Bearer /u, "") ?? ""
      const check = async () => {
        if (token !== "" && await issuer.isGood(token, server.url)) return server.respond(message, request, response)
        const { origin } = new URL(server.url)
        response.writeHead(401, { "www-authenticate": `Bearer resource_metadata="${origin}${wellKnown}", scope="tools"` }).end()
      }
      check().catch(() => response.destroy())
      return true
    }
  })
  return server
})
